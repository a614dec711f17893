"""Bounds at which storage does otherwise, on both sides of each, and sentences that need a system which refuses."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import re
import struct
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage.clean.cleaner import CleanResult
from storage.clean.cleaning import DirtyRange
from storage.clean.swap import Swap
from storage.directory import meta_properties
from storage.directory.last_stops import LastStops
from storage.directory.log_directories import LogDirectories, check_distinct
from storage.directory.log_directory import LogDirectory, read_topic_id
from storage.errors import CorruptFile, CorruptSegment, DirectoryRefused, DirectoryUnusable, StorageError
from storage.files import Disk, LogFile
from storage.log import handover
from storage.log.log_lookup import TimestampedOffset
from storage.log.log_reader import MAX_BUFFERS
from storage.state.log_config import LogConfig
from storage.state.tail import Tail, TailBudget
from tests.storage.courses import TellingDisk
from tests.storage.logs import COMPACT, SMALL, batch, opened
from tests.storage.test_errors import Refusing, refuses

ID = bytes(range(16))
NO_SPACE = OSError(errno.EIO, "no such luck")


def says(error: type[Exception], said: str) -> Any:
    """This error, with this sentence as its whole text."""
    return pytest.raises(error, match=f"^{re.escape(said)}$")


# -- a directory ------------------------------------------------------------------------------------------------


def test_a_directory_is_made_for_its_owner_alone_and_its_lock_may_be_read(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        one = LogDirectory.open(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "b" / ".lock").stat().st_mode & 0o777 == 0o644
    assert os.get_inheritable(one._lock_fd) is False
    one.close()


@pytest.mark.parametrize(
    ("module", "name", "number", "error", "said"),
    [
        (os, "open", errno.ENOTDIR, DirectoryUnusable, "the data directory {} is not a directory"),
        (os, "open", errno.EEXIST, DirectoryUnusable, "the data directory {} is not a directory"),
        (os, "open", errno.EIO, DirectoryUnusable, "the data directory {} cannot be used: no such luck"),
        (fcntl, "lockf", errno.EIO, DirectoryUnusable, "the data directory {} cannot be locked: no such luck"),
        *(
            (fcntl, "lockf", number, DirectoryRefused, (
                "the data directory {} is in use by another process, Kohort or Apache Kafka: stop that first, "
                "or choose another log.dirs"
            ))
            for number in (errno.EACCES, errno.EAGAIN)
        ),
    ],
)  # fmt: skip
def test_a_directory_that_cannot_be_opened_or_locked_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, number: int, error: Any, said: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, "no such luck")

    with monkeypatch.context() as patched, says(error, said.format(tmp_path)):
        patched.setattr(module, name, refuse)
        LogDirectory.open(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
@pytest.mark.parametrize(("made", "owned"), [((), ""), (("data",), "/data"), (("data", "data/.lock"), "/data/.lock")])
def test_a_directory_of_another_user_is_refused_and_what_is_in_the_way_is_named(
    made: tuple[str, ...], owned: str
) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        for name in made:
            (Path(place) / name).touch(mode=0o600) if name.endswith("lock") else (Path(place) / name).mkdir(mode=0o755)
        os.seteuid(65534)
        try:
            with says(
                DirectoryUnusable,
                f"the data directory {place}/data cannot be used: Permission denied; {place}{owned} belongs to uid 0, "
                "this process runs as uid 65534: chown it, or choose another log.dirs",
            ):
                LogDirectory.open(Path(place) / "data")
        finally:
            os.seteuid(0)


def test_what_cannot_be_read_in_a_directory_is_named(tmp_path: Path) -> None:
    one = LogDirectory.open(tmp_path)
    marker, topic = tmp_path / ".kafka_cleanshutdown", tmp_path / "t-0" / "partition.metadata"
    for path in (marker, topic, tmp_path / meta_properties.FILE):
        path.mkdir(parents=True)
    no = "[Errno 21] Is a directory: '{}'"
    with says(StorageError, f"cannot read {marker}: {no.format(marker)}"):
        one.take_clean_marker()
    with says(CorruptFile, f"{topic}: {no.format(topic)}"):
        read_topic_id(tmp_path / "t-0")
    assert read_topic_id(tmp_path) is None
    file = tmp_path / meta_properties.FILE
    with says(StorageError, f"cannot read {file}: {no.format(file)}"):
        one.identity(node_id=1, new_uuid=lambda: ID)
    one.close()


class Failing(Disk):
    """Refuses what concerns a file whose path has this in it."""

    def __init__(self) -> None:
        self.words: tuple[str, ...] = ()
        for name in ("open", "rename", "unlink", "mkdir"):
            setattr(self, name, self._unless_refused(getattr(Disk, name)))

    def _unless_refused(self, call: Any) -> Any:
        def act(path: Path, *more: Any) -> Any:
            if any(word in str(path) for word in self.words):
                raise NO_SPACE
            return call(path, *more)

        return act


@pytest.mark.parametrize("when", ["stops", "identify", "write", "scan", "offsets"])
def test_a_directory_that_fails_at_any_step_of_a_start_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """And nothing that was found in the others is lost."""
    disk = Failing()
    names = [str(tmp_path / name) for name in "abc"]
    them = LogDirectories.open(names, None, disk)
    a, b, c = them.logs
    numbers = itertools.count(1)
    them.identify(node_id=1, new_uuid=lambda: next(numbers).to_bytes(1) * 16)
    if when != "write":
        them.write_identities()
    (a.path / "__cluster_metadata-0").mkdir()
    for one in them.logs:
        one.write_clean_marker(7)
        (one.path / "x").write_text("0\n1\nt 0 5\n")
    scans = them.scans()
    if when == "stops":
        disk.words = ("b/.kafka",)
        stops = LastStops.take(them)
        assert (stops.at, stops.unclean) == (7, frozenset())
        stops.give_back()
        assert [(one.path / ".kafka_cleanshutdown").exists() for one in (a, c)] == [True, True]
    elif when == "identify":
        (b.path / meta_properties.FILE).unlink()
        (b.path / meta_properties.FILE).mkdir()
        them.identify(node_id=1, new_uuid=lambda: next(numbers).to_bytes(1) * 16)
    elif when == "write":
        disk.words = ("b/meta",)
        them.write_identities()
        assert (c.path / meta_properties.FILE).exists()
        assert them.new == frozenset()
    elif when == "scan":
        monkeypatch.setattr(b, "path", tmp_path / "gone")
        assert [one for one, _ in them.scans()] == [a, c]
    else:
        (b.path / "x").unlink()
        (b.path / "x").mkdir()
        assert [offsets for _, offsets in them.offsets_in(scans, "x")] == [{("t", 0): 5}] * 2
    assert them.logs == (a, c)
    assert len(them.away) == 1
    them.close()


# -- a log --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "buffers"), [(MAX_BUFFERS, MAX_BUFFERS), (MAX_BUFFERS + 1, 1)])
def test_many_small_batches_are_read_from_memory_and_more_of_them_from_the_file(
    tmp_path: Path, count: int, buffers: int
) -> None:
    log = opened(tmp_path / "t-0", LogConfig(), tail=TailBudget())
    for _ in range(count):
        log.append(batch(1), leader_epoch=0)
    result = log.read(0, 1 << 20)
    assert (len(result.buffers), result.next_offset, result.size_bytes) == (buffers, count, log.size_bytes)


def test_a_tail_has_a_limit_of_bytes_and_of_batches() -> None:
    assert (TailBudget().limit_bytes, TailBudget().limit_batches) == (8_388_608, 8_192)
    for limits, kept in ((TailBudget(20, 99), [1, 2]), (TailBudget(19, 99), [2]), (TailBudget(999, 2), [1, 2])):
        tail = Tail(limits)
        for at in range(3):
            tail.add(at, b"0123456789", at + 1, at * 10)
        assert list(tail.batches) == kept
        assert limits.used_bytes == 10 * len(kept)
        tail.drop_below(2)
        assert (list(tail.batches), limits.used_bytes) == ([2], 10)
        tail.clear()
        assert (list(tail.batches), limits.used_bytes, tail.drop_oldest()) == ([], 0, 0)


@pytest.mark.parametrize("jitter", [0, 1_000])
@pytest.mark.parametrize(("timestamp", "now"), [(10_000, 0), (-1, 10_000)])
def test_a_segment_takes_batches_for_its_time_less_what_its_name_takes_off(
    tmp_path: Path, jitter: int, timestamp: int, now: int
) -> None:
    """By the batches' timestamps, or by the clock where they have none; of an empty segment nothing is old."""
    log = opened(tmp_path / "t-0", LogConfig(segment_ms=5_000, segment_jitter_ms=jitter))
    last = 5_000 - zlib.crc32(b"t-0") % (jitter + 1)
    has_time = timestamp >= 0
    for after, segments in ((0, 1), (last, 1), (last + 1, 2)):
        made = batch(1, timestamp=timestamp + after if has_time else -1)
        log.append(made, leader_epoch=0, now_ms=now + (0 if has_time else after))
        assert len(log.segments) == segments


