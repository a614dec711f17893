"""Every file operation may be the last one, or the one that fails: what was acknowledged is there afterwards."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage.clean.cleaner import clean
from storage.errors import StorageError
from storage.files import Disk
from storage.log import next_segment
from storage.log.partition_log import PartitionLog
from storage.reading.batches import Parted
from storage.reading.checkpoints import read_offsets, write_offsets
from storage.state.log_config import LogConfig
from tests.storage.logs import batch, keyed, opened, pairs, parted

TINY = LogConfig(segment_bytes=700, index_interval_bytes=100, compact=True)
CHANGES = ("open", "pwrite", "ftruncate", "fsync", "fdatasync", "rename", "unlink")


class Crash(BaseException):
    """The process is gone: no handler of ours may act on this."""


class BrokenDisk(Disk):
    """Works until operation number `at`, which fails with `error` or, without one, is the last that ever happens."""

    def __init__(self, at: int, error: int | None = None, *, half: bool = False) -> None:
        self.count = 0
        self.at = at
        self.error = error
        self.half = half
        self.broke = ""
        for name in CHANGES:
            # A process that dies does not lose the page cache, so the tests need not wait for an fsync.
            call = getattr(Disk, name) if not name.endswith("sync") else lambda _: None
            setattr(self, name, self._guarded(name, call))

    def _guarded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any, **options: Any) -> Any:
            if self.error is None and self.broke:
                raise Crash
            self.count += 1
            if self.count == self.at:
                self.broke = name
                if name == "pwrite" and self.half:
                    descriptor, data, position = arguments
                    os.pwrite(descriptor, bytes(data)[: len(data) // 2], position)
                if self.error is None:
                    raise Crash
                raise OSError(self.error, os.strerror(self.error))
            return call(*arguments, **options)

        return guarded


def breakages() -> Iterator[int]:
    """1, 2, 3 ...; the test ends it when an operation of that number no longer happens."""
    at = 0
    while True:
        at += 1
        yield at


Append = Callable[[PartitionLog, bytearray, int], int]


def append(log: PartitionLog, made: bytearray, leader_epoch: int) -> int:
    return log.append(made, leader_epoch=leader_epoch)


def append_in_two(log: PartitionLog, made: bytearray | Parted, leader_epoch: int) -> int:
    """As when another thread writes."""
    placed = log.place(made, leader_epoch=leader_epoch)
    placed.write()
    log.finish(placed)
    return placed.batches[0][2]


def append_where_it_came(log: PartitionLog, made: bytearray, leader_epoch: int) -> int:
    """And when its records stay where they are: two buffers, of which the first may be all that is written."""
    return append_in_two(log, parted(made), leader_epoch)


either = pytest.mark.parametrize("append", [append, append_in_two, append_where_it_came])


def life(directory: Path, disk: Disk, acknowledged: list[int], append: Append = append) -> None:
    """Appends over several segments, flushes between them, and a clean close."""
    log = opened(directory, TINY, disk=disk)
    for at in range(12):
        acknowledged.append(append(log, batch(1, timestamp=at, value_bytes=100), at // 4))
        if at % 5 == 4:
            log.flush()
    log.close()


@either
@pytest.mark.parametrize("half", [True, False])
def test_a_crash_at_any_operation_loses_nothing_that_was_acknowledged(
    tmp_path: Path, half: bool, append: Append
) -> None:
    """SIGKILL while opening, appending, rolling, flushing, closing: all acknowledged records are there, in order."""
    directory = tmp_path / "t-0"
    for at in breakages():
        disk, acknowledged = BrokenDisk(at, half=half), list[int]()
        with suppress(Crash):
            life(directory, disk, acknowledged, append)
        found = [offset for offset, _, _ in pairs(opened(directory, TINY, disk=BrokenDisk(0)))]
        assert found[: len(acknowledged)] == acknowledged, (at, disk.broke)
        assert found == list(range(len(found)))
        assert len(found) <= len(acknowledged) + 1
        shutil.rmtree(directory)
        if not disk.broke:
            break
    assert at > 40


@pytest.mark.parametrize("half", [True, False])
@either
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failing_operation_leaves_the_log_as_it_was(tmp_path: Path, error: int, half: bool, append: Append) -> None:
    """The append that failed raises KAFKA_STORAGE_ERROR; the next one works and gets the same offset."""
    directory = tmp_path / "t-0"
    for at in breakages():
        disk = BrokenDisk(10**9, error, half=half)
        log = opened(directory, TINY, disk=disk)
        disk.count, disk.at = 0, at
        for offset in range(12):
            try:
                given = append(log, batch(1, timestamp=offset, value_bytes=100), offset // 4)
            except StorageError as refused:
                assert isinstance(refused.cause, OSError)
                assert re.fullmatch(r"cannot (append to|start segment) \S+/t-0/0\d+[.]log: .+", str(refused))
                assert str(refused).endswith(f": {refused.cause}")
                given = append(log, batch(1, timestamp=offset, value_bytes=100), offset // 4)
            assert given == offset
        assert [found for found, _, _ in pairs(log)] == list(range(12))
        disk.at = 0
        log.close()
        for clean_stop in (True, False):
            assert [
                found for found, _, _ in pairs(opened(directory, TINY, clean=clean_stop, disk=BrokenDisk(0)))
            ] == list(range(12))
        shutil.rmtree(directory)
        if not disk.broke:
            break
    assert at > 20


def fails(*_: Any) -> Any:
    """No file operation."""
    raise OSError(errno.EIO, "no")


def half(descriptor: int, data: bytes, position: int) -> int:
    """A write that the disk refuses in its middle."""
    os.pwrite(descriptor, bytes(data)[:50], position)
    raise OSError(errno.ENOSPC, "no")


def test_a_half_written_batch_that_cannot_be_cut_is_written_over(tmp_path: Path) -> None:
    """Both the write and the truncation fail: readers do not see the half, and the next append replaces it."""
    disk = BrokenDisk(10**9)
    log = opened(tmp_path, TINY, disk=disk)
    log.append(batch(1), leader_epoch=0)

    disk.pwrite, disk.ftruncate = half, fails  # type: ignore[method-assign]  # a disk that breaks
    with pytest.raises(StorageError):
        log.append(batch(1), leader_epoch=0)
    with pytest.raises(StorageError, match="cannot append"):
        log.append(batch(1), leader_epoch=0)
    disk.pwrite, disk.ftruncate = os.pwrite, os.ftruncate  # type: ignore[method-assign]  # and is mended
    assert log.append(batch(1), leader_epoch=0) == 1
    log.close()
    assert [offset for offset, _, _ in pairs(opened(tmp_path, TINY, clean=True))] == [0, 1]


def test_a_half_written_batch_is_cut_before_a_new_segment_begins(tmp_path: Path) -> None:
    """In the middle of the log a recovery would take it for the end, and remove every segment after it."""
    disk = BrokenDisk(10**9)
    log = opened(tmp_path, TINY, disk=disk)
    log.append(batch(1), leader_epoch=0)

    disk.pwrite, disk.ftruncate = half, fails  # type: ignore[method-assign]  # a disk that breaks
    with pytest.raises(StorageError):
        log.append(batch(1), leader_epoch=0)
    with pytest.raises(StorageError, match="cannot start segment"):
        log.roll()
    disk.pwrite, disk.ftruncate = os.pwrite, os.ftruncate  # type: ignore[method-assign]  # and is mended
    assert log.roll()
    assert log.append(batch(1), leader_epoch=0) == 1
    again = opened(tmp_path, TINY)
    assert [offset for offset, _, _ in pairs(again)] == [0, 1]
    assert not again.recovery.cuts


def test_an_index_that_cannot_be_read_is_a_segment_that_cannot_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets its last entry before."""
    log = opened(tmp_path, TINY)
    log.append(batch(1), leader_epoch=0)
    log.close()
    log = opened(tmp_path, TINY, clean=True)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fails)
        with pytest.raises(StorageError, match="cannot start segment"):
            log.roll()
    assert log.roll()


