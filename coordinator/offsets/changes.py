"""What happens to committed offsets from outside the group, and commits that are refused: events for the ledger.

Offsets of a group that never had members are nobody's surprise: a simple consumer's commits are its ordinary work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coordinator.consumer.group import ConsumerGroup
from coordinator.events import Changed, CommitRefused, GroupEvent, Happening, MemberFenced, OffsetsChanged
from coordinator.group import Group
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.consumer.group import ConsumerMember
    from coordinator.group import Member
    from coordinator.offsets.inputs import CommitOffsets
    from coordinator.view import AnyGroup, CommittedOffset, View

TOPICS_MAX = 20
OFFSETS_MAX = 200
_REFUSALS_TOLD = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
    },
)


def commit_refused_events(
    group: AnyGroup | None, commit: CommitOffsets, error: ErrorCode, now_ms: int
) -> tuple[Any, ...]:
    """One commit of a stale generation, an unknown member or a fenced one. The reader counts those of a second."""
    if group is None or error not in _REFUSALS_TOLD:
        return ()
    refused = CommitRefused(
        commit.member_id,
        commit.instance_id,
        commit.client_id,
        commit.client_host,
        error.name,
        commit.generation,
        tuple([topic.name for topic in commit.topics][:TOPICS_MAX]),
    )
    events = [event_of(group, refused, now_ms)]
    if error is ErrorCode.FENCED_INSTANCE_ID:
        events.append(fenced_event(group, commit, "OffsetCommit", now_ms))
    return tuple(events)


def fenced_event(group: AnyGroup, request: Any, api: str, now_ms: int) -> GroupEvent:
    """A request of somebody whose instance id another holds. What does not say its client is known by its member id."""
    holder_id = group.static_members.get(request.instance_id or "")
    holder: Member | ConsumerMember | None = group.members.get(holder_id or "")
    fenced = MemberFenced(
        api,
        request.instance_id,
        request.member_id,
        getattr(request, "client_id", ""),
        getattr(request, "client_host", ""),
        holder_id,
        *(holder.acting if holder is not None else (None, None)),
    )
    return event_of(group, fenced, now_ms)


def event_of(group: AnyGroup, what: Happening, now_ms: int) -> GroupEvent:
    """Something that happened to a group of either type."""
    if isinstance(group, ConsumerGroup):
        return GroupEvent(what, group.group_id, group.epoch, now_ms, group_type="consumer", consumer_group=group)
    return GroupEvent(what, group.group_id, group.generation, now_ms, group)


def offsets_set_events(view: View, commit: CommitOffsets, records: Iterable[Any], now_ms: int) -> tuple[Any, ...]:
    """A commit by somebody who is no member: a reset."""
    table = view.offsets
    changed: list[Changed] = []
    for (_, topic, partition, _), value in records:
        stored = table.get((topic, partition))
        changed.append((topic, partition, None if stored is None else stored.offset, value.offset))
    return changed_events(
        view, changed, now_ms, by="client", client_id=commit.client_id, client_host=commit.client_host
    )


def offsets_gone_events(
    view: View,
    keys: Iterable[tuple[str, int]],
    now_ms: int,
    *,
    by: str,
    client_id: str | None = None,
    client_host: str | None = None,
) -> tuple[Any, ...]:
    """Committed offsets were removed. `by`: client, expiry, topic_deleted or group_deleted."""
    table: Mapping[tuple[str, int], CommittedOffset] = view.offsets
    changed: list[Changed] = [(*key, table[key].offset, None) for key in keys if key in table]
    return changed_events(view, changed, now_ms, by=by, client_id=client_id, client_host=client_host)


def changed_events(
    view: View,
    changed: list[Changed],
    now_ms: int,
    *,
    by: str,
    client_id: str | None = None,
    client_host: str | None = None,
) -> tuple[Any, ...]:
    """At most one event, with at most 200 offsets."""
    group: AnyGroup | None = view.consumer_group or view.group
    if group is None or not changed or (isinstance(group, Group) and group.is_simple):
        return ()
    what = OffsetsChanged(by, client_id, client_host, len(changed), tuple(changed[:OFFSETS_MAX]))
    return (event_of(group, what, now_ms),)
