"""The time index at rest: the same log ends as all headers tell, for a few reads around the moments that are asked."""

import random
import struct
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.sources import log_dir, log_growth
from pipeline.sources.log_ends import Grown
from tests.pipeline.capture import unpack
from tests.pipeline.logs import Log, rows

NOW_MS = int(time.time() * 1000) - 3_600_000
VALUE = bytes(900)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Three segments of 300 batches, about a second apart, some of one moment; an index entry each 4 KiB."""
    chance = random.Random(7)
    made, at = Log(tmp_path, "orders", 0), NOW_MS - 1_000_000
    for segment in range(3):
        times: list[tuple[int, int]] = []
        unindexed, latest = 0, 0
        for _ in range(300):
            at += chance.choice((0, 0, 300, 900, 2500))
            before = made.path.stat().st_size if made.path.exists() else 0
            count = chance.randint(1, 3)
            made.append([(None, VALUE)] * count, timestamps=[at] * count)
            unindexed += made.path.stat().st_size - before
            if unindexed > 4096 and at > latest:
                times.append((at, made.next_offset - 1 - made.base_offset))
                unindexed, latest = 0, at
        if segment < 2 and at > latest:
            times.append((at, made.next_offset - 1 - made.base_offset))
        index = made.path.with_suffix(".timeindex")
        index.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in times))
        if segment < 2:
            made.roll()
    made.write_index()
    yield tmp_path


def end_at(found: list[Grown], moment_ms: int) -> int:
    return max((one.last_offset + 1 for one in found if one.max_ms <= moment_ms), default=0)


def test_ends_are_those_of_the_headers(log: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_growth, "_LEAST_BYTES", 1)
    monkeypatch.setattr(log_growth, "WINDOW_BYTES", 1)
    headers = rows(log, records="batch")
    times = [round(row["max_timestamp"].timestamp() * 1000) for row in headers]
    moments = sorted({*range(times[0] - 5_000, times[-1] + 20_000, 7_001), times[100], times[450] - 1, times[-1]})

    told, untold = log_growth.growth(log_dir.scan(str(log)), moments)

    assert not untold
    assert [end_at(told, moment) for moment in moments] == [
        max((row["last_offset"] + 1 for row, at in zip(headers, times, strict=True) if at <= moment), default=0)
        for moment in moments
    ]
    assert told[0].base_offset == 0
    assert all(one.last_offset + 1 == after.base_offset for one, after in pairwise(told))
    assert (told[-1].last_offset, told[-1].max_ms) == (headers[-1]["last_offset"], times[-1])
    assert log_growth.newest_ms(log_dir.scan(str(log))) >= times[-1]


def test_kafkas_own_time_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of a directory that Apache Kafka closed. Markers of transactions may be younger than what follows them: as Kafka
    answers ListOffsets by time, a log ended at a moment before its first record that is later."""
    monkeypatch.setattr(log_growth, "_LEAST_BYTES", 1)
    monkeypatch.setattr(log_growth, "WINDOW_BYTES", 0)
    directory, _ = unpack("kafka-4.3.1", tmp_path)
    headers = rows(directory, records="batch", topicPattern="[^_].*")
    assert len({(row["topic"], row["partition"]) for row in headers}) > 5
    moments = sorted({round(row["max_timestamp"].timestamp() * 1000) for row in headers})
    partitions = [one for one in log_dir.scan(str(directory)) if not one.topic.startswith("_")]

    told, untold = log_growth.growth(partitions, moments)

    assert not untold - {one.topic for one in partitions if not one.size_bytes}
    for place in {(row["topic"], row["partition"]) for row in headers}:
        mine = [row for row in headers if (row["topic"], row["partition"]) == place]
        found = [one for one in told if (one.topic, one.partition) == place]
        for moment in moments:
            later = [row["base_offset"] for row in mine if round(row["max_timestamp"].timestamp() * 1000) > moment]
            assert end_at(found, moment) == (later or [mine[-1]["last_offset"] + 1])[0]


def test_a_moment_costs_a_few_reads(log: Path, monkeypatch: pytest.MonkeyPatch):
    """Of 1.6 MB, of which all headers would be read: what lies around the moment, and the log's last stretch."""
    monkeypatch.setattr(log_growth, "_LEAST_BYTES", 1)
    read = []
    pread = log_growth.Walk.headers

    def counted(self: log_growth.Walk) -> Iterator[object]:
        inner = self._pread
        self._pread = lambda count, at: (read.append(len(data := inner(count, at))), data)[1]
        return pread(self)

    monkeypatch.setattr(log_growth.Walk, "headers", counted)
    size = sum(file.stat().st_size for file in log.rglob("*.log"))
    told, untold = log_growth.growth(log_dir.scan(str(log)), [NOW_MS - 500_000])
    assert told
    assert not untold
    assert sum(read) < size / 2


def test_what_the_time_index_cannot_tell_is_read_whole(log: Path, monkeypatch: pytest.MonkeyPatch):
    partitions = log_dir.scan(str(log))
    assert log_growth.growth(partitions, [NOW_MS]) == ([], {"orders"}), "small topics are sooner read whole"
    monkeypatch.setattr(log_growth, "_LEAST_BYTES", 1)
    [first, *_] = sorted(log.rglob("*.timeindex"))
    kept = first.read_bytes()
    first.unlink()
    assert log_growth.growth(partitions, [NOW_MS])[1] == {"orders"}, "without an index nobody knows"
    first.write_bytes(kept[:-12] + struct.pack(">qi", NOW_MS + 10**9, 5000))
    assert log_growth.growth(partitions, [NOW_MS])[1] == {"orders"}, "a record of the future hides what follows"
