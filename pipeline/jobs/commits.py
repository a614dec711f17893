"""`commits`: every offset commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.output import Table
from pipeline.transformations import offset_commits

if TYPE_CHECKING:
    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """offset_commits."""
    commits = offset_commits(inputs.records_once())
    hidden = ("topic_id", "value_version", "record_bytes", "expires_at")
    return [Table("offset_commits", commits, ("log_partition", "log_offset"), "logged_at", hidden)]
