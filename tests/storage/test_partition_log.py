"""The log as its owner sees it: append, read, flush, close and open again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batch import Record, encode_batch
from storage.errors import LogClosed, OffsetOutOfRange, RecordListTooLarge
from storage.files import Disk
from storage.log.partition_log import PartitionLog
from storage.state.log_config import LogConfig
from tests.storage.logs import SMALL, batch, marker, opened, parted, records_in, transactional


def offsets_read(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, **options: Any) -> list[int]:
    result = log.read(offset, max_bytes, copied=True, **options)
    data = b"".join(result.buffers)
    assert len(data) == result.size_bytes
    return [record.offset for record in records_in(data)]


def test_a_batch_gets_the_next_offsets_and_the_leaders_epoch(tmp_path: Path) -> None:
    """Offsets are dense, and stamping leaves the CRC valid."""
    log = opened(tmp_path)
    first = batch()

    assert [log.append(first, leader_epoch=7), log.append(batch(2), leader_epoch=7)] == [0, 3]

    assert log.log_end_offset == 5
    assert first[12:16] == (7).to_bytes(4, "big")
    assert offsets_read(log, 0) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("from_memory", [True, False])
def test_every_offset_is_read_from_the_batch_that_holds_it(tmp_path: Path, clean: bool, from_memory: bool) -> None:
    """Reading inside a batch gives the whole batch, across segments, before and after a reopening."""
    log = opened(tmp_path)
    for at in range(100):
        log.append(batch(3, timestamp=at), leader_epoch=0)
    assert len(log.segments) > 5
    if not from_memory:
        log.close()
        log = opened(tmp_path, clean=clean)
    for offset in range(300):
        assert offsets_read(log, offset, 1)[0] == offset // 3 * 3


def test_a_read_keeps_to_its_limits(tmp_path: Path) -> None:
    """Whole batches within max_bytes, the first one always, and nothing at or above the upper bound."""
    log = opened(tmp_path, LogConfig())
    for _ in range(10):
        log.append(batch(), leader_epoch=0)
    size = log.size_bytes // 10
    for tail in (True, False):
        if not tail:
            log.state.tail.clear()
        assert offsets_read(log, 0, size * 3 - 1) == list(range(6))
        assert offsets_read(log, 0, 1) == [0, 1, 2]
        assert offsets_read(log, 0, 1, min_one_batch=False) == []
        assert offsets_read(log, 0, upper_bound_offset=6) == list(range(6))
        assert offsets_read(log, 0, upper_bound_offset=7) == list(range(6))
        assert offsets_read(log, 0, upper_bound_offset=8) == list(range(6))
        assert offsets_read(log, 4, upper_bound_offset=3) == []
        assert offsets_read(log, 30) == []
        assert log.read(3, size * 2).next_offset == 9
    with pytest.raises(OffsetOutOfRange):
        log.read(31, 1)
    log.delete_records_before(5)
    with pytest.raises(OffsetOutOfRange):
        log.read(4, 1)


def test_a_flush_moves_the_recovery_point_to_where_it_began(tmp_path: Path) -> None:
    """What is appended while the fsync runs waits for the next one."""
    log = opened(tmp_path)
    log.append(batch(), leader_epoch=0)
    ticket = log.begin_flush()
    log.append(batch(), leader_epoch=0)
    ticket.sync()

    assert (log.finish_flush(ticket), log.recovery_point) == (3, 3)
    assert log.flush() == 6


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    """RECORD_LIST_TOO_LARGE, and the log is as before."""
    log = opened(tmp_path)
    with pytest.raises(RecordListTooLarge):
        log.append(batch(value_bytes=1_000), leader_epoch=0)
    assert log.append(batch(), leader_epoch=0) == 0


def test_a_closed_log_refuses_everything(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(batch(), leader_epoch=0)
    log.close()
    log.close()
    with pytest.raises(LogClosed):
        log.append(batch(), leader_epoch=0)
    with pytest.raises(LogClosed):
        log.read(0, 1)


def test_a_log_whose_settings_changed_after_its_last_batch_closes_with_its_indexes(tmp_path: Path) -> None:
    """A clean start reads no batch, and so would take what was aborted for committed."""
    log = opened(tmp_path)
    log.append(transactional(7, 0, (b"k", b"v")), leader_epoch=0)
    log.append(marker(7, 0, abort=True), leader_epoch=0)
    aborted = log.aborted_transactions(0, 2)
    log.config = replace(SMALL, retention_ms=1)
    log.close()

    log = opened(tmp_path, clean=True, recovery_point=2)

    assert log.aborted_transactions(0, 2) == aborted != []
    assert log.offset_of_max_timestamp() is not None


def test_a_gap_between_given_offsets_stays(tmp_path: Path) -> None:
    log = opened(tmp_path)
    whole = encode_batch([Record(5, 1, b"k", b"v")], base_offset=5, leader_epoch=2)
    whole += encode_batch([Record(9, 1, b"k", b"v")], base_offset=9, leader_epoch=4)
    assert log.append_assigned(whole) == 10
    assert offsets_read(log, 0) == [5, 9]
    assert offsets_read(log, 6) == [9]
    assert (log.epochs.epochs, log.epochs.start_offsets) == ([2, 4], [5, 9])
    with pytest.raises(ValueError, match="below the log end"):
        log.append_assigned(whole)


def test_readers_who_ask_for_the_same_share_one_walk_over_the_headers(tmp_path: Path) -> None:
    """Where a read of so many bytes ends is remembered, and forgotten when the log is cut."""
    log = opened(tmp_path / "log", LogConfig(segment_bytes=1_000_000), tail=None)
    for _ in range(4):
        log.append(batch(), leader_epoch=0)
    counted = _CountingReads(log)
    first = log.read(0, 500)
    assert counted.reads == 1  # none to find the segment's first batch
    assert log.read(0, 500).next_offset == first.next_offset == 6
    assert counted.reads == 1
    log.truncate_to(3)
    log.append(batch(1, value_bytes=5), leader_epoch=0)
    log.append(batch(1, value_bytes=5), leader_epoch=0)
    log.append(batch(9), leader_epoch=0)
    assert log.read(0, 500).next_offset == 5


def test_a_log_without_a_tail_keeps_nothing_in_memory(tmp_path: Path) -> None:
    log = opened(tmp_path / "log", tail=None)
    log.append(batch(), leader_epoch=0)
    assert not log.state.tail.batches
    assert log.read(0, 1_000).next_offset == 3


class _CountingReads:
    """Counts what a log reads of its files."""

    def __init__(self, log: PartitionLog) -> None:
        self.reads = 0
        log.segments[0].disk = log.segments[0].file.disk = disk = Disk()
        plain = disk.pread

        def pread(descriptor: int, count: int, position: int) -> bytes:
            self.reads += 1
            return plain(descriptor, count, position)

        disk.pread = pread  # type: ignore[method-assign]


@pytest.mark.parametrize("offset", [1, 3, 5])
def test_a_log_that_is_cut_where_it_ends_or_before_knows_its_latest_time_when_it_is_opened_again(
    tmp_path: Path, offset: int
) -> None:
    """Closing writes the indexes of a segment that was appended to, also when truncation has left it as it was."""
    log = opened(tmp_path, LogConfig())
    log.append(batch(3, timestamp=7), leader_epoch=0)
    log.append(batch(2, timestamp=9), leader_epoch=0)
    log.truncate_to(offset)
    log.close()

    latest = opened(tmp_path, LogConfig(), clean=True).offset_of_max_timestamp()

    kept = {1: None, 3: (9, 2), 5: (10, 4)}[offset]
    assert (latest and (latest.timestamp, latest.offset)) == kept


def test_a_marker_ends_its_transaction_in_whatever_pieces_it_comes(tmp_path: Path) -> None:
    """No client may send one, so none stays where it came in today."""
    log = opened(tmp_path)
    log.append(transactional(7, 0, (b"k", b"v")), leader_epoch=0)
    placed = log.place(parted(marker(7, 0, abort=True)), leader_epoch=0)
    placed.write()
    log.finish(placed)
    assert log.state.first_unstable_offset is None
    assert [aborted.producer_id for aborted in log.aborted_transactions(0, 2)] == [7]
