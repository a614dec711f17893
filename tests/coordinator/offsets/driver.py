"""The driver with a whole `Shard` behind it, and short ways to commit, fetch and ask."""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.offsets.describe import list_groups
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
from coordinator.shard import Shard
from coordinator.view import CommittedOffset, GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequestTopics
from protocol.records.group_records import OffsetCommitKey
from protocol.types import ZERO_UUID
from tests.coordinator.driver import Driver, Request, Topics

DAY = 24 * 60 * 60_000
PRODUCER = 4_000


class OffsetDriver(Driver):
    """`topics`: name -> partition count."""

    def __init__(self, settings: GroupSettings | None = None, topics: Mapping[str, int] | None = None) -> None:
        self.topics = Topics({"t1": 4, "t2": 4} if topics is None else topics)
        self.shard = Shard(settings or GroupSettings(), self.topics)
        super().__init__(settings, self.topics, self.shard)

    def commit(
        self,
        offset: int = 1,
        *,
        topic: str = "t1",
        partition: int = 0,
        leader_epoch: int = -1,
        metadata: str | None = "",
        member_id: str = "",
        instance_id: str | None = None,
        generation: int = -1,
        version: int = 8,
        retention_ms: int = -1,
        topic_id: bytes = bytes(16),
    ) -> Request:
        """One partition's offset."""
        stored = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )
        named = OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[stored])
        return self.commit_topics(
            [named],
            member_id=member_id,
            instance_id=instance_id,
            generation=generation,
            version=version,
            retention_ms=retention_ms,
        )

    def commit_topics(
        self,
        topics: Sequence[OffsetCommitRequestTopic],
        *,
        member_id: str = "",
        instance_id: str | None = None,
        generation: int = -1,
        version: int = 8,
        retention_ms: int = -1,
    ) -> Request:
        request = self.request("commit")
        self.feed(
            CommitOffsets(self.group_id, member_id, instance_id, generation, topics, version, retention_ms, request)
        )
        return request

    def commit_in_transaction(
        self,
        offset: int = 1,
        *,
        topic: str = "t1",
        topic_id: bytes = ZERO_UUID,
        partition: int = 0,
        metadata: str | None = "",
        member_id: str = "",
        instance_id: str | None = None,
        generation: int = -1,
        version: int = 3,
        producer_id: int = PRODUCER,
        leader_epoch: int = -1,
    ) -> Request:
        """One partition's offset, in a transaction that was verified."""
        request = self.request("transactional commit")
        stored = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )
        self.feed(
            CommitTransactionalOffsets(
                self.group_id,
                member_id,
                instance_id,
                generation,
                [OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[stored])],
                version,
                -1,
                request,
                producer_id=producer_id,
                producer_epoch=0,
            )
        )
        return request

    def end(self, *, commit: bool, producer_id: int = PRODUCER) -> None:
        """A marker of the producer is in the log."""
        self.shard.end_transaction(producer_id, committed=commit)

    def pend(self, offset: int, *, topic: str = "t1", partition: int = 0, log_offset: int | None = None) -> None:
        """An offset that a transaction of `PRODUCER` has written and not decided."""
        at = len(self.log) if log_offset is None else log_offset
        self.shard.put_pending(
            PRODUCER, self.group_id, (topic, partition), CommittedOffset(offset, -1, "", self.now_ms, log_offset=at)
        )

    def fetch(
        self,
        topics: Mapping[str, Sequence[int]] | None = None,
        *,
        stable: bool = False,
        by_id: bool = False,
        ids: Mapping[str, bytes] | None = None,
    ) -> Any:
        """The `OffsetFetchResponseGroup`. No topics: all."""
        request = self.request("fetch")
        asked = None
        if topics is not None:
            asked = [
                OffsetFetchRequestTopics(
                    name=name, topic_id=(ids or {}).get(name, bytes(16)), partition_indexes=list(partitions)
                )
                for name, partitions in topics.items()
            ]
        self.feed(FetchOffsets(self.group_id, asked, stable, by_id, request))
        return request.response

    def stored(self) -> dict[tuple[str, int], int]:
        """What is committed: (topic, partition) -> offset."""
        return {key: stored.offset for key, stored in self.shard.offsets.get(self.group_id, {}).items()}

    def delete_offsets(self, topics: Mapping[str, Sequence[int]]) -> Any:
        request = self.request("delete offsets")
        asked = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
            )
            for name, partitions in topics.items()
        ]
        self.feed(DeleteOffsets(self.group_id, asked, request))
        return request.response

    def delete(self, group_id: str | None = None) -> ErrorCode:
        request = self.request("delete group")
        self.feed(DeleteGroup(group_id or self.group_id, request))
        return ErrorCode(request.response.error_code)

    def describe(self, version: int = 5, group_id: str | None = None) -> Any:
        request = self.request("describe")
        self.feed(DescribeGroup(group_id or self.group_id, version, request))
        return request.response

    def expire(self) -> list[tuple[Any, Any]]:
        """The records of one retention check."""
        before = len(self.log)
        for group_id in self.shard.all_keys():
            self.feed(ExpireOffsets(group_id))
        return self.log[before:]

    def forget(self, topic: str, topic_id: bytes) -> list[tuple[Any, Any]]:
        """The records that a deleted topic causes."""
        before = len(self.log)
        for group_id in self.shard.all_keys():
            self.feed(ForgetTopics(group_id, {topic: topic_id}))
        return self.log[before:]

    def listed(self) -> list[tuple[str, str, str]]:
        """(group id, protocol type, state) of each group."""
        return [(g.group_id, g.protocol_type, g.group_state) for g in list_groups(self.shard.groups.values())]

    def wait(self, ms: int) -> None:
        """Let time pass without anybody's session running out."""
        self.now_ms += ms


def errors(request: Request) -> list[ErrorCode]:
    """The error of each partition of an OffsetCommit, in order."""
    return [ErrorCode(partition.error_code) for topic in request.response.topics for partition in topic.partitions]


def offsets(group: Any) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset of a fetch answer."""
    return {(t.name, p.partition_index): p.committed_offset for t in group.topics for p in t.partitions}


def results(group: Any) -> dict[tuple[str, int], ErrorCode]:
    """(topic, partition) -> error of a fetch or delete answer."""
    return {(t.name, p.partition_index): ErrorCode(p.error_code) for t in group.topics for p in t.partitions}


def tombstones(records: Sequence[tuple[Any, Any]]) -> list[Any]:
    """What was tombstoned: (topic, partition), or the group id for a group. Nothing else may be there."""
    assert all(value is None for _, value in records)
    return [(key.topic, key.partition) if isinstance(key, OffsetCommitKey) else key.group for key, _ in records]
