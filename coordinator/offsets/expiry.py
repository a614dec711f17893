"""Which offsets are too old, and when a group goes with its last one.

Source: KIP-211; Kafka's OffsetExpirationConditionImpl, ClassicGroup.offsetExpirationCondition,
GroupCoordinatorShard.cleanupGroupMetadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.classic.protocols import CONSUMER
from coordinator.events import GroupEvent, OffsetsExpired
from coordinator.group import Group, GroupState
from coordinator.offsets.changes import offsets_gone_events
from coordinator.offsets.delete import remove_group
from coordinator.offsets.inputs import Tombstones
from coordinator.outcome import Outcome
from protocol.records.group_records import OffsetCommitKey

if TYPE_CHECKING:
    from coordinator.offsets.inputs import ExpireOffsets
    from coordinator.view import CommittedOffset, GroupOutcome, View


def expire_offsets(view: View, request: ExpireOffsets, now_ms: int) -> GroupOutcome:
    """Tombstone what is too old; an Empty group that is left with nothing is removed."""
    group = view.group
    expired = [] if group is None else expired_offsets(view, group, now_ms)
    may_go = group is None or group.state is GroupState.EMPTY
    if may_go and len(expired) == len(view.offsets) and not view.pending_offsets:
        if group is None and not expired:
            return Outcome(None)
        return remove_group(view, now_ms, by="expired")
    if not expired:
        return Outcome(group)
    assert group is not None
    records = tuple((OffsetCommitKey(view.group_id, *key), None) for key in expired)
    event = GroupEvent(OffsetsExpired(len(expired)), view.group_id, group.generation, now_ms)
    events = (event, *offsets_gone_events(view, expired, now_ms, by="expiry"))
    return Outcome(group, records, (), (), events, Tombstones())


def expired_offsets(view: View, group: Group, now_ms: int) -> list[tuple[str, int]]:
    """The (topic, partition)s whose offsets are too old."""
    if not view.offsets or not _anything_expires(group):
        return []
    retention_ms = view.settings.offsets_retention_ms
    # An Empty group that had members keeps all its offsets until it has been Empty for so long.
    together = group.protocol_type is not None and group.state is GroupState.EMPTY
    base_ms = group.state_timestamp_ms if together else None
    in_use = group.subscribed_topics if group.state is GroupState.STABLE else None
    undecided = {key for pending in view.pending_offsets.values() for key in pending}
    return [
        key
        for key, stored in view.offsets.items()
        if _is_too_old(stored, base_ms, retention_ms, now_ms)
        and key not in undecided
        and (in_use is None or key[0] not in in_use)
    ]


def _anything_expires(group: Group) -> bool:
    if group.protocol_type is None or group.state is GroupState.EMPTY:
        return True
    return group.state is GroupState.STABLE and group.protocol_type == CONSUMER and group.subscribed_topics is not None


def _is_too_old(stored: CommittedOffset, base_ms: int | None, retention_ms: int, now_ms: int) -> bool:
    if stored.expire_timestamp_ms is not None:  # asked for by the client (OffsetCommit 2-4)
        return now_ms >= stored.expire_timestamp_ms
    return now_ms - (stored.commit_timestamp_ms if base_ms is None else base_ms) >= retention_ms
