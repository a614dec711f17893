"""What is refused says what was asked, where, and why, so that whoever reads the line need not look it up."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from storage.clean.cleaning import max_keys
from storage.errors import CorruptFile, CorruptSegment, OffsetOutOfRange, RecordListTooLarge, StorageError
from storage.files import Disk, remove_files, replace_file
from tests.storage.logs import SMALL, batch, opened

if TYPE_CHECKING:
    from collections.abc import Callable

NO = OSError(errno.EIO, "no")
OPERATIONS = ("open", "pread", "pwrite", "ftruncate", "fsync", "fdatasync", "rename", "unlink", "mkdir")


class Refusing(Disk):
    """Refuses everything from `refuse` on."""

    def refuse(self) -> None:
        for name in OPERATIONS:
            if hasattr(self, name):
                setattr(self, name, self._no)

    @staticmethod
    def _no(*_: Any, **__: Any) -> Any:
        raise NO


def refuses(disk: Refusing, act: Callable[[], Any], said: str) -> None:
    """From now on; what is done then says what it was about to do, and why it could not."""
    disk.refuse()
    with pytest.raises(StorageError) as refused:
        act()
    assert (str(refused.value), refused.value.cause) == (f"{said}: {NO}", NO)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StorageError("cannot read", Path("/d/f"), NO), "cannot read /d/f: [Errno 5] no"),
        (StorageError("cannot read", "/d/f"), "cannot read /d/f"),
        (OffsetOutOfRange(7, log_start_offset=1, log_end_offset=5), "offset 7 is outside [1, 5]"),
        (RecordListTooLarge(9, segment_bytes=8), "a batch of 9 bytes does not fit a segment of 8"),
        (CorruptSegment("/d/0.log", 61), "/d/0.log: no batch begins at byte 61, although one should"),
        (CorruptFile("/d/f", "has version 3"), "/d/f: has version 3"),
    ],
)
def test_each_says_both_sides(error: Exception, said: str) -> None:
    assert str(error) == said
    if isinstance(error, StorageError):
        assert error.cause is (NO if "Errno" in said else None)
    if isinstance(error, CorruptFile):
        assert (error.path, error.why) == (Path("/d/f"), "has version 3")


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda log: log.append(batch(1), leader_epoch=0), "cannot append to {}/00000000000000000000.log"),
        (lambda log: log.flush(), "cannot flush {}"),
        (lambda log: log.close(), "cannot close the log in {}"),
    ],
)
def test_a_log_whose_disk_refuses_says_what_it_was_about_to_do(
    tmp_path: Path, act: Callable[[Any], Any], said: str
) -> None:
    disk = Refusing()
    log = opened(tmp_path / "t-0", disk=disk)
    log.append(batch(1), leader_epoch=0)
    refuses(disk, lambda: act(log), said.format(tmp_path / "t-0"))


def test_a_log_that_cannot_take_off_what_a_refused_append_left_says_so(tmp_path: Path) -> None:
    disk = Refusing()
    log = opened(tmp_path / "t-0", disk=disk)
    disk.refuse()
    for _ in range(2):  # the first leaves something behind, if only in the log's books; the second is to cut it first
        with pytest.raises(StorageError) as refused:
            log.append(batch(1), leader_epoch=0)
        assert str(refused.value) == f"cannot append to {tmp_path / 't-0' / '00000000000000000000.log'}: {NO}"
        assert refused.value.cause is NO
    assert log.state.torn_tail


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda path, disk: replace_file(path / "f", b"", disk=disk), "cannot replace {}/f"),
        (lambda path, disk: remove_files([path / "f"], disk), "cannot remove {}/f"),
        (lambda path, disk: opened(path / "t-0", disk=disk), "cannot open the log in {}/t-0"),
    ],
)
def test_a_file_that_the_disk_refuses_is_named(tmp_path: Path, act: Callable[[Path, Disk], Any], said: str) -> None:
    disk = Refusing()
    (tmp_path / "f").touch()
    refuses(disk, lambda: act(tmp_path, disk), said.format(tmp_path))


def test_a_batch_may_be_as_large_as_a_segment(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    room = SMALL.segment_bytes - len(batch(1, value_bytes=1_800)) + 1_800
    assert len(batch(1, value_bytes=room)) == SMALL.segment_bytes
    assert log.append(batch(1, value_bytes=room), leader_epoch=0) == 0
    with pytest.raises(RecordListTooLarge, match=r"a batch of 2001 bytes does not fit a segment of 2000"):
        log.append(batch(1, value_bytes=room + 1), leader_epoch=0)


def test_how_many_keys_a_pass_may_map() -> None:
    """0.9 of `log.cleaner.dedupe.buffer.size`, by what a key takes here; one at least."""
    assert (max_keys(), max_keys(1_000_000), max_keys(1_000_000, 0.5), max_keys(1)) == (805_306, 6_000, 3_333, 1)
