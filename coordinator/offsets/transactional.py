"""TxnOffsetCommit: offsets that count once the producer's transaction is committed.

Who may commit is asked less strictly than by OffsetCommit: old clients say nothing of themselves, and an offset of the
generation that is being left still counts, since its transaction began in it.

Source: KIP-98, KIP-447, KIP-1319; Kafka's OffsetMetadataManager.commitTransactionalOffset,
ClassicGroup.validateOffsetCommit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.classic.checks import check_group_id, check_member
from coordinator.group import Group, GroupState
from coordinator.offsets.commit import all_partitions, utf16_length
from coordinator.offsets.topic_filter import merged
from coordinator.outcome import Outcome, Reply
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.records.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from coordinator.offsets.inputs import CommitTransactionalOffsets
    from coordinator.view import GroupOutcome, View

KIP_1319_SINCE = 6
"""Topics are named by id, and clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH."""

_NONE = ErrorCode.NONE


def check_transactional_commit(
    group: Group | None, member_id: str, instance_id: str | None, generation: int, version: int
) -> ErrorCode:
    """Whether somebody who says so about itself may commit to this group (None: there is no such group)."""
    if group is None:
        if generation < 0:
            return _NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= KIP_1319_SINCE else ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and (group.state is GroupState.EMPTY or not (member_id or instance_id is not None)):
        return _NONE
    error = check_member(group, member_id, instance_id)
    if error is _NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def commit_transactional_offsets(view: View, commit: CommitTransactionalOffsets, now_ms: int) -> GroupOutcome:
    """Answer a TxnOffsetCommit, and say which records the transaction gets."""
    group = view.group
    error = check_group_id(commit.group_id) or check_transactional_commit(
        group, commit.member_id, commit.instance_id, commit.generation, commit.version
    )
    if error is not _NONE:
        return Outcome(group, (), (Reply(commit.reply_to, all_partitions(commit, error)),))
    records, reply = accepted(view, commit, now_ms)
    if group is None and records:
        group = Group(commit.group_id)
    return Outcome(
        group,
        records,
        (reply,),
        token=commit if records else None,
        producer=(commit.producer_id, commit.producer_epoch),
    )


def accepted(
    view: View, commit: CommitTransactionalOffsets, now_ms: int
) -> tuple[tuple[tuple[OffsetCommitKey, OffsetCommitValue], ...], Reply]:
    """The records and the answer of a commit that may be."""
    max_chars = view.settings.offset_metadata_max_chars
    records: list[tuple[OffsetCommitKey, OffsetCommitValue]] = []
    answers: list[OffsetCommitResponseTopic] = []
    for topic in commit.topics:
        by_id = commit.version >= KIP_1319_SINCE
        topic_id = topic.topic_id if by_id else view.topics.topic_id(topic.name) or ZERO_UUID
        results = []
        for partition in topic.partitions:
            index, metadata = partition.partition_index, partition.committed_metadata or ""
            error = _NONE
            if utf16_length(metadata) > max_chars:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                key = OffsetCommitKey(commit.group_id, topic.name, index)
                offset, leader_epoch = partition.committed_offset, partition.committed_leader_epoch
                records.append((key, OffsetCommitValue(offset, leader_epoch, metadata, now_ms, -1, topic_id)))
            results.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
        answers.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=results))
    topics = merged(commit.refused, answers, lambda topic: (topic.name, topic.topic_id))
    return tuple(records), Reply(commit.reply_to, OffsetCommitResponse(topics=topics))
