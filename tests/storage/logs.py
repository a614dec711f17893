"""What the tests of this room share: batches, small logs, and what a reader sees of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from protocol.records.batch import Record, encode_batch, iterate_records, read_header
from storage.clean.cleaner import clean
from storage.log.partition_log import PartitionLog
from storage.reading.batches import Parted
from storage.state.log_config import LogConfig

SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=200)
COMPACT = LogConfig(segment_bytes=2_000, index_interval_bytes=200, compact=True, delete=False)


def batch(count: int = 3, *, timestamp: int = 1_000, value_bytes: int = 40, **fields: Any) -> bytearray:
    """`count` records with keys k0, k1 .. and rising timestamps (ms)."""
    base = fields.get("base_offset", 0)
    made = [Record(base + at, timestamp + at, b"k%d" % at, b"v" * value_bytes) for at in range(count)]
    return encode_batch(made, **fields)


def keyed(*pairs: tuple[bytes, bytes | None], timestamp: int = 1_000, **fields: Any) -> bytearray:
    """One batch of these keys and values, all at `timestamp` (ms)."""
    return encode_batch([Record(at, timestamp, key, value) for at, (key, value) in enumerate(pairs)], **fields)


def parted(made: bytearray) -> Parted:
    """As a large one is that stays where it came in."""
    return Parted(made[:61], memoryview(bytes(made))[61:])


def marker(producer_id: int, epoch: int, *, abort: bool, timestamp: int = 1_000) -> bytearray:
    """A transaction marker of coordinator epoch 0."""
    key = b"\0\0\0\0" if abort else b"\0\0\0\1"
    return encode_batch(
        [Record(0, timestamp, key, b"\0\0\0\0\0\0")],
        producer_id=producer_id,
        producer_epoch=epoch,
        transactional=True,
        control=True,
    )


def transactional(producer_id: int, sequence: int, *pairs: tuple[bytes, bytes | None], epoch: int = 0) -> bytearray:
    """One batch of a transaction."""
    return keyed(*pairs, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)


def opened(directory: Path, config: LogConfig = SMALL, **options: Any) -> PartitionLog:
    directory.mkdir(exist_ok=True)
    return PartitionLog.open(directory, config, **options)


def crashed_swaps(folder: Path, into: Path, *appended: bytearray) -> dict[str, Path]:
    """Copies of a compacted log's folder as crashes leave it while a cleaning is taken over, by what is there then.

    Each of `appended` is a segment of its own, all of them in one output but the last; `folder` keeps its name.
    """
    log = opened(folder, COMPACT)
    for data in appended:
        if log.log_end_offset:
            log.roll()
        log.append(data, leader_epoch=0)
    log.flush()
    left: dict[str, Path] = {}

    def crash(what: str) -> Path:
        left[what] = Path(shutil.copytree(folder, into / what.replace(" ", "-") / folder.name))
        return left[what]

    first, *_, last = log.state.bases
    result = clean(log.plan_cleaning(log.dirty_range(None, 1 << 60, log.log_end_offset), 1 << 60))
    assert [len(group.sources) for group in result.groups] == [len(log.state.bases) - 1]
    crash("output unfinished")
    swapping = log.begin_swap(result)
    swapping.prepare()
    crash("all sources there")
    for path in sorted(crash("first source gone").glob(f"{first:020d}.*")):
        if not path.name.endswith(".swap"):
            path.rename(path.with_name(path.name + ".deleted"))
    assert log.finish_swap(swapping, result) is None
    crash("all sources gone")
    assert sorted(path.name for path in left["all sources gone"].glob("*.log*") if path.suffix != ".deleted") == [
        f"{first:020d}.log.swap", f"{last:020d}.log",
    ]  # fmt: skip
    return left


CRASHED_SWAPS = ("output unfinished", "all sources there", "first source gone", "all sources gone")


def all_bytes(log: PartitionLog, offset: int | None = None) -> bytes:
    """All batches from `offset` (the log start) on, as a reader that follows `next_offset` gets them."""
    offset = log.log_start_offset if offset is None else offset
    data = b""
    while offset < log.log_end_offset:
        result = log.read(offset, 300, copied=True)
        data += b"".join(result.buffers)
        assert result.next_offset > offset
        offset = result.next_offset
    return data


def headers_in(data: bytes) -> list[Any]:
    found, position = [], 0
    while position < len(data):
        found.append(read_header(data, position))
        position += found[-1].size_bytes
    return found


def records_in(data: bytes, *, control: bool = False) -> list[Record]:
    """The records of whole batches, without control records unless asked for."""
    found: list[Record] = []
    position = 0
    while position < len(data):
        header = read_header(data, position)
        if control or not header.is_control:
            found += iterate_records(data, position)
        position += header.size_bytes
    return found


def pairs(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of every data record."""
    return [(record.offset, record.key, record.value) for record in records_in(all_bytes(log))]
