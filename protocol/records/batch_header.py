"""The 61 bytes in front of every record batch: reading, checking, and what the broker writes into them.

Positions are bytes in the given buffer, which may be bytes, bytearray or a memoryview; nothing here copies
records.

Source: Kafka's DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from protocol.records.crc import crc32c as _crc32c
from protocol.records.errors import CorruptBatch, UnsupportedMagic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.records.compression import Buffer

HEADER_BYTES = 61
LENGTH_BYTES = 12
"""Base offset and batch length: what must be read to know where a batch ends."""
MAGIC = 2

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_INT16 = struct.Struct(">h")
_new_tuple = tuple.__new__


class BatchHeader(NamedTuple):
    """One batch's header, fields as on disk. Timestamps are ms; -1 stands for none."""

    base_offset: int
    length: int  # bytes after this field: 12 less than the whole
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.length + 12

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch ever had, which compaction may have removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after `last_offset`."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, wrapping to 0 after 2^31 - 1; -1 without a producer."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> int:
        """Codec, as in `compression.Compression`; 5-7 are unassigned."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Every record's timestamp is `max_timestamp`, given by the broker."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction (or its marker)."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Holds control records, which consumers never see."""
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones of this batch may go; None as long as no cleaning has set it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked but for its 61 bytes being there. Raises: CorruptBatch."""
    try:
        fields = _HEADER.unpack_from(buffer, position)
    except struct.error:
        raise CorruptBatch(f"batch header at {position} is cut off") from None
    return _new_tuple(BatchHeader, fields)


def check_header(header: BatchHeader, available_bytes: int) -> None:
    """Magic 2, and a size that fits into `available_bytes` (counted from the batch's start).

    Raises: CorruptBatch, UnsupportedMagic.
    """
    # Older formats have their own sizes, but the magic byte in the same place: say that first.
    if header.magic != MAGIC:
        raise UnsupportedMagic(header.magic)
    size_bytes = header.length + 12
    if size_bytes < HEADER_BYTES:
        raise CorruptBatch(f"batch at offset {header.base_offset} claims {size_bytes} bytes, less than a header")
    if size_bytes > available_bytes:
        raise CorruptBatch(
            f"batch at offset {header.base_offset} claims {size_bytes} bytes, only {available_bytes} are there"
        )


def verify(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, after checking size, magic and CRC over the buffer in place.

    Raises: CorruptBatch, UnsupportedMagic.
    """
    header = read_header(buffer, position)
    check_header(header, len(buffer) - position)
    verify_crc(buffer, header, position)
    return header


def verify_crc(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    """As `verify`, of a batch whose header was read, and whose size and magic were checked. Raises: CorruptBatch."""
    crc = _crc32c(memoryview(buffer)[position + 21 : position + header.length + 12])
    if crc != header.crc:
        raise CorruptBatch(f"batch at offset {header.base_offset} has CRC {header.crc:08x}, its bytes give {crc:08x}")


def iterate_headers(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch from `position` on; a batch cut off by `end` is left out.

    Neither CRC nor the records are looked at. Raises: CorruptBatch on an impossible size or magic.
    """
    limit = len(buffer) if end is None else end
    while position + HEADER_BYTES <= limit:
        header = _new_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))
        size_bytes = header.length + 12
        if header.magic != MAGIC or size_bytes < HEADER_BYTES:
            check_header(header, size_bytes)
        if position + size_bytes > limit:
            return
        yield position, header
        position += size_bytes


def write_header(
    batch: bytearray,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> None:
    """Write the first 61 bytes of one whole batch, length and CRC computed from the others."""
    _HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_BYTES,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    write_crc(batch)


def write_crc(batch: bytearray | memoryview) -> None:
    """Compute the CRC of one whole batch and write it into its header."""
    _UINT32.pack_into(batch, 17, _crc32c(memoryview(batch)[21:]))


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write the two fields that the broker gives, in place. The CRC does not cover them and stays valid."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _INT32.pack_into(batch, 12, leader_epoch)


def stamp_log_append_time(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Give every record of one whole batch the broker's time: attribute bit 3, max timestamp, new CRC; in
    place.
    """
    attributes = _INT16.unpack_from(batch, 21)[0] | LOG_APPEND_TIME
    _INT16.pack_into(batch, 21, attributes)
    _INT64.pack_into(batch, 35, timestamp_ms)
    write_crc(batch)


def stamp_create_time(batch: bytearray | memoryview, max_timestamp_ms: int) -> None:
    """Take attribute bit 3 off and set the max timestamp to what the records say, with a new CRC; in place.

    For a batch whose header disagrees with its records, as Kafka mends it on append.
    """
    attributes = _INT16.unpack_from(batch, 21)[0] & ~LOG_APPEND_TIME
    _INT16.pack_into(batch, 21, attributes)
    _INT64.pack_into(batch, 35, max_timestamp_ms)
    write_crc(batch)
