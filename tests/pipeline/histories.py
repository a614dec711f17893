"""Seeded histories of `__consumer_offsets`, written as the segment files that a broker leaves.

A history is a list of steps, drawn by Hypothesis, so that a failing one shrinks: commits of every value version,
tombstones, generations of classic groups, epochs of KIP-848 groups, records nobody knows, transactions that commit,
abort or stay open, clocks that step back, rolled segments, changing codecs; at the end some partitions are compacted,
with the gaps and delete horizons that compaction leaves. `write(steps, directory)` makes the directory.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from protocol.records import batch, control_records
from protocol.records import consumer_group_records as cg
from protocol.records import group_metadata as gm
from protocol.records import group_records as g
from tests.pipeline.history_bytes import assignment, subscription, uvarint

T0 = 1_700_000_000_000
LOG_PARTITIONS = 3
TOPICS = ("orders", "päyments", "a-b.c_d")
TOPIC_IDS = {topic: bytes([index + 1]) * 16 for index, topic in enumerate(TOPICS)}
CLASSIC = ("g0", "g1", "gröup 2", "<script>alert(1)</script>")
CONSUMER = ("k0", "k1")
SIMPLE = ("s0", "")
Step = tuple[Any, ...]

# Bytes that are no record of a known type, as (key, value).
ODD: tuple[tuple[bytes | None, bytes | None], ...] = (
    (None, b"value"),
    (b"\x00", None),
    (b"\x00\x2a\x00\x01x", b"\x00\x00"),  # type 42
    (b"\x00\x09\x00\x01x", b"\x00\x00"),  # 9, unassigned
    (b"\xff\xff", None),
    (b"\x00\x0b\x00\x05share", b"\x00\x00\x00"),  # a share group
    (b"\x00\x0a\x00\x05share\x00\x01m", None),
    (b"\x00\x11\x00\x07streams", b"\x00\x00\x07"),
    (b"\x00\x02\x00\x02g0", b"\x00\x09later"),  # a version that is not known yet
    (b"\x00\x01\x00\x02g0\x00\x01t\x00\x00\x00\x00", b"\x00\x05" + bytes(20)),
    (b"\x00\x01\x00\x02g0\x00\x01t\x00\x00\x00\x00", b"\x00\x03" + bytes(9)),  # cut
    (b"\x00\x01\x00\x02g0\x00\x01t\x00\x00\x00\x00", b"\x00\x03" + bytes(23)),  # one byte left over
    (b"\x00\x02\x00\x02\xff\xfe", None),  # no UTF-8
    (b"\x00\x03\x00\x02k0", b"\x00\x00\x00"),  # cut
)


def histories(min_size: int = 1, max_size: int = 60) -> st.SearchStrategy[list[Step]]:
    """Lists of steps."""
    topic, partition = st.sampled_from(TOPICS), st.integers(0, 2)
    classic, consumer, anyone = (st.sampled_from(names) for names in (CLASSIC, CONSUMER, CLASSIC + SIMPLE))
    metadata = st.sampled_from(("", "m", "über ✓", "x" * 300))
    commit = st.tuples(
        st.just("commit"), anyone, topic, partition, st.integers(0, 2**40), st.integers(0, 4), metadata, st.booleans()
    )
    members = st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)
    step = st.one_of(
        commit,
        commit,
        st.tuples(st.just("tombstone"), anyone, topic, partition),
        st.tuples(
            st.just("generation"),
            classic,
            members,
            st.integers(1, 4),
            st.integers(1, 2),
            st.sampled_from(("consumer", "consumer", "consumer", "connect")),
        ),
        st.tuples(st.just("replaced"), classic),
        st.tuples(st.just("empty"), classic),
        st.tuples(st.just("removed"), classic),
        st.tuples(st.just("epoch"), consumer, members, st.booleans()),
        st.tuples(st.just("quiet"), consumer, members),
        st.tuples(st.just("left"), consumer, st.integers(0, 3)),
        st.tuples(st.just("moving"), consumer, st.integers(0, 3), st.integers(0, 2)),
        st.tuples(st.just("instance"), consumer, st.integers(0, 3)),
        st.tuples(st.just("dissolved"), consumer),
        st.tuples(st.just("odd"), st.integers(0, len(ODD) - 1)),
        st.tuples(st.just("transaction"), classic, st.integers(1, 3), st.sampled_from(("commit", "abort"))),
        st.tuples(st.just("clock"), st.integers(-5_000, 120_000)),
        st.tuples(st.just("roll")),
        st.tuples(st.just("flush")),
        st.tuples(st.just("codec"), st.integers(0, 4)),
    )
    end = st.tuples(st.just("end"), st.booleans(), st.booleans())  # compact? leave a transaction open?
    return st.tuples(st.lists(step, min_size=min_size, max_size=max_size), end).map(lambda parts: [*parts[0], parts[1]])


@dataclass
class _Log:
    """One log partition on its way to the disk: batches by segment, and the batch that is still open."""

    next_offset: int = 0
    segments: list[list[list[batch.Record]]] = field(default_factory=lambda: [[]])
    facts: dict[int, dict[str, Any]] = field(default_factory=dict)  # by base offset: arguments of the encoder
    open: list[batch.Record] = field(default_factory=list)


@dataclass
class _Group:
    generation: int = 0
    members: dict[str, gm.MemberMetadata] = field(default_factory=dict)
    protocol_type: str = "consumer"
    written: bool = False


class Writer:
    """Turns steps into records, and records into files."""

    def __init__(self) -> None:
        self.now_ms = T0
        self.codec = 0
        self.logs = [_Log() for _ in range(LOG_PARTITIONS)]
        self.groups: dict[str, _Group] = {}
        self.epochs: dict[str, tuple[int, set[str]]] = {}
        self.producer = 1000
        self.lives = 0

    def log_of(self, group_id: str) -> _Log:
        return self.logs[zlib.crc32(group_id.encode()) % LOG_PARTITIONS]

    def run(self, steps: Iterable[Step]) -> None:
        """Take every step."""
        for name, *arguments in steps:
            getattr(self, f"step_{name}")(*arguments)
            self.now_ms += 1_000

    def step_commit(
        self, group: str, topic: str, partition: int, offset: int, version: int, metadata: str, epoch: bool
    ) -> None:
        self._append(group, *self._commit(group, topic, partition, offset, version, metadata, epoch))

    def _commit(
        self, group: str, topic: str, partition: int, offset: int, version: int, metadata: str, epoch: bool
    ) -> tuple[bytes, bytes]:
        key = g.encode_key(g.OffsetCommitKey(group, topic, partition))
        raw = metadata.encode()
        value = version.to_bytes(2, "big") + offset.to_bytes(8, "big")
        value += (7 if epoch else -1).to_bytes(4, "big", signed=True) if version >= 3 else b""
        value += uvarint(len(raw) + 1) if version == 4 else len(raw).to_bytes(2, "big")
        value += raw + self.now_ms.to_bytes(8, "big")
        if version == 1:
            value += (self.now_ms + 86_400_000 if epoch else -1).to_bytes(8, "big", signed=True)
        if version == 4:
            value += b"\x01\x00\x10" + TOPIC_IDS[topic] if epoch else b"\x00"
        return key, value

    def step_tombstone(self, group: str, topic: str, partition: int) -> None:
        self._append(group, g.encode_key(g.OffsetCommitKey(group, topic, partition)), None)

    def step_generation(self, group: str, members: Sequence[int], version: int, by: int, protocol_type: str) -> None:
        state = self.groups.setdefault(group, _Group())
        state.generation += by
        state.protocol_type = protocol_type
        names = [f"{group}-{self.lives}-m{number}" for number in members]
        share: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
        for index in range(len(TOPICS) * 3):
            share[names[index % len(names)]].append((TOPICS[index // 3], index % 3))
        state.members = {
            name: gm.MemberMetadata(
                member_id=name,
                group_instance_id=f"i{number}" if version >= 3 and number % 2 else None,
                client_id=f"client-{number}",
                client_host=f"/10.0.0.{number}",
                rebalance_timeout=300_000,
                session_timeout=45_000,
                subscription=subscription(number, TOPICS, share[name]) if protocol_type == "consumer" else b"\x01\x02",
                assignment=assignment(share[name]) if protocol_type == "consumer" else b"\x03",
            )
            for number, name in zip(members, names, strict=True)
        }
        self._group_metadata(group, version)

    def step_replaced(self, group: str) -> None:
        """A static member comes back under a new id: the same generation once more."""
        state = self.groups.get(group)
        static = [m for m in state.members.values() if m.group_instance_id] if state else []
        if state is None or not static:
            return
        old = static[0]
        self.lives += 1
        state.members.pop(old.member_id)
        new = gm.MemberMetadata(
            **{f.name: getattr(old, f.name) for f in gm.MemberMetadata.FIELDS if f.name != "member_id"},
            member_id=f"{old.member_id}-{self.lives}",
        )
        state.members[new.member_id] = new
        self._group_metadata(group, 3)

    def step_empty(self, group: str) -> None:
        state = self.groups.get(group)
        if state is None or not state.members:
            return
        state.generation += 1
        state.members = {}
        self._group_metadata(group, 3)

    def step_removed(self, group: str) -> None:
        self.groups.pop(group, None)
        self.lives += 1
        self._append(group, g.encode_key(g.GroupMetadataKey(group)), None)

    def _group_metadata(self, group: str, version: int) -> None:
        state = self.groups[group]
        value = gm.GroupMetadataValue(
            protocol_type=state.protocol_type,
            generation=state.generation,
            protocol="range" if state.members else None,
            leader=next(iter(state.members), None),
            current_state_timestamp=self.now_ms - 300 if version >= 2 else -1,
            members=list(state.members.values()),
        )
        self._append(group, g.encode_key(g.GroupMetadataKey(group)), version.to_bytes(2, "big") + value.encode(version))

    def step_epoch(self, group: str, members: Sequence[int], finish: bool) -> None:
        """A KIP-848 group's next epoch: who left, who came, the target, and (if `finish`) everyone reaching it."""
        epoch, old = self.epochs.get(group, (1, set()))
        epoch, new = epoch + 1, {f"{group}-m{number}" for number in members}
        self.epochs[group] = (epoch, new)
        for gone in sorted(old - new):
            self._forget_member(group, gone)
        for number in members:
            self._member(group, f"{group}-m{number}", number, ["orders"])
        bumped = cg.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=-(epoch * 10**15))
        self._typed(group, g.ConsumerGroupMetadataKey(group), bumped)
        target = cg.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=self.now_ms if epoch % 2 else 0
        )
        share = {name: list(range(3))[index :: len(new)] for index, name in enumerate(sorted(new))}
        for name, partitions in share.items():
            parts = (
                [cg.TargetTopicPartitions(topic_id=TOPIC_IDS["orders"], partitions=partitions)] if partitions else []
            )
            self._typed(
                group,
                g.ConsumerGroupTargetAssignmentMemberKey(group, name),
                cg.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=parts),
            )
        self._typed(group, g.ConsumerGroupTargetAssignmentMetadataKey(group), target)
        for name, partitions in list(share.items())[: None if finish else -1]:
            self.now_ms += 40
            self._current(group, name, epoch, partitions)

    def step_quiet(self, group: str, members: Sequence[int]) -> None:
        """Members that subscribe to nothing make a group without a record of its own: it starts at epoch 1."""
        if group in self.epochs:
            return
        self.epochs[group] = (1, {f"{group}-m{number}" for number in members})
        for number in members:
            self._member(group, f"{group}-m{number}", number, [])
            self._current(group, f"{group}-m{number}", 1, [])
            self.now_ms += 40

    def step_left(self, group: str, which: int) -> None:
        """A member goes; the target stays as it was until somebody else asks."""
        epoch, members = self.epochs.get(group, (1, set()))
        if not members:
            return
        gone = sorted(members)[which % len(members)]
        self.epochs[group] = (epoch + 1, members - {gone})
        self._forget_member(group, gone)
        self._typed(group, g.ConsumerGroupMetadataKey(group), cg.ConsumerGroupMetadataValue(epoch=epoch + 1))

    def step_moving(self, group: str, which: int, state: int) -> None:
        """A member at the group's epoch, stable, or waiting for others; or still at the one before, revoking."""
        epoch, members = self.epochs.get(group, (1, set()))
        if members:
            name = sorted(members)[which % len(members)]
            self._current(group, name, epoch - (state == 1), [0], state, [1, 2] if state == 1 else [])

    def step_instance(self, group: str, which: int) -> None:
        """A static member comes back under a new id: the old one's records go, and the new one's come, as one."""
        epoch, members = self.epochs.get(group, (1, set()))
        static = [name for name in sorted(members) if self._number(name) % 2]
        if not static:
            return
        old = static[which % len(static)]
        self.lives += 1
        new = f"{group}-m{self._number(old)}-{self.lives}"
        self.epochs[group] = (epoch, (members - {old}) | {new})
        self._forget_member(group, old)
        self._member(group, new, self._number(old), ["orders"])
        parts = [cg.TargetTopicPartitions(topic_id=TOPIC_IDS["orders"], partitions=[0])]
        value = cg.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=parts)
        self._typed(group, g.ConsumerGroupTargetAssignmentMemberKey(group, new), value)
        self._current(group, new, 0, [])
        self._current(group, new, epoch, [0])

    def step_dissolved(self, group: str) -> None:
        """The group is removed, whoever is in it, in one append."""
        if group not in self.epochs:
            return
        _, members = self.epochs.pop(group)
        for kind in (
            g.ConsumerGroupCurrentMemberAssignmentKey,
            g.ConsumerGroupTargetAssignmentMemberKey,
            g.ConsumerGroupMemberMetadataKey,
        ):
            for name in sorted(members):
                self._append(group, g.encode_key(kind(group, name)), None)
            if kind is g.ConsumerGroupTargetAssignmentMemberKey:
                self._append(group, g.encode_key(g.ConsumerGroupTargetAssignmentMetadataKey(group)), None)
        self._append(group, g.encode_key(g.ConsumerGroupMetadataKey(group)), None)

    @staticmethod
    def _number(name: str) -> int:
        return int(name.partition("-m")[2].partition("-")[0])

    def _forget_member(self, group: str, gone: str) -> None:
        for kind in (
            g.ConsumerGroupCurrentMemberAssignmentKey,
            g.ConsumerGroupTargetAssignmentMemberKey,
            g.ConsumerGroupMemberMetadataKey,
        ):
            self._append(group, g.encode_key(kind(group, gone)), None)

    def _member(self, group: str, name: str, number: int, topics: list[str]) -> None:
        value = cg.ConsumerGroupMemberMetadataValue(
            instance_id=f"i{number}" if number % 2 else None,
            rack_id="r1" if number else None,
            client_id=f"client-{number}",
            client_host="/10.0.0.9",
            subscribed_topic_names=topics,
            subscribed_topic_regex="",
            rebalance_timeout_ms=300_000,
            server_assignor="uniform" if number % 2 else None,
            classic_member_metadata=None,
        )
        self._typed(group, g.ConsumerGroupMemberMetadataKey(group, name), value)

    def _current(
        self,
        group: str,
        name: str,
        epoch: int,
        partitions: Sequence[int],
        state: int = 0,
        pending: Sequence[int] = (),
    ) -> None:
        def held(numbers: Sequence[int]) -> list[cg.CurrentTopicPartitions]:
            if not numbers:
                return []
            epochs = [epoch] * len(numbers) if epoch % 2 else None
            return [
                cg.CurrentTopicPartitions(
                    topic_id=TOPIC_IDS["orders"], partitions=list(numbers), assignment_epochs=epochs
                )
            ]

        value = cg.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=epoch - 1,
            state=state,
            assigned_partitions=held(partitions),
            partitions_pending_revocation=held(pending),
        )
        self._typed(group, g.ConsumerGroupCurrentMemberAssignmentKey(group, name), value)

    def _typed(self, group: str, key: g.GroupKey, value: Any) -> None:
        self._append(group, g.encode_key(key), g.encode_value(value))

    def step_odd(self, index: int) -> None:
        self._append(f"odd-{index}", *ODD[index])

    def step_transaction(self, group: str, count: int, outcome: str) -> None:
        log = self.log_of(group)
        self._flush(log)
        self.producer += 1
        facts = {"producer_id": self.producer, "producer_epoch": 0, "transactional": True}
        for partition in range(count):
            self._append(group, *self._commit(group, "orders", partition, 500 + partition, 3, "txn", False))
        self._flush(log, **facts)
        if outcome == "open":
            return
        key, value = control_records.end_transaction(commit=outcome == "commit", coordinator_epoch=0)
        log.open.append(batch.Record(log.next_offset, self.now_ms, key, value))
        log.next_offset += 1
        self._flush(log, **facts, control=True)

    def step_clock(self, by_ms: int) -> None:
        self.now_ms += by_ms

    def step_codec(self, codec: int) -> None:
        for log in self.logs:
            self._flush(log)
        self.codec = codec

    def step_flush(self) -> None:
        for log in self.logs:
            self._flush(log)

    def step_roll(self) -> None:
        for log in self.logs:
            self._flush(log)
            if log.segments[-1]:
                log.segments.append([])

    def step_end(self, compact: bool, leave_open: bool) -> None:
        if leave_open:
            self.step_transaction("g0", 2, "open")
            self.step_commit("g0", "orders", 0, 1, 3, "", False)
        for log in self.logs:
            self._flush(log)
        self.compacted = compact

    def _append(self, group: str, key: bytes | None, value: bytes | None) -> None:
        log = self.log_of(group)
        log.open.append(batch.Record(log.next_offset, self.now_ms, key, value))
        log.next_offset += 1
        if len(log.open) >= 7:
            self._flush(log)

    def _flush(self, log: _Log, **facts: Any) -> None:
        if log.open:
            control = facts.get("control", False)
            log.facts[log.open[0].offset] = {"compression": 0 if control else self.codec, **facts}
            log.segments[-1].append(log.open)
            log.open = []

    def write(self, directory: Path) -> None:
        """Write what was appended; every closed segment compacted if the last step said so."""
        directory.mkdir(parents=True, exist_ok=True)
        checkpoint = []
        for number, log in enumerate(self.logs):
            folder = directory / f"__consumer_offsets-{number}"
            folder.mkdir()
            # A roll with nothing after it leaves no file.
            segments = [segment for segment in log.segments if segment] or [[]]
            bases = [segment[0][0].offset if segment else 0 for segment in segments]
            clean = (
                self.compacted
                and len(segments) > 1
                and not any(fact.get("transactional") for fact in log.facts.values())
            )
            if clean:
                checkpoint.append((number, bases[-1]))
            for index, segment in enumerate(segments):
                data = b"".join(
                    self._encode(log, records, bases[-1] if clean and index < len(segments) - 1 else 0)
                    for records in segment
                )
                (folder / f"{bases[index]:020}.log").write_bytes(data)
        if checkpoint:
            lines = "".join(f"__consumer_offsets {number} {offset}\n" for number, offset in checkpoint)
            (directory / "cleaner-offset-checkpoint").write_text(f"0\n{len(checkpoint)}\n{lines}")
        for topic, topic_id in TOPIC_IDS.items():
            folder = directory / f"{topic}-0"
            folder.mkdir()
            (folder / f"{0:020}.log").touch()
            text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
            if topic != "orders" or len(self.epochs) < 2:  # Sometimes nobody knows the name.
                (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}\n")

    def _encode(self, log: _Log, records: list[batch.Record], clean_to: int) -> bytes:
        base, facts = records[0].offset, log.facts[records[0].offset]
        if not clean_to:
            return bytes(batch.encode_batch(records, base_offset=base, leader_epoch=0, **facts))
        newest = {
            record.key: record.offset
            for segment in log.segments
            for one in segment
            for record in one
            if record.offset < clean_to
        }
        kept = [record for record in records if record.key is not None and newest[record.key] == record.offset]
        if not kept:
            return b""
        horizon = self.now_ms + 86_400_000 if any(record.value is None for record in kept) else None
        return bytes(
            batch.encode_batch(
                kept,
                base_offset=base,
                last_offset=records[-1].offset,
                leader_epoch=0,
                delete_horizon_ms=horizon,
                **facts,
            )
        )


def write(steps: Iterable[Step], directory: Path) -> Path:
    """Write a history; returns the directory."""
    writer = Writer()
    writer.run(steps)
    writer.write(directory)
    return directory
