"""OffsetCommit: who may commit, and the records of what is accepted.

Source: KIP-211; Kafka's OffsetMetadataManager.commitOffset, ClassicGroup.validateOffsetCommit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.append_errors import error_for_client
from coordinator.classic.checks import check_member
from coordinator.classic.inputs import SessionExpired
from coordinator.group import Group, GroupState
from coordinator.offsets.changes import commit_refused_events, offsets_set_events
from coordinator.offsets.inputs import CommitOffsets
from coordinator.offsets.topic_filter import merged
from coordinator.outcome import Outcome, Reply, SetTimer
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.records.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator.outcome import AppendFailed
    from coordinator.view import GroupOutcome, View

NO_RETENTION = -1
_FOR_EVER = 2**63 - 1
TOPIC_IDS_SINCE = 10

_NONE = ErrorCode.NONE
_METADATA_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE


def check_commit(
    group: Group | None, member_id: str, instance_id: str | None, generation: int, version: int
) -> ErrorCode:
    """Whether somebody who says so about itself may commit to this group (None: there is no such group)."""
    if group is None:
        if generation < 0:
            return _NONE
        # From version 9 on clients understand that the group itself is gone (KIP-848).
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    state = group.state
    if state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and state is GroupState.EMPTY:
        return _NONE
    if generation >= 0 or member_id or instance_id is not None:
        error = check_member(group, member_id, instance_id)
        if error is not _NONE:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    else:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.REBALANCE_IN_PROGRESS if state is GroupState.COMPLETING_REBALANCE else _NONE


def commit_offsets(view: View, commit: CommitOffsets, now_ms: int) -> GroupOutcome:
    """Answer an OffsetCommit, and say which records make it true."""
    group_id, group = commit.group_id, view.group
    error = check_commit(group, commit.member_id, commit.instance_id, commit.generation, commit.version)
    if error is not _NONE:
        events = commit_refused_events(group, commit, error, now_ms)
        return Outcome(group, (), (Reply(commit.reply_to, all_partitions(commit, error)),), (), events)
    records, replies = accepted(view, commit, now_ms)
    if group is None:
        group = Group(group_id)
    elif group.members and (member := group.members.get(commit.member_id)) is not None:
        # Whoever commits is alive. Only members come here: in a group that is not Empty the checks saw to it.
        expired = SessionExpired(group_id, commit.member_id)
        timer = SetTimer(("heartbeat", group_id, commit.member_id), now_ms + member.session_timeout_ms, expired)
        return Outcome(group, records, replies, (timer,), (), commit if records else None)
    elif group.protocol_type is not None and records:
        # An Empty group that has had members, whose offsets somebody else sets.
        events = offsets_set_events(view, commit, records, now_ms)
        return Outcome(group, records, replies, (), events, commit)
    return Outcome(group, records, replies, (), (), commit if records else None)


def accepted(
    view: View, commit: CommitOffsets, now_ms: int
) -> tuple[tuple[tuple[OffsetCommitKey, OffsetCommitValue], ...], tuple[Reply, ...]]:
    """The records and the answer of a commit whose member may commit."""
    group_id = view.group_id
    max_chars = view.settings.offset_metadata_max_chars
    # A client may ask for "for ever" as the largest number there is: the sum has to fit its record all the same.
    expires_ms = -1 if commit.retention_ms == NO_RETENTION else min(now_ms + commit.retention_ms, _FOR_EVER)
    topic_id_of: Callable[[str], bytes | None] = view.topics.topic_id
    new = tuple.__new__  # a named tuple's own constructor takes twice as long
    if expires_ms != -1:
        # The version of the record that has an expire timestamp has no topic id: memory must not know more.
        topic_id_of = _no_topic_id
    records: list[tuple[OffsetCommitKey, OffsetCommitValue]] = []
    answers: list[OffsetCommitResponseTopic] = []
    for topic in commit.topics:
        name = topic.name
        topic_id = topic.topic_id if commit.version >= TOPIC_IDS_SINCE else topic_id_of(name) or ZERO_UUID
        results = []
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            # A character has at most two UTF-16 units, so nearly no metadata needs to be counted.
            if metadata and len(metadata) * 2 > max_chars and utf16_length(metadata) > max_chars:
                results.append(OffsetCommitResponsePartition(partition_index=index, error_code=_METADATA_TOO_LARGE))
                continue
            leader_epoch = partition.committed_leader_epoch
            stored = (partition.committed_offset, leader_epoch, metadata, now_ms, expires_ms, topic_id)
            records.append((new(OffsetCommitKey, (group_id, name, index, 1)), new(OffsetCommitValue, stored)))
            results.append(OffsetCommitResponsePartition(partition_index=index))
        answers.append(OffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=results))
    if commit.refused:
        answers = merged(commit.refused, answers, _identity)
    response = OffsetCommitResponse(topics=answers)
    return tuple(records), (Reply(commit.reply_to, response),)


def commit_refused(view: View, failure: AppendFailed, now_ms: int) -> GroupOutcome:
    """The records of a commit are not in the log: say so, and forget the group that was made for them."""
    group, commit = view.group, failure.token
    assert isinstance(commit, CommitOffsets)
    if group is not None and group.is_simple and not view.offsets and not view.pending_offsets:
        group = None
    reply = Reply(commit.reply_to, all_partitions(commit, error_for_client(failure.error)))
    return Outcome(group, (), (reply,))


def all_partitions(commit: CommitOffsets, error: ErrorCode) -> OffsetCommitResponse:
    """The answer that gives one error to every partition that reached the coordinator."""
    answers = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                for partition in topic.partitions
            ],
        )
        for topic in commit.topics
    ]
    return OffsetCommitResponse(topics=merged(commit.refused, answers, _identity))


def _identity(topic: OffsetCommitResponseTopic) -> tuple[str, bytes]:
    return topic.name, topic.topic_id


def utf16_length(text: str) -> int:
    """How many UTF-16 units `text` has: characters beyond the basic plane have two."""
    return len(text) + sum(1 for character in text if character > "\uffff")


def _no_topic_id(name: str) -> bytes | None:
    return None
