"""What happens to logs in the background, at a stop, and at the next start."""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from broker.catalogue.topics_image import Topic
from broker.config.settings import Settings
from broker.loop.worker import WorkerDied
from broker.partitions import PartitionLoading, log_manager
from broker.partitions.flusher import LOGS_AT_ONCE
from broker.partitions.log_manager import LogManager
from storage.clean.swap import Swap
from storage.errors import StorageError
from storage.files import DISK
from storage.log.partition_log import PartitionLog
from storage.reading.checkpoints import CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT, read_offsets
from storage.state.recovery_report import RecoveryReport
from tests.support.data_plane import NOW_MS, DataPlane, batch
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Kept:
    """A data plane with its log_manager."""

    def __init__(self, directory: Path, runtime: VirtualRuntime | None = None, **settings: str) -> None:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        checkpoints: dict[str, Any] = {}
        clean = True
        if directory.exists():
            marker = directory / "clean"
            clean = marker.exists()
            marker.unlink(missing_ok=True)
            checkpoints = {
                "recovery_points": read_offsets(directory / RECOVERY_POINT),
                "log_starts": read_offsets(directory / LOG_START),
            }
        self.plane = DataPlane(directory, runtime=runtime, clean=clean, **checkpoints)
        self.runtime = self.plane.runtime
        self.log_manager = LogManager(self.runtime, self.plane.partitions, Settings(given))

    def stop(self) -> bool:
        ended: list[bool] = []
        self.log_manager.stop(lambda directory: (directory / "clean").touch(), ended.append)
        self.runtime.turn()
        return ended[0]

    def checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        return read_offsets(self.plane.directory / name)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    made = Kept(tmp_path / "data")
    made.plane.create("t")
    made.log_manager.start()
    return made


def test_what_is_appended_is_fsynced_within_the_interval(kept: Kept) -> None:
    kept.plane.produce("t", batch(b"a"))
    assert kept.plane.partition("t").log.recovery_point == 0
    kept.runtime.advance(2_000)
    assert kept.plane.partition("t").log.recovery_point == 1


def test_many_are_fsynced_some_hundred_at_a_time(tmp_path: Path) -> None:
    """In three threads at most; beginning and ending with all of them at once would hold the loop."""
    kept = Kept(tmp_path / "data", VirtualRuntime(NOW_MS, eager_workers=False))
    plane = kept.plane
    plane.create("t", 4 * LOGS_AT_ONCE + 1)
    for index in range(4 * LOGS_AT_ONCE + 1):
        plane.partitions.flusher.request(plane.partition("t", index))
    begun = []
    while plane.runtime.works or not plane.runtime.idle:
        plane.runtime.turn()
        begun.append(len(plane.runtime.works))
        plane.runtime.run_work()
    assert begun == [3, 3, 3, 2, 1]
    assert plane.partitions.flusher.idle
    assert plane.partitions.flusher.flushes == 4 * LOGS_AT_ONCE + 1


def test_a_topic_may_have_an_interval_of_its_own(kept: Kept) -> None:
    kept.plane.create("slow", flush_ms="10000")
    kept.plane.produce("slow", batch(b"a"))
    kept.runtime.advance(5_000)
    assert kept.plane.partition("slow").log.recovery_point == 0
    kept.runtime.advance(7_000)
    assert kept.plane.partition("slow").log.recovery_point == 1


def test_checkpoints_are_written_at_kafkas_intervals(kept: Kept) -> None:
    """High watermarks every 5 s, recovery points and log starts every 60 s."""
    for _ in range(3):
        kept.plane.produce("t", batch(b"a"))
    kept.plane.delete_records("t", 2)
    kept.runtime.advance(6_000)
    assert kept.checkpoint(HIGH_WATERMARK) == {("t", 0): 3}
    assert kept.checkpoint(RECOVERY_POINT) == {}
    kept.runtime.advance(60_000)
    assert kept.checkpoint(RECOVERY_POINT) == {("t", 0): 3}
    assert kept.checkpoint(LOG_START) == {("t", 0): 2}


