"""Record batches as arrays: every codec, gaps, horizons, mutilated bytes. No Spark."""

import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.decode import batches as b
from pipeline.decode.columns import headers_column
from pipeline.decode.records import LOCK_STEP_BATCHES, Records, header_spans, read_records
from pipeline.sources.segments import survey
from protocol.errors import KafkaError
from protocol.records import batch
from protocol.records.compression import compress
from storage.reading.walk import Verdict, Walk, sound_batch_after
from tests.pipeline.logs import T0, Log, rows

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]
BYTES = st.one_of(st.none(), st.binary(max_size=80))
RECORD = st.tuples(
    BYTES, BYTES, st.lists(st.tuples(st.binary(max_size=5), BYTES), max_size=3), st.integers(-9000, 9000)
)


def as_rows(records: Records | None) -> list[Row]:
    if records is None:
        return []
    data = bytes(records.chunk.data)
    _, record, name_at, name_size, value_at, value_size = header_spans(records)
    headers: dict[int, list[tuple[bytes, bytes | None]]] = {}
    for row, n_at, n_size, v_at, v_size in zip(record, name_at, name_size, value_at, value_size, strict=True):
        value = None if v_size < 0 else data[v_at : v_at + v_size]
        headers.setdefault(int(row), []).append((data[n_at : n_at + n_size], value))

    def field(at: Any, size: Any, index: int) -> bytes | None:
        return None if size[index] < 0 else data[at[index] : at[index] + size[index]]

    return [
        (
            int(records.offset[index]),
            int(records.timestamp[index]),
            field(records.key_at, records.key_size, index),
            field(records.value_at, records.value_size, index),
            tuple(headers.get(index, ())),
        )
        for index in range(len(records))
    ]


def kernel(data: bytes, lock_step: int) -> tuple[list[Row], list[int]]:
    """Rows of all batches that can be read, and the base offsets of the others."""
    bad: list[int] = []

    def on_bad(headers: b.Headers, index: int, reason: str) -> None:
        bad.append(int(headers.base_offset[index]))

    padded = bytearray(data) + bytes(b.PAD_BYTES)
    walked = b.walk(padded, 0, len(data), check_crc=False)
    found: list[Row] = []
    for chunk in b.chunks(padded, b.read_headers(padded, walked.positions), 0, on_bad, 65536):
        found += as_rows(read_records(chunk, on_bad, lock_step))
    return found, sorted(bad)


def scalar(data: bytes) -> tuple[list[Row], list[int]]:
    """The same by storage's reader, and a check of offsets."""
    found: list[Row] = []
    bad: list[int] = []
    for position, header in batch.iterate_headers(data):
        try:
            own = [tuple(record) for record in batch.iterate_records(data, position)]
            # Which storage does not look at: nothing it does depends on it.
            if any(not header.base_offset <= record[0] <= header.last_offset for record in own):
                raise batch.CorruptBatch("an offset outside its batch")
            found += own  # type: ignore[arg-type]  # tuples of a record's fields
        except KafkaError:
            bad.append(header.base_offset)
    return found, sorted(bad)


SOUND = b"".join(
    bytes(batch.encode_batch([batch.Record(at, 5, b"k", bytes(size))], base_offset=at, leader_epoch=0))
    for at, size in enumerate((0, 300, 1, 20, 2))
)


@settings(max_examples=300)
@given(
    st.integers(0, len(SOUND) - 1),
    st.integers(0, 255),
    st.one_of(st.integers(0, len(SOUND)), st.just(len(SOUND))),
    st.integers(-1, 4),
)
def test_the_kernels_find_the_batches_that_storage_finds(
    tmp_path_factory: pytest.TempPathFactory, at: int, flipped: int, end: int, above: int
):
    """Headers of a file, batches with their CRC, and the first sound one behind damage."""
    damaged = bytearray(SOUND)
    damaged[at] ^= flipped
    data = bytes(damaged[:end])
    path = tmp_path_factory.getbasetemp() / "kernels.log"
    path.write_bytes(data)

    headers = survey(str(path))
    # The CRC does not cover the base offset: the pipeline has no segment to hold it against.
    expected = list(takewhile(lambda one: one[1][0] >= 0, Walk.of_bytes(data).headers()))
    assert headers.position.tolist() == [position for position, _ in expected]
    assert [tuple(one) for one in headers.fields.tolist()] == [header for _, header in expected]

    whole = Walk.of_bytes(data)
    sound = [position for position, *_ in takewhile(lambda one: one[1][0] >= 0, whole.batches())]
    walked = b.walk(data, 0, len(data))
    assert walked.positions == sound
    if len(sound) == len(list(Walk.of_bytes(data).batches())):
        assert (walked.stop, not walked.reason) == (whole.position, whole.verdict is Verdict.WHOLE)

    offsets = dict(sound_ones(data[1:]))
    # Storage must not cut what may be sound, wherever it says to belong; the pipeline believes what a segment can hold.
    assert sound_batch_after(data, 0, above + 1) == any(offset % (1 << 64) > above for offset in offsets.values())
    believed = (at + 1 for at, offset in offsets.items() if above < offset < above + (1 << 32))
    assert b.find_batch(data + bytes(b.PAD_BYTES), 1, len(data), above) == next(believed, None)


