"""`membership`: who owned what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.output import Table
from pipeline.transformations import consumer_group_records, group_generations, membership

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """membership; of --since on is what had not ended by then."""
    order = ("group_id", "topic", "partition", "owned_from", "member_id")
    return [Table("membership", found(inputs), order, "owned_to")]


def found(inputs: Inputs) -> DataFrame:
    """The table, of what is asked for."""
    records = inputs.records()
    return membership(group_generations(records), consumer_group_records(records, inputs.topic_ids()))
