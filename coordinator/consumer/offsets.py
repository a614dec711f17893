"""Offsets of a consumer group: who may commit and read them, what becomes of them, and the end of the group itself.

Source: KIP-848, KIP-1251; Kafka's ConsumerGroup.validateOffsetCommit, validateOffsetFetch, validateDeleteGroup,
isSubscribedToTopic, offsetExpirationCondition, createGroupTombstoneRecords.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coordinator.classic.checks import check_group_id
from coordinator.consumer.draft import ConsumerToken, group_event
from coordinator.consumer.group import NOTHING
from coordinator.consumer.records import group_tombstones
from coordinator.events import GroupRemoved, OffsetsExpired
from coordinator.offsets.changes import commit_refused_events, offsets_gone_events, offsets_set_events
from coordinator.offsets.commit import TOPIC_IDS_SINCE, accepted, all_partitions, utf16_length
from coordinator.offsets.delete import stored_partitions
from coordinator.offsets.describe import ERROR_SINCE
from coordinator.offsets.fetch import fetch_offsets
from coordinator.offsets.inputs import Tombstones
from coordinator.offsets.topic_filter import merged
from coordinator.offsets.transactional import KIP_1319_SINCE
from coordinator.offsets.transactional import accepted as accepted_in_transaction
from coordinator.outcome import Outcome, Reply
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from protocol.records.group_records import OffsetCommitKey

if TYPE_CHECKING:
    from coordinator.consumer.group import ConsumerGroup, ConsumerMember
    from coordinator.events import GroupEvent
    from coordinator.offsets.inputs import (
        CommitOffsets,
        CommitTransactionalOffsets,
        DeleteGroup,
        DeleteOffsets,
        DescribeGroup,
        ExpireOffsets,
        FetchOffsets,
    )
    from coordinator.view import AnyGroupOutcome, View

EPOCHS_SINCE = 9
"""The first version of OffsetCommit and OffsetFetch that can say a member epoch."""


@dataclass(slots=True)
class ConsumerGroupExpired(ConsumerToken):
    """The group went with its last offset; half of its tombstones are as good as none."""

    divisible: ClassVar[bool] = True


def keeping(rule: Callable[[View, Any, int], Any]) -> Callable[[View, Any, int], AnyGroupOutcome]:
    """A rule that is about offsets alone, for a consumer group: the group stays as it is."""

    def keep(view: View, event: Any, now_ms: int) -> AnyGroupOutcome:
        outcome: AnyGroupOutcome = rule(view, event, now_ms)
        outcome.after = view.consumer_group
        return outcome

    return keep


def commit(view: View, request: CommitOffsets, now_ms: int) -> AnyGroupOutcome:
    """OffsetCommit. Unlike in a classic group it says nothing of whether its member is alive."""
    group = view.consumer_group
    assert group is not None
    error = check_commit(view, group, request)
    if error is not ErrorCode.NONE:
        events = commit_refused_events(group, request, error, now_ms)
        return Outcome(group, (), (Reply(request.reply_to, all_partitions(request, error)),), (), events)
    records, replies = accepted(view, request, now_ms)
    events = () if group.members else offsets_set_events(view, request, records, now_ms)
    return Outcome(group, records, replies, (), events, request if records else None)


def check_commit(view: View, group: ConsumerGroup, request: CommitOffsets) -> ErrorCode:
    """Whether somebody who says so about itself may commit."""
    epoch = request.generation
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if request.version < EPOCHS_SINCE and member.classic is None:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch > member.epoch or not _has_held_all_since(view, member, epoch, request):
        return _stale(member)
    return ErrorCode.NONE


def commit_transactional(view: View, request: CommitTransactionalOffsets, now_ms: int) -> AnyGroupOutcome:
    """TxnOffsetCommit. Producers before version 6 know generations only: a stale epoch is called one."""
    group = view.consumer_group
    assert group is not None
    error = check_group_id(request.group_id) or check_transactional_commit(view, group, request)
    if error is not ErrorCode.NONE:
        return Outcome(group, (), (Reply(request.reply_to, all_partitions(request, error)),))
    records, reply = accepted_in_transaction(view, request, now_ms)
    producer = request.producer_id, request.producer_epoch
    return Outcome(group, records, (reply,), token=request if records else None, producer=producer)


def check_transactional_commit(view: View, group: ConsumerGroup, request: CommitTransactionalOffsets) -> ErrorCode:
    """Whether somebody who says so about itself may commit; old clients say nothing."""
    epoch = request.generation
    if epoch < 0 and (not group.members or (epoch == -1 and not request.member_id and request.instance_id is None)):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.epoch or (epoch < member.epoch and _has_held_all_since(view, member, epoch, request)):
        return ErrorCode.NONE
    return _stale(member) if request.version >= KIP_1319_SINCE else ErrorCode.ILLEGAL_GENERATION


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _has_held_all_since(view: View, member: ConsumerMember, epoch: int, request: CommitOffsets) -> bool:
    """Whether all that is committed was the member's at that epoch already, and is still (KIP-1251)."""
    max_chars = view.settings.offset_metadata_max_chars
    for topic in request.topics:
        topic_id = topic.topic_id if request.version >= TOPIC_IDS_SINCE else view.topics.topic_id(topic.name)
        if topic_id is None:
            return False
        assigned, pending = member.assigned.get(topic_id, NOTHING), member.pending.get(topic_id, NOTHING)
        for partition in topic.partitions:
            if utf16_length(partition.committed_metadata or "") > max_chars:
                continue  # refused for itself
            index = partition.partition_index
            since = assigned.get(index, pending.get(index))
            if since is None or since > epoch:
                return False
    return True


