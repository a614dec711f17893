"""`groups`: one row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.output import Table
from pipeline.transformations import (
    consumer_group_records,
    ends_at,
    group_generations,
    groups,
    lag_now,
    offset_commits,
    rebalances,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """groups."""
    return [Table("groups", found(inputs), ("lag_messages desc", "group_id"))]


def found(inputs: Inputs) -> DataFrame:
    """The table, of what is asked for."""
    command = inputs.command
    records = inputs.records()
    generations = inputs.keep(group_generations(records))
    consumers = inputs.keep(consumer_group_records(records, inputs.topic_ids()))
    commits = offset_commits(records)
    topics = inputs.committed_topics(commits)
    ends = inputs.bounds(topics)
    if command.until is not None:
        ends = ends_at(ends, inputs.batches(topics), command.until)
    lag = lag_now(commits, ends, command.requested_at)
    told = rebalances(generations, inputs.ledger(), consumers)
    as_of = command.until or (command.requested_at if command.broker is not None else None)
    return groups(records, generations, consumers, told, lag, as_of=as_of, offsets_retention=command.retention_ms)
