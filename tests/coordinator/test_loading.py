"""A shard from its log. Ids are those of docs/scenarios/group-coordinator.md."""

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.classic.inputs import GroupLoaded
from coordinator.group import GroupState
from coordinator.load_summary import LoadFailed, LoadSummary
from coordinator.loading import fold_log, load, replay_log
from coordinator.shard import Shard
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from protocol.records.batch_encoder import encode_batch, encode_pairs
from protocol.records.batch_header import HEADER_BYTES, read_header, stamp
from protocol.records.group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.coordinator.driver import SESSION, Driver, Topics
from tests.coordinator.offsets.driver import OffsetDriver

Record = tuple[bytes | None, bytes | None]
WAYS = [fold_log, replay_log]
ways = pytest.mark.parametrize("way", WAYS)


class Log:
    """Batches back to back."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.end = 0

    def append(self, *records: Record, producer_id: int = -1, compression: int = 0) -> int:
        """One batch; its base offset."""
        transactional = producer_id >= 0
        batch = encode_pairs(
            records,
            timestamp=1_000,
            producer_id=producer_id,
            transactional=transactional,
            compression=compression,
            base_sequence=0,
        )
        return self._add(batch)

    def marker(self, producer_id: int, *, commit: bool, kind: int | None = None) -> None:
        """The end of a transaction."""
        key = struct.pack(">hh", 0, kind if kind is not None else int(commit))
        batch = encode_pairs(
            [(key, struct.pack(">hi", 0, 0))],
            timestamp=1_000,
            producer_id=producer_id,
            transactional=True,
            control=True,
        )
        self._add(batch)

    def _add(self, batch: bytearray) -> int:
        base = self.end
        stamp(batch, base, 0)
        self.data += batch
        self.end = read_header(batch).next_offset
        return base

    def load(self, way: Callable[[Shard, Iterable[bytes]], LoadSummary] = fold_log) -> Shard:
        shard = Shard(GroupSettings(), Topics())
        loaded = way(shard, [bytes(self.data)])
        assert loaded.end_offset == self.end
        return shard


def commit(offset: int, *, group: str = "g", topic: str = "t", partition: int = 0, **more: Any) -> Record:
    value = OffsetCommitValue(offset, more.get("epoch", -1), more.get("metadata", ""), 1_000)
    return encode_key(OffsetCommitKey(group, topic, partition)), encode_value(value)


def tombstone(*, group: str = "g", topic: str = "t", partition: int = 0) -> Record:
    return encode_key(OffsetCommitKey(group, topic, partition)), None


def a_group(*members: str, group: str = "g", generation: int = 1, timestamp: int = 900) -> Record:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range" if members else None,
        leader=members[0] if members else None,
        current_state_timestamp=timestamp,
        members=[
            MemberMetadata(
                member_id=member_id,
                group_instance_id=None,
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout=30_000,
                session_timeout=10_000,
                subscription=b"\x00\x00\x00\x00\x00\x01\x00\x01t",
                assignment=member_id.encode(),
            )
            for member_id in members
        ],
    )
    return encode_key(GroupMetadataKey(group)), encode_value(value)


def no_group(group: str = "g") -> Record:
    return encode_key(GroupMetadataKey(group)), None


def stored(shard: Shard, group: str = "g") -> dict[tuple[str, int], int]:
    return {key: committed.offset for key, committed in shard.offsets.get(group, {}).items()}


def restarted(before: Driver) -> OffsetDriver:
    """A new broker with what the old one wrote."""
    log = Log()
    for key, value in before.log:
        log.append((encode_key(key), None if value is None else encode_value(value)))
    after = OffsetDriver(before.settings)
    after.now_ms = before.now_ms
    load(after.shard, lambda: [bytes(log.data)])
    for group_id in list(after.shard.groups):
        after.feed(GroupLoaded(group_id))
    return after


def test_p01_members_go_on_as_if_nothing_had_happened():
    before = OffsetDriver()
    a, b = before.stable_group("a", "b", static=("a",))
    before.commit(5, member_id=b, generation=1)

    after = restarted(before)

    for was, now in zip(before.live.members.values(), after.live.members.values(), strict=True):
        assert (was.member_id, was.instance_id, was.assignment, was.protocols) == (
            now.member_id,
            now.instance_id,
            now.assignment,
            now.protocols,
        )
    assert (after.live.generation, after.live.leader_id, after.state) == (1, a, GroupState.STABLE)
    assert after.live.state_timestamp_ms is not None
    assert after.heartbeat(a, 1, "a") is ErrorCode.NONE
    assert after.heartbeat(b, 1) is ErrorCode.NONE
    assert after.stored() == {("t1", 0): 5}


def test_p02_a_member_that_is_silent_after_the_restart_is_expelled():
    before = OffsetDriver()
    a, b = before.stable_group("a", "b")
    before.advance(SESSION - 1_000)

    after = restarted(before)

    after.advance(SESSION - 1)
    assert set(after.live.members) == {a, b}
    after.heartbeat(a, 1)
    after.advance(1)
    assert set(after.live.members) == {a}
    assert after.state is GroupState.PREPARING_REBALANCE


def test_p03_a_follower_with_two_protocols_does_not_match_its_record():
    two = (("range", b"r"), ("roundrobin", b"rr"))
    before = OffsetDriver()
    _, b = before.stable_group("a", "b", protocols=two)

    after = restarted(before)
    after.join(b, protocols=two)

    assert after.state is GroupState.PREPARING_REBALANCE


@ways
def test_p04_offsets_make_a_simple_group_and_a_record_replaces_it(way):
    log = Log()
    log.append(commit(7))
    assert log.load(way).groups["g"].is_simple

    log.append(a_group("m", generation=3))

    shard = log.load(way)
    assert shard.groups["g"].generation == 3
    assert shard.groups["g"].subscribed_topics == {"t"}
    assert stored(shard) == {("t", 0): 7}


@ways
def test_p05_the_last_record_counts(way):
    log = Log()
    log.append(commit(1), commit(2, partition=1), a_group("m", group="h"), a_group("n", group="i"))
    log.append(tombstone(), no_group("h"), no_group("i"))
    log.append(a_group("o", group="i", generation=9), commit(3, partition=2), tombstone(partition=2), commit(4))

    shard = log.load(way)

    assert stored(shard) == {("t", 0): 4, ("t", 1): 2}
    assert set(shard.groups) == {"g", "i"}
    assert set(shard.groups["i"].members) == {"o"}


@ways
def test_p06_transactions_that_are_decided_and_one_that_is_not(way):
    log = Log()
    log.append(commit(1), commit(1, partition=1), commit(1, partition=2))
    log.append(commit(2, partition=0), producer_id=10)
    log.append(commit(2, partition=1), producer_id=11)
    log.append(commit(2, partition=2), commit(2, partition=3), producer_id=12)
    log.marker(10, commit=True)
    log.marker(11, commit=False)

    shard = log.load(way)

    assert stored(shard) == {("t", 0): 2, ("t", 1): 1, ("t", 2): 1}
    assert {producer: set(held) for producer, held in shard.pending["g"].items()} == {12: {("t", 2), ("t", 3)}}

    log.append(commit(9, partition=3))
    log.marker(12, commit=True)
    assert stored(log.load(way)) == {("t", 0): 2, ("t", 1): 1, ("t", 2): 2, ("t", 3): 9}
    shard.end_transaction(12, committed=True)
    assert stored(shard)[("t", 2)] == 2


@ways
def test_p06_what_was_written_after_a_transactions_offset_outlives_its_commit(way):
    log = Log()
    log.append(commit(2), producer_id=10)
    log.append(commit(9))

    shard = log.load(way)
    shard.end_transaction(10, committed=True)

    assert stored(shard) == {("t", 0): 9}


@ways
def test_p07_values_of_every_version(way):
    """Versions 0 to 3 by hand, 4 with an unknown tagged field; what is absent has its default."""
    head = struct.pack(">q", 42)
    values = [
        b"\x00\x00" + head + b"\x00\x01m" + struct.pack(">q", 1_000),
        b"\x00\x01" + head + b"\x00\x01m" + struct.pack(">qq", 1_000, 5_000),
        b"\x00\x02" + head + b"\x00\x01m" + struct.pack(">q", 1_000),
        b"\x00\x03" + head + struct.pack(">i", 6) + b"\x00\x01m" + struct.pack(">q", 1_000),
        b"\x00\x04" + head + struct.pack(">i", 6) + b"\x02m" + struct.pack(">q", 1_000) + b"\x01\x05\x03abc",
    ]
    log = Log()
    for partition, value in enumerate(values):
        log.append((encode_key(OffsetCommitKey("g", "t", partition)), value))

    table = log.load(way).offsets["g"]

    for partition in range(5):
        found = table["t", partition]
        assert (found.offset, found.metadata, found.commit_timestamp_ms) == (42, "m", 1_000)
        assert found.leader_epoch == (6 if partition >= 3 else -1)
        assert found.expire_timestamp_ms == (5_000 if partition == 1 else None)
        assert found.topic_id is None


@ways
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_p07_group_values_of_every_version(way, version: int):
    key, _ = a_group()
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=900,
        members=[
            MemberMetadata(
                member_id="m",
                group_instance_id="i",
                client_id="c",
                client_host="/h",
                rebalance_timeout=30_000,
                session_timeout=10_000,
                subscription=b"?",
                assignment=b"a",
            )
        ],
    )
    log = Log()
    log.append((key, struct.pack(">h", version) + value.encode(version)))

    group = log.load(way).groups["g"]

    (member,) = group.members.values()
    assert (group.state, group.generation, group.leader_id) == (GroupState.STABLE, 4, "m")
    assert group.state_timestamp_ms == (900 if version >= 2 else None)
    assert member.rebalance_timeout_ms == (30_000 if version >= 1 else 10_000)
    assert member.instance_id == ("i" if version >= 3 else None)
    assert group.subscribed_topics is None  # "?" is no subscription


@ways
def test_p08_unknown_kinds_are_skipped_and_garbage_fails(way):
    log = Log()
    log.append((b"\x00\x63what", b"ever"), commit(1))
    shard = Shard(GroupSettings(), Topics())
    assert way(shard, [bytes(log.data)]).skipped_types == {0x63: 1}
    assert stored(shard) == {("t", 0): 1}

    for record in [
        (b"\x00\x01\x00\x09short", commit(1)[1]),
        (commit(1)[0], b"\x00\x04"),
        (commit(1)[0], b"\x00\x07" + bytes(40)),
        (no_group()[0], b"\x00\x03garbage"),
        (None, b""),
        (b"\x00", None),
    ]:
        bad = Log()
        bad.append(commit(1, partition=9), record)
        with pytest.raises(LoadFailed):
            bad.load(way)
    bad = Log()
    bad._add(encode_pairs([(b"\x00", b"")], timestamp=1, producer_id=10, transactional=True, control=True))
    with pytest.raises(LoadFailed):
        bad.load(way)


@ways
def test_p09_an_emptied_control_batch_is_ignored(way):
    log = Log()
    log.append(commit(1), producer_id=10)
    log.data += encode_batch(
        [], base_offset=1, last_offset=1, producer_id=10, producer_epoch=0, transactional=True, control=True
    )
    log.end = 2
    log.marker(10, commit=True, kind=5)  # of a kind that is none of ours

    assert list(log.load(way).pending["g"]) == [10]


def test_p11_a_group_over_the_limit_must_rebalance():
    before = OffsetDriver()
    a, _ = before.stable_group("a", "b")
    before.settings = GroupSettings(max_size=1)

    after = restarted(before)

    assert after.state is GroupState.PREPARING_REBALANCE
    assert after.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS


@ways
def test_p14_versions_do_not_matter_for_what_is_last(way):
    key, _ = commit(0)
    version_3 = b"\x00\x03" + struct.pack(">qi", 3, 6) + b"\x00\x00" + struct.pack(">q", 1_000)
    for values, last in (([version_3, commit(4)[1]], 4), ([commit(4)[1], version_3], 3)):
        log = Log()
        for value in values:
            log.append((key, value))
        assert stored(log.load(way)) == {("t", 0): last}


def test_p15_the_oldest_kind_of_key():
    old_key = b"\x00\x00" + commit(0)[0][2:]  # type: ignore[index]  # a key is there
    version_0 = b"\x00\x00" + struct.pack(">q", 5) + b"\x00\x00" + struct.pack(">q", 1_000)
    log = Log()
    log.append((old_key, version_0))
    shard = Shard(GroupSettings(), Topics())
    load(shard, lambda: [bytes(log.data)])
    assert stored(shard) == {("t", 0): 5}

    # One partition under two keys: the later record counts, whichever key it has.
    log.append(commit(6))
    log.append((old_key, version_0))
    shard = Shard(GroupSettings(), Topics())
    load(shard, lambda: [bytes(log.data)])
    assert stored(shard) == {("t", 0): 5}

    log.append((old_key, b"\x00\x01" + version_0[2:] + bytes(8)))
    with pytest.raises(LoadFailed):
        load(Shard(GroupSettings(), Topics()), lambda: [bytes(log.data)])


@ways
def test_p16_records_of_other_kinds_of_groups_do_no_harm(way):
    log = Log()
    for kind in (9, 18, 30, 10, 11, 15, 17, 19, 23):
        log.append((struct.pack(">h", kind) + b"\x00\x01g", b"\x00\x00"))
    log.append((encode_key(ConsumerGroupMetadataKey("k")), encode_value(ConsumerGroupMetadataValue(epoch=3))))
    shard = Shard(GroupSettings(), Topics())

    assert way(shard, [bytes(log.data)]).skipped_types == {9: 1, 18: 1, 30: 1}
    assert not shard.groups


@ways
def test_compressed_batches_and_batches_over_several_chunks(way):
    """P10 as far as a shard sees it: chunks are of any size, and batches of any codec."""
    first, second = Log(), Log()
    first.append(commit(1), commit(2, partition=1), compression=4)
    second.append(*(commit(index, partition=index) for index in range(2_000)), compression=1)
    shard = Shard(GroupSettings(), Topics())

    way(shard, [bytes(first.data), bytes(second.data)])

    assert len(stored(shard)) == 2_000


def test_p13_our_batch_is_the_one_that_kafka_would_have_written():
    """Golden bytes: an offset and its tombstone in one batch at offset 7."""
    key, _ = commit(0, partition=3)
    value = bytes.fromhex("0003000000000000002a0000000500016d0000018bcfe56800")
    batch = encode_pairs([(key, value), (key, None)], timestamp=1_700_000_000_000, base_sequence=0)
    stamp(batch, 7, 0)

    golden = (
        "0000000000000007000000700000000002b20e83580000000000010000018bcfe568000000018bcfe56800ffffffffffffffffffff"
        "00000000000000025600000018000100016700017400000003320003000000000000002a0000000500016d0000018bcfe5680000240000"
        "02180001000167000174000000030100"
    )
    assert bytes(batch).hex() == golden
    assert len(batch) > HEADER_BYTES


# -- both ways give the same shard ---------------------------------------------------------------------------------

groups = st.sampled_from(["g", "h"])
partitions = st.integers(0, 2)
producers = st.sampled_from([10, 11])
offset_records = st.one_of(
    st.builds(lambda o, g, p: commit(o, group=g, partition=p), st.integers(0, 999), groups, partitions),
    st.builds(lambda g, p: tombstone(group=g, partition=p), groups, partitions),
)
any_records = st.one_of(
    offset_records,
    st.builds(lambda g, n: a_group(*["m", "n"][:n], group=g, generation=n), groups, st.integers(0, 2)),
    st.builds(no_group, groups),
    st.just((b"\x00\x0a\x00\x01g", b"\x00\x00")),
)
steps = st.one_of(
    st.tuples(st.just("batch"), st.lists(any_records, min_size=1, max_size=4), st.just(-1)),
    st.tuples(st.just("transaction"), st.lists(offset_records, min_size=1, max_size=3), producers),
    st.tuples(st.just("commit"), st.just([]), producers),
    st.tuples(st.just("abort"), st.just([]), producers),
)


def durable(shard: Shard) -> Any:
    """What a shard holds, but for log offsets, which only order what is decided against what is not."""

    def plain(table: Any) -> Any:
        return {key: committed._replace(log_offset=-1) for key, committed in table.items()}

    return (
        shard.groups,
        {group: plain(table) for group, table in shard.offsets.items()},
        {
            group: {producer: plain(table) for producer, table in by_producer.items()}
            for group, by_producer in shard.pending.items()
        },
    )


def write(history: Sequence[tuple[str, list[Record], int]]) -> Log:
    log = Log()
    for what, records, producer_id in history:
        if what in ("commit", "abort"):
            log.marker(producer_id, commit=what == "commit")
        else:
            log.append(*records, producer_id=producer_id)
    return log


@given(st.lists(steps, max_size=25), st.lists(steps, max_size=6))
def test_folding_is_replaying(history, future):
    """Random histories with transactions and tombstones, and whatever may follow once they are loaded."""
    log = write(history)
    if not log.data:
        return
    replayed, folded = log.load(replay_log), log.load(fold_log)
    assert durable(folded) == durable(replayed)

    # The log offsets that were left out above decide nothing wrongly: whatever follows, both go on alike.
    end = log.end
    for what, records, producer_id in future:
        for shard in (replayed, folded):
            if what in ("commit", "abort"):
                shard.end_transaction(producer_id, committed=what == "commit")
            for number, (key_bytes, value) in enumerate(records):
                key = decode_key(key_bytes)
                if isinstance(key, OffsetCommitKey):
                    shard.replay(key, decode_value(key, value), producer_id, end + number)
        end += len(records) + 1
    for shard in (replayed, folded):
        shard.end_transaction(10, committed=True)
        shard.end_transaction(11, committed=True)
    assert durable(folded)[1:] == durable(replayed)[1:]
