"""Compaction, scenario by scenario (C01-C10, C15)."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batch import Record, encode_batch
from storage.clean.cleaner import CleanResult, clean
from storage.log.partition_log import PartitionLog
from storage.reading.transaction_index import AbortedTransaction
from tests.storage.logs import (
    COMPACT,
    all_bytes,
    batch,
    headers_in,
    keyed,
    marker,
    opened,
    pairs,
    records_in,
    transactional,
)

DAY_MS = 86_400_000


def cleaned(log: PartitionLog, *, checkpoint: int | None = None, now_ms: int = 2_000, **plan: Any) -> CleanResult:
    """Clean once, as the broker does: the plan and the result cross a process boundary."""
    dirty = log.dirty_range(checkpoint, now_ms, log.log_end_offset)
    made = replace(log.plan_cleaning(dirty, now_ms), **plan)
    result: CleanResult = pickle.loads(pickle.dumps(clean(pickle.loads(pickle.dumps(made)))))
    assert log.swap_in(result)
    return result


def two_values(log: PartitionLog) -> None:
    log.append(keyed((b"a", b"1"), (b"b", b"1")), leader_epoch=0)
    log.append(keyed((b"a", b"2")), leader_epoch=0)


def test_c01_the_active_segment_is_never_cleaned(tmp_path: Path) -> None:
    """C01: nothing changes before a roll; after it superseded keys vanish and offsets are unchanged."""
    log = opened(tmp_path, COMPACT)
    two_values(log)
    before = all_bytes(log)
    assert log.dirty_range(None, 2_000, log.log_end_offset).dirty_bytes == 0
    cleaned(log)
    assert all_bytes(log) == before

    log.roll()
    log.append(keyed((b"c", b"1")), leader_epoch=0)
    result = cleaned(log)

    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1")]
    assert (result.clean_end_offset, log.log_end_offset) == (3, 4)
    log.close()
    assert pairs(opened(tmp_path, COMPACT, clean=True)) == pairs(opened(tmp_path, COMPACT, clean=False))


def test_c02_the_dirty_ratio_must_be_exceeded(tmp_path: Path) -> None:
    """C02: at 0.5 exactly a log is not eligible, above it is."""
    log = opened(tmp_path, COMPACT)
    for _ in range(3):
        log.append(batch(), leader_epoch=0)
        log.roll()
    half = log.dirty_range(log.bases[1], 2_000, log.log_end_offset)
    assert half.ratio == pytest.approx(2 / 3)
    even = half._replace(clean_bytes=10, dirty_bytes=10)
    assert not even.is_eligible(0.5)
    assert even._replace(dirty_bytes=11).is_eligible(0.5)
    assert even._replace(overdue=True).is_eligible(0.5)
    assert not even._replace(overdue=True, dirty_bytes=0).is_eligible(0.5)


def test_an_overdue_record_makes_a_log_eligible(tmp_path: Path) -> None:
    """max.compaction.lag.ms is counted from the first batch of a dirty closed segment."""
    log = opened(tmp_path, replace(COMPACT, max_compaction_lag_ms=500))
    log.append(keyed((b"a", b"1"), timestamp=1_000), leader_epoch=0)
    log.roll()
    assert not log.dirty_range(None, 1_500, 1).overdue
    assert log.dirty_range(None, 1_501, 1).overdue


def test_young_records_are_not_cleaned(tmp_path: Path) -> None:
    """min.compaction.lag.ms ends the cleanable part at the first segment with a record that young."""
    log = opened(tmp_path, replace(COMPACT, min_compaction_lag_ms=100))
    for timestamp in (1_000, 2_000):
        log.append(keyed((b"a", b"1"), timestamp=timestamp), leader_epoch=0)
        log.roll()
    assert log.dirty_range(None, 2_050, 2).first_uncleanable == 1
    assert log.dirty_range(None, 2_100, 2).first_uncleanable == 2


def test_c03_a_tombstone_outlives_two_cleanings(tmp_path: Path) -> None:
    """C03: bit 6 is set with record timestamps unchanged; gone only after delete.retention.ms."""
    log = opened(tmp_path, COMPACT)
    log.append(keyed((b"a", b"1"), (b"b", b"1")), leader_epoch=0)
    log.append(keyed((b"a", None), (b"x", b"1"), timestamp=1_234), leader_epoch=0)
    log.append(keyed((b"z", b"1")), leader_epoch=0)
    log.roll()
    cleaned(log, now_ms=10_000)

    kept = headers_in(all_bytes(log))[1]
    assert kept.delete_horizon_ms == 10_000 + DAY_MS
    tombstone = records_in(all_bytes(log))[1]
    assert (tombstone.offset, tombstone.timestamp, tombstone.value) == (2, 1_234, None)
    assert kept.max_timestamp == 1_234

    cleaned(log, now_ms=10_000 + DAY_MS - 1)
    assert headers_in(all_bytes(log))[1] == kept
    cleaned(log, now_ms=10_000 + DAY_MS)
    assert [key for _, key, _ in pairs(log)] == [b"b", b"x", b"z"]


def test_a_tombstone_never_goes_together_with_what_it_removed(tmp_path: Path) -> None:
    """Amid the swap of such a pass a crash would leave the old value, whose segment was merged away, without it."""
    log = opened(tmp_path, COMPACT)
    for value in (b"1", None):
        log.append(keyed((b"b", b"1"), (b"c", b"1"), (b"a", value)), leader_epoch=0)
    log.append(keyed((b"z", b"1")), leader_epoch=0)
    log.roll()
    # The map is full before the tombstone, which gets its horizon all the same.
    first = cleaned(log, now_ms=10_000, max_keys=2)
    assert first.clean_end_offset == 2
    assert [pair for pair in pairs(log) if pair[1] == b"a"] == [(2, b"a", b"1"), (5, b"a", None)]

    second = cleaned(log, checkpoint=2, now_ms=10_000 + DAY_MS)
    assert second.clean_end_offset == 7
    assert [pair for pair in pairs(log) if pair[1] == b"a"] == [(5, b"a", None)]

    cleaned(log, checkpoint=2, now_ms=10_000 + DAY_MS)
    assert [key for _, key, _ in pairs(log)] == [b"b", b"c", b"z"]


def test_c04_the_last_batch_leaves_a_header_so_that_the_log_end_is_known(tmp_path: Path) -> None:
    """C04: a record-less header keeps the offset before the uncleanable part."""
    log = opened(tmp_path, COMPACT)
    log.append(keyed((b"a", b"1")), leader_epoch=3)
    log.append(encode_batch([Record(0, 5, None, b"no key")]), leader_epoch=3)
    log.roll()
    cleaned(log)

    last = headers_in(all_bytes(log))[-1]
    assert (last.record_count, last.last_offset, last.leader_epoch, last.base_timestamp) == (0, 1, 3, -1)
    log.close()
    assert opened(tmp_path, COMPACT, clean=True).log_end_offset == 2


def test_c05_a_living_producers_last_header_stays(tmp_path: Path) -> None:
    """C05: until it writes again, or expires."""
    log = opened(tmp_path, COMPACT)
    log.append(keyed((b"a", b"1"), producer_id=9, producer_epoch=2, base_sequence=4), leader_epoch=0)
    log.append(keyed((b"a", b"2")), leader_epoch=0)
    log.append(keyed((b"b", b"2")), leader_epoch=0)
    log.roll()
    cleaned(log)

    first = headers_in(all_bytes(log))[0]
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.record_count) == (9, 2, 4, 0)

    log.producers.expire(10**12, 1)
    cleaned(log)
    assert [header.producer_id for header in headers_in(all_bytes(log))] == [-1, -1]


def test_c06_aborted_data_goes_at_once_and_its_marker_after_its_horizon(tmp_path: Path) -> None:
    """C06, TX65: committed keys stay; keys of the aborted transaction replace nothing."""
    log = opened(tmp_path, COMPACT)
    log.append(transactional(1, 0, (b"a", b"committed"), (b"b", b"1")), leader_epoch=0)
    log.append(marker(1, 0, abort=False), leader_epoch=0)
    log.append(transactional(1, 2, (b"a", b"aborted")), leader_epoch=0)
    log.append(marker(1, 0, abort=True), leader_epoch=0)
    log.append(keyed((b"b", b"2")), leader_epoch=0)
    log.roll()
    log.producers.expire(10**12, 1)
    cleaned(log, now_ms=10_000)

    assert pairs(log) == [(0, b"a", b"committed"), (5, b"b", b"2")]
    assert [header.base_offset for header in headers_in(all_bytes(log)) if header.is_control] == [2, 4]
    assert log.aborted_transactions(0, 10) == [AbortedTransaction(1, 3, 4, 5)]

    cleaned(log, now_ms=20_000)
    abort = headers_in(all_bytes(log))[2]
    assert (abort.base_offset, abort.delete_horizon_ms, abort.max_timestamp) == (4, 20_000 + DAY_MS, 1_000)
    assert log.aborted_transactions(0, 10) == []
    assert not list(tmp_path.glob("*.txnindex"))

    cleaned(log, now_ms=20_000 + DAY_MS)
    assert [header.base_offset for header in headers_in(all_bytes(log)) if header.is_control] == [2]


def test_an_emptied_marker_is_still_a_marker(tmp_path: Path) -> None:
    """It stays for its producer's epoch when its horizon is over, and readers must not take it for data."""
    log = opened(tmp_path, COMPACT)
    log.append(transactional(1, 0, (b"a", b"aborted")), leader_epoch=0)
    log.append(marker(1, 1, abort=True), leader_epoch=0)
    log.append(keyed((b"b", b"2")), leader_epoch=0)
    log.roll()
    for now_ms in (10_000, 20_000, 20_000 + DAY_MS):
        cleaned(log, now_ms=now_ms)
    (kept,) = [header for header in headers_in(all_bytes(log)) if header.producer_id == 1]
    assert (kept.is_control, kept.producer_epoch, kept.record_count) == (True, 1, 0)