def sound_ones(data: bytes) -> Iterator[tuple[int, int]]:
    """Where a sound batch lies, and its base offset: any position may begin one."""
    for at in range(len(data)):
        with suppress(KafkaError):
            yield at, batch.verify(data, at).base_offset


@pytest.mark.parametrize(("octet", "is_believed"), [(0, False), (3, False), (4, True)])
def test_a_batch_that_no_segment_can_hold_is_not_believed(octet: int, is_believed: bool):
    """The CRC does not cover the base offset, so that a sound batch may say any."""
    damaged = bytearray(SOUND)
    at = max(position for position, _ in sound_ones(SOUND))
    damaged[at + octet] ^= 0x40

    assert sound_batch_after(bytes(damaged), 0, 5)
    assert b.find_batch(bytes(damaged) + bytes(b.PAD_BYTES), 1, len(damaged), 4) == (at if is_believed else None)


def encoded(groups: list[list[Any]], codec: int = 0) -> bytes:
    data, offset = b"", 0
    for group in groups:
        records = [
            batch.Record(offset + index, T0 + delta, key, value, tuple(headers))
            for index, (key, value, headers, delta) in enumerate(group)
        ]
        data += bytes(batch.encode_batch(records, base_offset=offset, compression=codec, leader_epoch=0))
        offset += len(group)
    return data


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(RECORD, min_size=1, max_size=6), min_size=1, max_size=5), st.integers(0, 4))
def test_lock_step_and_plain_loop_and_storage_read_the_same(groups: list[list[Any]], codec: int):
    """PL02, on any records."""
    data = encoded(groups, codec)

    expected = scalar(data)

    assert expected[1] == []
    assert kernel(data, 1) == expected
    assert kernel(data, LOCK_STEP_BATCHES) == expected


def test_mutilated_bytes_give_the_same_rows_or_a_corrupt_batch():
    """Three thousand seeded mutations of bytes inside batches: never a crash, and never other rows."""
    rng = random.Random(20231114)
    groups = [[(b"key%d" % n, b"v" * n, [(b"h", b"x")] if n % 3 == 0 else [], n) for n in range(rng.randint(1, 9))]
              for _ in range(4)]  # fmt: skip
    for codec in (0, 3):
        whole = encoded(groups, codec)
        bodies = [at for position, header in batch.iterate_headers(whole)
                  for at in range(position + 57, position + header.size_bytes)]  # fmt: skip
        for _ in range(1500 if codec == 0 else 300):
            data = bytearray(whole)
            for _ in range(rng.randint(1, 3)):
                data[rng.choice(bodies)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            expected = scalar(bytes(data))
            assert kernel(bytes(data), 1) == expected
            assert kernel(bytes(data), LOCK_STEP_BATCHES) == expected


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
def test_codecs(name: str, tmp_path: Path):
    """PL02: 73 rows of every codec, and of snappy in both framings."""
    codec = batch.Compression.of_name(name)
    plain, packed = Log(tmp_path / "plain", "orders", 0), Log(tmp_path / "packed", "orders", 0)
    for count in (1, 12, 60):
        pairs = [(b"k%d" % n, b"value %d" % n) for n in range(count)]
        plain.append(pairs)
        packed.append(pairs, compression=codec)

    assert rows(tmp_path / "packed") == rows(tmp_path / "plain")
    assert len(rows(tmp_path / "plain")) == 73
    assert {row["compression"] for row in rows(tmp_path / "packed", records="batch")} == {name}


def test_plain_snappy(tmp_path: Path):
    """PL02: without xerial's frame, as librdkafka writes it."""
    import cramjam

    log = Log(tmp_path, "orders", 0)
    data = batch.encode_batch([batch.Record(0, T0, b"k", b"v" * 500)], leader_epoch=0)
    body = bytes(cramjam.snappy.compress_raw(bytes(data[61:])))
    data = data[:61] + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, 2)
    from protocol.records.batch_header import write_crc

    write_crc(data)
    log.write(bytes(data))

    assert [row["value"] for row in rows(tmp_path)] == [b"v" * 500]


