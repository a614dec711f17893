"""`resets`: offsets that were set, not read to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs import membership as owners
from pipeline.jobs.inputs import matches
from pipeline.jobs.output import Table
from pipeline.transformations import offset_commits, offset_resets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """offset_resets."""
    order = ("at desc", "group_id", "topic", "partition", "log_offset desc")
    return [Table("offset_resets", found(inputs), order, "at", ("log_partition", "log_offset"))]


def found(inputs: Inputs) -> DataFrame:
    """The table, of what is asked for."""
    commits = offset_commits(inputs.records())
    if inputs.command.topics:
        commits = commits.where(matches("topic", inputs.command.topics))
    return offset_resets(commits, owners.found(inputs))
