"""`records`: every record of `__consumer_offsets`, with what could be decoded of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.output import Table

if TYPE_CHECKING:
    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """group_records."""
    hidden = ("key", "value", "topic_id", "expires_at", "committed_at", "value_version", "key_type")
    return [Table("group_records", inputs.records_once(), ("log_partition", "log_offset"), "logged_at", hidden)]
