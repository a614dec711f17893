"""Record batches, made: one general encoder, and a fast one for what the broker itself writes.

Source: Kafka's MemoryRecordsBuilder, DefaultRecord.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.records.batch_header import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    write_header,
)
from protocol.records.compression import compress
from protocol.records.varint import SMALL_VARINTS, encode_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from protocol.records.batch_reader import Record

_NULL = encode_varint(-1)
_RECORD_OVERHEAD_BYTES = 1 + 10 + 5 + 5 + 5 + 5 + 5  # attributes and every varint at its longest


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: int = 0,
    compression_level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
    max_timestamp: int | None = None,
) -> bytearray:
    """One batch of `records`, whose offsets are absolute, >= `base_offset` and rising, gaps allowed.

    `log_append_time_ms` makes it the timestamp of all records. With `delete_horizon_ms` that moment stands
    where the first timestamp would, and deltas count from it. `last_offset` keeps the range of a batch whose
    last records are gone; it is required when `records` is empty. `max_timestamp` is only for a batch without
    records (else the records say it).
    """
    chunks: list[bytes] = []
    count = 0
    base_timestamp = delete_horizon_ms
    newest = -1
    offset = base_offset - 1
    for offset, timestamp, key, value, headers in records:
        if base_timestamp is None:
            base_timestamp = timestamp
        newest = max(newest, timestamp)
        body = _encode_record(timestamp - base_timestamp, offset - base_offset, key, value, headers)
        chunks += (encode_varint(len(body)), body)
        count += 1
    if last_offset is None:
        if not count:
            raise ValueError("a batch without records needs its last offset")
        last_offset = offset
    if not count:
        base_timestamp = -1 if delete_horizon_ms is None else delete_horizon_ms
        newest = -1 if max_timestamp is None else max_timestamp
        compression = 0
    attributes = compression
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        newest = log_append_time_ms
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
    body = b"".join(chunks)
    out = bytearray(HEADER_BYTES)
    out += compress(compression, body, compression_level) if compression else body
    assert base_timestamp is not None
    write_header(
        out,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=newest,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )
    return out


def encode_pairs(
    pairs: Sequence[tuple[bytes | None, bytes | None]],
    *,
    timestamp: int,
    compression: int = 0,
    leader_epoch: int = -1,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """One batch of at least one (key, value) pair, all at `timestamp`, offsets without gaps, no headers."""
    varints = SMALL_VARINTS
    null = _NULL
    chunks: list[bytes] = []
    delta = 0
    for key, value in pairs:
        if key is None:
            key_length, key_bytes = null, b""
        else:
            key_bytes = key
            size = len(key)
            key_length = varints[size] if size < 1024 else encode_varint(size)
        if value is None:
            value_length, value_bytes = null, b""
        else:
            value_bytes = value
            size = len(value)
            value_length = varints[size] if size < 1024 else encode_varint(size)
        offset_delta = varints[delta] if delta < 1024 else encode_varint(delta)
        # 3: attributes, timestamp delta and header count, all 0.
        size = 3 + len(offset_delta) + len(key_length) + len(key_bytes) + len(value_length) + len(value_bytes)
        chunks += (
            varints[size] if size < 1024 else encode_varint(size),
            b"\x00\x00",
            offset_delta,
            key_length,
            key_bytes,
            value_length,
            value_bytes,
            b"\x00",
        )
        delta += 1
    body = b"".join(chunks)
    out = bytearray(HEADER_BYTES)
    out += compress(compression, body) if compression else body
    attributes = compression
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    write_header(
        out,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=delta - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=delta,
    )
    return out


def encoded_pair_bytes(key: bytes | None, value: bytes | None) -> int:
    """At most this many bytes does one pair take in an uncompressed batch: for keeping batches below a limit."""
    return _RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)


def _encode_record(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[bytes, bytes | None]],
) -> bytes:
    parts = [
        b"\x00",
        encode_varint(timestamp_delta),
        encode_varint(offset_delta),
        *_nullable(key),
        *_nullable(value),
        encode_varint(len(headers)),
    ]
    for name, content in headers:
        parts += (encode_varint(len(name)), name, *_nullable(content))
    return b"".join(parts)


def _nullable(data: bytes | None) -> tuple[bytes, bytes]:
    if data is None:
        return _NULL, b""
    return encode_varint(len(data)), data
