"""`N.snapshot`: the producer table as it was at offset N (exclusive), so that a start need not read every batch.

Layout: int16 version 1, uint32 CRC-32C of the bytes after it, int32 count, then 46 bytes per producer: id int64,
epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64, coordinator epoch int32, first
offset of the open transaction int64 (-1). Only the newest batch of a producer is stored.

Source: Kafka's ProducerStateManager, ProducerSnapshot.json.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from protocol.records.crc import crc32c
from storage.errors import CorruptFile
from storage.files import Disk, write_file
from storage.reading.folder import segment_path
from storage.state.producer_state import NO_SEQUENCE, ProducerEntry, ProducerState, SentBatch

VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")


def pack_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The bytes of a snapshot file."""
    packed = []
    for entry in entries:
        newest = entry.batches[-1] if entry.batches else SentBatch(NO_SEQUENCE, -1, 0, -1)
        packed.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                newest.last_sequence,
                newest.last_offset,
                newest.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
        )
    body = struct.pack(">i", len(packed)) + b"".join(packed)
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def parse_snapshot(path: Path, data: bytes) -> list[ProducerEntry]:
    """The entries of a snapshot file. Raises: CorruptFile; the remedy is to discard it and use an older one."""
    if len(data) < _HEAD.size:
        raise CorruptFile(path, f"has {len(data)} bytes, less than its head")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(path, f"has version {version}, only {VERSION} is known")
    if crc32c(memoryview(data)[6:]) != crc:
        raise CorruptFile(path, "has a wrong CRC")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptFile(path, f"announces {count} producers and has {len(data)} bytes")
    entries = []
    for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_offset = fields
        batches: tuple[SentBatch, ...] = ()
        if last_offset >= 0:
            batches = (SentBatch(last_sequence, last_offset, delta, timestamp),)
        entries.append(ProducerEntry(producer_id, epoch, batches, coordinator_epoch, timestamp, first_offset))
    return entries


def write_snapshot(directory: Path, offset: int, producers: ProducerState, disk: Disk) -> Path:
    """Write `offset`.snapshot; return its path, for the caller to fsync. May raise `OSError`."""
    path = write_packed_snapshot(directory, offset, pack_snapshot(producers.entries.values()), disk)
    producers.snapshot_offset = offset
    return path


def write_packed_snapshot(directory: Path, offset: int, packed: bytes, disk: Disk) -> Path:
    """As `write_snapshot`, of what `pack_snapshot` has made. In any thread. May raise `OSError`."""
    path = segment_path(directory, offset, ".snapshot")
    write_file(path, packed, sync=False, disk=disk)
    return path


def restore(producers: ProducerState, entries: list[ProducerEntry]) -> None:
    """Make the table hold exactly `entries`."""
    producers.clear()
    for entry in sorted(entries, key=lambda entry: entry.transaction_first_offset):
        producers.restore(entry)