def test_c07_nothing_at_or_after_an_open_transaction_is_cleaned(tmp_path: Path) -> None:
    """C07, TX66."""
    log = opened(tmp_path, COMPACT)
    two_values(log)
    log.roll()
    log.append(transactional(1, 0, (b"a", b"3")), leader_epoch=0)
    two_values(log)
    log.roll()
    before = all_bytes(log, 3)
    dirty = log.dirty_range(None, 2_000, log.log_end_offset)
    assert dirty.first_uncleanable == 3
    cleaned(log)
    assert all_bytes(log, 3) == before
    assert pairs(log)[0][0] == 1


def test_c08_a_full_map_ends_the_cleaning_and_the_next_goes_on(tmp_path: Path) -> None:
    """C08: the checkpoint records how far it came."""
    log = opened(tmp_path, COMPACT)
    for value in (b"1", b"2"):
        log.append(keyed(*[(b"key%d" % at, value) for at in range(6)]), leader_epoch=0)
    log.roll()
    first = cleaned(log, max_keys=4)
    assert (first.map_full, first.clean_end_offset) == (True, 4)
    assert len(pairs(log)) == 12
    second = cleaned(log, checkpoint=4, max_keys=8)
    assert (second.map_full, second.clean_end_offset) == (False, 12)
    assert [(key, value) for _, key, value in pairs(log)] == [(b"key%d" % at, b"2") for at in range(6)]


