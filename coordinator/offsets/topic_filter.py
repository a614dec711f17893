"""Which topics of a request reach the coordinator, and what is answered for the others.

Kafka looks at this before it looks at the group: a commit of which nothing remains is answered at once, whatever the
group is. Source: Kafka's KafkaApis.handleOffsetCommitRequest, handleOffsetDeleteRequest, fetchOffsetsForGroup.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_fetch import OffsetFetchResponsePartitions, OffsetFetchResponseTopics
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from coordinator.view import Topics
    from protocol.messages.offset_fetch import OffsetFetchRequestTopics

Answer = TypeVar("Answer", OffsetCommitResponseTopic, OffsetDeleteResponseTopic)

_UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_TOPIC_AUTHORIZATION_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def filter_commit(
    topics: Sequence[OffsetCommitRequestTopic], image: Topics, allowed: Callable[[str], bool] | None, *, by_id: bool
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """(topics that reach the coordinator, answers for the others). `allowed`: whether the caller may READ a topic.

    With `by_id` (version 10) the names are looked up and filled in. Without `allowed` every topic is allowed.
    """
    accepted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in topics:
        if by_id:
            name = image.topic_name(topic.topic_id)
            if name is None:
                refused.append(_refused_commit(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            topic.name = name
        if allowed is not None and not allowed(topic.name):
            refused.append(_refused_commit(topic, _TOPIC_AUTHORIZATION_FAILED))
            continue
        count = image.partition_count(topic.name)
        if count is None:
            refused.append(_refused_commit(topic, _UNKNOWN_TOPIC_OR_PARTITION))
            continue
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                break
        else:
            if topic.partitions:  # A topic without any is left out of the answer too, as in Kafka.
                accepted.append(topic)
            continue
        good = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
        bad = [partition for partition in topic.partitions if not 0 <= partition.partition_index < count]
        refused.append(
            _refused_commit(
                OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=bad),
                _UNKNOWN_TOPIC_OR_PARTITION,
            )
        )
        if good:
            accepted.append(OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=good))
    return accepted, refused


def _refused_commit(topic: OffsetCommitRequestTopic, error: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in topic.partitions
        ],
    )


def filter_delete(
    topics: Sequence[OffsetDeleteRequestTopic], image: Topics, allowed: Callable[[str], bool] | None
) -> tuple[list[OffsetDeleteRequestTopic], list[OffsetDeleteResponseTopic]]:
    """As `filter_commit`, for OffsetDelete."""
    accepted: list[OffsetDeleteRequestTopic] = []
    refused: list[OffsetDeleteResponseTopic] = []
    for topic in topics:
        count = image.partition_count(topic.name) or 0
        if allowed is not None and not allowed(topic.name):
            error, bad, good = _TOPIC_AUTHORIZATION_FAILED, topic.partitions, []
        else:
            error = _UNKNOWN_TOPIC_OR_PARTITION
            bad = [partition for partition in topic.partitions if not 0 <= partition.partition_index < count]
            good = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
        if bad:
            results = [
                OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)
                for partition in bad
            ]
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
        if good:
            accepted.append(OffsetDeleteRequestTopic(name=topic.name, partitions=good))
    return accepted, refused


def filter_fetch(
    topics: Sequence[OffsetFetchRequestTopics], image: Topics, allowed: Callable[[str], bool] | None, *, by_id: bool
) -> tuple[list[OffsetFetchRequestTopics], list[OffsetFetchResponseTopics]]:
    """As `filter_commit`, for the named topics of one group's OffsetFetch; whether they exist is asked by id only."""
    accepted: list[OffsetFetchRequestTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    for topic in topics:
        if by_id:
            name = image.topic_name(topic.topic_id)
            if name is None:
                refused.append(nothing_stored("", topic.topic_id, topic.partition_indexes, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            topic.name = name
        if allowed is not None and not allowed(topic.name):
            error = _TOPIC_AUTHORIZATION_FAILED
            refused.append(nothing_stored(topic.name, topic.topic_id, topic.partition_indexes, error))
        else:
            accepted.append(topic)
    return accepted, refused


def nothing_stored(
    name: str, topic_id: bytes, partitions: Sequence[int], error: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponseTopics:
    """One topic of a fetch answer without any offset."""
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id or ZERO_UUID,
        partitions=[no_offset(partition, error) for partition in partitions],
    )


def no_offset(partition: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    """One partition of a fetch answer for which nothing is stored, or nothing is told."""
    return OffsetFetchResponsePartitions(
        partition_index=partition, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=error
    )


def merged(
    refused: Sequence[Answer], answers: Sequence[Answer], identity: Callable[[Answer], Hashable]
) -> list[Answer]:
    """Refused topics first, then the others; a topic with partitions of both kinds stands where it was refused.

    `refused` is left as it is: should the append fail, it is merged with other answers.
    """
    if not refused:
        return list(answers)
    every: list[Any] = [*refused, *answers]
    topics: dict[Hashable, Any] = {}
    for topic in every:
        known = topics.get(identity(topic))
        if known is None:
            known = topics[identity(topic)] = copy(topic)
            known.partitions = []
        known.partitions += topic.partitions
    return list(topics.values())
