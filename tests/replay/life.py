"""A life of one `__consumer_offsets` partition: the coordinator's real rules, the real log, a disk that remembers.

A history is a list of steps, plain tuples `(name, number)`; numbers choose groups, topics, partitions. After each step
what memory holds is what the log says. `crash` then makes what a crash at one moment leaves, loads it, and compares.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from broker.coordinators.batches import LeaderState
from broker.groups import tenant as group_tenant
from broker.groups.groups import GroupLeader, expire_offsets, forget_topics
from broker.partitions import Marker, Partition, PartitionSettings
from broker.partitions.cleaning import durable_end
from broker.partitions.flusher import Flusher
from broker.partitions.writer import Writer
from coordinator.classic.inputs import Leave, Leaver
from coordinator.consumer.assignors import ASSIGNORS
from coordinator.events import GroupEvent
from coordinator.group import GroupState
from coordinator.offsets.inputs import CommitOffsets, CommitTransactionalOffsets, DeleteGroup, DeleteOffsets
from coordinator.shard import Shard
from coordinator.view import ConsumerSettings, GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.records.batch_header import read_header
from protocol.records.batch_reader import iterate_records
from protocol.records.group_records import OffsetCommitKey, decode_key, decode_value
from storage.clean import cleaner
from storage.files import Disk, remove_files
from storage.log.partition_log import PartitionLog
from storage.state.log_config import INT64_MAX, LogConfig
from tests.coordinator.consumer.driver import check_invariants
from tests.replay.kafka_wrote import PREFIXES
from tests.replay.legal_choice import Chooser
from tests.replay.members import Members
from tests.replay.oracle import PREFIXED, Oracle, State, held_by, held_group
from tests.storage.logs import all_bytes
from tests.support.group_leader_fixture import Leading
from tests.support.heard import Heard
from tests.support.recording_disk import Op, RecordingDisk, World
from tests.support.topics import Topics

GROUPS = ("g", "h", "i")
TOPICS = {"t": 3, "u": 3}
PRODUCERS = (7_001, 7_002)
DAY_MS = 86_400_000
SETTINGS = GroupSettings(initial_rebalance_delay_ms=0, offsets_retention_ms=200_000)
CONSUMER_SETTINGS = ConsumerSettings(session_timeout_ms=30_000, assignment_interval_ms=0, assignors=ASSIGNORS)
Step = tuple[str, int]
UNSYNCED = Disk()  # of folders that nothing crashes any more
UNSYNCED.fsync = UNSYNCED.fdatasync = lambda _: None  # type: ignore[method-assign]


def config(*, always: bool, segment_bytes: int = 900) -> LogConfig:
    """A log that rolls every few batches. What is larger than a segment is refused."""
    return LogConfig(
        segment_bytes=segment_bytes,
        index_interval_bytes=200,
        compact=True,
        delete=False,
        flush_messages=1 if always else INT64_MAX,
    )


class PartitionOwner:
    """What a partition needs of those around it."""

    def __init__(self, runtime: Any) -> None:
        self.flusher = Flusher(runtime)
        self.writer = Writer(runtime)

    def wake(self, partition: Partition) -> None:
        """Nobody waits here."""

    def flush(self, partition: Partition) -> None:
        self.flusher.request(partition)

    def refused(self, partition: Partition, error: Exception) -> None:
        raise error

    def failed(self, partition: Partition) -> None:
        raise AssertionError(f"{partition} failed: {partition.error}")


class Answer(Heard):
    """An answer that knows how many file operations had happened when it left."""

    def __init__(self, disk: RecordingDisk) -> None:
        super().__init__()
        self._disk = disk
        self.at = -1

    def complete(self, response: Any) -> None:
        super().complete(response)
        self.at = len(self._disk.journal)


class Written(NamedTuple):
    """One append: when it was done, and what the log says from then on."""

    at: int  # operations that had happened when the write was the next one
    batch: bytes
    base_offset: int
    next_offset: int
    state: State


class Life:
    """One history, lived once."""

    def __init__(self, directory: Path, *, always: bool, prefix: int = 0, segment_bytes: int = 900) -> None:
        self.config = config(always=always, segment_bytes=segment_bytes)
        self.directory = directory
        directory.mkdir()
        self.always = always
        self.disk = RecordingDisk(directory, self._recovery_point)
        self.chooser = Chooser()
        self.events: list[list[GroupEvent]] = []  # of each start
        self.mixtures: list[tuple[bytes, State]] = []  # what a load reads that a clean overtakes, and what it says
        self._log: PartitionLog | None = None
        self._now_ms = 1_700_000_000_000
        self.next_offset = 0
        self._answers: list[tuple[Answer, int]] = []
        self._open(clean=False)
        for batch in PREFIXES[prefix % len(PREFIXES)]():
            self.partition.append(bytearray(batch))
        self.members = Members(self)
        self._load()

    def _recovery_point(self) -> int:
        return 0 if self._log is None else self._log.recovery_point

    # -- starting and stopping -----------------------------------------------------------------------------

    def _open(self, *, clean: bool) -> None:
        self.broker = Leading(load=False, topics=TOPICS, settings=SETTINGS, consumer_settings=CONSUMER_SETTINGS)
        self.broker.runtime._now_ms = self._now_ms
        self.events.append(self.broker.events)
        self.broker.new_answer = lambda: Answer(self.disk)
        self.leader: GroupLeader = self.broker.leader
        point = self._recovery_point()
        self._log = PartitionLog.open(
            self.directory,
            self.config,
            clean=clean,
            recovery_point=point,
            now_ms=self._now_ms,
            disk=self.disk,
        )
        settings = PartitionSettings(log=self.config)
        owner = PartitionOwner(self.broker.runtime)
        self.partition = Partition(owner, "__consumer_offsets", 0, bytes(16), self._log, settings)

    def _load(self) -> None:
        self.broker.partition = self.partition  # type: ignore[assignment]  # the real one
        self.broker.load()
        assert self.leader.state is LeaderState.ACTIVE
        self.broker.turn()

    def restart(self, number: int) -> None:
        """A clean stop, or a SIGKILL between two operations; and the start after it."""
        clean = number % 2 == 0
        self._now_ms = self.broker.runtime.now_ms()
        if clean:
            self.leader.close()
            self.broker.turn()
            self.partition.log.close()
        self._open(clean=clean)
        self._load()

    # -- steps ---------------------------------------------------------------------------------------------

    def commit(self, number: int) -> None:
        """By a member, where the group has some, or by nobody in particular."""
        group, topic, partition = GROUPS[number % 3], "tu"[number // 3 % 2], number // 6 % 3
        member, generation = self._someone(group)
        self.next_offset += 1
        stored = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=self.next_offset,
            committed_metadata="x" * (0, 0, 90)[number // 18 % 3],
        )
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[stored])]
        answer = Answer(self.disk)
        retention_ms = 5_000 if number % 7 == 0 else -1
        self.leader.submit(CommitOffsets(group, member, None, generation, topics, 4, retention_ms, answer))
        self._answers.append((answer, self.next_offset))

    def transact(self, number: int) -> None:
        """An offset in a transaction of one of two producers, by a member or by one who says nothing of itself."""
        group, topic, partition = GROUPS[number % 3], "tu"[number // 3 % 2], number // 6 % 3
        member, generation = self._someone(group) if number // 18 % 2 else ("", -1)
        self.next_offset += 1
        stored = OffsetCommitRequestPartition(partition_index=partition, committed_offset=self.next_offset)
        answer = Answer(self.disk)
        self.leader.submit(
            CommitTransactionalOffsets(
                group,
                member,
                None,
                generation,
                [OffsetCommitRequestTopic(name=topic, partitions=[stored])],
                5,
                -1,
                answer,
                producer_id=PRODUCERS[number // 36 % 2],
                producer_epoch=self._epoch(number),
            )
        )
        self._answers.append((answer, self.next_offset))

    def _epoch(self, number: int) -> int:
        entry = self.partition.log.producers.entries.get(PRODUCERS[number // 36 % 2])
        return 0 if entry is None else entry.epoch

    def end(self, number: int) -> None:
        """A producer's transaction is committed or aborted, of version 2 or before; also where none is open."""
        producer_id, commit = PRODUCERS[number // 36 % 2], number % 3 != 0
        version = 2 if number % 2 else 0
        marker = Marker(producer_id, self._epoch(number) + (version == 2), commit, 0, version)
        codes: list[ErrorCode] = []
        effects = self.leader.effects
        effects.append_marker(
            marker, lambda: effects.shard.end_transaction(producer_id, committed=commit), codes.append
        )
        self.broker.turn()
        assert codes == [ErrorCode.NONE]

    def _someone(self, group_id: str) -> tuple[str, int]:
        group = self.leader.shard.groups.get(group_id)
        if group is None or not group.members:
            return "", -1
        return min(group.members), group.generation

    def join(self, number: int) -> None:
        """One more member; the others join again, the leader assigns, everybody syncs."""
        group_id = GROUPS[number % 3]
        group = self.leader.shard.groups.get(group_id)
        instance = (None, None, "s")[number // 3 % 3]
        asked = [] if group is None else sorted((m.member_id, m.instance_id) for m in group.members.values())
        joins = [self.broker.join("", group_id=group_id, instance_id=instance, version=5 if instance else 3)]
        if instance not in [known for _, known in asked]:
            joins += [self.broker.join(m, group_id=group_id, instance_id=i, version=5) for m, i in asked]
        self.broker.turn()
        self.broker.runtime.advance(1)
        told = [join.response for join in joins if join.done and join.response.error_code == ErrorCode.NONE]
        if number % 5 == 0:
            return  # and the leader never says who gets what
        plan = {answer.member_id: b"%d of %s" % (number, answer.member_id.encode()) for answer in told}
        for answer in sorted(told, key=lambda answer: answer.leader != answer.member_id):
            assignments = plan if answer.leader == answer.member_id else None
            self.broker.sync(answer.member_id, answer.generation_id, assignments, group_id)

    def leave(self, number: int) -> None:
        group_id = GROUPS[number % 3]
        self.leader.submit(Leave(group_id, [Leaver(self._someone(group_id)[0])], 3, Answer(self.disk)))

    def silence(self, number: int) -> None:
        """Nobody is heard of: sessions end, rebalances too."""
        self.broker.runtime.advance((3_000, 40_000)[number % 2])

    def delete_group(self, number: int) -> None:
        self.leader.submit(DeleteGroup(GROUPS[number % 3], Answer(self.disk)))

    def delete_offsets(self, number: int) -> None:
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(number // 6 % 3 + 1)]
        topics = [OffsetDeleteRequestTopic(name="tu"[number // 3 % 2], partitions=partitions)]
        self.leader.submit(DeleteOffsets(GROUPS[number % 3], topics, Answer(self.disk)))

    def expire(self, number: int) -> None:
        self.broker.runtime.advance((10_000, 300_000)[number % 2])
        expire_offsets(self.leader)

    def forget(self, number: int) -> None:
        topic = "tu"[number % 2]
        topic_id = Topics(TOPICS).topic_id(topic)
        assert topic_id is not None
        forget_topics(self.leader, {topic: topic_id})

    def roll(self, number: int) -> None:
        del number
        self.partition.log.roll(now_ms=self.broker.runtime.now_ms())

    def flush(self, number: int) -> None:
        del number
        self.broker.turn()
        self.partition.log.flush()
        self.partition.flushed()

    def clean(self, number: int) -> None:
        """What our cleaner does (even numbers), or any other legal choice; with tombstones past their time, or not."""
        if number // 2 % 2:
            self.broker.runtime.advance(DAY_MS + 1)
        self.broker.turn()
        if number % 3:
            self.flush(0)
        log, now_ms = self.partition.log, self.broker.runtime.now_ms()
        before = all_bytes(log)
        dirty = log.dirty_range((None, self.chooser.clean_end)[number // 4 % 2], now_ms, durable_end(self.partition))
        plan = log.plan_cleaning(dirty, now_ms)
        chosen = Random(number) if number % 2 else None
        with patch.object(cleaner, "DISK", self.disk), self.chooser.choosing(chosen):
            result = cleaner.clean(plan)
        # A pass that left what it might have taken was cut short, and its checkpoint was not written: the next one
        # begins where this one did. From a later checkpoint it would take a tombstone and leave what that removes.
        if log.swap_in(result) and chosen is None:
            self.chooser.clean_end = result.clean_end_offset
        self._overtaken(before, all_bytes(log))

    def _overtaken(self, before: bytes, after: bytes) -> None:
        """A load reads on behind a clean: its first batches are old ones, the rest is what the clean has left."""
        if before == after:
            return
        said = Oracle()
        for batch in _batches(before):
            said.take(batch)
        behind = [(read_header(after, at).base_offset, at) for at in _batch_starts(after)]
        for cut in _batch_starts(before)[1:]:
            offset = read_header(before, cut).base_offset
            rest = next((after[at:] for base_offset, at in behind if base_offset >= offset), b"")
            self.mixtures.append((before[:cut] + rest, said.state()))

    def remove(self, number: int) -> None:
        """Unlink what a clean has set aside."""
        del number
        remove_files(self.partition.log.take_deleted_files(), self.disk)

    def answer(self) -> Answer:
        """For somebody who asks."""
        return Answer(self.disk)

    def committing(self, answer: Answer) -> None:
        """Whoever waits for it commits the last offset that was given out."""
        self._answers.append((answer, self.next_offset))

    def step(self, step: Step) -> None:
        """One step, and the end of its turn."""
        getattr(self.members if step[0] in MEMBERS_STEPS else self, step[0])(step[1])
        self.broker.turn()
        self.members.hear()
        self._audit()

    def _audit(self) -> None:
        """Memory says what the log says."""
        assert self.leader.state is LeaderState.ACTIVE
        said = Oracle()
        for batch in _batches(all_bytes(self.partition.log)):
            said.take(batch)
        offsets, pending, groups, _, consumer_groups = said.state()
        held = held_by(self.leader.shard, {})
        assert held[0] == offsets, _difference(held[0], offsets)
        assert held[1] == pending, _difference(held[1], pending)
        for group_id, group in self.leader.shard.groups.items():
            if group.state is GroupState.STABLE:
                assert held_group(group)[:4] == groups[group_id][:4]
                assert held_group(group)[5] == groups[group_id][5]
        assert held[4] == consumer_groups, _difference(held[4], consumer_groups)
        for group_id, consumer_group in self.leader.shard.consumer_groups.items():
            if group_id != PREFIXED:
                check_invariants(consumer_group)

    # -- afterwards ----------------------------------------------------------------------------------------

    def written(self) -> list[Written]:
        """Every append to the log, in order."""
        said, found = Oracle(), [Written(-1, b"", 0, 0, Oracle().state())]
        sizes: dict[int, int] = {}
        for at, op in enumerate(self.disk.journal):
            size = sizes.get(op.file, 0)
            if op.kind in ("write", "cut"):
                sizes[op.file] = op.position if op.kind == "cut" else max(size, op.position + len(op.data))
            # What a start writes over itself is no append.
            if op.kind == "write" and op.name.endswith(".log") and op.position >= size:
                said.take(op.data)
                header = read_header(op.data)
                found.append(Written(at, op.data, header.base_offset, header.next_offset, said.state()))
        return found

    def acknowledged(self) -> list[tuple[int, int]]:
        """(operations that had happened, offset that was committed) for every commit that was answered well."""
        return [
            (answer.at, offset)
            for answer, offset in self._answers
            if answer.done and answer.response.topics[0].partitions[0].error_code == ErrorCode.NONE
        ]


MEMBERS_STEPS = frozenset({"beat", "go", "resolve", "classic", "commit_as", "delete"})
STEPS_OF_CONSUMER_GROUPS: tuple[str, ...] = (
    *["beat"] * 10,
    *["classic"] * 4,
    *["go"] * 2,
    *["resolve"] * 2,
    *["commit_as"] * 4,
    "delete",
    "silence",
    *["roll"] * 2,
    "flush",
    *["clean"] * 4,
    "remove",
    "restart",
)
STEPS: tuple[str, ...] = (
    *["commit"] * 6,
    *["transact"] * 4,
    *["end"] * 3,
    *["join"] * 4,
    "leave",
    *["silence"] * 2,
    "delete_group",
    "delete_offsets",
    *["expire"] * 2,
    "forget",
    *["roll"] * 2,
    "flush",
    *["clean"] * 4,
    "remove",
    "restart",
)


def live(directory: Path, steps: list[Step], *, always: bool, prefix: int, segment_bytes: int = 900) -> Life:
    """Live a history to its end."""
    life = Life(directory, always=always, prefix=prefix, segment_bytes=segment_bytes)
    for step in steps:
        life.step(step)
    return life


def loaded(directory: Path, *, always: bool, recovery_point: int, clean: bool = False) -> tuple[State, set[int]]:
    """What the broker's loader makes of a folder, and where the batches in it begin."""
    log = PartitionLog.open(
        directory,
        config(always=always),
        clean=clean,
        recovery_point=recovery_point,
        now_ms=1_700_000_000_000,
        disk=UNSYNCED,
    )
    broker = Leading(load=False, topics=TOPICS, settings=SETTINGS, consumer_settings=CONSUMER_SETTINGS)
    settings = PartitionSettings(log=config(always=always))
    partition = Partition(PartitionOwner(broker.runtime), "__consumer_offsets", 0, bytes(16), log, settings)
    broker.partition = partition  # type: ignore[assignment]  # the real one
    broker.load()
    assert broker.leader.state is LeaderState.ACTIVE, "the log was not understood"
    others, offsets = Oracle(), set()
    for batch in _batches(all_bytes(log)):
        others.take(batch)
        offsets.add(read_header(batch).base_offset)
    return held_by(broker.leader.shard, others.others), offsets


def read(data: bytes) -> State:
    """What the broker's loader makes of batches that it reads."""
    shard = Shard(SETTINGS, Topics(TOPICS))
    group_tenant.load(shard, lambda: [data])
    return held_by(shard, {})


def _batch_starts(data: bytes) -> list[int]:
    starts, position = [], 0
    while position < len(data):
        starts.append(position)
        position += read_header(data, position).size_bytes
    return starts


def _batches(data: bytes) -> list[bytes]:
    starts = [*_batch_starts(data), len(data)]
    return [data[start:end] for start, end in pairwise(starts)]


class Crashes:
    """What crashes at chosen moments of a life leave, each loaded and compared."""

    def __init__(self, life: Life, scratch: Path) -> None:
        self.life = life
        self.scratch = scratch
        self.written = life.written()
        self.acknowledged = life.acknowledged()
        self.count = 0

    def check(self, points: Callable[[int, Op], bool], random: Random) -> None:
        """Crash before every operation that `points(number, operation)` picks, and after the last one."""
        world = World()
        for at, op in enumerate(self.life.disk.journal):
            if points(at, op):
                self._crash_at(world, at, op, random)
            world.apply(op)
        end = len(self.life.disk.journal)
        self._compare(world.write_to, end, self._appended(end), self._appended(end), "the end")

    def _appended(self, at: int) -> int:
        """How many appends had been written before operation `at`."""
        return sum(written.at < at for written in self.written) - 1

    def _crash_at(self, world: World, at: int, op: Op, random: Random) -> None:
        appended = self._appended(at)
        where = f"operation {at}: {op.kind} {op.name} {op.target}"
        self._compare(world.write_to, at, appended, appended, f"killed before {where}")
        flushed = min(sum(written.next_offset <= op.told for written in self.written[1:]), appended)
        if self.life.always:
            assert self._acknowledged(at) <= flushed, f"acknowledged before it was flushed, {where}"
        self._compare(world.lose_power, at, flushed, appended, f"power lost before {where}")
        seed = random.randrange(1 << 30)
        self._compare(
            lambda folder: world.lose_power(folder, Random(seed)),
            at,
            flushed,
            appended,
            f"power lost ({seed}) before {where}",
        )
        if op.kind == "write":
            torn = _copy(world)
            torn.apply(op, half=True)
            self._compare(torn.write_to, at, appended, appended, f"killed in {where}")

    def _acknowledged(self, at: int) -> int:
        """The append that holds the last commit which was acknowledged before operation `at`."""
        offsets = {offset for moment, offset in self.acknowledged if 0 <= moment <= at}
        for number in range(len(self.written) - 1, 0, -1):
            batch = self.written[number].batch
            for record in () if read_header(batch).is_control else iterate_records(batch):
                key = decode_key(record.key)
                value = decode_value(key, record.value) if isinstance(key, OffsetCommitKey) else None
                if value is not None and value.offset in offsets:  # type: ignore[union-attr]  # an offset's value
                    return number
        return 0

    def _compare(self, make: Callable[[Path], None], at: int, least: int, most: int, where: str) -> None:
        """Load what `make` leaves: the first `least` appends, and of those up to `most` the ones that are in its log.

        A power loss may take any batch that was not fsynced, and leave later ones; each is there whole, or not at all.
        """
        folder = self.scratch / str(self.count)
        self.count += 1
        folder.mkdir()
        make(folder)
        journal = self.life.disk.journal
        recovery_point = journal[at].told if at < len(journal) else self.life.partition.log.recovery_point
        found, offsets = loaded(folder, always=self.life.always, recovery_point=recovery_point)
        expected = self.written[least].state
        if least < most:
            said = Oracle()
            for number, written in enumerate(self.written[1 : most + 1], start=1):
                if number <= least or written.base_offset in offsets:
                    said.take(written.batch)
            expected = *said.state()[:4], said.made_whole()
        for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            assert ours == theirs, f"{where}, part {place}: (loaded, written) {_difference(ours, theirs)}"
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _copy(world: World) -> World:
    copy = World()
    copy.cache = {file: bytearray(content) for file, content in world.cache.items()}
    copy.entries = dict(world.entries)
    return copy


def _difference(found: dict[Any, Any], said: dict[Any, Any]) -> dict[Any, Any]:
    """What is not the same: (in memory, in the log)."""
    return {at: (found.get(at), said.get(at)) for at in {**found, **said} if found.get(at) != said.get(at)}