def test_a_segment_has_so_many_index_entries(tmp_path: Path) -> None:
    """As many as its time index has room for, less the last one."""
    log = opened(tmp_path / "t-0", LogConfig(index_interval_bytes=0, segment_index_bytes=60))
    for _ in range(6):
        log.append(batch(1), leader_epoch=0)
    assert (len(log.segments), len(log.segments[0].offset_index)) == (2, 4)


@pytest.mark.parametrize(("kept", "position"), [(0, 0), (60, 0), (61, 1), (160, 1), (200, 2)])
def test_a_file_that_became_shorter_under_a_log_is_called_corrupt_where_it_ends(
    tmp_path: Path, kept: int, position: int
) -> None:
    """Less than a header is left there."""
    log = opened(tmp_path / "t-0", LogConfig(index_interval_bytes=1 << 20), tail=None)
    for _ in range(4):
        log.append(batch(1), leader_epoch=0)
    path = log.segments[0].path(".log")
    os.truncate(path, kept)
    with says(CorruptSegment, f"{path}: no batch begins at byte {position * log.size_bytes // 4}, although one should"):
        log.read(3, 1 << 20)


@pytest.mark.parametrize("first", [-1, 0])
@pytest.mark.parametrize("second", [-1, 0])
def test_the_first_moment_of_all_is_a_time_too(tmp_path: Path, first: int, second: int) -> None:
    """1970-01-01, in the first segment or a later one, found again after a start; -1 is no time."""
    log = opened(tmp_path / "t-0")
    log.append(batch(1, timestamp=first), leader_epoch=0)
    log.roll()
    log.append(batch(1, timestamp=second), leader_epoch=0)
    wanted = None if first == second == -1 else TimestampedOffset(0, 0 if first == 0 else 1, 0)
    log.close()
    again = opened(tmp_path / "t-0", clean=True)
    for one in (log, again):
        assert one.offset_of_max_timestamp() == wanted
        assert one.offset_for_timestamp(0) == wanted
        assert one.offset_for_timestamp(1) is None


