"""`growth`: who fills `__consumer_offsets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.output import Table
from pipeline.sources.log_dir import GROUPS_TOPIC
from pipeline.transformations import growth, growth_partitions
from pipeline.transformations.keys import moment

if TYPE_CHECKING:
    from pipeline.jobs.inputs import Inputs


def tables(inputs: Inputs) -> list[Table]:
    """growth, growth_partitions. Shares are of all groups, whichever are asked for."""
    # What a transaction that is open, or was aborted, wrote fills the log too.
    records = inputs.all_records(uncommitted=True)
    batches = inputs.keep(inputs.batches([GROUPS_TOPIC]))
    partitions = growth_partitions(records, batches, inputs.cleaning())
    hours = growth(records)
    if inputs.asked.until is not None:
        hours = hours.where(hours["window_start"] < moment(inputs.asked.until))
    return [
        Table("growth", hours, ("bytes desc", "window_start", "group_id"), "window_start + INTERVAL 1 HOUR"),
        Table("growth_partitions", partitions, ("size_bytes desc", "log_partition")),
    ]
