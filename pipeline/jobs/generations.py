"""`generations`: generations of classic groups, and the records of KIP-848 groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.output import Table
from pipeline.transformations import consumer_group_records, group_generations

if TYPE_CHECKING:
    from pipeline.jobs.inputs import Inputs

ORDER = ("log_partition", "log_offset")


def tables(inputs: Inputs) -> list[Table]:
    """group_generations, consumer_group_records."""
    records = inputs.records()
    consumers = consumer_group_records(records, inputs.topic_ids())
    few = ("record_type", "member_id", "tombstone", "group_epoch", "target_epoch", "member_epoch", "member_state")
    hidden = tuple(name for name in consumers.columns if name not in {"group_id", "log_offset", "logged_at", *few})
    return [
        Table("group_generations", group_generations(records), ORDER, "logged_at", ("members",)),
        Table("consumer_group_records", consumers, ORDER, "logged_at", hidden),
    ]
