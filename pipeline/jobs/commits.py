"""`commits`: every offset commit, and with --transactions what became of those that were written in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.output import Table
from pipeline.sources.log_dir import GROUPS_TOPIC
from pipeline.transformations import offset_commits, transactional_commits
from pipeline.transformations.keys import moment

if TYPE_CHECKING:
    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """offset_commits, transactional_commits."""
    commits = offset_commits(inputs.records_once())
    hidden = ("topic_id", "value_version", "record_bytes", "expires_at")
    order = ("log_partition", "log_offset")
    found = [Table("offset_commits", commits, order, "logged_at", hidden)]
    if inputs.command.transactions:
        batches, until = inputs.batches([GROUPS_TOPIC]), inputs.command.until
        if until is not None:  # as it was known then
            batches = batches.where(batches["base_timestamp"] < moment(until))
        written = transactional_commits(inputs.sourced_records(), batches)
        also_hidden = ("leader_epoch", "metadata", "committed_at")
        found.append(Table("transactional_commits", written, order, "logged_at", also_hidden))
    return found
