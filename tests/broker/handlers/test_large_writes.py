"""Large batches are written by a thread: in the order of the requests, seen when they are there, and lost to nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.partitions import Marker, Unchecked, checks, writer
from protocol.errors import ErrorCode
from protocol.records.batch import Record, encode_batch
from tests.storage.logs import all_bytes
from tests.support.data_plane import NOW_MS, DataPlane, answered, batch, marker
from tests.support.whole_broker import Whole

if TYPE_CHECKING:
    from pathlib import Path

LARGE = writer.USUALLY_AT_ONCE_BYTES + 1


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    """Worker threads run when they are told to."""
    made = DataPlane(tmp_path / "data", eager_workers=False)
    for name in ("t", "u"):
        made.create(name)
    return made


def large(name: str = "x", **facts: Any) -> bytes:
    return batch(name.encode() + bytes(LARGE), **facts)


def names(plane: DataPlane, topic: str = "t") -> list[bytes | None]:
    return [value and value[:1] for value in plane.fetch(topic, 0, max_bytes=1 << 30)[0].values]


def refuse(*_: Any) -> int:
    raise OSError(28, "No space left on device")


def test_nothing_of_it_is_written_or_seen_before_a_thread_has(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = plane.partition("t").log.state.disk
    with monkeypatch.context() as patch:
        patch.setattr(disk, "pwrite", refuse)  # the loop would be refused
        waiting = plane.produce_request("t", large())
        plane.runtime.turn()
        assert answered(waiting) is None
        assert plane.partition("t").log_end_offset == 0
    plane.runtime.run_work()
    assert answered(waiting) == (0, 0)
    assert names(plane) == [b"x"]


def test_those_that_wait_are_written_in_one_call_with_what_came_behind_them(plane: DataPlane) -> None:
    facts = {"producer_id": 7, "producer_epoch": 0}
    assert plane.produce("t", batch(b"a", base_sequence=0, **facts)).base_offset == 0
    waiting = [
        plane.produce_request("t", large("b", base_sequence=1, **facts)),
        plane.produce_request("t", large("c", base_sequence=2, **facts)),
        plane.produce_request("t", batch(b"d", base_sequence=3, **facts)),
        plane.produce_request("t", batch(b"e", producer_id=8, producer_epoch=0, base_sequence=0)),
        plane.produce_request("t", batch(b"f")),
    ]
    assert plane.produce("u", batch(b"b")).base_offset == 0  # other partitions do not wait
    plane.runtime.run_work()
    assert answered(waiting[0]) == (0, 1)
    assert len(plane.runtime.works) == 1
    plane.runtime.run_work()
    assert [answered(one) for one in waiting[1:]] == [(0, 2), (0, 3), (0, 4), (0, 5)]
    assert names(plane) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    entries = plane.partition("t").log.producers.entries
    assert (entries[7].last_sequence, entries[8].last_sequence) == (3, 0)


@pytest.mark.parametrize(
    ("sequence", "epoch", "expected"),
    [
        (1, 0, (0, 0)),  # a repetition is told where the first one is, once that is in the log
        (4, 0, (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)),
        (0, 1, (0, 2)),
    ],
)
def test_what_only_the_log_can_tell_of_waits_for_it(
    plane: DataPlane, sequence: int, epoch: int, expected: tuple[int, int]
) -> None:
    plane.produce_request("t", large("a", producer_id=7, producer_epoch=0, base_sequence=1))
    plane.produce_request("t", large("b", producer_id=7, producer_epoch=0, base_sequence=2))
    other = plane.produce_request("t", large("c", producer_id=7, producer_epoch=epoch, base_sequence=sequence))
    plane.runtime.run_work()
    assert answered(other) is None
    plane.runtime.run_works()
    assert answered(other) == expected


def test_what_is_refused_by_the_disk_is_refused_to_all_that_were_written_together(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"producer_id": 7, "producer_epoch": 0}
    first = plane.produce_request("t", large("a", base_sequence=0, **facts))
    plane.runtime.run_work()
    assert answered(first) == (0, 0)
    plane.create("v")
    # While these are written, the others wait, and are written together.
    leads = [plane.produce_request(topic, large()) for topic in "uv"]
    waiting = [plane.produce_request("t", large(base_sequence=sequence, **facts)) for sequence in (1, 2)]
    plane.runtime.run_work()
    plane.runtime.run_work()
    assert [answered(lead) for lead in leads] == [(0, 0)] * 2
    with monkeypatch.context() as patch:
        patch.setattr(plane.partition("t").log.state.disk, "pwrite", refuse)
        plane.runtime.run_work()
    assert [answered(one) for one in waiting] == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)] * 2
    assert "No space left" in str(plane.partitions.not_ready)
    assert plane.partition("t").log.segments[-1].path(".log").stat().st_size == plane.partition("t").log.size_bytes
    again = plane.produce_request("t", large("b", base_sequence=1, **facts))
    plane.runtime.run_works()
    assert answered(again) == (0, 1)
    assert names(plane) == [b"a", b"b"]


def test_a_segment_is_not_overfilled_by_what_is_written_together(plane: DataPlane) -> None:
    plane.create("s", segment_bytes="1048576")
    waiting = [plane.produce_request("s", batch(bytes(300_000))) for _ in range(9)]
    plane.runtime.run_works()
    assert [answered(one) for one in waiting] == [(0, offset) for offset in range(9)]
    assert plane.partition("s").log.bases == [0, 3, 6]


def full(plane: DataPlane) -> None:
    """A topic `s` whose next large batch needs a new segment."""
    plane.create("s", segment_bytes="1048576")
    waiting = [plane.produce_request("s", batch(bytes(300_000))) for _ in range(3)]
    plane.runtime.run_works()
    assert [answered(one) for one in waiting] == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("size", [300_000, 60_000], ids=["large", "small"])
def test_the_thread_makes_the_segment_that_a_batch_needs(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Of whatever size: its files wait for a busy disk."""
    full(plane)
    assert [plane.produce("s", batch(bytes(60_000))).base_offset for _ in range(2)] == [3, 4]
    log = plane.partition("s").log
    with monkeypatch.context() as patch:
        for call in ("open", "pwrite", "unlink"):
            patch.setattr(log.state.disk, call, refuse)  # the loop would be refused
        waiting = plane.produce_request("s", batch(bytes(size)))
        plane.runtime.turn()
    assert answered(waiting) is None
    assert log.bases == [0]
    plane.runtime.run_work()
    assert answered(waiting) == (0, 5)
    assert log.bases == [0, 5]
    assert plane.produce("s", batch(b"y")).base_offset == 6
    assert [value and value[:1] for value in plane.fetch("s", 5, max_bytes=1 << 30)[0].values] == [b"\0", b"y"]


