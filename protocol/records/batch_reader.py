"""Record batches, read: record by record, or keys and values at once.

Everything here expects a batch whose header and CRC are known to be right (`verify`), yet trusts no length
inside it: whatever the bytes are, the outcome is records or `CorruptBatch`, never a loop or a read beyond the
batch.

Source: Kafka's DefaultRecord, DefaultRecordBatch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.records.batch_header import HEADER_BYTES, BatchHeader, read_header
from protocol.records.compression import DECOMPRESSED_LIMIT_BYTES, decompress
from protocol.records.errors import CorruptBatch
from protocol.records.varint import decode_uvarint, decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from protocol.records.compression import Buffer

Headers = tuple[tuple[bytes, bytes | None], ...]


class Record(NamedTuple):
    """One record; `offset` is absolute, `timestamp` in ms."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iterate_records(
    buffer: Buffer, position: int = 0, *, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES
) -> Iterator[Record]:
    """The records of the batch at `position`, decompressed into at most `limit_bytes`.

    Raises: CorruptBatch, also between records; DecompressedTooLarge; UnsupportedCompression.
    """
    return open_records(buffer, position, limit_bytes=limit_bytes)[0]


def open_records(
    buffer: Buffer, position: int = 0, *, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES
) -> tuple[Iterator[Record], int]:
    """As `iterate_records`, and how many bytes are held until the last of them."""
    header = read_header(buffer, position)
    data, at, end = _records_of(buffer, position, header, limit_bytes)
    return _records(header, data, at, end), len(data)


def _records(header: BatchHeader, data: bytes, at: int, end: int) -> Iterator[Record]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    try:
        for _ in range(header.record_count):
            size, at = decode_varint(data, at)
            record_end = at + size
            if size < 0 or record_end > end:
                raise _corrupt(header, "a record passes the end of its batch")
            timestamp_delta, at = decode_varint(data, at + 1)
            offset_delta, at = decode_varint(data, at)
            key, at = _nullable(data, at)
            value, at = _nullable(data, at)
            if data[at] == 0:
                at += 1
                headers: Headers = ()
            else:
                headers, at = _headers(data, at, record_end)
            if at != record_end:
                raise _corrupt(header, "a record's fields do not fill its length")
            timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
            yield Record(base_offset + offset_delta, timestamp, key, value, headers)
    except IndexError:
        raise _corrupt(header, "a record is cut off") from None
    if at != end:
        raise _corrupt(header, f"{end - at} bytes are left after the last record")


def read_keys_values(
    buffer: Buffer,
    position: int = 0,
    *,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    header: BatchHeader | None = None,
) -> tuple[Sequence[int], list[bytes | None], list[bytes | None]]:
    """Offsets, keys and values of the batch at `position`, in three sequences of one length.

    The fast way to load a log: `newest.update(zip(keys, values))` folds a batch to the last value of each
    key. Give `buffer` as `bytes`, then nothing but keys and values is copied.

    `header` is the batch's own, if it was read already. Raises: as `iterate_records`.
    """
    if header is None:
        header = read_header(buffer, position)
    data, at, end = _records_of(buffer, position, header, limit_bytes)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    count, start = header.record_count, at
    try:
        # One run of plain code: loading half a million records is spent here. Lengths of one byte come first, and of a
        # record two, which is what an offset commit takes.
        for _ in range(count):
            size = data[at]
            at += 1
            if size >= 0x80:
                second = data[at]
                if second < 0x80:
                    size = size & 0x7F | second << 7
                    at += 1
                else:
                    size, at = decode_uvarint(data, at - 1)
            record_end = at + (size >> 1)
            at += 1  # attributes
            while data[at] >= 0x80:  # timestamp delta
                at += 1
            at += 1
            while data[at] >= 0x80:  # offset delta
                at += 1
            size = data[at + 1]
            at += 2
            if size >= 0x80:
                size, at = _size_within(end, data, at - 1)
            if size & 1:
                if size != 1:
                    raise _corrupt(header, "a key has a negative length")
                keys.append(None)
            else:
                field_end = at + (size >> 1)
                keys.append(data[at:field_end])
                at = field_end
            size = data[at]
            at += 1
            if size >= 0x80:
                size, at = _size_within(end, data, at - 1)
            if size & 1:
                if size != 1:
                    raise _corrupt(header, "a value has a negative length")
                values.append(None)
            else:
                field_end = at + (size >> 1)
                values.append(data[at:field_end])
                at = field_end
            if at >= record_end or record_end > end:  # one byte of header count is always left
                raise _corrupt(header, "a record's fields pass its length")
            at = record_end
    except IndexError:
        raise _corrupt(header, "a record is cut off") from None
    if at != end:
        raise _corrupt(header, f"{end - at} bytes are left after the last record")
    base_offset = header.base_offset
    if count == header.last_offset_delta + 1:
        return range(base_offset, base_offset + count), keys, values
    return [base_offset + delta for delta in _offset_deltas(data, start, count)], keys, values