def fetch(view: View, request: FetchOffsets, now_ms: int) -> AnyGroupOutcome:
    """OffsetFetch: by nobody in particular, or by a member at its very epoch."""
    group = view.consumer_group
    assert group is not None
    error = check_fetch(group, request.member_id, request.member_epoch)
    if error is not ErrorCode.NONE:
        answer = OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
        return Outcome(group, (), (Reply(request.reply_to, answer),))
    return _fetch(view, request, now_ms)


_fetch = keeping(fetch_offsets)


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Whether somebody who says so about itself may read the group's offsets."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else _stale(member)


def delete_offsets(view: View, request: DeleteOffsets, now_ms: int) -> AnyGroupOutcome:
    """Tombstone what nobody in the group subscribes to."""
    group = view.consumer_group
    assert group is not None
    error = check_group_id(view.group_id)
    if error is not ErrorCode.NONE:
        return Outcome(group, (), (Reply(request.reply_to, OffsetDeleteResponse(error_code=error)),))
    subscribed = group.subscribed_topics
    stored = set(stored_partitions(view))
    records: list[tuple[Any, None]] = []
    answers = []
    for topic in request.topics:
        in_use = topic.name in subscribed
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
        results = []
        for partition in topic.partitions:
            key = topic.name, partition.partition_index
            results.append(OffsetDeleteResponsePartition(partition_index=key[1], error_code=code))
            if not in_use and key in stored:
                stored.remove(key)  # asked for twice: one tombstone
                records.append((OffsetCommitKey(view.group_id, *key), None))
        answers.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    response = OffsetDeleteResponse(topics=merged(request.refused, answers, lambda topic: topic.name))
    keys = [(key.topic, key.partition) for key, _ in records]
    who = {"client_id": request.client_id, "client_host": request.client_host}
    events = offsets_gone_events(view, keys, now_ms, by="client", **who)
    token = request if records else None
    return Outcome(group, tuple(records), (Reply(request.reply_to, response),), (), events, token)


def delete_group(view: View, request: DeleteGroup, now_ms: int) -> AnyGroupOutcome:
    """Remove a group without members, with all that it committed."""
    group = view.consumer_group
    assert group is not None

    def result(error: ErrorCode) -> DeletableGroupResult:
        return DeletableGroupResult(group_id=request.group_id, error_code=error)

    if group.members:
        return Outcome(group, (), (Reply(request.reply_to, result(ErrorCode.NON_EMPTY_GROUP)),))
    records = _all_tombstones(view, group)
    reply = Reply(request.reply_to, result(ErrorCode.NONE))
    who = {"client_id": request.client_id, "client_host": request.client_host}
    events = _removed_events(view, group, now_ms, by="deleted", **who)
    token = ConsumerToken(view.group_id, group, request.reply_to, result)
    return Outcome(None, records, (reply,), (), events, token)


def expire_offsets(view: View, request: ExpireOffsets, now_ms: int) -> AnyGroupOutcome:
    """Tombstone what is too old and read by nobody; a group that is left with nothing and nobody is removed."""
    group = view.consumer_group
    assert group is not None
    subscribed = group.subscribed_topics
    retention_ms = view.settings.offsets_retention_ms
    undecided = {key for pending in view.pending_offsets.values() for key in pending}
    expired = []
    for key, stored in view.offsets.items():
        if stored.expire_timestamp_ms is not None:
            is_old = now_ms >= stored.expire_timestamp_ms
        else:
            is_old = now_ms - stored.commit_timestamp_ms >= retention_ms
        if is_old and key[0] not in subscribed and key not in undecided:
            expired.append(key)
    if not group.members and len(expired) == len(view.offsets) and not view.pending_offsets:
        records = _all_tombstones(view, group)
        events = _removed_events(view, group, now_ms, by="expired")
        return Outcome(None, records, (), (), events, ConsumerGroupExpired(view.group_id, group))
    if not expired:
        return Outcome(group)
    tombstones = tuple([(OffsetCommitKey(view.group_id, *key), None) for key in expired])
    told = group_event(OffsetsExpired(len(expired)), group, now_ms)
    events = (told, *offsets_gone_events(view, expired, now_ms, by="expiry"))
    return Outcome(group, tombstones, (), (), events, Tombstones())


def _all_tombstones(view: View, group: ConsumerGroup) -> tuple[tuple[Any, Any | None], ...]:
    offsets = [(OffsetCommitKey(view.group_id, *key), None) for key in stored_partitions(view)]
    return (*offsets, *group_tombstones(group))


def _removed_events(
    view: View,
    group: ConsumerGroup,
    now_ms: int,
    *,
    by: str,
    client_id: str | None = None,
    client_host: str | None = None,
) -> tuple[GroupEvent, ...]:
    """The group went, and all that it committed with it."""
    cause = "group_deleted" if by == "deleted" else "expiry"
    gone = offsets_gone_events(view, view.offsets, now_ms, by=cause, client_id=client_id, client_host=client_host)
    return (*gone, group_event(GroupRemoved(by, client_id, client_host, None, len(view.offsets)), group, now_ms))


def describe_as_classic(view: View, request: DescribeGroup, now_ms: int) -> AnyGroupOutcome:
    """DescribeGroups is for classic groups: to it the others are unknown."""
    described = DescribedGroup(group_id=request.group_id, group_state="Dead")
    if request.version >= ERROR_SINCE:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        described.error_message = f"Group {request.group_id} is not a classic group."
    return Outcome(view.consumer_group, (), (Reply(request.reply_to, described),))
