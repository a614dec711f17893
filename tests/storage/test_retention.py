"""Which segments go, and which checkpoints say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from storage.errors import CorruptFile
from storage.files import remove_files
from storage.log.partition_log import PartitionLog
from storage.log.retention import Reason
from storage.reading.checkpoints import read_offsets, write_offsets
from storage.state.leader_epochs import LeaderEpochs
from storage.state.log_config import LogConfig
from storage.state.tail import TailBudget
from tests.storage.logs import SMALL, batch, opened, pairs
from tests.support.recording_disk import RecordingDisk

FOREVER = replace(SMALL, retention_ms=-1)


def five_segments(directory: Path, config: LogConfig) -> PartitionLog:
    """Segments of one batch each at 1000, 2000 .. ms, and an active one that is empty."""
    log = opened(directory, config)
    for at in range(5):
        log.append(batch(1, timestamp=1_000 * (at + 1)), leader_epoch=at)
        log.roll()
    return log


def test_segments_go_by_the_time_of_their_latest_record(tmp_path: Path) -> None:
    """Strictly older than retention.ms, and only below the high watermark."""
    log = five_segments(tmp_path, replace(SMALL, retention_ms=1_000))
    assert [gone.base_offset for gone in log.apply_retention(3_000, 5)] == [0]
    assert [gone.base_offset for gone in log.apply_retention(9_000, 3)] == [1, 2]
    assert (log.log_start_offset, log.epochs.start_offsets[0]) == (3, 3)
    gone = log.apply_retention(9_000, 5)
    assert [(segment.base_offset, segment.reason) for segment in gone] == [(3, Reason.TIME), (4, Reason.TIME)]
    assert (log.log_start_offset, log.log_end_offset, log.bases) == (5, 5, [5])


def test_an_expired_active_segment_is_rolled_away(tmp_path: Path) -> None:
    """So that the log end is known: an empty segment begins there."""
    log = opened(tmp_path)
    log.append(batch(3), leader_epoch=0)
    assert [gone.base_offset for gone in log.apply_retention(10**12, 3)] == [0]
    assert (log.bases, log.log_start_offset, log.append(batch(), leader_epoch=0)) == ([3], 3, 3)
    log.close()
    assert opened(tmp_path, clean=True).log_end_offset == 6


def test_the_oldest_segments_go_until_the_size_fits(tmp_path: Path) -> None:
    """A segment goes only if the log stays at least retention.bytes long without it."""
    log = five_segments(tmp_path, FOREVER)
    each = log.segments[0].size_bytes
    log.config = replace(FOREVER, retention_bytes=3 * each)
    assert [gone.reason for gone in log.apply_retention(0, 5)] == [Reason.SIZE, Reason.SIZE]
    log.config = replace(FOREVER, retention_bytes=3 * each - 1)
    assert log.apply_retention(0, 5) == []


def test_a_compacted_log_only_loses_what_lies_below_its_start(tmp_path: Path) -> None:
    log = five_segments(tmp_path, replace(SMALL, retention_ms=1, retention_bytes=1, compact=True, delete=False))
    assert log.apply_retention(10**12, 5) == []
    log.delete_records_before(2)
    assert [gone.reason for gone in log.apply_retention(10**12, 5)] == [Reason.LOG_START] * 2


def test_deleted_files_wait_to_be_removed_and_a_start_removes_them_too(tmp_path: Path) -> None:
    log = five_segments(tmp_path, FOREVER)
    log.delete_records_before(2)
    log.apply_retention(0, 5)
    files = log.take_deleted_files()
    assert all(path.exists() and path.suffix == ".deleted" for path in files)
    assert {path.name[:20] for path in files} == {f"{0:020d}", f"{1:020d}"}
    assert log.take_deleted_files() == []
    remove_files(files[:3])
    remove_files(files[:3])
    opened(tmp_path, FOREVER)
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".deleted"]


def test_what_is_deleted_is_not_written_to_the_disk_first(tmp_path: Path) -> None:
    """A flush would have the disk write a whole segment for nobody; that it is gone is for the flush all the same."""
    disk = RecordingDisk(tmp_path)
    log = opened(tmp_path / "t-0", FOREVER, disk=disk)
    for at in range(3):
        log.append(batch(1), leader_epoch=at)
        log.roll()
    log.delete_records_before(2)
    log.apply_retention(0, 3)
    before = len(disk.journal)
    log.flush()
    synced = [(op.kind, op.name) for op in disk.journal[before:]]
    assert [name for _, name in synced if ".log" in name] == [f"t-0/{2:020d}.log", f"t-0/{3:020d}.log"]
    assert ("sync_folder", "t-0") in synced


@pytest.mark.parametrize(
    ("config", "timestamps", "rolls"),
    [
        (replace(FOREVER, segment_ms=100), (1_000, 1_100, 1_101, 1_102), [0, 2]),
        (replace(FOREVER, segment_index_bytes=36, index_interval_bytes=0), (1, 2, 3, 4, 5, 6), [0, 3]),
        (replace(FOREVER, segment_ms=100, compact=True, max_compaction_lag_ms=50), (1_000, 1_050, 1_051), [0, 2]),
    ],
)
def test_a_segment_is_rolled_by_age_and_by_full_indexes(
    tmp_path: Path, config: LogConfig, timestamps: tuple[int, ...], rolls: list[int]
) -> None:
    log = opened(tmp_path, config)
    for timestamp in timestamps:
        log.append(batch(1, timestamp=timestamp), leader_epoch=0)
    assert log.bases == rolls


def test_a_segment_is_rolled_before_an_offset_passes_32_bits(tmp_path: Path) -> None:
    log = opened(tmp_path, FOREVER)
    log.append(batch(1), leader_epoch=0)
    log.append_assigned(batch(1, base_offset=2**31 - 1))
    log.append_assigned(batch(1, base_offset=2**31))
    assert log.bases == [0, 2**31]
    assert [offset for offset, _, _ in pairs(log)] == [0, 2**31 - 1, 2**31]


def test_batches_without_timestamps_roll_by_the_clock(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(FOREVER, segment_ms=100))
    for now_ms in (500, 600, 601):
        log.append(batch(1, timestamp=-1), leader_epoch=0, now_ms=now_ms)
    assert log.bases == [0, 2]


def test_all_tails_share_one_budget(tmp_path: Path) -> None:
    """The oldest batch of any log goes first, and files serve it all the same."""
    budget = TailBudget(limit_batches=3)
    logs = [opened(tmp_path / name, tail=budget) for name in ("a-0", "b-0")]
    for at in range(6):
        logs[at % 2].append(batch(1), leader_epoch=0)
    assert [list(log.state.tail.batches) for log in logs] == [[2], [1, 2]]
    assert budget.used_bytes == 3 * len(batch(1))
    logs[1].truncate_to(0)
    assert budget.used_bytes == len(batch(1))
    assert [offset for offset, _, _ in pairs(logs[0])] == [0, 1, 2]


# -- texts -----------------------------------------------------------------------------------------------------


def test_an_offset_checkpoint_is_kafkas_text(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    write_offsets(path, {("b", 1): 7, ("a.b-c", 10): 2**40})
    assert path.read_text() == "0\n2\na.b-c 10 1099511627776\nb 1 7\n"
    assert read_offsets(path) == {("b", 1): 7, ("a.b-c", 10): 2**40}
    assert read_offsets(tmp_path / "missing") == {}
    path.write_bytes(b"")
    assert read_offsets(path) == {}


@pytest.mark.parametrize(
    "text", ["1\n0\n", "0\n", "0\nx\n", "0\n1\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n0\na 0 1\n", "\xff\n0\n"]
)
def test_a_malformed_checkpoint_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CorruptFile):
        read_offsets(path)


def test_leader_epochs_answer_where_an_epoch_ended(tmp_path: Path) -> None:
    """OffsetForLeaderEpoch: the largest epoch not above the one asked for."""
    log = opened(tmp_path)
    for epoch in (2, 2, 5, 9):
        log.append(batch(1), leader_epoch=epoch)
    asked = {epoch: log.epochs.end_offset_for(epoch, log.log_end_offset) for epoch in (-1, 0, 2, 3, 5, 8, 9, 10)}
    assert asked == {-1: (-1, -1), 0: (0, 0), 2: (2, 2), 3: (2, 2), 5: (5, 3), 8: (5, 3), 9: (9, 4), 10: (-1, -1)}
    assert [log.epochs.epoch_for_offset(offset) for offset in range(4)] == [2, 2, 5, 9]
    log.flush()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n2 0\n5 2\n9 3\n"
    log.append(batch(1), leader_epoch=4)  # a lower epoch takes the higher ones away
    assert (log.epochs.epochs, log.epochs.start_offsets) == ([2, 4], [0, 4])


def test_an_older_epoch_file_never_replaces_a_newer_one(tmp_path: Path) -> None:
    """A flush in another thread may come late."""
    log = opened(tmp_path)
    log.append(batch(1), leader_epoch=1)
    late = log.begin_flush()
    log.append(batch(1), leader_epoch=2)
    log.flush()
    late.sync()
    epochs = LeaderEpochs(tmp_path, log.state.disk)
    epochs.load()
    assert epochs.epochs == [1, 2]