def test_a_cleaning_is_due_above_the_ratio_or_when_something_waits_too_long() -> None:
    def due(clean: int, dirty: int, ratio: float, *, overdue: bool = False) -> bool:
        return DirtyRange(0, 9, clean, dirty, overdue, checkpoint_reset=False).is_eligible(ratio)

    assert DirtyRange(0, 9, 30, 10, False, False).ratio == 0.25
    assert DirtyRange(0, 9, 0, 0, False, False).ratio == 0.0
    assert [due(1, 1, 0.5), due(1, 2, 0.5), due(1, 2, 0.7), due(1, 2, 0.7, overdue=True)] == [False, True, False, True]
    assert [due(1, 0, 0.0), due(0, 0, 0.0, overdue=True), due(0, 1, 0.99)] == [False, False, True]


def test_an_empty_segment_of_that_name_is_taken_over_and_one_with_content_is_not(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    log.append(batch(2), leader_epoch=0)
    path = tmp_path / "t-0" / f"{2:020d}.log"
    path.write_bytes(b"x")
    with pytest.raises(StorageError, match=r"^cannot start segment .*00002\.log: \[Errno 17\]"):
        log.roll()
    assert path.read_bytes() == b"x"
    path.write_bytes(b"")
    assert log.roll()
    assert log.append(batch(1), leader_epoch=0) == 2


def test_a_disk_that_refuses_to_make_new_names_last_is_named(tmp_path: Path) -> None:
    disk = Refusing()
    log = opened(tmp_path / "t-0", SMALL, disk=disk)
    swapping = Swap(log.state, CleanResult((), 0, 0, 0, map_full=False))
    refuses(disk, swapping.settle, f"cannot swap in a cleaned segment in {tmp_path / 't-0'}")


@pytest.mark.parametrize(
    "act",
    [
        lambda log: log.read(0, 1),
        lambda log: log.read(0, 1, copied=True),
        lambda log: log.timestamp_at(1),
        lambda log: log.apply_retention(10**15, log.log_end_offset),
        lambda log: log.dirty_range(None, 0, log.log_end_offset),
    ],
)
def test_a_disk_that_refuses_to_be_read_is_named_whatever_is_asked(tmp_path: Path, act: Any) -> None:
    """Of a log whose records have no times, and whose indexes are gone: all must be read."""
    disk = Refusing()
    config = replace(SMALL, min_compaction_lag_ms=1, retention_ms=1)
    log = opened(tmp_path / "t-0", config)
    for _ in range(20):
        log.append(batch(2, timestamp=-1), leader_epoch=0)
    log.close()
    log = opened(tmp_path / "t-0", config, clean=True, disk=disk, tail=None)
    log.release_unused()
    for path in (tmp_path / "t-0").glob("*index"):
        path.unlink()
    refuses(disk, lambda: act(log), f"cannot read {tmp_path / 't-0'}")


@pytest.mark.parametrize(
    "act",
    [
        handover.first_offset,
        lambda log: handover.bytes_left(log, 7),
        lambda log: handover.next_piece(log, 7, 300, log.log_end_offset),
        lambda log: log.read(7, 300, copied=True),
        lambda log: log.timestamp_at(7),
    ],
)
def test_whichever_read_a_disk_refuses_it_is_named(tmp_path: Path, act: Any) -> None:
    """Each in turn, of a log that knows nothing by heart."""
    folder = tmp_path / "t-0"
    log = opened(folder)
    for _ in range(20):
        log.append(batch(2), leader_epoch=0)
    log.close()
    refused = 0
    for at in range(20):
        disk = TellingDisk(folder)
        log = opened(folder, clean=True, disk=disk, tail=None, log_start_offset=5)
        disk.refuse_at = at
        try:
            act(log)
            break
        except StorageError as error:
            assert str(error) == f"cannot read {folder}: [Errno 5] no"
            refused += 1
    assert refused > 0


def test_a_copy_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    disk = Refusing()
    source, copy = opened(tmp_path / "a"), opened(tmp_path / "b", disk=disk)
    source.append(batch(1), leader_epoch=0)
    refuses(disk, lambda: handover.take_over(copy, source, None), f"cannot write to {tmp_path / 'b'}")


def test_what_waits_for_its_fsync_or_its_removal_goes_with_the_folder(tmp_path: Path) -> None:
    """The folder has another name, and the next flush finds the files there."""
    log = opened(tmp_path / "t-0.new")
    for _ in range(60):
        log.append(batch(2), leader_epoch=0)
    log.delete_records_before(log.bases[1])
    log.apply_retention(0, log.log_end_offset)
    closed = [f"{base:020d}.log" for base in log.bases[:-1]]
    assert len(closed) > 1
    (tmp_path / "t-0.new").rename(tmp_path / "t-0")
    log.state.relocate(tmp_path / "t-0")
    assert {tmp_path / "t-0" / name for name in closed} <= log.state.unsynced_paths()
    assert {path.parent for path in log.state.begin_flush().paths} == {tmp_path / "t-0"}
    assert log.flush() == 120
    assert all(path.exists() for path in log.take_deleted_files())
    assert log.read(80, 100, copied=True).size_bytes > 0
    log.close()
    assert opened(tmp_path / "t-0", clean=True).log_end_offset == 120


@pytest.mark.parametrize("act", [lambda log: log.read(5, 300, copied=True), lambda log: log.read(0, 400, copied=True)])
def test_a_length_that_changed_under_a_log_is_called_corrupt_where_it_stands(tmp_path: Path, act: Any) -> None:
    """On the way to where a read begins, and to where it ends."""
    log = opened(tmp_path / "t-0", LogConfig(index_interval_bytes=1 << 20), tail=None)
    for _ in range(8):
        log.append(batch(1), leader_epoch=0)
    size = log.size_bytes // 8
    path = log.segments[0].path(".log")
    with path.open("r+b") as file:
        file.seek(2 * size + 8)
        file.write(bytes(4))
    with says(CorruptSegment, f"{path}: no batch begins at byte {2 * size}, although one should"):
        act(log)


def test_a_file_is_closed_with_the_last_who_refers_to_it(tmp_path: Path) -> None:
    closed: list[int] = []
    disk = Disk()
    disk.close = closed.append  # type: ignore[method-assign,assignment]  # a disk that watches
    file = LogFile(tmp_path / "f", os.O_RDWR | os.O_CREAT, disk)
    number = file.fd
    del file
    assert closed == [number]
    os.close(number)


def test_what_a_reader_is_given_of_a_file_cannot_be_written(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", tail=None)
    log.append(batch(1), leader_epoch=0)
    view = log.read(0, 1).buffers[0]
    assert isinstance(view, memoryview)
    assert view.readonly


def test_a_swap_that_was_never_prepared_ends_the_log(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", COMPACT)
    for _ in range(2):
        with says(StorageError, f"was not swapped in: {tmp_path / 't-0'}"):
            result = CleanResult((), 0, 0, 0, map_full=False)
            log.finish_swap(log.begin_swap(result), result)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_of_an_old_format_is_refused_with_the_way_out(tmp_path: Path, magic: int) -> None:
    body = bytes([magic, 0]) + bytes(8 * magic) + struct.pack(">ii", -1, 2) + b"hi"
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body)
    with says(
        CorruptFile,
        f"{path}: holds messages of format {magic}, written by Kafka before 0.11, which are not read; let Kafka 3.x "
        "rewrite the topic first",
    ):
        opened(tmp_path)


def test_a_folder_that_is_mounted_at_two_places_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No path leads from one to the other: only the file system knows."""
    a, b, c = (tmp_path / name for name in "abc")
    for one in (a, b, c):
        one.mkdir()
    stat = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **how: stat(a if path == b else path, **how))
    check_distinct([a, c])
    with says(DirectoryRefused, f"log.dirs: {a} and {b} are the same directory"):
        check_distinct([a, c, b])


def test_a_record_waits_too_long_to_be_cleaned_when_it_waits_longer_than_it_may(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", replace(COMPACT, max_compaction_lag_ms=10))
    log.append(batch(1, timestamp=1_000), leader_epoch=0)
    log.roll()
    log.append(batch(1, timestamp=-1), leader_epoch=0)
    log.roll()
    assert [log.dirty_range(None, now, 2).overdue for now in (1_009, 1_010, 1_011)] == [False, False, True]
