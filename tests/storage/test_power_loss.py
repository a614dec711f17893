"""Power loss at every file operation: of each file only what was fsynced, of each folder only fsynced names.

The harshest disk there is: nothing reaches the disk by itself. What a finished flush promised must be there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from storage.clean.cleaner import clean
from storage.log.partition_log import PartitionLog
from tests.storage.logs import batch, keyed, opened, pairs
from tests.storage.test_crash import TINY, BrokenDisk, Crash, breakages
from tests.support.recording_disk import RecordingDisk, World

pytestmark = pytest.mark.slow  # hundreds of lives each


class PowerLossDisk(BrokenDisk):
    """Knows what is really on the disk: contents by inode as of their last fsync, names as of the folder's."""

    def __init__(self, at: int, directory: Path) -> None:
        super().__init__(at)
        self.directory = directory
        self.contents: dict[int, bytes] = {}
        self.names: dict[str, int] = {}
        self.kept: list[int] = []  # descriptors, so that no inode number is given twice
        for name in ("fsync", "fdatasync"):
            setattr(self, name, self._guarded(name, self._fsync))

    def start(self) -> None:
        """Everything in the folder is on the disk."""
        for path in self.directory.iterdir():
            descriptor = os.open(path, os.O_RDONLY)
            self._fsync(descriptor)
            self.names[path.name] = os.fstat(descriptor).st_ino
            self.kept.append(descriptor)

    def _fsync(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if status.st_ino == self.directory.stat().st_ino:
            self.names = {path.name: path.stat().st_ino for path in self.directory.iterdir()}
            return
        self.kept.append(os.dup(descriptor))
        self.contents[status.st_ino] = os.pread(descriptor, status.st_size, 0)

    def lose_power(self) -> None:
        """Leave in the folder what the disk itself holds."""
        for path in list(self.directory.iterdir()):
            path.unlink()
        for name, inode in self.names.items():
            (self.directory / name).write_bytes(self.contents.get(inode, b""))
        for descriptor in self.kept:
            os.close(descriptor)


def life(log: PartitionLog, flushed: Callable[[int], None]) -> None:
    for at in range(12):
        log.append(batch(1, timestamp=at, value_bytes=100), leader_epoch=0)
        if at % 5 == 4:
            flushed(log.flush())
    log.close()
    flushed(log.recovery_point)


def life_after_a_crash(log: PartitionLog, flushed: Callable[[int], None]) -> None:
    """Segments that an earlier run never flushed are proven by the first flush of this one."""
    for _ in range(6):
        log.append(batch(1, value_bytes=100), leader_epoch=9)
    flushed(log.flush())


@pytest.mark.parametrize("again", [False, True])
def test_what_a_flush_promised_is_there_after_a_power_loss(tmp_path: Path, again: bool) -> None:
    """Every acknowledged flush, wherever the power goes; the log is a whole prefix."""
    directory = tmp_path / "t-0"
    promises = set()
    for at in breakages():
        directory.mkdir()
        if again:
            log = opened(directory, TINY)
            for _ in range(12):
                log.append(batch(1, value_bytes=100), leader_epoch=0)
            del log
        disk, promised = PowerLossDisk(at, directory), [0]
        if again:
            # The page cache of the first run is what this one sees; its names are on the disk, its bytes are not.
            disk.names = {path.name: path.stat().st_ino for path in directory.iterdir()}
        with suppress(Crash):
            (life_after_a_crash if again else life)(opened(directory, TINY, disk=disk), promised.append)
        disk.lose_power()
        found = [offset for offset, _, _ in pairs(opened(directory, TINY, recovery_point=promised[-1]))]
        assert found == list(range(len(found)))
        assert len(found) >= promised[-1], (at, disk.broke)
        promises.add(promised[-1])
        shutil.rmtree(directory)
        if not disk.broke:
            break
    assert max(promises) == (18 if again else 12)


def segments_overlap(log: PartitionLog) -> bool:
    """Does one reach into the next?"""
    ends = [max((h[0] + h[6] + 1 for _, h in one.headers()), default=one.base_offset) for one in log.segments]
    return any(end > base for end, base in zip(ends, log.bases[1:], strict=False))


def before_syncs(disk: RecordingDisk, begin: int = 0) -> list[int]:
    """Where in the journal a power loss has most to take: in front of each fsync of the folder; if none, at the end."""
    end = len(disk.journal)
    return [at for at in range(begin, end) if disk.journal[at].kind == "sync_folder"] or [end]


@pytest.mark.parametrize("at", range(60))
def test_no_source_is_left_beside_what_replaced_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Whatever renames power losses keep of those that no fsync followed, in a swap and in the start that finishes it:
    no segment reaches into the next (simulated, 73252). The next cleaning would write both behind each other.
    """
    disk = RecordingDisk(tmp_path)
    (tmp_path / "t-0").mkdir()
    log = PartitionLog.open(tmp_path / "t-0", TINY, disk=disk)
    for value in range(12):
        log.append(keyed((b"a", b"%d" % value), (b"only%d" % value, b"x" * 60)), leader_epoch=0)
        log.roll()
    log.append(keyed((b"active", b"1")), leader_epoch=0)
    log.flush()
    last = {key: value for _, key, value in pairs(log)}
    monkeypatch.setattr("storage.clean.cleaner.DISK", disk)
    result = clean(log.plan_cleaning(log.dirty_range(None, 2_000, log.log_end_offset), 2_000))
    assert len(result.groups) > 1
    begun = len(disk.journal)
    log.swap_in(result)
    world, random = World(), Random(at)
    for op in disk.journal[: random.choice(before_syncs(disk, begun))]:
        world.apply(op)
    once, twice = tmp_path / "once", tmp_path / "twice"
    world.lose_power(once, random)
    assert len(list((once / "t-0").glob("*.log.swap"))) <= 1, "Kafka would take what lies between two for replaced"
    second, world = RecordingDisk(once), World()
    for path in sorted(path for path in once.rglob("*") if path.is_file()):
        number, name = second.found(path)
        world.found(name, number, path.read_bytes())
    again = PartitionLog.open(once / "t-0", TINY, disk=second, recovery_point=log.log_end_offset)
    assert not segments_overlap(again)
    for op in second.journal[: random.choice(before_syncs(second))]:
        world.apply(op)
    world.lose_power(twice, random)
    end = opened(twice / "t-0", TINY, recovery_point=log.log_end_offset)
    assert not segments_overlap(end)
    assert {key: value for _, key, value in pairs(end)} == last


def test_a_swap_survives_a_power_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources or output, never neither: the newest value of each key is there."""
    directory = tmp_path / "t-0"
    lengths = set()
    for at in breakages():
        log = opened(directory, TINY)
        for value in range(5):
            log.append(keyed((b"a", b"%d" % value), (b"only%d" % value, b"x" * 60)), leader_epoch=0)
            log.roll()
        log.append(keyed((b"active", b"1")), leader_epoch=0)
        log.close()
        disk = PowerLossDisk(0, directory)
        log = opened(directory, TINY, disk=disk, clean=True)
        original = pairs(log)
        disk.start()
        monkeypatch.setattr("storage.clean.cleaner.DISK", disk)
        result = clean(log.plan_cleaning(log.dirty_range(None, 2_000, log.log_end_offset), 2_000))
        disk.count, disk.at = 0, at
        with suppress(Crash):
            log.swap_in(result)
        disk.lose_power()
        found = pairs(opened(directory, TINY, recovery_point=log.log_end_offset))
        assert {key: value for _, key, value in found} == {key: value for _, key, value in original}, (at, disk.broke)
        assert set(found) <= set(original)
        assert len(found) == len({offset for offset, _, _ in found})
        lengths.add(len(found))
        shutil.rmtree(directory)
        if not disk.broke:
            break
    assert len(lengths) > 1