def test_gaps_are_no_loss(tmp_path: Path):
    """PL09: what compaction left of offsets 0-31."""
    log = Log(tmp_path, "orders", 0)
    log.append([(b"a", b"1")] * 2, offsets=[0, 7])
    log.append([(b"a", b"1")] * 2, offsets=[8, 31])

    assert [row["offset"] for row in rows(tmp_path)] == [0, 7, 8, 31]
    assert rows(tmp_path, records="problems") == []


def test_a_delete_horizon_leaves_timestamps_alone(tmp_path: Path):
    """PL10: base timestamp in the future, deltas below zero."""
    times = [T0, T0 + 5, T0 - 7]
    Log(tmp_path / "before", "orders", 0).append([(b"a", None)] * 3, timestamps=times)
    cleaned = Log(tmp_path / "after", "orders", 0)
    cleaned.append([(b"a", None)] * 3, timestamps=times, delete_horizon_ms=T0 + 86_400_000)

    before = [row["timestamp"] for row in rows(tmp_path / "before")]
    assert [row["timestamp"] for row in rows(tmp_path / "after")] == before
    assert [round(moment.timestamp() * 1000) for moment in before] == times


def test_log_append_time_is_every_records_time(tmp_path: Path):
    log = Log(tmp_path, "orders", 0)
    data = batch.encode_batch([batch.Record(n, T0 + n, None, b"") for n in range(3)], log_append_time_ms=T0 + 99)
    log.write(bytes(data))

    found = rows(tmp_path)
    assert {row["timestamp"] for row in found} == {datetime.fromtimestamp((T0 + 99) / 1000, UTC)}
    assert {row["timestampType"] for row in found} == {1}


def test_a_bomb_is_refused(tmp_path: Path):
    """A few kilobytes that claim gigabytes: by ratio, before memory is taken."""
    log = Log(tmp_path, "orders", 0)
    good = log.append([(b"k", b"v")])
    body = compress(4, bytes(64 * 1024 * 1024))
    data = bytearray(good[:61]) + body
    struct.pack_into(">q", data, 0, 1)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, 4)
    from protocol.records.batch_header import write_crc

    write_crc(data)
    log.write(bytes(data))

    with pytest.raises(b.CorruptBatch, match=r"offset 1: records decompress to more than"):
        rows(tmp_path)
    assert [row["offset"] for row in rows(tmp_path, onCorrupt="skip")] == [0]
    assert len(body) * b.RATIO_LIMIT < 64 * 1024 * 1024


def test_record_headers(tmp_path: Path):
    """Null where a record has none; a null value stays null; a name that is no UTF-8 is shown as well as it can be."""
    log = Log(tmp_path, "orders", 0)
    headers = [((b"a", b"1"), (b"a", None)), (), ((b"\xff", b""),)]
    log.append([(b"k", b"v")] * 3, headers=headers)

    found = [row["headers"] for row in rows(tmp_path, includeHeaders="true")]

    one, two = {"key": "a", "value": b"1"}, {"key": "a", "value": None}
    assert found == [[one, two], None, [{"key": "�", "value": b""}]]
    assert headers_column(b"", 2, *[np.zeros(0, np.int64)] * 5).to_pylist() == [None, None]


def test_large_batches_are_read_alone(tmp_path: Path):
    """Larger than a chunk, small ones around it."""
    log = Log(tmp_path, "orders", 0)
    log.append([(b"k", b"small")])
    log.append([(b"k", bytes(9 * 1024 * 1024))])
    log.append([(b"k", b"small")])

    assert [(row["offset"], len(row["value"])) for row in rows(tmp_path)] == [(0, 5), (1, 9 * 1024 * 1024), (2, 5)]


READS = """
import pathlib, re, sys
from pipeline.sources import options, plan, read
asked = options.parse({"path": sys.argv[1], "splitBytes": "1g"})
tasks = plan.plan(asked)
rows = sum(batch.num_rows for task in tasks for batch in read.read_splits(task, asked))
status = pathlib.Path("/proc/self/status").read_text()
print(len(tasks), rows, int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) * 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_a_task_takes_the_memory_of_a_window_however_large_its_file_is(tmp_path: Path):
    """Eight times the file, and not even half of what it grew by more memory."""

    def peak_bytes(records: int) -> int:
        log = Log(tmp_path / str(records), "orders", 0)
        for _ in range(records):
            log.append([(b"k", bytes(100_000))])
        done = subprocess.run(
            [sys.executable, "-c", READS, str(log.folder.parent)], capture_output=True, text=True, check=True
        )
        tasks, rows, peak = map(int, done.stdout.split())
        assert (tasks, rows) == (1, records)
        return peak

    assert peak_bytes(800) - peak_bytes(100) < (800 - 100) * 100_000 // 2