@pytest.mark.parametrize("refused", ["segment", "batch"])
def test_a_segment_that_the_disk_refuses_is_refused_to_the_batch_that_needs_it(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    full(plane)
    log = plane.partition("s").log
    pwrite = log.state.disk.pwrite
    waiting = plane.produce_request("s", batch(bytes(300_000)))
    with monkeypatch.context() as patch:
        if refused == "segment":
            patch.setattr(log.state.disk, "open", refuse)
        else:
            patch.setattr(log.state.disk, "pwrite", lambda *to: refuse() if len(to[1]) > LARGE else pwrite(*to))
        plane.runtime.run_work()
    assert answered(waiting) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    said = "cannot start segment" if refused == "segment" else "cannot append to"
    assert said in str(plane.partitions.not_ready)
    assert "00003.log" in str(plane.partitions.not_ready)
    assert log.bases == ([0] if refused == "segment" else [0, 3])
    assert log.log_end_offset == 3
    again = plane.produce_request("s", batch(bytes(300_000)))
    plane.runtime.run_works()
    assert answered(again) == (0, 3)
    assert log.bases == [0, 3]


def test_a_segment_of_a_deleted_topic_is_not_made_in_the_folder_of_the_next_of_its_name(tmp_path: Path) -> None:
    whole = Whole(tmp_path)
    whole.create("t", 1, segment_bytes="1048576")
    whole.broker.partitions.writer.at_once_bytes = 1 << 30
    for _ in range(3):
        whole.produce("t", bytes(300_000))
    whole.broker.partitions.writer.at_once_bytes = LARGE
    partition, now_ms = whole.broker.partitions.get("t", 0), whole.runtime.now_ms()
    assert partition is not None
    whole.runtime._eager_workers = False
    told: list[Any] = []
    sent = batch(bytes(300_000), timestamp=now_ms)
    partition.produce_later(Unchecked(sent, now_ms, 9, None, True, told.append))
    late = whole.runtime.works.popleft()
    whole.runtime._eager_workers = True
    whole.delete("t")
    assert told == []
    assert whole.create("t", 1) is ErrorCode.NONE
    before = sorted(one.name for one in (tmp_path / "t-0").iterdir())
    late()
    whole.runtime.turn()
    assert sorted(one.name for one in (tmp_path / "t-0").iterdir()) == before
    assert [one.code for one in told] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert whole.produce("t", b"new") == 0
    assert whole.stop()


def test_a_marker_comes_behind_what_is_being_written(plane: DataPlane) -> None:
    facts: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    plane.partition("t").append(bytearray(batch(b"a", base_sequence=0, **facts)))
    told: list[Any] = []
    for sequence in (1, 2):
        # The second one is too large to be written together with the first.
        size = LARGE if sequence == 1 else 1_000_000
        sent = bytes(encode_batch([Record(0, NOW_MS, b"k", bytes(size))], base_sequence=sequence, **facts))
        plane.partition("t").produce_later(Unchecked(sent, NOW_MS, 9, None, True, told.append))
    codes: list[ErrorCode] = []
    plane.broker.markers.write("t", 0, Marker(7, 0, True, 0), codes.append)
    assert codes == []
    plane.runtime.run_work()
    assert codes == [ErrorCode.NONE]
    plane.runtime.run_works()
    assert told[0].base_offset == 1
    # What came behind the marker is of no transaction that anybody knows of.
    assert told[1].code == ErrorCode.INVALID_TXN_STATE
    assert plane.partition("t").log_end_offset == 3
    assert plane.partition("t").last_stable_offset == 3


def test_whatever_else_is_appended_waits_for_what_is_being_written(plane: DataPlane) -> None:
    """Nobody's bytes lie where another's are about to be put."""
    waiting = plane.produce_request("t", large("a"))
    assert plane.partition("t").append(marker(9, commit=True)).base_offset == 1
    assert plane.partition("t").append(bytearray(batch(b"z"))).base_offset == 2
    plane.runtime.run_works()
    assert answered(waiting) == (0, 0)
    assert names(plane) == [b"a", b"z"]


@pytest.mark.parametrize("change", ["roll", "close", "retain"])
def test_whatever_changes_the_log_finishes_it_first(plane: DataPlane, change: str) -> None:
    waiting = plane.produce_request("t", large("a"))
    log = plane.partition("t").log
    if change == "retain":
        log.apply_retention(NOW_MS, 0)
    else:
        getattr(log, change)()
    assert log.log_end_offset == 1
    plane.runtime.run_works()
    assert answered(waiting) == (0, 0)


def test_a_log_that_is_loaded_anew_is_not_written_to_by_who_wrote_to_the_old_one(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plane.produce("t", batch(b"a")).base_offset == 0
    waiting = plane.produce_request("t", large("b"), timeout_ms=60_000)
    late = plane.runtime.works.popleft()
    partition = plane.partition("t")
    partition.fail("the disk is gone")
    plane.runtime.advance(1_000)
    plane.runtime.run_works()
    behind = plane.produce_request("t", batch(b"c"))
    partition.append(bytearray(batch(b"b")))
    late()
    plane.runtime.turn()
    assert answered(waiting) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert answered(behind) == (0, 2)
    assert plane.partitions.not_ready is None
    assert names(plane) == [b"a", b"b", b"c"]
    reopened = plane.produce_request("t", large("d"))
    plane.runtime.run_works()
    assert answered(reopened) == (0, 3)


def test_an_abandoned_write_touches_the_file_no_more(plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the disk has refused would cut off what was appended since."""
    assert plane.produce("t", batch(b"a")).base_offset == 0
    waiting = plane.produce_request("t", large("b"), timeout_ms=60_000)
    late, partition = plane.runtime.works.popleft(), plane.partition("t")
    old = partition.log
    with monkeypatch.context() as patch:
        patch.setattr(old.state.disk, "pwrite", refuse)
        assert partition._together is not None
        partition._together.placed.write()
    partition.fail("gone")
    plane.runtime.advance(1_000)
    plane.runtime.run_works()
    partition.append(bytearray(batch(b"c")))
    late()
    old.settle()
    assert answered(waiting) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert names(plane) == [b"a", b"c"]


def test_what_was_cut_by_a_reload_is_not_told_to_be_there(plane: DataPlane) -> None:
    plane.create("s", flush_messages="1")
    partition = plane.partition("s")
    waiting = plane.produce_request("s", large("b"), timeout_ms=600_000)
    late = plane.runtime.works.popleft()
    partition.log.apply_retention(NOW_MS, partition.high_watermark)  # which finishes it
    partition.fail("an fsync")
    plane.runtime.advance(1_000)
    plane.runtime.run_works()
    late()
    plane.runtime.turn()
    assert answered(waiting) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_a_marker_for_a_log_that_fails_does_not_wait_for_the_thread(plane: DataPlane) -> None:
    plane.produce_request("t", large("a"))
    codes: list[ErrorCode] = []
    plane.broker.markers.write("t", 0, Marker(7, 0, True, 0), codes.append)
    plane.partition("t").fail("gone")
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_what_waits_for_a_write_is_called_when_all_have_been_told(plane: DataPlane) -> None:
    """Who waits for an offset to be committed is told in the order of the offsets; one who fails keeps it from none."""
    told: list[Any] = []
    plane.partition("t").produce_later(Unchecked(large("a"), NOW_MS, 9, None, True, told.append))
    plane.partition("t").when_written(lambda: 1 // 0)
    plane.partition("t").when_written(lambda: told.append("written"))
    plane.runtime.run_works()
    assert told[0].base_offset == 0
    assert told[1:] == ["written"]


def fails(_: Any) -> None:
    raise RuntimeError("a fault of ours")


@pytest.mark.parametrize(
    "first", [large("a"), b"", batch(b"a"), bytes(encode_batch([Record(0, NOW_MS, b"k", b"v")] * 2_000))]
)
def test_one_who_cannot_be_told_leaves_the_others_as_they_are(plane: DataPlane, first: bytes) -> None:
    assert plane.produce("t", batch(b"_")).base_offset == 0
    plane.produce_request("u", large())
    partition, told = plane.partition("t"), list[Any]()
    partition.produce_later(Unchecked(first, NOW_MS, 9, None, True, fails))
    for name in "bc":
        partition.produce_later(Unchecked(large(name), NOW_MS, 9, None, True, told.append))
    plane.runtime.run_works()
    last = told[-1].base_offset
    assert [one.base_offset for one in told] == [last - 1, last]
    assert names(plane)[-2:] == [b"b", b"c"]
    assert partition.log_end_offset == last + 1
    assert plane.partitions.checks.idle


@pytest.mark.parametrize("together", [False, True])
def test_a_fault_in_looking_into_one_is_its_own(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    real = checks.prepare

    def prepare(records: Any, *rest: Any) -> Any:
        if len(records) < 200:
            raise ValueError
        return real(records, *rest)

    lead = plane.produce_request("u", large()) if together else None
    first, second = plane.produce_request("t", large("a")), plane.produce_request("t", batch(b"b"))
    with monkeypatch.context() as patch:
        patch.setattr(checks, "prepare", prepare)
        plane.runtime.run_works()
    assert lead is None or answered(lead) == (0, 0)
    assert answered(first) == (0, 0)
    assert answered(second) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    assert plane.produce("t", batch(b"c")).base_offset == 1


def test_whatever_fails_in_the_thread_is_a_refusal(plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: Any) -> int:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(plane.partition("t").log.state.disk, "pwrite", exhausted)
        waiting = plane.produce_request("t", large("a"))
        plane.runtime.run_works()
    assert answered(waiting) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    again = plane.produce_request("t", large("b"))
    plane.runtime.run_works()
    assert answered(again) == (0, 0)
    assert names(plane) == [b"b"]


def test_little_is_looked_into_in_one_turn(plane: DataPlane) -> None:
    """What is compressed may become half a megabyte, and records take time, however small."""
    plane.produce_request("t", large("a"))
    bomb = bytes(encode_batch([Record(0, NOW_MS, b"k", bytes(500_000))], compression=1))
    waiting = [plane.produce_request("t", bomb) for _ in range(12)]
    plane.runtime._rounds = 1  # one turn at a time
    plane.runtime.run_work()
    most, before = 0, 0
    for _ in range(100):
        plane.runtime.step()
        if plane.runtime.works:
            plane.runtime.run_work()
        done = sum(answered(one) is not None for one in waiting)
        most, before = max(most, done - before), done
    assert before == 12
    assert 0 < most <= 4  # two turns


def test_what_is_compressed_anew_into_much_is_large(plane: DataPlane) -> None:
    plane.create("s", compression_type="uncompressed")
    for expected in (0, 1):
        waiting = plane.produce_request(
            "s", bytes(encode_batch([Record(0, NOW_MS, b"k", bytes(400_000))], compression=1))
        )
        assert answered(waiting) is None
        plane.runtime.run_works()
        assert answered(waiting) == (0, expected)


def test_what_was_looked_into_is_not_hoarded(plane: DataPlane) -> None:
    records = bytes(encode_batch([Record(at, NOW_MS, b"k", bytes(100)) for at in range(2_000)]))
    for index in range(10):
        plane.create(f"many-{index}")
    waiting = [plane.produce_request(f"many-{index}", records) for index in range(10)]
    looked = plane.partitions.checks._looked
    most = 0
    while plane.runtime.works:
        most = max(most, len(looked))
        plane.runtime.works.rotate(-1)  # the writer is slow
        plane.runtime.run_work()
    assert [answered(one) for one in waiting] == [(0, 0)] * 10
    assert most <= checks.LOOKED_MAX + checks.AT_ONCE


def test_a_disk_that_hangs_holds_up_its_own_partitions_alone(plane: DataPlane) -> None:
    held = plane.produce_request("t", large("a"))
    del held
    other = plane.partition("u")
    other.log.state.directory = other.log.state.directory.parent.parent / "other" / "u-0"
    waiting = plane.produce_request("u", large("b"))
    plane.runtime.works.popleft()
    plane.runtime.run_work()
    assert answered(waiting) == (0, 0)


def test_two_partitions_are_written_at_once_while_no_other_directory_is(plane: DataPlane) -> None:
    """Where one processor fetches memory for one, another does for the other; and two of eight threads are not many."""
    for name in "vw":
        plane.create(name)
    waiting = [plane.produce_request(name, large(name)) for name in "tuvw"]
    assert len(plane.runtime.works) == 2
    plane.runtime.run_work()
    assert [answered(one) for one in waiting] == [(0, 0), None, None, None]
    assert len(plane.runtime.works) == 2
    other = plane.partition("t")
    other.log.state.directory = other.log.state.directory.parent.parent / "other" / "t-0"
    waiting.append(plane.produce_request("t", large("a")))
    assert len(plane.runtime.works) == 3  # those that are on their way go on
    plane.runtime.run_work()
    assert len(plane.runtime.works) == 2  # and none takes the place of the one that has ended
    plane.runtime.run_work()
    assert [answered(one) for one in waiting] == [(0, 0), (0, 0), (0, 0), None, None]
    assert len(plane.runtime.works) == 2  # one for each
    plane.runtime.run_works()
    assert [answered(one) for one in waiting] == [(0, 0)] * 4 + [(0, 1)]


def test_a_disk_that_hangs_keeps_nothing_of_others_from_being_looked_into(plane: DataPlane) -> None:
    long = bytes(encode_batch([Record(at, NOW_MS, b"k", bytes(100)) for at in range(2_000)]))
    for name in "abc":
        plane.create(name)
    other = plane.partition("u")
    other.log.state.directory = other.log.state.directory.parent.parent / "other" / "u-0"
    plane.produce_request("a", large())
    plane.produce_request("b", long)
    plane.produce_request("c", long)
    plane.runtime.works.popleft()  # the write to a never ends
    plane.runtime.run_works()
    waiting = plane.produce_request("u", long)
    plane.runtime.run_works()
    assert answered(waiting) == (0, 0)


def stopped(tmp_path: Path, *, failed: bool) -> tuple[Whole, Any, list[ErrorCode]]:
    """A broker that was stopped while a thread wrote, and what ends that write."""
    whole = Whole(tmp_path)
    whole.create("t", 1)
    whole.produce("t", b"old")
    partition, now_ms = whole.broker.partitions.get("t", 0), whole.runtime.now_ms()
    assert partition is not None
    whole.runtime._eager_workers = False
    whole.runtime.run_works()
    sent = batch(bytes(LARGE), timestamp=now_ms)
    partition.produce_later(Unchecked(sent, now_ms, 9, None, True, lambda _: None))
    codes: list[ErrorCode] = []
    whole.broker.markers.write("t", 0, Marker(7, 0, True, 0), codes.append)
    late = whole.runtime.works.popleft()
    if failed:
        partition.fail("the directory is offline")
    whole.runtime._eager_workers = True
    whole.stop()
    return whole, late, codes


def test_a_write_that_ends_after_the_stop_touches_nothing_of_the_next_life(tmp_path: Path) -> None:
    _, late, _ = stopped(tmp_path, failed=True)
    whole = Whole(tmp_path)
    for name in (b"a", b"b"):
        whole.produce("t", name)
    partition = whole.broker.partitions.get("t", 0)
    assert partition is not None
    before = all_bytes(partition.log)
    late()
    assert all_bytes(partition.log) == before
    whole.stop()


def test_what_waits_for_a_write_is_not_done_after_the_stop(tmp_path: Path) -> None:
    whole, late, codes = stopped(tmp_path, failed=False)
    late()
    assert codes == []
    assert "partition_failed" not in whole.log.getvalue()
    whole = Whole(tmp_path)
    assert len(whole.values("t")) == 2
    whole.stop()


def test_a_stop_finishes_what_is_being_written_and_begins_nothing(tmp_path: Path) -> None:
    whole = Whole(tmp_path)
    whole.create("t", 1)
    whole.runtime._eager_workers = False
    partition = whole.broker.partitions.get("t", 0)
    assert partition is not None
    now_ms = whole.runtime.now_ms()
    told: list[Any] = []
    for size in (LARGE, 1_000_000, 5):
        sent = batch(bytes(size), timestamp=now_ms)
        partition.produce_later(Unchecked(sent, now_ms, 9, None, True, told.append))
    assert not whole.composition.quiet
    whole.runtime._eager_workers = True
    assert whole.stop()
    assert told == []
    assert "append_refused" not in whole.log.getvalue()
    whole = Whole(tmp_path)
    assert len(whole.values("t")) == 1
    assert "log_recovered" not in whole.log.getvalue()
    whole.stop()


def test_a_fault_of_ours_leaves_nobody_waiting(plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(type(plane.partition("t")), "written", lambda *_: 1 // 0)
        waiting = plane.produce_request("t", large("a"))
        behind = plane.produce_request("u", large("a"))
        plane.runtime.run_works()
    assert answered(waiting) == answered(behind) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)


def test_a_slow_disk_has_smaller_ones_written_elsewhere_until_it_keeps_up(plane: DataPlane) -> None:
    middling = batch(bytes(writer.SLOWLY_AT_ONCE_BYTES))
    assert plane.produce("t", middling).base_offset == 0
    now_ns = 0

    def clock_ns() -> int:
        nonlocal now_ns
        now_ns += writer.SLOW_NS
        return now_ns

    plane.partitions.writer.clock_ns = clock_ns
    assert plane.produce("t", middling).base_offset == 1
    slow_from_ms = plane.runtime.now_ms()
    for offset in range(2, 4):
        waiting = plane.produce_request("t", middling)
        assert answered(waiting) is None
        plane.runtime.run_work()
        assert answered(waiting) == (0, offset)
        plane.runtime.advance(5_000)
    assert plane.produce("t", batch(b"a page is what counts")).base_offset == 4
    assert plane.runtime.now_ms() == slow_from_ms + writer.SLOW_FOR_MS
    plane.partitions.writer.clock_ns = lambda: 0
    plane.runtime.advance(4_999)
    assert answered(plane.produce_request("t", middling)) is None
    plane.runtime.run_works()
    plane.runtime.advance(1)
    assert plane.produce("t", middling).base_offset == 6


def test_a_batch_that_a_thread_has_looked_into_is_written_by_one_too(plane: DataPlane) -> None:
    records = [Record(at, NOW_MS, b"k", b"%d" % at + bytes(100)) for at in range(2_000)]
    waiting = plane.produce_request("t", bytes(encode_batch(records)))
    behind = plane.produce_request("t", batch(b"behind"))
    plane.runtime.run_work()
    assert answered(waiting) is None
    plane.runtime.run_work()
    assert answered(waiting) == (0, 0)
    plane.runtime.run_works()
    assert answered(behind) == (0, 2_000)
