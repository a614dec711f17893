"""Tables about consumer groups, each a pure function from DataFrames to a DataFrame.

None reads, writes, collects or looks at the clock; a moment that matters arrives as an argument. The order of rows and
their partitioning never matter: within a log partition `log_offset` is the order, and every function sorts for itself.
All give the same under ANSI mode and without. docs/pipeline-verbs.md lists every column.
"""

from __future__ import annotations

from pipeline.transformations.commits import committed_offsets, offset_commits, transactional_commits
from pipeline.transformations.generations import consumer_group_records, group_generations, topic_names
from pipeline.transformations.groups import groups
from pipeline.transformations.growth import growth, growth_partitions
from pipeline.transformations.lag import ends_at, lag_now, lag_over_time, worst_lag
from pipeline.transformations.membership import membership
from pipeline.transformations.rebalances import rebalances
from pipeline.transformations.resets import offset_resets
from pipeline.transformations.state_at import state_at
from pipeline.transformations.stuck import stuck_partitions

__all__ = [
    "committed_offsets",
    "consumer_group_records",
    "ends_at",
    "group_generations",
    "groups",
    "growth",
    "growth_partitions",
    "lag_now",
    "lag_over_time",
    "membership",
    "offset_commits",
    "offset_resets",
    "rebalances",
    "state_at",
    "stuck_partitions",
    "topic_names",
    "transactional_commits",
    "worst_lag",
]