@pytest.mark.parametrize("checkpoint", [-1, 99])
def test_c09_a_checkpoint_outside_the_log_begins_anew(tmp_path: Path, checkpoint: int) -> None:
    """C09: cleaning restarts at the log start, and the checkpoint is to be corrected."""
    log = opened(tmp_path, COMPACT)
    two_values(log)
    log.roll()
    dirty = log.dirty_range(checkpoint, 2_000, log.log_end_offset)
    assert (dirty.first_dirty, dirty.checkpoint_reset) == (0, True)
    log.delete_records_before(2)
    assert log.dirty_range(1, 2_000, log.log_end_offset).first_dirty == 2


def several_segments(directory: Path) -> tuple[PartitionLog, CleanResult]:
    """Three closed segments that shrink into one, cleaned but not swapped in."""
    log = opened(directory, COMPACT)
    for value in range(3):
        log.append(keyed((b"a", b"%d" % value), (b"only%d" % value, b"1")), leader_epoch=0)
        log.roll()
    log.append(keyed((b"active", b"1")), leader_epoch=0)
    log.flush()
    plan = log.plan_cleaning(log.dirty_range(None, 2_000, log.log_end_offset), 2_000)
    return log, clean(plan)


ORIGINAL = [
    (0, b"a", b"0"),
    (1, b"only0", b"1"),
    (2, b"a", b"1"),
    (3, b"only1", b"1"),
    (4, b"a", b"2"),
    (5, b"only2", b"1"),
    (6, b"active", b"1"),
]
CLEANED = [ORIGINAL[1], *ORIGINAL[3:]]


