"""Structured Streaming over segment files that grow."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import DataError
from pipeline.sources.admission import admit
from pipeline.sources.options import parse
from tests.pipeline.logs import Log


def stream_reader(path: Path, **options: str) -> Any:
    pytest.importorskip("pyspark")
    from pipeline.sources.log_stream import LogStreamReader

    return LogStreamReader(parse({"path": str(path), **options}))


def pairs(count: int, first: int = 0) -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % number, b"v%d" % number) for number in range(first, first + count)]


def run(spark: Any, path: Path, scratch: Path, **options: str) -> list[int]:
    """One availableNow run into a Parquet sink; the number of rows of each of its batches."""
    stream = spark.readStream.format("kohort-log").options(path=str(path), **options).load()
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(scratch / "out"))
        .option("checkpointLocation", str(scratch / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def test_a_growing_file_is_read_batch_by_batch_and_once(spark: Any, tmp_path: Path):
    """PL29: batches of about maxOffsetsPerTrigger; a torn end waits until it is whole; nothing twice, nothing lost."""
    log = Log(tmp_path / "data", "orders", 0)
    for _ in range(21):
        log.append(pairs(7, log.next_offset))
    whole = log.path.stat().st_size
    rest = log.append(pairs(618, log.next_offset))
    log.path.write_bytes(log.path.read_bytes()[: whole + 100])

    batches = run(spark, tmp_path / "data", tmp_path, maxOffsetsPerTrigger="50")
    assert batches == [56, 56, 35]  # 50 is rounded up to eight record batches
    assert run(spark, tmp_path / "data", tmp_path, maxOffsetsPerTrigger="50") == []

    with log.path.open("r+b") as file:
        file.truncate(whole)
        file.seek(whole)
        file.write(rest)
    assert sum(run(spark, tmp_path / "data", tmp_path, maxOffsetsPerTrigger="50")) == 618
    rows = spark.read.parquet(str(tmp_path / "out")).select("offset").collect()
    assert sorted(row.offset for row in rows) == list(range(765))


def test_every_waiting_partition_advances(tmp_path: Path):
    """PL37: 10 and 990 waiting, 100 allowed."""
    for partition, count in ((0, 10), (1, 990)):
        log = Log(tmp_path, "orders", partition)
        for _ in range(count):
            log.append(pairs(1, log.next_offset))
    reader = stream_reader(tmp_path, maxOffsetsPerTrigger="100")

    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())

    assert end == {"orders-0": 1, "orders-1": 99}
    assert admit({"a": 3, "b": 0}, 100) == {"a": 3, "b": 0}


def test_admission_is_rounded_up_to_whole_batches(tmp_path: Path):
    log = Log(tmp_path, "orders", 0)
    for _ in range(5):
        log.append(pairs(30, log.next_offset))
    reader = stream_reader(tmp_path, maxOffsetsPerTrigger="50")

    ends = [reader.initialOffset()]
    for _ in range(4):
        ends.append(reader.latestOffset(ends[-1], reader.getDefaultReadLimit()))

    assert [end["orders-0"] for end in ends] == [0, 60, 120, 150, 150]


def test_the_target_of_available_now_is_never_passed(tmp_path: Path):
    log = Log(tmp_path, "orders", 0)
    log.append(pairs(5))
    reader = stream_reader(tmp_path)
    reader.prepareForTriggerAvailableNow()
    log.append(pairs(5))
    Log(tmp_path, "late", 0).append(pairs(1))

    assert reader.latestOffset({"orders-0": 0}, reader.getDefaultReadLimit()) == {"orders-0": 5}
    assert reader.reportLatestOffset() == {"orders-0": 10, "late-0": 1}


def test_lost_records_stop_the_query_or_are_left_out(tmp_path: Path):
    """Below the log start: by option. Above the log end: always an error."""
    log = Log(tmp_path, "orders", 0, base_offset=100)
    log.append(pairs(10))

    with pytest.raises(DataError, match=r"starts at 100.*up to 40.*60 offsets"):
        stream_reader(tmp_path).latestOffset({"orders-0": 40}, stream_reader(tmp_path).getDefaultReadLimit())
    forgiving = stream_reader(tmp_path, failOnDataLoss="false")
    assert forgiving.latestOffset({"orders-0": 40}, forgiving.getDefaultReadLimit()) == {"orders-0": 110}
    tasks = forgiving.partitions({"orders-0": 40}, {"orders-0": 110})
    assert [(split.start_offset, split.end_offset) for task in tasks for split in task.splits] == [(100, 110)]
    with pytest.raises(DataError, match=r"ends at 110.*up to 200"):
        forgiving.latestOffset({"orders-0": 200}, forgiving.getDefaultReadLimit())


def test_a_last_batch_with_a_wrong_crc_is_not_there_yet(tmp_path: Path):
    log = Log(tmp_path, "orders", 0)
    log.append(pairs(3))
    data = bytearray(log.append(pairs(3)))
    content = bytearray(log.path.read_bytes())
    content[-1] ^= 1
    log.path.write_bytes(content)
    assert data

    assert stream_reader(tmp_path).reportLatestOffset() == {"orders-0": 3}


def test_starting_offsets_of_a_stream(tmp_path: Path):
    Log(tmp_path, "a", 0).append(pairs(4))
    Log(tmp_path, "b", 1).append(pairs(6))

    assert stream_reader(tmp_path, startingOffsets="latest").initialOffset() == {"a-0": 4, "b-1": 6}
    given = json.dumps({"b": {"1": 2}})
    assert stream_reader(tmp_path, startingOffsets=given).initialOffset() == {"a-0": 0, "b-1": 2}
