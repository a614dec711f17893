"""Groups that have offsets, and everything that can be asked of them: for the table of what follows from each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from coordinator.offsets.inputs import (
    CommitOffsets,
    CommitTransactionalOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    ExpireOffsets,
    FetchOffsets,
    ForgetTopics,
)
from coordinator.outcome import GroupInput
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequestTopics
from tests.coordinator.driver import Request
from tests.coordinator.offsets.driver import DAY, PRODUCER, OffsetDriver

ID = b"1" * 16


def nobody() -> OffsetDriver:
    return OffsetDriver()


def simple() -> OffsetDriver:
    broker = OffsetDriver()
    broker.commit(7, leader_epoch=3, metadata="m")
    broker.commit(8, partition=1, version=2, retention_ms=1_000)
    broker.commit(9, topic="t2", topic_id=ID)
    broker.pend(10, partition=2)
    return broker


def old() -> OffsetDriver:
    broker = simple()
    broker.wait(7 * DAY)
    return broker


def almost_old() -> OffsetDriver:
    broker = simple()
    broker.wait(7 * DAY - 1)
    return broker


def members() -> OffsetDriver:
    broker = OffsetDriver()
    a, _ = broker.stable_group("a", "b", static=("b",))
    broker.commit(7, member_id=a, generation=1)
    broker.commit(8, topic="t2", member_id=a, generation=1)
    return broker


def left() -> OffsetDriver:
    broker = OffsetDriver()
    [a] = broker.stable_group("a")
    broker.commit(7, member_id=a, generation=1)
    broker.leave(a)
    return broker


def left_long_ago() -> OffsetDriver:
    broker = left()
    broker.wait(7 * DAY)
    return broker


def rebalancing() -> OffsetDriver:
    broker = OffsetDriver()
    a, _ = broker.stable_group("a", "b")
    broker.commit(7, member_id=a, generation=1)
    broker.join(a)
    return broker


SITUATIONS = [nobody, simple, almost_old, old, members, left, left_long_ago, rebalancing]


def inputs_for(group_id: str, members: Sequence[str], *, topic: str = "t1") -> list[GroupInput]:
    """In the name of each member, of nobody and of a stranger."""
    return [
        *_commits(group_id, members, topic),
        *_fetches(group_id, members, topic),
        *_others(group_id, topic),
    ]


def _commits(group_id: str, members: Sequence[str], topic: str) -> Iterator[GroupInput]:
    def topics(partition: int = 0, metadata: str | None = "", topic_id: bytes = bytes(16)) -> Any:
        stored = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=5, committed_leader_epoch=2, committed_metadata=metadata
        )
        return [OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[stored])]

    for member in (*members, "", "stranger"):
        for instance in (None, "b", "other"):
            for generation in (-1, 0, 1, 2, 3):
                yield CommitOffsets(group_id, member, instance, generation, topics(), 8, -1, Request("commit"))
                yield CommitTransactionalOffsets(
                    group_id, member, instance, generation, topics(), 3, -1, Request("transactional"),
                    producer_id=PRODUCER, producer_epoch=0,
                )  # fmt: skip
    for member in (*members[:1], ""):
        generation = 1 if member else -1
        for version, retention_ms in ((1, -1), (2, 5_000), (4, -1), (8, 5_000), (9, -1), (10, -1)):
            for told in (topics(), topics(9), topics(0, None), topics(0, "x" * 4_096), topics(0, "x" * 4_097),
                         topics(0, "", ID)):  # fmt: skip
                yield CommitOffsets(
                    group_id, member, None, generation, told, version, retention_ms, Request("commit"), (), "c", "/h"
                )


def _fetches(group_id: str, members: Sequence[str], topic: str) -> Iterator[GroupInput]:
    asked = [
        OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0, 1, 2, 7])
        for name, topic_id in ((topic, bytes(16)), ("t2", ID), ("gone", bytes(16)))
    ]
    for topics in (None, [], asked):
        for stable in (False, True):
            for by_id in (False, True):
                yield FetchOffsets(group_id, topics, stable, by_id, Request("fetch"))
    for member in (*members, "stranger", None):
        for epoch in (-1, 0, 1, 2, 9):
            yield FetchOffsets(group_id, asked, False, False, Request("fetch"), (), member, epoch)


def _others(group_id: str, topic: str) -> Iterator[GroupInput]:
    for name in (topic, "t2", "gone"):
        partitions = [OffsetDeleteRequestPartition(partition_index=at) for at in (0, 1, 9)]
        asked = [OffsetDeleteRequestTopic(name=name, partitions=partitions)]
        yield DeleteOffsets(group_id, asked, Request("delete"), (), "c", "/h")
    yield DeleteGroup(group_id, Request("delete"), "c", "/h")
    for version in range(7):
        yield DescribeGroup(group_id, version, Request("describe"))
    yield ExpireOffsets(group_id)
    for topic_id in (ID, bytes(16), b"2" * 16):
        yield ForgetTopics(group_id, {topic: topic_id, "t2": topic_id})
