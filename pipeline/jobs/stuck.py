"""`stuck`: partitions that do not get on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs import membership as owners
from pipeline.jobs.inputs import matches
from pipeline.jobs.output import Table
from pipeline.transformations import offset_commits, stuck_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """stuck_partitions."""
    return [Table("stuck_partitions", found(inputs), ("stuck_since", "group_id", "topic", "partition"))]


def found(inputs: Inputs) -> DataFrame:
    """The table, of what is asked for: as of --until, for a broker as of now, else as of the end of the data."""
    command = inputs.command
    commits = offset_commits(inputs.records())
    membership = inputs.keep(owners.found(inputs))
    if command.topics:
        commits = commits.where(matches("topic", command.topics))
        membership = membership.where(matches("topic", command.topics))
    pairs = commits.select("topic").unionByName(membership.select("topic"))
    topics = inputs.committed_topics(pairs)
    positions = inputs.keep(inputs.batches(topics))
    until = command.until or (command.requested_at if command.broker is not None else None)
    bounds = inputs.bounds(topics)
    everything = inputs.all_records()
    return stuck_partitions(
        commits, positions, membership, command.lasting_ms, partitions=bounds, records=everything, until=until
    )
