"""`lag`: on a grid of moments, or now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.inputs import matches
from pipeline.jobs.output import Table
from pipeline.transformations import lag_now, lag_over_time, offset_commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """lag."""
    order = ("at desc", "lag_messages desc", "group_id", "topic", "partition")
    return [Table("lag", found(inputs), order, "at")]


def found(inputs: Inputs) -> DataFrame:
    """The table, of what is asked for."""
    asked = inputs.asked
    commits = offset_commits(inputs.records())
    if asked.topics:
        commits = commits.where(matches("topic", asked.topics))
    topics = inputs.committed_topics(commits)
    bounds = inputs.bounds(topics)
    # Batch headers of a directory cost little; a broker would have to send the whole topics.
    positions = None if asked.now and asked.broker is not None else inputs.keep(inputs.batches(topics))
    records = inputs.raw(topics) if asked.exact else None
    if asked.now:
        return lag_now(commits, bounds, asked.asked_at, positions=positions, records=records)
    assert positions is not None
    # Records stamped in the future must not stretch the grid to there.
    until = asked.asked_at if asked.until is None else min(asked.until, asked.asked_at)
    return lag_over_time(
        commits, positions, asked.every_ms, partitions=bounds, records=records, since=asked.since, until=until
    )
