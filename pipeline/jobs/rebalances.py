"""`rebalances`: every completed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.output import Table
from pipeline.transformations import consumer_group_records, group_generations, rebalances

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """rebalances."""
    hidden = ("missing_generations", "started_at", "sync_ms", "leader_changed", "partitions_total", "log_offset")
    return [
        Table(
            "rebalances", found(inputs), ("finished_at desc", "group_id", "to_generation desc"), "finished_at", hidden
        )
    ]


def found(inputs: Inputs) -> DataFrame:
    """The table, of what is asked for."""
    records = inputs.records()
    consumers = consumer_group_records(records, inputs.topic_ids())
    return rebalances(group_generations(records), inputs.ledger(), consumers)
