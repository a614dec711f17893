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
    command = inputs.command
    windows = growth(records, command.window_ms)
    if command.until is not None:
        windows = windows.where(windows["window_start"] < moment(command.until))
    ended = f"timestampadd(MILLISECOND, {command.window_ms}, window_start)"
    return [
        Table("growth", windows, ("bytes desc", "window_start", "group_id"), ended),
        Table("growth_partitions", partitions, ("size_bytes desc", "log_partition")),
    ]