def test_a_fault_of_ours_leaves_no_half_made_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path, TINY)
    log.append(batch(1), leader_epoch=0)
    with monkeypatch.context() as patch:
        patch.setattr(next_segment, "write_packed_snapshot", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            log.roll()
    assert not (tmp_path / "00000000000000000001.log").exists()
    assert log.roll()


@pytest.mark.parametrize("in_two", [False, True])
def test_nothing_is_appended_below_a_segment_that_could_neither_be_made_nor_removed(
    tmp_path: Path, in_two: bool
) -> None:
    """A start would look for it in the empty file, and hand it out to nobody, or its offset once more."""
    disk = BrokenDisk(10**9)
    config = replace(TINY, segment_ms=1_000)
    log = opened(tmp_path, config, disk=disk)
    log.append(batch(1, timestamp=1_000), leader_epoch=0)
    real_open, real_unlink = disk.open, disk.unlink

    def only_logs(path: Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).suffix != ".log":
            raise OSError(errno.ENOSPC, "no")
        return real_open(path, flags, mode)

    def refuse(path: Path) -> None:
        raise OSError(errno.EIO, "no")

    disk.open, disk.unlink = only_logs, refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageError):
        (append_in_two if in_two else append)(log, batch(1, timestamp=9_000), 0)
    disk.open, disk.unlink = real_open, real_unlink  # type: ignore[method-assign]
    assert (tmp_path / "00000000000000000001.log").exists()
    assert log.append(batch(1, timestamp=1_001), leader_epoch=0) == 1  # for which the old segment had room
    assert log.append(batch(1, timestamp=1_002), leader_epoch=0) == 2
    assert log.bases == [0, 1]
    log.close()
    assert [offset for offset, _, _ in pairs(opened(tmp_path, config, clean=True))] == [0, 1, 2]