def test_checkpoints_do_not_forget_partitions_that_nobody_opened(tmp_path: Path) -> None:
    first = Kept(tmp_path / "data")
    first.plane.create("t")
    first.log_manager.start()
    for _ in range(3):
        first.plane.produce("t", batch(b"a"))
    first.plane.delete_records("t", 2)
    assert first.stop()
    second = Kept(tmp_path / "data")
    second.plane.create("t")
    second.log_manager.start()
    second.plane.create("u")
    second.plane.produce("u", batch(b"a"))
    assert second.stop()
    assert second.checkpoint(RECOVERY_POINT) == {("t", 0): 3, ("u", 0): 1}
    assert second.checkpoint(LOG_START) == {("t", 0): 2}
    assert second.checkpoint(HIGH_WATERMARK) == {("t", 0): 3, ("u", 0): 1}
    third = Kept(tmp_path / "data")
    third.plane.create("t")
    assert third.plane.partition("t").log_start_offset == 2


def test_old_segments_go_and_a_reader_below_is_woken(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "data")
    kept.plane.create("t", segment_bytes="1048576", retention_bytes="1048576", file_delete_delay_ms="60000")
    kept.log_manager.start()
    for _ in range(4):
        kept.plane.produce("t", batch(b"a" * 600_000))
    parked = kept.plane.fetch_request("t", 4, max_wait_ms=10**9)
    kept.runtime.advance(31_000)
    start = kept.plane.partition("t").log_start_offset
    assert start > 0
    assert not parked.done, "its own offset is still there"
    deleted = list((tmp_path / "data" / "t-0").glob("*.deleted"))
    assert deleted
    kept.runtime.advance(60_000)
    assert not list((tmp_path / "data" / "t-0").glob("*.deleted"))


def _retain_rolled(plane: DataPlane) -> None:
    plane.partition("t").log.apply_retention(NOW_MS, 2)


def _roll_and_retain(plane: DataPlane) -> None:
    log = plane.partition("t").log
    log.roll()
    plane.produce("t", batch(b"b"))
    log.apply_retention(NOW_MS, 1)


def _delete_records(plane: DataPlane) -> None:
    partition = plane.partition("t")
    partition.delete_records_before(partition.high_watermark)
    partition.log.apply_retention(NOW_MS, partition.log_end_offset)
    plane.produce("t", batch(b"b"))


def _delete_topic(plane: DataPlane) -> None:
    plane.delete("t")


@pytest.mark.parametrize(
    ("rolled", "change", "gone"),
    [
        (2, _retain_rolled, 2),
        (0, _roll_and_retain, 1),
        (0, _delete_records, 1),
        (0, _delete_topic, 1),
        (2, _delete_topic, 3),
    ],
)
def test_a_file_that_is_deleted_while_it_is_flushed_is_closed_by_a_worker(
    tmp_path: Path, rolled: int, change: Callable[[DataPlane], None], gone: int
) -> None:
    """The system takes its memory back then: 200 ms for a gigabyte, in which nobody would be answered."""
    kept = Kept(tmp_path / "data", VirtualRuntime(NOW_MS, eager_workers=False))
    plane, works = kept.plane, kept.runtime.works
    plane.create("t", segment_bytes="1048576", retention_bytes="0", file_delete_delay_ms="0")
    for _ in range(rolled):
        plane.produce("t", batch(b"a"))
        plane.partition("t").log.roll()
    plane.produce("t", batch(b"a"))
    closed_in: list[str] = []
    now = "the change"
    files = [
        weakref.ref(segment.file, lambda _: closed_in.append(now)) for segment in plane.partition("t").log.segments
    ]
    plane.partitions.flusher.request(plane.partition("t"))
    kept.runtime.turn()
    change(plane)
    assert len(works) == 1
    now = "the flush"
    kept.runtime.run_work()
    now = "a work of its own"
    works.popleft()()
    assert closed_in == ["a work of its own"] * gone
    assert sum(file() is None for file in files) == gone


def test_records_go_by_age(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "data")
    kept.plane.create("t", retention_ms="1000")
    kept.log_manager.start()
    kept.plane.produce("t", batch(b"a", timestamp=NOW_MS))
    kept.runtime.advance(31_000)
    assert kept.plane.partition("t").log_start_offset == 1