@pytest.mark.parametrize("clean_stop", [True, False])
def test_c10_output_that_is_only_cleaned_is_thrown_away(tmp_path: Path, clean_stop: bool) -> None:
    """C10: `.cleaned` only, and `.cleaned` with some `.swap`: the originals win."""
    log, _ = several_segments(tmp_path)
    log.close()
    for suffix in (None, ".index"):
        if suffix:
            name = f"{0:020d}{suffix}"
            (tmp_path / f"{name}.cleaned").write_bytes(b"")
            (tmp_path / f"{name}.cleaned").rename(tmp_path / f"{name}.swap")
            (tmp_path / f"{0:020d}.log.cleaned").write_bytes(b"half")
        log = opened(tmp_path, COMPACT, clean=clean_stop)
        assert pairs(log) == ORIGINAL
        assert not [path for path in tmp_path.iterdir() if path.suffix in {".cleaned", ".swap"}]
        log.close()


def test_c10_a_swap_is_finished_wherever_it_stopped(tmp_path: Path) -> None:
    """C10: `.swap` before or after sources became `.deleted`, and half-renamed: the cleaned data win."""
    log, _ = several_segments(tmp_path / "t-0")
    log.close()
    for path in (tmp_path / "t-0").glob("*.cleaned"):
        path.rename(path.with_suffix(".swap"))
    sources = [
        path
        for base in (0, 2, 4)
        for path in sorted((tmp_path / "t-0").glob(f"{base:020d}.*"))
        if path.suffix in {".log", ".index", ".timeindex"}
    ]
    swaps = sorted((tmp_path / "t-0").glob("*.swap"), reverse=True)
    steps = [(path, path.with_name(path.name + ".deleted")) for path in sources]
    steps += [(path, path.with_suffix("")) for path in swaps]
    for done in range(len(steps) + 1):
        copy = tmp_path / "copy-0"
        shutil.copytree(tmp_path / "t-0", copy)
        for source, target in steps[:done]:
            (copy / source.name).rename(copy / target.name)
        for clean_stop in (True, False):
            assert pairs(opened(copy, COMPACT, clean=clean_stop)) == CLEANED, done
        assert not [path for path in copy.iterdir() if path.suffix in {".cleaned", ".swap", ".deleted"}]
        shutil.rmtree(copy)


def test_a_swap_is_refused_when_the_log_has_changed(tmp_path: Path) -> None:
    """The output of a cleaning that raced with a truncation or deletion is thrown away."""
    log, result = several_segments(tmp_path)
    log.truncate_to(3)
    assert not log.swap_in(result)
    assert pairs(log) == ORIGINAL[:2]  # the batch at 2 held offset 3
    assert not list(tmp_path.glob("*.cleaned"))


def test_a_reader_keeps_its_view_over_a_swap(tmp_path: Path) -> None:
    """A mapping handed out before the swap still shows the old batches."""
    log, result = several_segments(tmp_path)
    log.state.tail.clear()
    view = log.read(0, 1 << 20).buffers[0]
    before = bytes(view)
    assert log.swap_in(result)
    assert bytes(view) == before
    assert pairs(log) == CLEANED
    assert len(log.take_deleted_files()) >= 9


