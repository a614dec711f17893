"""OffsetDelete, DeleteGroups, and what a deleted topic takes with it: tombstones.

Source: KIP-229, KIP-496; Kafka's OffsetMetadataManager.deleteOffsets, deleteAllOffsets, onTopicsDeleted;
ClassicGroup.validateOffsetDelete, validateDeleteGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.append_errors import error_for_client
from coordinator.classic.checks import check_group_id
from coordinator.classic.protocols import CONSUMER
from coordinator.events import GroupEvent
from coordinator.events import GroupRemoved as GroupGone
from coordinator.group import Group, GroupState
from coordinator.offsets.changes import offsets_gone_events
from coordinator.offsets.inputs import DeleteOffsets, GroupExpired, GroupRemoved, Tombstones
from coordinator.offsets.topic_filter import merged
from coordinator.outcome import Outcome, Reply
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.records.group_records import GroupMetadataKey, OffsetCommitKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator.offsets.inputs import DeleteGroup, ForgetTopics
    from coordinator.outcome import AppendFailed
    from coordinator.view import GroupOutcome, View

Tombstone = tuple[Any, None]


def delete_offsets(view: View, request: DeleteOffsets, now_ms: int) -> GroupOutcome:
    """Tombstone what the group does not read at present."""
    group = view.group
    error = check_group_id(view.group_id) or check_offset_delete(group)
    if error is not ErrorCode.NONE:
        return Outcome(group, (), (Reply(request.reply_to, OffsetDeleteResponse(error_code=error)),))
    assert group is not None
    records: list[Tombstone] = []
    answers = []
    stored = set(stored_partitions(view))
    for topic in request.topics:
        subscribed = _is_subscribed(group, topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        results = []
        for partition in topic.partitions:
            key = topic.name, partition.partition_index
            results.append(OffsetDeleteResponsePartition(partition_index=key[1], error_code=error))
            if not subscribed and key in stored:
                stored.remove(key)  # asked for twice: one tombstone
                records.append((OffsetCommitKey(view.group_id, *key), None))
        answers.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    reply = Reply(request.reply_to, OffsetDeleteResponse(topics=merged(request.refused, answers, _name)))
    events = offsets_gone_events(
        view,
        [(key.topic, key.partition) for key, _ in records],
        now_ms,
        by="client",
        client_id=request.client_id,
        client_host=request.client_host,
    )
    return Outcome(group, tuple(records), (reply,), (), events, request if records else None)


def check_offset_delete(group: Group | None) -> ErrorCode:
    """NONE: the partitions are judged one by one."""
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is GroupState.EMPTY or group.protocol_type == CONSUMER:
        return ErrorCode.NONE
    # What members of another kind read is unknown to the coordinator.
    return ErrorCode.NON_EMPTY_GROUP


def _is_subscribed(group: Group, topic: str) -> bool:
    if group.state is GroupState.EMPTY:
        return False
    return group.subscribed_topics is None or topic in group.subscribed_topics


def _name(topic: OffsetDeleteResponseTopic) -> str:
    return topic.name


def offset_delete_refused(view: View, failure: AppendFailed, now_ms: int) -> GroupOutcome:
    """The tombstones are not in the log: the offsets are still there."""
    request = failure.token
    assert isinstance(request, DeleteOffsets)
    response = OffsetDeleteResponse(error_code=error_for_client(failure.error))
    return Outcome(view.group, (), (Reply(request.reply_to, response),))


def delete_group(view: View, request: DeleteGroup, now_ms: int) -> GroupOutcome:
    """Remove an Empty group with all that it committed."""
    group = view.group
    error = check_delete(group)
    reply = Reply(request.reply_to, DeletableGroupResult(group_id=request.group_id, error_code=error))
    if error is not ErrorCode.NONE:
        return Outcome(group, (), (reply,))
    return remove_group(
        view, now_ms, by="deleted", reply=reply, client_id=request.client_id, client_host=request.client_host
    )


def check_delete(group: Group | None) -> ErrorCode:
    """Only an Empty group can be deleted."""
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def remove_group(
    view: View,
    now_ms: int,
    *,
    by: str,
    reply: Reply | None = None,
    client_id: str | None = None,
    client_host: str | None = None,
) -> GroupOutcome:
    """Tombstones for everything the group stored, pending offsets too, then its own.

    `by`: `deleted` or `expired`. An expired group's tombstones may be split over several batches.
    """
    records: list[Tombstone] = [(OffsetCommitKey(view.group_id, *key), None) for key in stored_partitions(view)]
    group = view.group
    at_last = group.members_at_last_generation if group else None
    what = GroupGone(by, client_id, client_host, at_last, len(records))
    gone = offsets_gone_events(
        view,
        view.offsets,
        now_ms,
        by="group_deleted" if by == "deleted" else "expiry",
        client_id=client_id,
        client_host=client_host,
    )
    event = GroupEvent(what, view.group_id, group.generation if group else -1, now_ms)
    records.append((GroupMetadataKey(view.group_id), None))
    token = GroupExpired(view.group_id, group) if reply is None else GroupRemoved(view.group_id, group, reply.to)
    return Outcome(None, tuple(records), (reply,) if reply is not None else (), (), (*gone, event), token)


def group_removal_refused(view: View, failure: AppendFailed, now_ms: int) -> GroupOutcome:
    """The tombstones are not in the log: the group is there as before. If they are only late, it is gone."""
    token = failure.token
    assert isinstance(token, GroupRemoved)
    replies: tuple[Reply, ...] = ()
    if token.reply_to is not None:
        code = error_for_client(failure.error)
        replies = (Reply(token.reply_to, DeletableGroupResult(group_id=view.group_id, error_code=code)),)
    gone = view.group is None and failure.error is not ErrorCode.REQUEST_TIMED_OUT
    return Outcome(token.group if gone else view.group, (), replies)


def forget_topics(view: View, request: ForgetTopics, now_ms: int) -> GroupOutcome:
    """Tombstone the offsets of deleted topics; what was committed for a namesake with another id stays."""
    doomed: dict[tuple[str, int], None] = {}
    for table in (view.offsets, *view.pending_offsets.values()):
        for key, stored in table.items():
            gone = request.topic_ids.get(key[0])
            if gone is not None and (stored.topic_id is None or stored.topic_id == gone):
                doomed[key] = None
    records = tuple((OffsetCommitKey(view.group_id, *key), None) for key in doomed)
    events = offsets_gone_events(view, doomed, now_ms, by="topic_deleted")
    return Outcome(view.group, records, events=events, token=Tombstones() if records else None)


def tombstones_refused(view: View, failure: AppendFailed, now_ms: int) -> GroupOutcome:
    """Nobody waits: the next check tries again."""
    return Outcome(view.group)


def stored_partitions(view: View) -> Iterator[tuple[str, int]]:
    """Every partition with a committed or a pending offset, once."""
    yield from view.offsets
    seen: set[tuple[str, int]] = set()
    for pending in view.pending_offsets.values():
        for key in pending:
            if key not in view.offsets and key not in seen:
                seen.add(key)
                yield key
