"""Opening after a crash: what is believed, what is cut, and what is rebuilt (C11-C14)."""

from __future__ import annotations

import shutil
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.records.batch import Record, encode_batch
from storage.errors import CorruptFile
from storage.files import Disk
from storage.log.partition_log import PartitionLog
from storage.state.log_config import LogConfig
from tests.storage.logs import SMALL, all_bytes, batch, marker, opened, pairs, records_in, transactional


def filled(directory: Path, batches: int = 40, config: LogConfig = SMALL) -> PartitionLog:
    """A log of several segments, flushed but not closed: what a SIGKILL leaves."""
    log = opened(directory, config)
    for at in range(batches):
        log.append(batch(3, timestamp=1_000 + at * 10), leader_epoch=at // 10)
    log.flush()
    return log


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_c11_a_torn_last_batch_is_cut_at_every_byte(tmp_path: Path) -> None:
    """C11: exactly the torn batch goes, whatever of it was written, and the report says how much."""
    log = opened(tmp_path / "whole-0", LogConfig())
    for _ in range(2):
        log.append(batch(2), leader_epoch=0)
    good = log.size_bytes
    log.append(batch(1), leader_epoch=0)
    whole = (tmp_path / "whole-0" / f"{0:020d}.log").read_bytes()
    for length in range(good, len(whole)):
        directory = tmp_path / "torn-0"
        directory.mkdir()
        path = directory / f"{0:020d}.log"
        path.write_bytes(whole[:length])
        torn = opened(directory, LogConfig())
        assert torn.log_end_offset == 4
        assert path.stat().st_size == good
        cuts = [(cut.path, cut.position, cut.removed_bytes) for cut in torn.recovery.cuts]
        assert cuts == ([(path, good, length - good)] if length > good else [])
        assert torn.append(batch(1), leader_epoch=0) == 4
        shutil.rmtree(directory)


@pytest.mark.parametrize("lost_bytes", [7, 8])
def test_a_batch_whose_base_offset_was_lost_ends_the_log(tmp_path: Path, lost_bytes: int) -> None:
    """The page of a batch's first bytes did not reach the disk, and its CRC does not cover them (simulated, 72126).

    It is nobody's: a producer whose newest batch it was would get its retry answered as a duplicate, at offset 0.
    """
    log = opened(tmp_path, LogConfig())
    for sequence in range(0, 600, 2):
        log.append(batch(2, producer_id=7, producer_epoch=0, base_sequence=sequence), leader_epoch=0)
    good = log.size_bytes
    log.append(batch(2, producer_id=7, producer_epoch=0, base_sequence=600), leader_epoch=0)
    path = tmp_path / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[good : good + lost_bytes] = bytes(lost_bytes)
    path.write_bytes(data)

    again = opened(tmp_path, LogConfig())

    assert (again.log_end_offset, again.size_bytes) == (600, good)
    left = int.from_bytes(data[good : good + 8])
    why = f"a batch has offset {left}, and the one before ends at 599"
    assert [cut.why for cut in again.recovery.cuts] == [why]
    assert again.producers.entries[7].last_sequence == 599
    assert again.append(batch(2, producer_id=7, producer_epoch=0, base_sequence=600), leader_epoch=0) == 600


def test_what_a_cleaning_has_written_twice_is_no_end_of_the_log(tmp_path: Path) -> None:
    """Before there was an fsync amid a swap, a power loss could leave a source beside what it had been merged into, and
    the next cleaning wrote its batches once more.
    """
    log = opened(tmp_path, LogConfig())
    sizes = []
    for at in range(6):
        log.append(batch(2, producer_id=7, producer_epoch=0, base_sequence=2 * at), leader_epoch=0)
        sizes.append(log.size_bytes)
    log.roll()
    log.append(batch(2, producer_id=7, producer_epoch=0, base_sequence=12), leader_epoch=0)
    path = tmp_path / f"{0:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data[: sizes[3]] + data[sizes[1] :])  # batches 0 to 3, then 2 and 3 again, 4 and 5

    again = opened(tmp_path, LogConfig())

    assert (again.log_end_offset, again.bases, again.recovery.cuts) == (14, [0, 12], [])
    assert again.producers.entries[7].last_sequence == 13
    assert [record.offset for record in records_in(all_bytes(again, 8))] == [*range(8, 14)]


def test_c11_segments_after_a_cut_are_removed(tmp_path: Path) -> None:
    """C11, C12: a flipped byte above the recovery point ends the log there."""
    log = filled(tmp_path)
    assert len(log.segments) >= 4
    middle = log.segments[1]
    path = middle.path(".log")
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    whole, removed = log.size_bytes, sum(segment.size_bytes for segment in log.segments[2:])

    again = opened(tmp_path, recovery_point=0)

    assert len(again.segments) == 2
    assert again.recovery.cuts[0].path == path
    assert "CRC" in again.recovery.cuts[0].why
    assert sum(cut.removed_bytes for cut in again.recovery.removed_segments) == removed
    assert again.recovery.removed_bytes == whole - again.size_bytes
    assert all_bytes(again) == all_bytes(log, 0)[: again.size_bytes]
    assert again.epochs.start_offsets[-1] < again.log_end_offset
    assert again.append(batch(), leader_epoch=9) == again.log_end_offset - 3


def test_c12_a_flipped_byte_below_the_recovery_point_is_not_looked_for(tmp_path: Path) -> None:
    """C12: what was fsynced is believed."""
    log = filled(tmp_path)
    path = log.segments[0].path(".log")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    again = opened(tmp_path, recovery_point=log.bases[1])
    assert (again.log_end_offset, again.recovery.cuts) == (120, [])
    assert [checked.name for checked in again.recovery.checked_segments] == [
        f"{base:020d}.log" for base in log.bases[1:]
    ]


@pytest.mark.parametrize("broken", ["missing", "cut", "unsorted", "beyond"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_c13_a_bad_index_is_rebuilt_and_finds_the_same(tmp_path: Path, suffix: str, broken: str) -> None:
    """C13: look-ups by offset and by time give what they gave before."""
    log = filled(tmp_path)
    log.close()

    def look_ups() -> list[object]:
        log = opened(tmp_path, clean=True)
        found: list[object] = []
        for segment in log.segments:
            found += [segment.offset_index.lookup(offset) for offset in range(40)]
            found += [segment.time_index.lookup(timestamp) for timestamp in range(990, 1_500)]
        found += [log.offset_for_timestamp(timestamp) for timestamp in range(990, 1_500, 7)]
        return [*found, log.offset_of_max_timestamp()]

    before = look_ups()
    for path in list(tmp_path.glob(f"*{suffix}")):
        data = path.read_bytes()
        if broken == "missing":
            path.unlink()
        elif broken == "cut":
            path.write_bytes(data[:-3])
        elif broken == "beyond" and suffix == ".index":
            path.write_bytes(data[:-8] + b"\x7f" * 8)
        else:
            path.write_bytes(data[-24:] + data)
    assert look_ups() == before


def test_an_index_rebuilt_by_recovery_equals_the_one_that_was_written(tmp_path: Path) -> None:
    """The policy of appending and that of recovery give the same bytes."""
    log = filled(tmp_path)
    log.close()
    before = {name: data for name, data in files(tmp_path).items() if name.endswith("index")}
    opened(tmp_path)
    assert {name: data for name, data in files(tmp_path).items() if name.endswith("index")} == before


def test_a_pre_sized_index_of_kafka_is_read(tmp_path: Path) -> None:
    """After a kill of Kafka the active indexes are 10 MiB of mostly zeros: recovery replaces them."""
    log = filled(tmp_path)
    log.close()
    before = files(tmp_path)
    active = log.segments[-1]
    for suffix, size in ((".index", 10_485_760), (".timeindex", 10_485_756)):
        path = active.path(suffix)
        path.write_bytes(path.read_bytes().ljust(size, b"\0"))
    assert opened(tmp_path, recovery_point=active.base_offset).log_end_offset == 120
    after = files(tmp_path)
    assert {name: data for name, data in after.items() if name.endswith("index")} == {
        name: data for name, data in before.items() if name.endswith("index")
    }


def test_a_pre_sized_index_of_an_empty_log_is_no_damage(tmp_path: Path) -> None:
    """A killed Kafka leaves one for every partition that nobody has written to."""
    opened(tmp_path).close()
    for suffix, size in ((".index", 10_485_760), (".timeindex", 10_485_756)):
        (tmp_path / f"{0:020d}{suffix}").write_bytes(bytes(size))
    for clean in (True, False):
        copy = tmp_path.with_name(f"copy-{clean}")
        shutil.copytree(tmp_path, copy)
        assert opened(copy, clean=clean).recovery.damaged == []
    # One that Kafka has written to does tell of batches: they are gone.
    (tmp_path / f"{0:020d}.index").write_bytes(struct.pack(">ii", 9, 400).ljust(10_485_760, b"\0"))
    assert len(opened(tmp_path).recovery.damaged) == 1


@pytest.mark.parametrize("mapped", [True, False])
def test_c14_truncation_inside_a_batch_takes_it_whole(tmp_path: Path, mapped: bool) -> None:
    """C14: the log end is T all the same, and the next append gets it."""
    for offset in (119, 118, 60, 1, 0):
        log = filled(tmp_path / "t-0")
        log.state.tail.clear()
        view = log.read(log.bases[log.state.segment_index(offset)], 1 << 20).buffers[0] if mapped else b""
        before = bytes(view)
        log.truncate_to(offset)

        assert log.log_end_offset == offset
        assert bytes(view) == before
        assert [found[0] for found in pairs(log)] == list(range(offset // 3 * 3))
        assert log.append(batch(1), leader_epoch=9) == offset
        assert log.recovery_point <= offset
        assert pairs(log)[-1][0] == offset
        log.close()
        assert pairs(opened(tmp_path / "t-0", clean=True))[-1][0] == offset
        assert pairs(opened(tmp_path / "t-0", clean=False))[-1][0] == offset
        shutil.rmtree(tmp_path / "t-0")


def test_truncation_below_the_first_segment_starts_there(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.delete_records_before(60)
    log.apply_retention(0, 120)
    assert log.bases[0] > 5
    log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset, log.bases) == (5, 5, [5])
    assert log.append(batch(), leader_epoch=0) == 5


def test_a_flush_begun_before_a_truncation_does_not_move_the_recovery_point(tmp_path: Path) -> None:
    """The offsets above the cut are other records now."""
    log = opened(tmp_path)
    for _ in range(3):
        log.append(batch(), leader_epoch=0)
    ticket = log.begin_flush()
    log.truncate_to(3)
    log.append(batch(), leader_epoch=0)
    ticket.sync()
    assert log.finish_flush(ticket) <= 3


def test_a_log_that_ends_below_its_start_is_begun_anew(tmp_path: Path) -> None:
    """Records below the log start were deleted on purpose; none of them may come back."""
    filled(tmp_path)
    log = opened(tmp_path, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset, log.recovery.restarted_at) == (500, 500, 500)
    assert log.append(batch(), leader_epoch=0) == 500


def test_an_empty_folder_begins_at_the_log_start(tmp_path: Path) -> None:
    log = opened(tmp_path, log_start_offset=7)
    assert (log.log_start_offset, log.append(batch(), leader_epoch=0)) == (7, 7)


@pytest.mark.parametrize("kept_bytes", [1, 30, 61, -1])
def test_a_segment_whose_first_batch_is_torn_is_empty(tmp_path: Path, kept_bytes: int) -> None:
    """Of the last segment, and of the only one: nothing of it is left, and appending goes on in its place."""
    for base_offset in (0, 3):
        directory = tmp_path / f"from-{base_offset}"
        log = opened(directory)
        if base_offset:
            log.append(batch(3), leader_epoch=0)
            log.roll()
        log.append(batch(2), leader_epoch=0)
        log.flush()
        path = log.segments[-1].path(".log")
        whole = path.read_bytes()
        path.write_bytes(whole[:kept_bytes])

        torn = opened(directory)

        assert (torn.log_end_offset, torn.segments[-1].size_bytes, path.read_bytes()) == (base_offset, 0, b"")
        assert [(cut.path, cut.position) for cut in torn.recovery.cuts] == [(path, 0)]
        assert torn.append(batch(2), leader_epoch=0) == base_offset
        assert path.read_bytes() == whole
        assert [offset for offset, _, _ in pairs(torn)] == list(range(base_offset + 2))
        assert pairs(opened(directory)) == pairs(torn)


def test_a_clean_marker_over_a_torn_log_is_not_believed(tmp_path: Path) -> None:
    """If the last batches do not add up, the last segment is recovered although the stop was said to be clean."""
    log = filled(tmp_path)
    log.close()
    path = log.segments[-1].path(".log")
    path.write_bytes(path.read_bytes()[:-5])
    again = opened(tmp_path, clean=True)
    assert again.log_end_offset == 117
    assert len(again.recovery.cuts) == 1


def test_a_clean_start_reads_no_batch_but_the_last(tmp_path: Path) -> None:
    """Garbage in the body of earlier batches goes unnoticed: nothing there is looked at."""
    log = filled(tmp_path)
    log.close()
    for segment in log.segments[:-1]:
        path = segment.path(".log")
        path.write_bytes(b"\xff" * path.stat().st_size)
    assert opened(tmp_path, clean=True).log_end_offset == 120


def test_a_clean_start_reads_the_last_segment_from_its_last_index_entry_on(tmp_path: Path) -> None:
    """Else it would read a gigabyte of each partition."""
    config = replace(SMALL, segment_bytes=100_000)
    log = filled(tmp_path, config=config)
    log.close()
    (segment,) = log.segments
    path, last_entry = segment.path(".log"), segment.path(".index").read_bytes()[-8:]
    _, position = struct.unpack(">ii", last_entry)
    assert 0 < position < path.stat().st_size
    path.write_bytes(b"\xff" * position + path.read_bytes()[position:])
    assert opened(tmp_path, config, clean=True).log_end_offset == 120


@pytest.mark.parametrize("clean", [True, False])
def test_a_sound_log_is_not_called_damaged(tmp_path: Path, clean: bool) -> None:
    log = filled(tmp_path)
    log.close()
    assert opened(tmp_path, clean=clean, recovery_point=log.log_end_offset).recovery.damaged == []


def test_a_log_of_an_old_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    """An intact message of format 1 is data, not a torn tail: cutting it would lose it."""
    body = b"\x01\x00" + (1_000).to_bytes(8, "big") + b"\xff\xff\xff\xff" + (2).to_bytes(4, "big") + b"hi"
    message = (0).to_bytes(8, "big") + (len(body) + 4).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(message)
    with pytest.raises(CorruptFile, match="format 1"):
        opened(tmp_path)
    assert path.read_bytes() == message


def test_a_file_that_only_looks_like_a_segment_stops_the_start(tmp_path: Path) -> None:
    """As Kafka does: such a name has an offset before its first dot."""
    (tmp_path / "notes.log").write_bytes(b"")
    with pytest.raises(CorruptFile, match="does not begin with an offset"):
        opened(tmp_path)


def test_epochs_and_transactions_are_rebuilt_from_batches(tmp_path: Path) -> None:
    """TX63: the transaction index, the producers and the leader epochs come back without their files."""
    log = opened(tmp_path)
    for round_ in range(4):
        for producer in (1, 2):
            log.append(transactional(producer, round_, (b"k" * 200, b"v" * 200)), leader_epoch=round_)
        log.append(marker(1, 0, abort=round_ % 2 == 0), leader_epoch=round_)
        log.append(marker(2, 0, abort=True), leader_epoch=round_)
    log.append(transactional(3, 0, (b"k", b"v")), leader_epoch=4)
    assert len(log.segments) > 1

    def facts(log: PartitionLog) -> list[object]:
        return [
            log.aborted_transactions(0, log.log_end_offset),
            log.epochs.epochs,
            log.epochs.start_offsets,
            log.first_unstable_offset,
            {
                entry.producer_id: (entry.epoch, entry.last_sequence, entry.last_data_offset)
                for entry in log.producers.entries.values()
            },
        ]

    before = facts(log)
    log.flush()
    for path in tmp_path.iterdir():
        if path.suffix != ".log":
            path.unlink()
    again = opened(tmp_path)
    assert facts(again) == before
    again.close()
    assert facts(opened(tmp_path, clean=True)) == before


def test_a_corrupt_snapshot_is_discarded_for_an_older_one(tmp_path: Path) -> None:
    """TX14: the state is the same, from the older snapshot and the batches after it."""
    log = opened(tmp_path)
    for at in range(40):
        log.append(batch(1, value_bytes=100, producer_id=5, producer_epoch=0, base_sequence=at), leader_epoch=0)
    log.close()
    newest = max(tmp_path.glob("*.snapshot"))
    newest.write_bytes(newest.read_bytes()[:-1] + b"\xee")
    again = opened(tmp_path, clean=True)
    assert again.recovery.discarded_snapshots == [newest]
    assert again.producers.entries[5].last_sequence == 39


def test_a_gap_at_the_end_of_a_segment_is_read_over(tmp_path: Path) -> None:
    """Compaction may take the last batches of a segment."""
    log = opened(tmp_path)
    first = encode_batch([Record(0, 1, b"a", b"1")])
    log.append_assigned(first)
    log.append_assigned(encode_batch([Record(50, 1, b"b", b"1")], base_offset=50))
    log.roll()
    log.append_assigned(encode_batch([Record(90, 1, b"c", b"1")], base_offset=90))
    log.flush()
    assert [offset for offset, _, _ in pairs(log)] == [0, 50, 90]
    assert [offset for offset, _, _ in pairs(opened(tmp_path, replace(SMALL, segment_bytes=999)))] == [0, 50, 90]


def test_nothing_is_remembered_of_what_was_cut(tmp_path: Path) -> None:
    """Positions of earlier reads, time entries and the largest timestamp go with the batches."""
    log = opened(tmp_path, LogConfig(index_interval_bytes=100))
    for at in range(20):
        log.append(batch(1, timestamp=1_000 + at * 100), leader_epoch=0)
    log.state.tail.clear()
    assert [log.read(offset, 1, copied=True).next_offset for offset in range(20)] == list(range(1, 21))
    log.truncate_to(5)
    latest = log.offset_of_max_timestamp()
    assert latest is not None
    assert (latest.timestamp, latest.offset) == (1_400, 4)
    log.append(batch(1, timestamp=1_700), leader_epoch=0)
    for _ in range(14):
        log.append(batch(1, timestamp=10, value_bytes=300), leader_epoch=0)
    log.state.tail.clear()
    for offset in range(19, 4, -1):
        assert records_in(b"".join(log.read(offset, 1, copied=True).buffers))[0].offset == offset
    found = log.offset_for_timestamp(1_650)
    assert found is not None
    assert (found.timestamp, found.offset) == (1_700, 5)


class CountingDisk(Disk):
    """Remembers which files were fsynced, by their present names."""

    def __init__(self) -> None:
        self.synced: set[str] = set()
        self.fsync = self.fdatasync = self._sync  # type: ignore[method-assign,assignment]  # a disk that watches

    def _sync(self, descriptor: int) -> None:
        self.synced.add(Path(f"/proc/self/fd/{descriptor}").readlink().name)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_what_recovery_only_saw_in_the_page_cache_is_fsynced_by_the_next_flush(tmp_path: Path) -> None:
    """A recovered log was in the cache, not proven on the disk: all checked segments and their indexes."""
    log = filled(tmp_path)
    disk = CountingDisk()
    again = opened(tmp_path, disk=disk, recovery_point=log.bases[1])
    assert again.recovery_point == log.bases[1]
    disk.synced.clear()
    assert again.flush() == 120
    wanted = {f"{base:020d}{suffix}" for base in log.bases[1:] for suffix in (".log", ".index", ".timeindex")}
    assert wanted <= disk.synced
    disk.synced.clear()
    again.close()
    assert disk.synced == set()


def test_a_log_that_was_only_read_is_closed_without_writing(tmp_path: Path) -> None:
    filled(tmp_path).close()
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    log = opened(tmp_path, clean=True)
    assert len(pairs(log)) == 120
    log.close()
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_producers_that_have_expired_are_not_loaded(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(batch(1, producer_id=5, producer_epoch=0, base_sequence=0), leader_epoch=0)
    log.close()
    day_ms = 86_400_000
    assert 5 in opened(tmp_path, clean=True, now_ms=1_000 + day_ms - 1).producers.entries
    assert 5 not in opened(tmp_path, clean=True, now_ms=1_000 + day_ms).producers.entries


def test_a_swap_that_a_start_finishes_is_told_of(tmp_path: Path) -> None:
    """By the names that the files have then, and with what was left of a cleaning that counts no more."""
    filled(tmp_path).close()
    names = [f"{0:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")]
    for name in names:
        (tmp_path / name).rename(tmp_path / f"{name}.swap")
    left_over = tmp_path / f"{90:020d}.log.cleaned"
    left_over.touch()
    report = opened(tmp_path).recovery
    assert [path.name for path in report.finished_swaps] == names
    assert report.removed_files == [left_over]
