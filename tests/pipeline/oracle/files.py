"""A log directory as lists of batches and records, read by kafka-python's record reader.

Source: Kafka's LogLoader (which files count), DefaultRecordBatch, ProducerStateManager (which transactions are open).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kafka.record.default_records import DefaultRecordBatch

_SEGMENT = re.compile(r"(\d{20})\.log(\.swap)?")
_FOLDER = re.compile(r"(.+)-(\d+)")
CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
OFFSETS_TOPIC = "__consumer_offsets"


class Record(NamedTuple):
    """One record. `size_bytes` as framed, its length varint included."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    size_bytes: int


@dataclass
class Batch:
    """One batch's header, and its records."""

    topic: str
    partition: int
    base_offset: int
    last_offset: int
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    size_bytes: int
    compression: str
    producer_id: int
    is_transactional: bool
    is_control: bool
    file: Path
    position: int
    records: list[Record]
    aborted: bool = False


@dataclass
class PartitionLog:
    """One partition. `first_dirty_offset` is None where no cleaner has written a checkpoint."""

    topic: str
    partition: int
    segments: list[Path] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    log_start_offset: int = 0
    log_end_offset: int = 0
    first_dirty_offset: int | None = None
    open_transaction_from: int | None = None
    topic_id: str | None = None

    def records(self, *, committed: bool = False) -> list[Record]:
        """All records of clients, in offset order; `committed`: as a read_committed consumer gets them."""
        end = self.open_transaction_from if committed else None
        return [
            record
            for batch in self.batches
            if not batch.is_control and not (committed and batch.aborted)
            for record in batch.records
            if record.offset >= self.log_start_offset and (end is None or record.offset < end)
        ]


class LogDirectory:
    """Every partition of a directory, by (topic, partition)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partitions: dict[tuple[str, int], PartitionLog] = {}
        starts = _checkpoint(path / "log-start-offset-checkpoint")
        dirty = _checkpoint(path / "cleaner-offset-checkpoint")
        for folder in sorted(path.iterdir()):
            match = _FOLDER.fullmatch(folder.name)
            if match is None or not folder.is_dir() or folder.name.endswith(("-delete", "-stray", "-future")):
                continue
            log = read_partition(folder, match[1], int(match[2]))
            place = (log.topic, log.partition)
            log.log_start_offset = max(log.log_start_offset, starts.get(place, 0))
            log.first_dirty_offset = dirty.get(place)
            self.partitions[place] = log

    def of(self, topic: str) -> list[PartitionLog]:
        """The partitions of one topic, in order."""
        return [log for place, log in sorted(self.partitions.items()) if place[0] == topic]

    def records(self, topic: str = OFFSETS_TOPIC, *, committed: bool = False) -> list[Record]:
        """All records of one topic."""
        return [record for log in self.of(topic) for record in log.records(committed=committed)]

    def topic_names(self) -> dict[str, str]:
        """Topic name by id, from the partition.metadata files."""
        return {log.topic_id: log.topic for log in self.partitions.values() if log.topic_id}


def read_partition(folder: Path, topic: str, partition: int) -> PartitionLog:
    """One partition's folder."""
    log = PartitionLog(topic, partition, segments=_segments(folder))
    if log.segments:
        log.log_start_offset = log.log_end_offset = int(log.segments[0].name[:20])
    for segment in log.segments:
        log.log_end_offset = max(log.log_end_offset, int(segment.name[:20]))
        for batch in _batches(segment, topic, partition):
            log.batches.append(batch)
            log.log_end_offset = batch.last_offset + 1
    _settle_transactions(log)
    metadata = folder / "partition.metadata"
    if metadata.exists():
        log.topic_id = re.search(r"topic_id: (\S+)", metadata.read_text())[1]  # type: ignore[index]  # Kafka writes it.
    return log


def _segments(folder: Path) -> list[Path]:
    """The files of the log, a complete replacement (.swap) in the place of what it replaces."""
    found = [
        (int(match[1]), bool(match[2]), file) for file in folder.iterdir() if (match := _SEGMENT.fullmatch(file.name))
    ]
    plain = {base: file for base, swap, file in found if not swap}
    for base, swap, file in sorted(found):
        if swap:
            batches = list(_batches(file, "", 0))
            end = batches[-1].last_offset + 1 if batches else base + 1
            plain = {other: path for other, path in plain.items() if not base <= other < end} | {base: file}
    return [plain[base] for base in sorted(plain)]


def _batches(file: Path, topic: str, partition: int) -> list[Batch]:
    data, position, batches = file.read_bytes(), 0, []
    while position + 61 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if size < 61 or position + size > len(data):
            break  # Zeros of a pre-allocated file, or a batch whose end was never written.
        raw: Any = DefaultRecordBatch(data[position : position + size])
        assert raw.magic == 2, f"{file} at {position}: magic {raw.magic}"
        assert raw.validate_crc(), f"{file} at {position}: CRC"
        batch = Batch(
            topic,
            partition,
            raw.base_offset,
            raw.last_offset,
            raw.records_count,
            raw.first_timestamp,
            raw.max_timestamp,
            size,
            CODECS[raw.compression_type],
            raw.producer_id,
            raw.is_transactional,
            raw.is_control_batch,
            file,
            position,
            [],
        )
        if raw.records_count:
            batch.records = [
                Record(
                    topic,
                    partition,
                    record.offset,
                    record.timestamp,
                    record.timestamp_type,
                    record.key,
                    record.value,
                    list(record.headers),
                    _framed(record),
                )
                for record in raw
            ]
        batches.append(batch)
        position += size
    return batches


def _framed(record: Any) -> int:
    """The record's length with the varint before it."""
    length: int = record._length if hasattr(record, "_length") else record.size_in_bytes
    zigzag, varint_bytes = length << 1, 1
    while zigzag > 0x7F:
        zigzag >>= 7
        varint_bytes += 1
    return length + varint_bytes


def _settle_transactions(log: PartitionLog) -> None:
    ongoing: dict[int, list[Batch]] = {}
    for batch in log.batches:
        if batch.is_control:
            for record in batch.records:
                kind = int.from_bytes((record.key or b"")[2:4], "big")
                ended = ongoing.pop(batch.producer_id, [])
                for of_transaction in ended:
                    of_transaction.aborted = kind == 0
        elif batch.is_transactional:
            ongoing.setdefault(batch.producer_id, []).append(batch)
    log.open_transaction_from = min((batches[0].base_offset for batches in ongoing.values()), default=None)


def _checkpoint(file: Path) -> dict[tuple[str, int], int]:
    lines = file.read_text().split("\n")[2:] if file.exists() else []
    fields = [line.rsplit(" ", 2) for line in lines if line]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in fields}