def iterate_keys_values(
    buffer: Buffer, position: int = 0, *, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """(key, value) of each record of the batch at `position`. Raises: as `iterate_records`, before the first
    pair.
    """
    _, keys, values = read_keys_values(buffer, position, limit_bytes=limit_bytes)
    return zip(keys, values, strict=True)


def _records_of(buffer: Buffer, position: int, header: BatchHeader, limit_bytes: int) -> tuple[bytes, int, int]:
    """Bytes that hold the uncompressed records, and where in them these start and end."""
    start, end = position + HEADER_BYTES, position + header.size_bytes
    if end > len(buffer) or end < start:
        raise _corrupt(header, f"{header.size_bytes} bytes are not there")
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise _corrupt(header, "its record count or last offset delta is negative")
    if header.compression and header.record_count:
        data = decompress(header.compression, memoryview(buffer)[start:end], limit_bytes)
    elif isinstance(buffer, bytes):
        return buffer, start, end
    else:
        data = bytes(memoryview(buffer)[start:end])
    return data, 0, len(data)


def _corrupt(header: BatchHeader, what: str) -> CorruptBatch:
    return CorruptBatch(f"batch at offset {header.base_offset}: {what}")


def _size_within(end: int, data: bytes, at: int) -> tuple[int, int]:
    """The length at `at` as a zig-zag number that is not decoded yet, of which nothing passes `end`.

    A slice beyond the data would be silently shorter, and native code has none beyond 64 bits.
    """
    size, at = decode_uvarint(data, at)
    if size > 2 * end:
        raise CorruptBatch(f"a field of {size >> 1} bytes passes the end of its batch")
    return size, at


def _nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = decode_varint(data, at)
    if size < 0:
        if size != -1:
            raise CorruptBatch(f"a field has the length {size}")
        return None, at
    if size > len(data):
        raise CorruptBatch(f"a field of {size} bytes passes the end of its batch")
    end = at + size
    # A slice beyond the data would be silently shorter; the caller compares `end` with the record's.
    return data[at:end], end


def _headers(data: bytes, at: int, record_end: int) -> tuple[Headers, int]:
    count, at = decode_varint(data, at)
    if count < 0 or count > record_end - at:
        raise CorruptBatch(f"a record claims {count} headers")
    headers = []
    for _ in range(count):
        name, at = _nullable(data, at)
        value, at = _nullable(data, at)
        if name is None or at > record_end:
            raise CorruptBatch("a record header has no name, or passes its record's end")
        headers.append((name, value))
    return tuple(headers), at


def _offset_deltas(data: bytes, at: int, count: int) -> Iterator[int]:
    for _ in range(count):
        size, at = decode_varint(data, at)
        record_end = at + size
        _, at = decode_varint(data, at + 1)
        delta, _ = decode_varint(data, at)
        yield delta
        at = record_end