def test_memory_does_not_serve_what_the_files_have_lost(tmp_path: Path) -> None:
    log, result = several_segments(tmp_path)
    assert pairs(log) == ORIGINAL
    log.swap_in(result)
    assert pairs(log) == CLEANED


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_c15_the_newest_value_of_every_key_survives(tmp_path: Path, compression: int) -> None:
    """C15: a fold over the compacted log equals the fold over the whole, for every codec."""
    log = opened(tmp_path, COMPACT)
    for at in range(60):
        values = [(b"key%d" % (at * step % 17), b"%d" % at if at % 5 else None) for step in (1, 3, 7)]
        log.append(keyed(*values, compression=compression, timestamp=at), leader_epoch=at // 20)
    log.roll()

    def state() -> dict[bytes | None, bytes]:
        newest = {key: value for _, key, value in pairs(log)}
        return {key: value for key, value in newest.items() if value is not None}

    before, epochs = state(), {record.offset: record.timestamp for record in records_in(all_bytes(log))}
    size = log.size_bytes
    cleaned(log)
    assert log.size_bytes < size
    assert state() == before
    assert all(epochs[record.offset] == record.timestamp for record in records_in(all_bytes(log)))
    cleaned(log, now_ms=2_000 + DAY_MS)
    assert state() == before
    assert len(pairs(log)) == len(before)


def test_segments_are_grouped_up_to_the_segment_size(tmp_path: Path) -> None:
    """Ten small segments become as few as fit, and one that loses nothing is left alone."""
    log = opened(tmp_path, COMPACT)
    for at in range(10):
        log.append(keyed((b"k%d" % at, b"v" * 400)), leader_epoch=0)
        log.roll()
    cleaned(log)
    assert log.bases == [0, 4, 8, 10]
    names = {path.name: path.stat().st_ino for path in tmp_path.glob("*.log")}
    assert cleaned(log).groups == ()
    assert {path.name: path.stat().st_ino for path in tmp_path.glob("*.log")} == names


def test_stale_segments_bring_no_old_value_back(tmp_path: Path) -> None:
    """As below, where the next pass makes several segments: who reads all of them ends with the newest values."""
    config = replace(COMPACT, segment_bytes=700, index_interval_bytes=100)
    log = opened(tmp_path, config)
    for at in range(12):
        log.append(keyed((b"g%d" % (at // 4), b"%d" % at), (b"only%d" % at, b"x" * 60)), leader_epoch=0)
        log.roll()
    stale = {base: (tmp_path / f"{base:020d}.log").read_bytes() for base in (2, 4)}
    last = {key: value for _, key, value in pairs(log)}
    cleaned(log)
    assert not set(stale) & set(log.bases)
    log.close()
    for base, content in stale.items():
        (tmp_path / f"{base:020d}.log").write_bytes(content)

    log = opened(tmp_path, config, clean=True)
    for _ in range(3):
        cleaned(log)
        found = {}
        for segment in log.segments:
            found.update({one.key: one.value for one in records_in(segment.read(0, segment.size_bytes))})
        assert found == last


def test_a_segment_left_beside_what_it_was_merged_into_is_not_written_again(tmp_path: Path) -> None:
    """As a crash of another broker may leave it: offsets never step back in a segment."""
    log = opened(tmp_path, COMPACT)
    for at in range(6):
        log.append(keyed((b"k%d" % (at % 3), b"%d" % at)), leader_epoch=0)
        log.roll()
    stale = {name: (tmp_path / name).read_bytes() for name in (f"{base:020d}.log" for base in (3, 4, 5))}
    last = {key: value for _, key, value in pairs(log)}
    cleaned(log)
    assert log.bases == [0, 6]
    log.append(keyed((b"k9", b"x")), leader_epoch=0)
    log.roll()
    log.close()
    for name, content in stale.items():
        (tmp_path / name).write_bytes(content)

    log = opened(tmp_path, COMPACT, clean=True)
    assert log.bases == [0, 3, 4, 5, 6, 7]
    cleaned(log)

    assert log.bases == [0, 7]
    offsets = [header[0] for _, header in log.segments[0].headers()]
    assert offsets == sorted(set(offsets)) == [3, 4, 5, 6]
    assert {key: value for _, key, value in pairs(log)} == {**last, b"k9": b"x"}


@pytest.mark.parametrize("pieces", [0, 1, 2, 3, 6, 100])
def test_a_swap_may_be_made_in_pieces_and_end_anywhere(tmp_path: Path, pieces: int) -> None:
    """C10: after each piece a reader finds the last values, and a start finishes what was begun."""
    log = opened(tmp_path, replace(COMPACT, segment_bytes=300))
    for at in range(24):
        log.append(keyed((b"%d" % (at % 5), b"%d" % at), (b"only %d" % at, b"x")), leader_epoch=0)
        log.roll()
    log.append(keyed((b"last", b"x")), leader_epoch=0)
    last = {key: value for _, key, value in pairs(log)}
    dirty = log.dirty_range(None, 2_000, log.log_end_offset)
    result = clean(log.plan_cleaning(dirty, 2_000))
    assert len(result.groups) > 3
    swapping = log.begin_swap(result)
    done = None
    for _ in range(pieces):
        swapping.prepare()
        assert len(list(tmp_path.glob("*.log.swap"))) == 1, "of several Kafka would remove what lies between them"
        done = log.finish_swap(swapping, result)
        assert {key: value for _, key, value in pairs(log)} == last
        log.append(keyed((b"meanwhile", b"x")), leader_epoch=0)
        last[b"meanwhile"] = b"x"
        assert log.apply_retention(1 << 40, log.log_end_offset) == []
        if done is not None:
            break
    assert done is (True if pieces == 100 else None)
    left = len(pairs(log))
    if done is None:
        swapping.prepare()
    again = opened(tmp_path, COMPACT)
    assert {key: value for _, key, value in pairs(again)} == last
    if done is not None:
        assert [at for at, key, _ in pairs(again) if key == b"0"] == [40]
    elif pieces % 2:
        assert len(pairs(again)) == left, "in its place already, and given its name"
    else:
        assert len(pairs(again)) < left
    assert not [path for path in tmp_path.iterdir() if path.suffix in {".cleaned", ".swap", ".deleted"}]