def test_retention_reaches_logs_that_nobody_has_opened(tmp_path: Path) -> None:
    first = Kept(tmp_path / "data")
    first.plane.create("t", retention_ms="1000")
    first.plane.produce("t", batch(b"a", timestamp=NOW_MS))
    assert first.stop()
    second = Kept(tmp_path / "data")
    second.plane.create("t", retention_ms="1000")
    second.log_manager.start()
    assert len(second.plane.partitions) == 0
    second.runtime.advance(31_000)
    assert second.plane.partition("t").log_start_offset == 1


def test_silent_producers_are_forgotten(tmp_path: Path) -> None:
    """TX13: afterwards any sequence is taken."""
    kept = Kept(tmp_path / "data", producer_id_expiration_ms="1000")
    kept.plane.create("t")
    kept.log_manager.start()
    kept.plane.produce("t", batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    kept.runtime.advance(601_000)
    late = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=9)
    assert kept.plane.produce("t", late).error_code == 0


# -- stop and start ----------------------------------------------------------------------------------------------------


def test_a_clean_stop_flushes_and_marks_last(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.plane.produce("t", batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    seen: dict[str, Any] = {}

    def mark(_: Path) -> None:
        folder = kept.plane.directory
        seen["checkpoints"] = {name: kept.checkpoint(name) for name in (RECOVERY_POINT, HIGH_WATERMARK)}
        seen["snapshots"] = [path.name for path in (folder / "t-0").glob("*.snapshot")]

    ended: list[bool] = []
    kept.log_manager.stop(mark, ended.append)
    kept.runtime.turn()
    assert ended == [True]
    assert seen["checkpoints"] == {RECOVERY_POINT: {("t", 0): 1}, HIGH_WATERMARK: {("t", 0): 1}}
    assert seen["snapshots"] == ["00000000000000000001.snapshot"]


def test_a_log_that_cannot_be_closed_leaves_the_directory_unmarked(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.plane.create("u")
    for name in ("t", "u"):
        kept.plane.produce(name, batch(b"a"))

    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(kept.plane.partition("t").log.state.disk, "fdatasync", refuse)
    assert kept.stop() is False
    assert not (kept.plane.directory / "clean").exists()


def test_many_logs_are_made_durable_at_once(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop with thousands of logs would wait for the fsyncs of as many small files. The marker comes after it."""
    monkeypatch.setattr(log_manager, "MANY", 0)
    seen: list[bool] = []
    marker = kept.plane.directory / "clean"
    monkeypatch.setattr(DISK, "syncfs", lambda _: seen.append(marker.exists()), raising=False)
    kept.plane.produce("t", batch(b"a"))
    assert kept.stop() is True
    assert seen == [False]
    assert marker.exists()
    assert kept.checkpoint(RECOVERY_POINT) == {("t", 0): 1}


def test_a_file_system_that_lost_something_leaves_the_directory_unmarked(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no recovery point tells of what was not flushed."""
    monkeypatch.setattr(log_manager, "MANY", 0)

    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(DISK, "syncfs", refuse, raising=False)
    kept.plane.produce("t", batch(b"a"))
    assert kept.stop() is False
    assert not (kept.plane.directory / "clean").exists()
    assert kept.checkpoint(RECOVERY_POINT).get(("t", 0), 0) == 0


def test_after_a_clean_stop_logs_are_opened_when_asked_for(tmp_path: Path) -> None:
    first = Kept(tmp_path / "data")
    first.plane.create("t", partitions=100)
    first.plane.produce("t", batch(b"a"))
    assert first.stop()
    second = Kept(tmp_path / "data")
    second.plane.create("t", partitions=100)
    second.log_manager.start()
    assert len(second.plane.partitions) == 0
    assert second.plane.fetch("t", 0)[0].values == [b"a"]
    assert len(second.plane.partitions) == 1


def test_the_last_batch_of_a_producer_is_known_after_a_clean_stop(tmp_path: Path) -> None:
    """TX12, the clean half: from the snapshot, without reading a batch."""
    first = Kept(tmp_path / "data")
    first.plane.create("t")
    sent = [batch(b"a", producer_id=7, producer_epoch=0, base_sequence=at) for at in range(2)]
    for one in sent:
        first.plane.produce("t", one)
    assert first.stop()
    second = Kept(tmp_path / "data")
    second.plane.create("t")
    assert second.plane.produce("t", sent[1]).base_offset == 1
    assert second.plane.partition("t").log_end_offset == 2


def test_sizes_are_told_without_opening_logs(tmp_path: Path) -> None:
    first = Kept(tmp_path / "data")
    first.plane.create("t")
    first.plane.produce("t", batch(b"a" * 100))
    assert first.stop()
    second = Kept(tmp_path / "data")
    second.plane.create("t")
    assert second.plane.partitions.size_bytes("t", 0) == len(batch(b"a" * 100))
    assert len(second.plane.partitions) == 0


def test_after_a_crash_logs_are_recovered_behind_the_open_doors(tmp_path: Path) -> None:
    """A torn tail is cut; who comes before that is done is told to come again."""
    first = Kept(tmp_path / "data")
    first.plane.create("t")
    first.plane.create("u")
    for value in (b"a", b"b"):
        first.plane.produce("t", batch(value))
    log_file = tmp_path / "data" / "t-0" / f"{0:020d}.log"
    log_file.write_bytes(log_file.read_bytes()[:-1])
    second = Kept(tmp_path / "data", VirtualRuntime(NOW_MS, eager_workers=False))
    assert second.plane.partitions.recovers
    second.plane.create("t")
    second.plane.create("u")
    second.log_manager.start()
    with pytest.raises(PartitionLoading):
        second.plane.partitions.get("t", 0)
    assert second.plane.produce("t", batch(b"x")).error_code == 6
    second.runtime.run_works()
    assert len(second.plane.partitions) == 2
    assert second.plane.fetch("t", 0)[0].values == [b"a"]
    assert second.plane.produce("t", batch(b"c")).base_offset == 1


def test_recovery_begins_at_the_recovery_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a checkpoint says was fsynced is not read again."""
    reports: list[RecoveryReport] = []
    forget = PartitionLog.forget_recovery
    monkeypatch.setattr(PartitionLog, "forget_recovery", lambda log: (reports.append(log.recovery), forget(log)))
    first = Kept(tmp_path / "data")
    first.plane.create("t", segment_bytes="1048576")
    first.log_manager.start()
    for _ in range(4):
        first.plane.produce("t", batch(b"a" * 600_000))
    first.runtime.advance(62_000)
    first.plane.produce("t", batch(b"b" * 600_000))
    second = Kept(tmp_path / "data")
    second.plane.create("t", segment_bytes="1048576")
    partition = second.plane.partition("t")
    assert [path.name for path in reports[-1].checked_segments] == [f"{4:020d}.log"]
    assert partition.log.recovery.checked_segments == [], "a broker of ten thousand logs keeps none of that"
    assert partition.log_end_offset == 5


def test_a_log_that_cannot_be_opened_is_a_storage_error_until_it_can(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "data")
    kept.plane.create("t")
    bad = tmp_path / "data" / "t-0" / "leader-epoch-checkpoint"
    bad.write_text("7\n")
    assert kept.plane.produce("t", batch(b"a")).error_code == 56
    assert "t-0" in str(kept.plane.partitions.not_ready)
    bad.unlink()
    assert kept.plane.produce("t", batch(b"a")).error_code == 0
    assert kept.plane.partitions.not_ready is None


def test_recovery_tries_a_log_that_cannot_be_opened_once(tmp_path: Path) -> None:
    """Not over and over: the others follow, and this one is tried when somebody asks for it."""
    first = Kept(tmp_path / "data")
    first.plane.create("bad")
    first.plane.create("good")
    (tmp_path / "data" / "bad-0" / "leader-epoch-checkpoint").write_text("7\n")
    second = Kept(tmp_path / "data", VirtualRuntime(NOW_MS, eager_workers=False))
    second.plane.create("bad")
    second.plane.create("good")
    second.log_manager.start()
    for _ in range(10):
        if second.runtime.works:
            second.runtime.run_work()
    assert not second.runtime.works
    assert [partition.name for partition in second.plane.partitions] == ["good-0"]
    assert "bad-0" in str(second.plane.partitions.not_ready)


def test_a_topic_made_again_while_it_is_recovered_does_not_get_the_log_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Kept(tmp_path / "data")
    first.plane.create("t")
    first.plane.produce("t", batch(b"old"))
    second = Kept(tmp_path / "data", VirtualRuntime(NOW_MS, eager_workers=False))
    second.plane.create("t")
    open_log = second.plane.partitions.open_log

    def overtaken(topic: Topic, index: int) -> Any:
        monkeypatch.undo()
        opened = open_log(topic, index)
        second.plane.delete("t")
        second.plane.publish(Topic("t", b"made-again".ljust(16), (0,), {}), "t")
        return opened

    monkeypatch.setattr(second.plane.partitions, "open_log", overtaken)
    second.log_manager.start()
    second.runtime.run_works()
    assert second.plane.produce("t", batch(b"new")).base_offset == 0
    assert b"new" in (tmp_path / "data" / "t-0" / f"{0:020d}.log").read_bytes()


def test_a_stop_while_a_deleted_topic_is_recovered(tmp_path: Path) -> None:
    first = Kept(tmp_path / "data")
    first.plane.create("t")
    second = Kept(tmp_path / "data", VirtualRuntime(NOW_MS, eager_workers=False))
    second.plane.create("t")
    second.log_manager.start()
    assert second.plane.partitions.loading
    second.plane.delete("t")
    ended: list[bool] = []
    second.log_manager.stop(lambda _: None, ended.append)
    second.runtime.run_works()
    assert ended == [True]


def test_a_topic_made_again_does_not_inherit_what_checkpoints_say_of_the_old_one(tmp_path: Path) -> None:
    """Its first records would be below the old log start, and lost after a crash."""
    first = Kept(tmp_path / "data")
    first.plane.create("t")
    first.log_manager.start()
    for _ in range(5):
        first.plane.produce("t", batch(b"old"))
    first.plane.delete_records("t", 4)
    first.runtime.advance(61_000)
    assert first.checkpoint(LOG_START) == {("t", 0): 4}
    first.plane.delete("t")
    first.runtime.turn()
    first.plane.create("t")
    for value in (b"a", b"b", b"c", b"d", b"e"):
        first.plane.produce("t", batch(value))
    second = Kept(tmp_path / "data")
    second.plane.create("t")
    assert second.plane.fetch("t", 0)[0].values == [b"a", b"b", b"c", b"d", b"e"]
    assert second.checkpoint(RECOVERY_POINT).get(("t", 0), 0) == 0


def test_a_deleted_topic_leaves_no_log_start_behind_for_its_successor(tmp_path: Path) -> None:
    """A log that ends below its checkpointed start is thrown away at the next start: it must not be another topic's."""
    first = Kept(tmp_path / "data")
    first.plane.create("t")
    first.log_manager.start()
    for _ in range(5):
        first.plane.produce("t", batch(b"old"))
    first.plane.delete_records("t", 3)
    first.runtime.advance(61_000)
    assert first.checkpoint(LOG_START) == {("t", 0): 3}
    first.plane.delete("t")
    assert first.checkpoint(LOG_START) == first.checkpoint(RECOVERY_POINT) == first.checkpoint(HIGH_WATERMARK) == {}
    first.plane.create("t")
    first.plane.produce("t", batch(b"new"))
    after_a_crash = Kept(tmp_path / "data")
    after_a_crash.plane.create("t")
    assert after_a_crash.plane.fetch("t", 0)[0].values == [b"new"]


def test_a_crash_amid_a_deletion_leaves_nothing_for_the_successor_either(tmp_path: Path) -> None:
    """The metadata says that the topic is gone, its checkpoints are still there, and its name is taken again."""
    first = Kept(tmp_path / "data")
    first.plane.create("other")
    (tmp_path / "data" / LOG_START).write_text("0\n2\nt 0 3\nother 7 1\n")
    second = Kept(tmp_path / "data")
    second.plane.create("other")
    assert second.checkpoint(LOG_START) == {}
    second.plane.create("t")
    second.plane.produce("t", batch(b"new"))
    third = Kept(tmp_path / "data")
    third.plane.create("other")
    third.plane.create("t")
    assert third.plane.fetch("t", 0)[0].values == [b"new"]


def test_a_checkpoint_on_its_way_does_not_bring_a_deleted_topic_back(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "data", VirtualRuntime(NOW_MS, eager_workers=False))
    kept.plane.create("t")
    kept.log_manager.start()
    kept.plane.produce("t", batch(b"a"))
    kept.runtime.advance(6_000)
    assert kept.runtime.works
    kept.plane.delete("t")
    kept.runtime.run_works()
    assert kept.checkpoint(HIGH_WATERMARK) == {}


# -- cleaning ----------------------------------------------------------------------------------------------------------


def compacted(directory: Path, **configs: str) -> Kept:
    kept = Kept(directory, log_cleaner_backoff_ms="1000", log_retention_check_interval_ms="1000000000")
    kept.plane.create("t", cleanup_policy="compact", segment_bytes="1048576", **configs)
    kept.log_manager.start()
    return kept


def test_a_dirty_log_is_cleaned_and_its_readers_see_the_last_values(tmp_path: Path) -> None:
    kept = compacted(tmp_path / "data")
    for at in range(6):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k%d" % (at % 2)))
    size = kept.plane.partition("t").log.size_bytes
    kept.runtime.advance(35_000)
    log = kept.plane.partition("t").log
    assert log.size_bytes < size
    assert kept.checkpoint(CLEANER) == {("t", 0): 5}
    seen = []
    offset = 0
    while offset < 6:
        found = kept.plane.fetch("t", offset)[0]
        seen += [value[:1] for value in found.values if value]
        offset = found.base_offsets[-1] + 1
    assert seen == [b"\3", b"\4", b"\5"]


def test_the_cleaner_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    kept = compacted(tmp_path / "data")
    for at in range(6):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k%d" % (at % 2)))
    kept.runtime.advance(35_000)
    before = kept.plane.partition("t").log.size_bytes
    assert kept.stop()
    again = compacted(tmp_path / "data")
    again.runtime.advance(40_000)
    assert again.plane.partition("t").log.size_bytes == before
    assert again.checkpoint(CLEANER) == {("t", 0): 5}


def test_a_log_whose_cleaning_fails_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = compacted(tmp_path / "data")
    for at in range(6):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k"))
    path = tmp_path / "data" / "t-0" / f"{1:020d}.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    size = kept.plane.partition("t").log.size_bytes
    passes: list[Any] = []
    in_process = kept.runtime.in_process
    monkeypatch.setattr(kept.runtime, "in_process", lambda *work: passes.append(work) or in_process(*work))
    kept.runtime.advance(100_000)
    assert len(passes) == 1
    assert kept.plane.partition("t").log.size_bytes == size
    assert kept.checkpoint(CLEANER) == {}
    assert kept.plane.produce("t", batch(b"a")).error_code == 0


@pytest.mark.parametrize("why", [OSError(28, "No space left on device"), WorkerDied("the worker process ended")])
def test_a_log_is_cleaned_later_when_the_disk_or_the_process_was_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], why: Exception
) -> None:
    kept = compacted(tmp_path / "data")
    for at in range(6):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k"))
    before = kept.plane.partition("t").log.size_bytes

    def fail(work: Any, arguments: Any, done: Any, failed: Any) -> None:
        failed(why)

    with monkeypatch.context() as trouble:
        trouble.setattr(kept.runtime, "in_process", fail)
        kept.runtime.advance(150_000)
        assert kept.plane.partition("t").log.size_bytes == before
    kept.runtime.advance(70_000)
    assert kept.plane.partition("t").log.size_bytes < before
    said = capfd.readouterr().err
    assert "uncleanable" not in said
    assert said.count("log_not_cleaned") == isinstance(why, OSError), "once, not for every try"


def test_a_topic_deleted_while_it_is_cleaned(tmp_path: Path) -> None:
    kept = compacted(tmp_path / "data")
    for at in range(6):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k"))
    kept.runtime._eager_workers = False
    kept.runtime.advance(30_001)
    kept.plane.delete("t")
    kept.runtime.run_works()
    kept.runtime.advance(10_000)
    assert kept.checkpoint(CLEANER) == {}


def test_a_compacted_topic_made_again_is_cleaned_from_its_start(tmp_path: Path) -> None:
    kept = compacted(tmp_path / "data")
    for at in range(6):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k"))
    kept.runtime.advance(35_000)
    assert kept.checkpoint(CLEANER) == {("t", 0): 5}
    kept.plane.delete("t")
    kept.runtime.turn()
    assert kept.checkpoint(CLEANER) == {}
    kept.plane.create("t", cleanup_policy="compact", segment_bytes="1048576")
    # Twice the first five keys, and then others: the old checkpoint would call the first ones clean.
    for at in range(10):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k%d" % max(at, 4)))
    kept.runtime.advance(40_000)
    found = kept.plane.fetch("t", 0)[0]
    assert found.base_offsets[0] == 4


def test_a_checkpoint_outside_of_the_log_is_corrected_before_the_log_reaches_it(tmp_path: Path) -> None:
    """C09: kept, it would call records clean that no pass has seen, and a superseded value would stay for good."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / CLEANER).write_text("0\n1\nt 0 5\n")
    kept = compacted(directory)
    kept.runtime.advance(35_000)
    assert kept.checkpoint(CLEANER) == {("t", 0): 0}
    for at in range(6):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k%d" % (at % 2)))
    kept.runtime.advance(35_000)
    assert kept.plane.fetch("t", 0)[0].base_offsets[0] == 3


def test_a_pass_maps_as_many_keys_as_its_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key takes 150 bytes here, not Kafka's 24: by those a pass would take six times its memory."""
    kept = compacted(tmp_path / "data")
    for at in range(6):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k"))
    plans: list[Any] = []
    in_process = kept.runtime.in_process

    def look(work: Any, arguments: Any, *rest: Any) -> None:
        plans.extend(arguments)
        in_process(work, arguments, *rest)

    monkeypatch.setattr(kept.runtime, "in_process", look)
    kept.runtime.advance(35_000)
    assert plans[0].max_keys == int(134_217_728 * 0.9) // 150


def test_many_compacted_logs_are_looked_at_a_few_at_a_time(tmp_path: Path) -> None:
    """After a clean stop the first look opens them: two thousand at once held every request for half a second."""
    kept = Kept(tmp_path / "data")
    kept.plane.create("t", partitions=60, cleanup_policy="compact")
    kept.runtime.step_ns = 200_000
    kept.log_manager.cleaning.start()
    kept.log_manager.cleaning.look()
    opened = []

    def mine() -> None:
        opened.append(len(kept.plane.partitions))
        if opened[-1] < 60:
            kept.runtime.next_turn(mine)

    mine()
    kept.runtime.turn()
    assert opened[-1] == 60
    assert max(after - before for before, after in pairwise(opened)) <= 5


def test_a_clean_of_many_segments_is_taken_over_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every segment costs renames on the event loop: between them requests are let through."""
    kept = compacted(tmp_path / "data")
    for at in range(9):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k%d" % (at % 2)))
    log = kept.plane.partition("t").log
    turns: list[bool | None] = []
    finish = PartitionLog.finish_swap

    def look(self: PartitionLog, *given: Any) -> bool | None:
        turns.append(finish(self, *given))
        return turns[-1]

    monkeypatch.setattr(PartitionLog, "finish_swap", look)
    kept.runtime.advance(35_000)
    assert turns == [*[None] * (len(turns) - 1), True]
    assert len(turns) > 2
    assert kept.checkpoint(CLEANER) == {("t", 0): 8}
    assert kept.plane.fetch("t", 0)[0].base_offsets[0] == 6
    assert log.apply_retention(kept.runtime.now_ms(), log.log_end_offset) == []
    assert kept.stop()


def test_the_checkpoint_of_a_cleaning_is_not_written_before_its_names_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It calls clean what a power loss would bring back: a tombstone there would go one day, and the old value stay."""
    kept = compacted(tmp_path / "data")
    for at in range(6):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k%d" % (at % 2)))
    seen: list[Any] = []
    settle = Swap.settle

    def look(self: Swap) -> None:
        seen.append(kept.checkpoint(CLEANER))
        settle(self)

    monkeypatch.setattr(Swap, "settle", look)
    kept.runtime.advance(35_000)
    assert seen == [{}]
    assert kept.checkpoint(CLEANER) == {("t", 0): 5}


def test_a_log_fails_when_the_names_of_a_cleaning_cannot_be_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = compacted(tmp_path / "data")
    for at in range(6):
        kept.plane.produce("t", batch(bytes([at]) * 600_000, key=b"k%d" % (at % 2)))

    def refuse(_: Swap) -> None:
        raise StorageError("cannot flush", tmp_path)

    monkeypatch.setattr(Swap, "settle", refuse)
    kept.runtime.advance(35_000)
    assert kept.plane.partition("t").error is not None
    assert kept.checkpoint(CLEANER) == {}
