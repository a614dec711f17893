"""A group leader in virtual time, on a partition that fails and waits when told to."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from broker.groups.groups import GroupLeader
from broker.groups.tenant import GroupTenant
from broker.partitions import AppendInfo, Partition, PartitionFailed, PartitionSettings
from coordinator.classic.inputs import Heartbeat, Join, Leave, Leaver, Sync, fresh_member_id
from coordinator.consumer.assignors import ASSIGNORS
from coordinator.consumer.inputs import ConsumerHeartbeat
from coordinator.events import GroupEvent
from coordinator.offsets.inputs import CommitOffsets, FetchOffsets
from coordinator.view import ConsumerSettings, GroupSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequestTopics
from protocol.records.batch_header import read_header, stamp
from protocol.records.batch_reader import iterate_records
from protocol.records.group_records import decode_key, decode_value
from storage.log.log_reader import ReadResult
from storage.log.partition_log import PartitionLog
from tests.support.heard import Heard
from tests.support.topics import Topics
from tests.support.virtual_runtime import VirtualRuntime

CONSUMER_SETTINGS = ConsumerSettings(assignors=ASSIGNORS)


class Refused(KafkaError):
    """The log refuses a batch with this code, and is as before."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code  # type: ignore[misc]  # one class for every code


class FakeLog(PartitionLog):
    """Whole batches in memory."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0

    def read(self, offset: int, max_bytes: int, *, copied: bool = False, **_: Any) -> ReadResult:
        """One batch at a time."""
        for batch in self.batches:
            header = read_header(batch)
            if header.next_offset > offset:
                return ReadResult([batch], len(batch), header.next_offset)
        return ReadResult([], 0, self.end)


class FakePartition(Partition):
    """What a leader needs of a `Partition`. `hold`: nothing is committed until `commit`."""

    def __init__(self, *, max_message_bytes: int = 1_048_588) -> None:
        self.topic, self.index = "__consumer_offsets", 0
        self.log = FakeLog()
        self.settings = PartitionSettings(max_message_bytes=max_message_bytes)
        self.leader_epoch = 0
        self.error: KafkaError | None = None
        self.hold = False
        self.refusals: list[ErrorCode] = []  # of the next appends; NONE: that one is taken
        self.high_watermark = 0
        self._waiting: deque[tuple[int, Callable[[KafkaError | None], None]]] = deque()

    @property
    def log_start_offset(self) -> int:
        return 0

    @property
    def log_end_offset(self) -> int:
        return self.log.end

    def append(self, batch: bytearray, *_: Any) -> AppendInfo:
        if self.error is not None:
            raise self.error
        refusal = self.refusals.pop(0) if self.refusals else ErrorCode.NONE
        if refusal is not ErrorCode.NONE:
            raise Refused(refusal)
        base = self.log.end
        stamp(batch, base, self.leader_epoch)
        self.log.batches.append(bytes(batch))
        self.log.end = read_header(batch).next_offset
        if not self.hold:
            self.high_watermark = self.log.end
        return AppendInfo(base, self.log.end - 1, -1, 0)

    def when_committed(self, offset: int, callback: Callable[[KafkaError | None], None]) -> None:
        if self.error is not None:
            callback(self.error)
        elif offset < self.high_watermark:
            callback(None)
        else:
            self._waiting.append((offset, callback))

    def commit(self) -> None:
        """All that is appended is committed."""
        self.high_watermark = self.log.end
        while self._waiting:
            self._waiting.popleft()[1](None)

    def fail(self) -> None:
        """An fsync failed."""
        self.error = PartitionFailed(self.topic, self.index, "no space left on device")
        waiting, self._waiting = self._waiting, deque()
        for _, callback in waiting:
            callback(self.error)

    def recover(self) -> None:
        """The log is loaded anew, cut at what was committed."""
        self.error = None
        self.log.batches = [
            batch for batch in self.log.batches if read_header(batch).next_offset <= self.high_watermark
        ]
        self.log.end = self.high_watermark

    def records(self) -> list[tuple[Any, Any]]:
        """Every key and value in the log."""
        found = []
        for batch in self.log.batches:
            for record in iterate_records(batch):
                key = decode_key(record.key)
                found.append((key, decode_value(key, record.value)))  # type: ignore[arg-type]  # no unknown keys here
        return found


class Leading:
    """A loaded leader with its clock, its log, and short ways to ask it things."""

    def __init__(
        self,
        partition: FakePartition | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        settings: GroupSettings | None = None,
        consumer_settings: ConsumerSettings | None = None,
        load: bool = True,
    ) -> None:
        self.runtime = VirtualRuntime()
        self.partition = partition or FakePartition()
        self.events: list[GroupEvent] = []
        self.work: list[Any] = []  # that rules have asked for, and nobody does
        self.tenant = GroupTenant(
            settings or GroupSettings(),
            self.events.append,
            lambda _: consumer_settings or CONSUMER_SETTINGS,
            self.work.append,
        )
        self.leader = GroupLeader(self.runtime, self.tenant, 0, Topics(topics or {"t": 4}))
        self.new_answer: Callable[[], Heard] = Heard
        self._ids = 0
        if load:
            self.load()

    def load(self) -> None:
        self.leader.load(self.partition)  # type: ignore[arg-type]  # a fake of what it uses

    def commit(
        self,
        group_id: str = "g",
        offset: int = 1,
        *,
        topic: str = "t",
        partition: int = 0,
        metadata: str = "",
        member_id: str = "",
        generation: int = -1,
    ) -> Heard:
        answer = self.new_answer()
        stored = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[stored])]
        self.leader.submit(CommitOffsets(group_id, member_id, None, generation, topics, 8, -1, answer))
        return answer

    def fetch(self, group_id: str = "g", *, topic: str = "t", partition: int = 0, stable: bool = False) -> Heard:
        answer = self.new_answer()
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        self.leader.submit(FetchOffsets(group_id, topics, stable, False, answer))
        return answer

    def join(self, member_id: str = "", *, group_id: str = "g", instance_id: str | None = None, **given: Any) -> Heard:
        answer = self.new_answer()
        self._ids += 1
        self.leader.submit(
            Join(
                group_id,
                member_id,
                instance_id,
                "consumer",
                given.get("protocols", (("range", b"m"),)),
                10_000,
                30_000,
                given.get("version", 3),
                fresh_member_id(instance_id, "c", f"{self._ids:036d}"),
                "c",
                "/127.0.0.1",
                answer,
            )
        )
        return answer

    def sync(
        self, member_id: str, generation: int, plan: Mapping[str, bytes] | None = None, group_id: str = "g"
    ) -> Heard:
        answer = self.new_answer()
        self.leader.submit(Sync(group_id, member_id, None, generation, None, None, plan or {}, 3, answer))
        return answer

    def heartbeat(
        self, member_id: str = "m", generation: int = 1, group_id: str = "g", instance_id: str | None = None
    ) -> Heard:
        answer = self.new_answer()
        self.leader.submit(Heartbeat(group_id, member_id, instance_id, generation, answer))
        return answer

    def leave(self, member_id: str, group_id: str = "g") -> Heard:
        answer = self.new_answer()
        self.leader.submit(Leave(group_id, [Leaver(member_id)], 3, answer))
        return answer

    def consumer_heartbeat(self, member_id: str, epoch: int, group_id: str = "g") -> Heard:
        """Of a member of KIP-848 that reads `t`."""
        answer = self.new_answer()
        joins = epoch == 0
        self.leader.submit(
            ConsumerHeartbeat(
                group_id,
                member_id,
                epoch,
                None,
                None,
                30_000 if joins else -1,
                ("t",) if joins else None,
                None,
                None,
                {} if joins else None,
                1,
                "c",
                "c",
                "/127.0.0.1",
                answer,
            )
        )
        return answer

    def turn(self) -> None:
        """End this turn of the loop."""
        self.runtime.turn()

    def stable_group(self, count: int = 1, group_id: str = "g", instance_id: str | None = None) -> list[str]:
        """Members of a Stable group at generation 1, the leader first."""
        joins = [
            self.join(group_id=group_id, instance_id=instance_id, version=5 if instance_id else 3) for _ in range(count)
        ]
        self.runtime.advance(6_000)
        members = [joined.response.member_id for joined in joins]
        plan = {member_id: f"plan {index}".encode() for index, member_id in enumerate(members)}
        syncs = [self.sync(member_id, 1, plan if member_id == members[0] else None, group_id) for member_id in members]
        self.turn()
        assert all(sync.response.error_code == 0 for sync in syncs)
        return members


def committed(answer: Heard) -> list[int]:
    """The error codes of an OffsetCommit's answer."""
    assert answer.done
    return [partition.error_code for topic in answer.response.topics for partition in topic.partitions]


def fetched(answer: Heard) -> list[int]:
    """The offsets of an OffsetFetch's answer."""
    assert answer.done
    return [partition.committed_offset for topic in answer.response.topics for partition in topic.partitions]
