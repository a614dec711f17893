"""What is copied to another folder, piece by piece, against the batches as they lie in the files."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from storage.errors import StorageError
from storage.log.handover import agree, bytes_left, first_offset, next_piece, take_over
from storage.log.partition_log import PartitionLog
from tests.storage.logs import SMALL, all_bytes, batch, headers_in, opened


class Lies(NamedTuple):
    """A batch in its file."""

    offset: int
    next_offset: int
    segment: Path
    start: int
    end: int


def source(directory: Path) -> PartitionLog:
    """Several segments of batches of one to three records, of three epochs."""
    log = opened(directory)
    for at in range(24):
        log.append(batch(1 + at % 3, value_bytes=150 + 20 * (at % 4)), leader_epoch=at // 8)
    assert len(log.state.segments) > 3
    return log


def lying(log: PartitionLog) -> list[Lies]:
    found = []
    for segment in log.state.segments:
        start = 0
        for header in headers_in(segment.path(".log").read_bytes()):
            end = start + header.size_bytes
            found.append(Lies(header.base_offset, header.next_offset, segment.path(".log"), start, end))
            start = end
    return found


def test_a_piece_is_whole_batches_of_one_file_within_the_limits(tmp_path: Path) -> None:
    log = source(tmp_path / "t-0")
    batches, end = lying(log), log.log_end_offset
    for offset, max_bytes, bound in product(range(end + 1), (0, 400, 701, 10_000), range(end + 2)):
        piece = next_piece(log, offset, max_bytes, bound)
        rest = (
            [one for one in batches if one.next_offset > offset and one.next_offset <= bound] if offset < bound else []
        )
        if not rest:
            assert piece is None, (offset, max_bytes, bound)
            continue
        first = rest[0]
        fit = [one for one in rest if one.segment == first.segment and one.end - first.start <= max_bytes] or [first]
        assert piece is not None
        assert (piece.file.path, piece.start, piece.end, piece.next_offset) == (
            (first.segment, first.start, fit[-1].end, fit[-1].next_offset)
        ), (offset, max_bytes, bound)


def test_how_much_is_left(tmp_path: Path) -> None:
    log = source(tmp_path / "t-0")
    batches = lying(log)
    for offset in range(log.log_end_offset):
        assert bytes_left(log, offset) == sum(one.end - one.start for one in batches if one.next_offset > offset)
    assert bytes_left(log, log.log_end_offset) == 0


def test_a_disk_that_does_not_say_how_much_is_left_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = source(tmp_path / "t-0")

    def refused(*_: object) -> int:
        raise OSError(5, "no")

    monkeypatch.setattr(type(log.state.segments[0]), "find", refused)
    with pytest.raises(StorageError) as told:
        bytes_left(log, 0)
    assert str(told.value) == f"cannot read {tmp_path / 't-0'}: [Errno 5] no"


def test_a_copy_begins_with_the_batch_that_holds_the_log_start(tmp_path: Path) -> None:
    log = source(tmp_path / "t-0")
    for start in (0, 4, 5, 6, 20):
        log.delete_records_before(start)
        assert first_offset(log) == next(one.offset for one in lying(log) if one.next_offset > start)
    empty = opened(tmp_path / "u-0")
    assert first_offset(empty) == 0


@pytest.mark.parametrize("appended", [0, 5, 12, 24])
def test_a_copy_keeps_what_the_source_has_and_no_more(tmp_path: Path, appended: int) -> None:
    """A broker that was killed leads in a new epoch: what an earlier life copied of another end is cut."""
    log = source(tmp_path / "t-0")
    copy = opened(tmp_path / "copy")
    for at in range(appended):
        copy.append(batch(1 + at % 3, value_bytes=150 + 20 * (at % 4)), leader_epoch=at // 8)
    assert agree(copy, log)
    assert all_bytes(log).startswith(all_bytes(copy))
    if appended == 12:
        for _ in range(3):
            copy.append(batch(3, value_bytes=400), leader_epoch=1)
        assert agree(copy, log)
        # The source's epoch 1 ends at 31, in the middle of the third of these, which goes whole.
        assert log.epochs.end_offset_for(1, 0) == (1, 31)
        assert (copy.log_end_offset, lying(copy)[-1].next_offset) == (31, 30)


def test_a_copy_of_something_else_is_not_kept(tmp_path: Path) -> None:
    log = source(tmp_path / "t-0")
    copy = opened(tmp_path / "copy")
    copy.append(batch(1), leader_epoch=7)
    assert not agree(copy, log)
    log.delete_records_before(5)  # all of it lies below what the source still has
    assert not agree(copy, log)
    assert agree(opened(tmp_path / "none"), log)


def test_the_copy_takes_over_all_that_the_source_knew(tmp_path: Path) -> None:
    log = source(tmp_path / "t-0")
    log.delete_records_before(5)
    copy = opened(tmp_path / "copy")
    for at in range(24):
        copy.append(batch(1 + at % 3, value_bytes=150 + 20 * (at % 4)), leader_epoch=at // 8)
    take_over(copy, log, None)
    assert (copy.log_start_offset, copy.log_end_offset, copy.leader_epoch) == (5, log.log_end_offset, log.leader_epoch)
    assert copy.epochs.epochs == log.epochs.epochs
    assert copy.state.producers is log.state.producers
    assert copy.config is log.config
    assert copy.config == SMALL
    assert (tmp_path / "copy" / f"{log.log_end_offset:020d}.snapshot").exists()
    log.close()
    with pytest.raises(StorageError):
        take_over(copy, log, None)