def test_a_segment_that_could_neither_be_made_nor_removed_is_made_later(tmp_path: Path) -> None:
    """Its empty file lies where the next try wants to begin."""
    disk = BrokenDisk(10**9)
    log = opened(tmp_path, TINY, disk=disk)
    log.append(batch(1), leader_epoch=0)
    real = disk.open

    def only_logs(path: Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).suffix != ".log":
            raise OSError(errno.ENOSPC, "no")
        return real(path, flags, mode)

    disk.open, disk.unlink = only_logs, fails  # type: ignore[method-assign]  # a disk that breaks
    with pytest.raises(StorageError, match="cannot start segment"):
        log.roll()
    disk.open, disk.unlink = real, os.unlink  # type: ignore[method-assign]  # and is mended
    assert log.roll()
    assert log.append(batch(1), leader_epoch=0) == 1
    log.close()
    assert [offset for offset, _, _ in pairs(opened(tmp_path, TINY, clean=True))] == [0, 1]


def test_a_failed_fsync_stops_the_log(tmp_path: Path) -> None:
    """The kernel reports lost pages once, so nothing may be believed after it: KAFKA_STORAGE_ERROR until reopened."""
    disk = BrokenDisk(10**9, errno.EIO)
    log = opened(tmp_path, TINY, disk=disk)
    log.append(batch(1), leader_epoch=0)
    ticket = log.begin_flush()
    disk.count, disk.at = 0, 1
    with pytest.raises(StorageError):
        ticket.sync()
    with pytest.raises(StorageError):
        log.finish_flush(ticket)
    for use in (lambda: log.append(batch(1), leader_epoch=0), log.begin_flush, lambda: log.read(0, 1), log.close):
        with pytest.raises(StorageError):
            use()
    assert log.recovery_point == 0
    assert opened(tmp_path, TINY).log_end_offset == 1


def compacted(directory: Path, disk: Disk) -> None:
    log = opened(directory, TINY, disk=disk)
    for at in range(6):
        log.append(keyed((b"a", b"%d" % at), (b"only%d" % at, b"x" * 60)), leader_epoch=0)
        log.roll()
    log.append(keyed((b"active", b"1")), leader_epoch=0)
    log.flush()


def swapped(directory: Path, disk: Disk) -> PartitionLog:
    log = opened(directory, TINY, disk=disk)
    result = clean(log.plan_cleaning(log.dirty_range(None, 2_000, log.log_end_offset), 2_000))
    assert len(result.groups) > 1
    log.swap_in(result)
    return log


@pytest.mark.parametrize("error", [None, errno.EIO])
def test_a_swap_may_stop_anywhere(tmp_path: Path, error: int | None) -> None:
    """C10 at every operation: the newest value of each key is there, no record twice, offsets as they were."""
    source = tmp_path / "source-0"
    compacted(source, Disk())
    original = {offset: (key, value) for offset, key, value in pairs(opened(source, TINY))}
    newest = dict(original.values())
    sizes = set()
    for at in breakages():
        directory = tmp_path / "t-0"
        shutil.copytree(source, directory)
        disk = BrokenDisk(at, error)
        with suppress(Crash, StorageError, OSError):
            swapped(directory, disk)
        log = opened(directory, TINY, disk=BrokenDisk(0))
        found = pairs(log)
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
        assert all(original[offset] == (key, value) for offset, key, value in found), (at, disk.broke)
        assert {key: value for _, key, value in found} == newest, (at, disk.broke)
        assert not [path for path in directory.iterdir() if path.suffix in {".cleaned", ".swap", ".deleted"}]
        sizes.add(len(found))
        shutil.rmtree(directory)
        if not disk.broke:
            break
    assert sizes > {len(original), len(newest)}


def test_a_truncation_may_stop_anywhere(tmp_path: Path) -> None:
    """Afterwards the log is a prefix of what it was, at least up to the cut."""
    for at in breakages():
        directory = tmp_path / "t-0"
        life(directory, Disk(), [])
        disk = BrokenDisk(at)
        with suppress(Crash):
            log = opened(directory, TINY, disk=disk)
            if at % 2:
                log.state.tail.clear()
                log.read(0, 1 << 20)
            log.truncate_to(5)
        found = [offset for offset, _, _ in pairs(opened(directory, TINY, disk=BrokenDisk(0)))]
        assert found == list(range(len(found)))
        assert len(found) >= 5
        shutil.rmtree(directory)
        if not disk.broke:
            assert len(found) == 5
            break


def test_a_checkpoint_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    """Whatever operation is the last one."""
    path = tmp_path / "recovery-point-offset-checkpoint"
    old, new = {("a", 0): 1}, {("a", 0): 2, ("b", 10): 2**40}
    write_offsets(path, old)
    seen = set()
    for at in breakages():
        disk = BrokenDisk(at, half=True)
        with suppress(Crash):
            write_offsets(path, new, disk)
        found = read_offsets(path)
        assert found in (old, new)
        seen.add(len(found))
        write_offsets(path, old)
        if not disk.broke:
            break
    assert seen == {1, 2}
