"""When the record at an offset was made, from the header of its batch."""

from pathlib import Path

import pytest

from protocol.records.batch_encoder import encode_batch
from protocol.records.batch_reader import Record
from storage.errors import OffsetOutOfRange
from storage.log.partition_log import PartitionLog
from storage.state.log_config import LogConfig


def a_log(folder: Path, *batches: list[int]) -> PartitionLog:
    """A log of batches whose records have these timestamps (ms)."""
    folder.mkdir(exist_ok=True)
    log = PartitionLog.open(folder, LogConfig())
    for times in batches:
        records = [Record(number, time_ms, None, b"x", ()) for number, time_ms in enumerate(times)]
        log.append(encode_batch(records), leader_epoch=0)
    return log


@pytest.fixture(params=["memory", "file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> PartitionLog:
    """Offsets 0 to 6 in three batches: as just appended, and as read from the files again."""
    log = a_log(tmp_path / "log", [1_000], [2_000, 2_100, 2_200, 2_300], [5_000, 4_000])
    if request.param == "file":
        log.close()
        log = PartitionLog.open(tmp_path / "log", LogConfig())
    return log


def test_the_first_record_of_a_batch_has_the_batch_s_time(log: PartitionLog):
    assert [log.timestamp_at(offset) for offset in (0, 1)] == [1_000, 2_000]


def test_within_a_batch_the_time_is_reckoned(log: PartitionLog):
    assert [log.timestamp_at(offset) for offset in (2, 3, 4)] == [2_100, 2_200, 2_300]


def test_the_end_of_the_log_has_no_time(log: PartitionLog):
    assert log.timestamp_at(7) == -1


def test_below_the_start_there_is_nothing(log: PartitionLog):
    log.delete_records_before(1)
    with pytest.raises(OffsetOutOfRange):
        log.timestamp_at(0)
    assert log.timestamp_at(1) == 2_000


def test_records_without_a_time_say_so(tmp_path: Path):
    assert a_log(tmp_path / "log", [-1]).timestamp_at(0) == -1


def test_under_log_append_time_all_records_of_a_batch_have_one(tmp_path: Path):
    log = a_log(tmp_path / "log")
    batch = encode_batch([Record(number, 1_000 + number, None, b"x", ()) for number in range(2)])
    from protocol.records.batch import stamp_log_append_time

    stamp_log_append_time(batch, 9_000)
    log.append(batch, leader_epoch=0)

    assert [log.timestamp_at(offset) for offset in (0, 1)] == [9_000, 9_000]
