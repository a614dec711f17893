"""What the records of a batch that a client wrote must be, walked without making any of them.

Source: Kafka's LogValidator, DefaultRecord.readFrom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.records.batch_header import HEADER_BYTES, BatchHeader, read_header
from protocol.records.compression import DECOMPRESSED_LIMIT_BYTES, decompress_uncopied
from protocol.records.errors import CorruptBatch, InvalidRecord
from protocol.records.varint import decode_uvarint, decode_varint

if TYPE_CHECKING:
    from protocol.records.compression import Buffer

_NO_TIME = 1 << 80  # beyond every delta


class RecordFacts(NamedTuple):
    """What the records of a batch say, taken together. Timestamps in ms."""

    max_timestamp: int
    max_timestamp_offset: int  # of the first record that has it
    min_timestamp: int
    first_keyless: int  # index of the first record without a key; -1 when all have one


def validate_records(
    buffer: Buffer,
    position: int = 0,
    *,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    header: BatchHeader | None = None,
) -> RecordFacts:
    """Walk a batch whose CRC is right, and say what its records hold. Not compressed and `bytes`, it is not copied.

    `header` is the batch's own, if it was read already.

    Raises: InvalidRecord when the records are not those that the header announces (count, offset deltas 0..n-1 in
    order, lengths that fill each other) or the batch is a control batch; CorruptStream for what its codec cannot read;
    DecompressedTooLarge; UnsupportedCompression; CorruptBatch when the batch is cut off.
    """
    if header is None:
        header = read_header(buffer, position)
    count = header.record_count
    if header.is_control:
        raise InvalidRecord("Clients are not allowed to write control records")
    if count <= 0:
        raise InvalidRecord(f"Invalid reported count for record batch: {count}")
    if header.last_offset_delta != count - 1:
        raise InvalidRecord(
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] for a count of {count} records"
        )
    at, end = position + HEADER_BYTES, position + header.size_bytes
    if end > len(buffer) or end < at:
        raise CorruptBatch(f"{header.size_bytes} bytes are announced, {len(buffer) - position} are there")
    if header.compression:
        data = decompress_uncopied(header.compression, memoryview(buffer)[at:end], limit_bytes)
        at, end = 0, len(data)
    elif isinstance(buffer, bytes):
        data = buffer
    else:
        data = bytes(memoryview(buffer)[at:end])
        at, end = 0, len(data)
    newest, newest_twice, oldest, first_keyless = walk_records(data, at, end, count)
    base = header.base_timestamp
    return RecordFacts(base + newest, header.base_offset + (newest_twice >> 1), base + oldest, first_keyless)


def walk_records(data: Buffer, at: int, end: int, count: int) -> tuple[int, int, int, int]:
    """Walk `count` (above 0) records between two positions of `data`, not compressed, and say what they hold.

    The largest timestamp delta (ms), twice the index of the first record that has it, the smallest one, and the index
    of the first record without a key (-1: all have one). Raises: InvalidRecord, as `validate_records`.
    """
    newest, oldest = -_NO_TIME, _NO_TIME
    newest_twice = 0
    first_keyless = -1
    expected = 0
    try:
        # One run of plain code, since every produced record passes here. Nearly all fields have one or two bytes, and
        # a call costs as much as all the rest of a record.
        for expected in range(0, count << 1, 2):  # offset deltas as they are written: zig-zag, twice the number
            size = data[at]
            if size < 0x80:
                at += 1
            elif (following := data[at + 1]) < 0x80:
                size = size & 0x7F | following << 7
                at += 2
            else:
                size, at = decode_uvarint(data, at)
            record_end = at + (size >> 1)
            delta = data[at + 1]  # behind the attributes
            if delta < 0x80:
                at += 2
            elif (following := data[at + 2]) < 0x80:
                delta = delta & 0x7F | following << 7
                at += 3
            else:
                delta, at = decode_uvarint(data, at + 1)
            delta = -(delta >> 1) - 1 if delta & 1 else delta >> 1
            if delta > newest:
                newest, newest_twice = delta, expected
            oldest = min(oldest, delta)
            delta = data[at]
            if delta < 0x80:
                at += 1
            elif (following := data[at + 1]) < 0x80:
                delta = delta & 0x7F | following << 7
                at += 2
            else:
                delta, at = decode_uvarint(data, at)
            if delta != expected:
                index = expected >> 1
                raise InvalidRecord(f"Record {index} does not have the offset delta {index}", index)
            length = data[at]
            if length < 0x80:
                at += 1
            else:
                length, at = decode_uvarint(data, at)
            if not length & 1:
                at += length >> 1
            elif length != 1:
                raise _misfit(expected)
            elif first_keyless < 0:
                first_keyless = expected >> 1
            length = data[at]
            if length < 0x80:
                at += 1
            elif (following := data[at + 1]) < 0x80:
                length = length & 0x7F | following << 7
                at += 2
            else:
                length, at = decode_uvarint(data, at)
            if not length & 1:
                at += length >> 1
            elif length != 1:
                raise _misfit(expected)
            if data[at] or at + 1 != record_end or size & 1:
                if size & 1:
                    raise _misfit(expected)
                _check_headers(data, at, record_end, expected)
            at = record_end
    except (IndexError, CorruptBatch):
        raise InvalidRecord(f"{count} records are announced, after {expected >> 1} no whole one comes") from None
    if at != end:
        raise InvalidRecord(f"{end - at} bytes are left after the last of {count} records")
    return newest, newest_twice, oldest, first_keyless


def _check_headers(data: Buffer, at: int, record_end: int, expected: int) -> None:
    """The headers of a record begin at `at`, and must end where the record does."""
    if at >= record_end:
        raise _misfit(expected)
    count, at = decode_varint(data, at)
    if not 0 <= count <= record_end - at:
        raise _misfit(expected)
    for _ in range(count):
        size, at = decode_varint(data, at)
        if size < 0:
            raise _misfit(expected)
        at += size
        size, at = decode_varint(data, at)
        if size < -1:
            raise _misfit(expected)
        at += max(size, 0)
        if at > record_end:
            raise _misfit(expected)
    if at != record_end:
        raise _misfit(expected)


def _misfit(expected: int) -> InvalidRecord:
    index = expected >> 1
    return InvalidRecord(f"The fields of record {index} do not fit its size", index)
