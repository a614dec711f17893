"""`state`: where groups stood at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.inputs import OBSERVERS
from pipeline.jobs.output import Table
from pipeline.transformations import state_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """state_at."""
    return [Table("state_at", found(inputs), ("group_id", "topic", "partition"))]


def found(inputs: Inputs) -> DataFrame:
    """The table, of what is asked for."""
    command = inputs.command
    # Where cuts lie is told by the records of all groups.
    whole = state_at(inputs.all_records(), command.at, inputs.compacted())
    if not command.include_observers:
        whole = whole.where(~whole["group_id"].rlike(OBSERVERS))
    return whole
