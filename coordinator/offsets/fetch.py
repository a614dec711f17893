"""OffsetFetch of one group, told in one way for every version; the edge gives it the version's shape.

Source: KIP-447 (require stable), KIP-709 (several groups); Kafka's OffsetMetadataManager.fetchOffsets and
fetchAllOffsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.group import GroupState
from coordinator.offsets.topic_filter import no_offset
from coordinator.outcome import Outcome, Reply
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from coordinator.offsets.inputs import FetchOffsets
    from coordinator.view import CommittedOffset, GroupOutcome, View


def fetch_offsets(view: View, fetch: FetchOffsets, now_ms: int) -> GroupOutcome:
    """Answer with what is committed. A group that nobody knows, or that is Dead, has nothing."""
    dead = view.group is not None and view.group.state is GroupState.DEAD
    topics = _all(view, fetch) if fetch.topics is None else _named(view, fetch, known=not dead)
    if dead and fetch.topics is None:
        topics = []
    response = OffsetFetchResponseGroup(group_id=fetch.group_id, topics=[*topics, *fetch.refused])
    return Outcome(view.group, (), (Reply(fetch.reply_to, response),))


def _named(view: View, fetch: FetchOffsets, *, known: bool) -> list[OffsetFetchResponseTopics]:
    assert fetch.topics is not None
    offsets = view.offsets if known else {}
    answers = []
    for topic in fetch.topics:
        name, topic_id = topic.name, topic.topic_id
        results = []
        for partition in topic.partition_indexes:
            if fetch.require_stable and _undecided(view, (name, partition)):
                results.append(no_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                continue
            stored = offsets.get((name, partition))
            if stored is None or (fetch.by_id and stored.topic_id is not None and stored.topic_id != topic_id):
                results.append(no_offset(partition))
            else:
                results.append(_found(partition, stored))
        answers.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=results))
    return answers


def _all(view: View, fetch: FetchOffsets) -> list[OffsetFetchResponseTopics]:
    answers: dict[str, OffsetFetchResponseTopics] = {}
    for (name, partition), stored in view.offsets.items():
        topic = answers.get(name)
        if topic is None:
            topic_id = view.topics.topic_id(name) if fetch.by_id else ZERO_UUID
            if topic_id is None:
                continue  # by id only topics that exist can be named
            topic = answers[name] = OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=[])
        if fetch.by_id and stored.topic_id is not None and stored.topic_id != topic.topic_id:
            continue  # of a namesake that is gone
        if fetch.require_stable and _undecided(view, (name, partition)):
            topic.partitions.append(no_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT))
        else:
            topic.partitions.append(_found(partition, stored))
    return list(answers.values())


def _found(partition: int, stored: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
        error_code=ErrorCode.NONE,
    )


def _undecided(view: View, key: tuple[str, int]) -> bool:
    """Whether a transaction that is not decided yet has an offset for this partition."""
    pending = view.pending_offsets
    return bool(pending) and any(key in offsets for offsets in pending.values())
