"""Batches whose header and CRC are right and whose inside is not what the header says."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from protocol.records.batch_header import HEADER_BYTES, write_header
from protocol.records.compression import compress
from protocol.records.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Callable

CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
NOW_MS = 1_700_000_000_000


def record(
    delta: int,
    *,
    key: bytes | None = b"k",
    value: bytes | None = b"some value",
    key_size: int | None = None,
    value_size: int | None = None,
    headers: bytes = b"\0",
    size_off_by: int = 0,
    time_delta: int = 0,
) -> bytes:
    """One record's bytes; sizes that are given are written instead of the true ones."""
    body = b"\0" + encode_varint(time_delta) + encode_varint(delta)
    for data, size in ((key, key_size), (value, value_size)):
        body += encode_varint(size if size is not None else -1 if data is None else len(data)) + (data or b"")
    body += headers
    return encode_varint(len(body) + size_off_by) + body


def batch_of(
    payload: bytes, *, codec: int = 0, count: int = 2, last_delta: int | None = None, now_ms: int = NOW_MS
) -> bytes:
    """A batch around `payload`, which is as it goes over the wire; its CRC is right."""
    out = bytearray(HEADER_BYTES) + payload
    last = count - 1 if last_delta is None else last_delta
    write_header(
        out,
        base_offset=0,
        leader_epoch=-1,
        attributes=codec,
        last_offset_delta=last,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return bytes(out)


TWO = record(0) + record(1)

INSIDES: dict[str, tuple[bytes, int]] = {
    "good": (TWO, 2),
    "five announced, two inside": (TWO, 5),
    "two announced, five inside": (b"".join(map(record, range(5))), 2),
    "nothing inside": (b"", 2),
    "noise inside": (random.Random(7).randbytes(400), 2),
    "zeros inside": (bytes(64), 2),
    "a record longer than it is": (record(0) + record(1, size_off_by=1), 2),
    "a record shorter than it is": (record(0) + record(1, size_off_by=-1), 2),
    "a first record longer than it is": (record(0, size_off_by=1) + record(1), 2),
    "a record of negative size": (record(0) + encode_varint(-3) + record(1)[1:], 2),
    "a key beyond its record": (record(0) + record(1, key_size=12), 2),
    "a key beyond everything": (record(0) + record(1, key_size=1 << 30), 2),
    "a key of -2 bytes": (record(0) + record(1, key=None, key_size=-2), 2),
    "a value beyond everything": (record(0) + record(1, value_size=1 << 30), 2),
    "a value one byte short": (record(0) + record(1, value_size=9), 2),
    "a value of -2 bytes": (record(0) + record(1, value=None, value_size=-2), 2),
    "a negative header count": (record(0) + record(1, headers=encode_varint(-1)), 2),
    "a header that is not there": (record(0) + record(1, headers=encode_varint(1)), 2),
    "a header without a name": (record(0) + record(1, headers=encode_varint(1) + encode_varint(-1) + b"\0"), 2),
    "a header with a null value": (
        record(0) + record(1, headers=encode_varint(1) + encode_varint(1) + b"n" + encode_varint(-1)),
        2,
    ),
    "offset deltas 0 and 0": (record(0) + record(0), 2),
    "offset deltas 1 and 0": (record(1) + record(0), 2),
    "offset deltas 0 and 7": (record(0) + record(7), 2),
    "a later timestamp than the header's": (record(0) + record(1, time_delta=50), 2),
}
"""Records as they are before compression, and how many the header announces."""


def _cut(stream: bytes) -> bytes:
    return stream[: len(stream) // 2]


def _flipped(stream: bytes) -> bytes:
    at = len(stream) - 6
    return stream[:at] + bytes([stream[at] ^ 0x55]) + stream[at + 1 :]


STREAMS: dict[str, Callable[[bytes], bytes]] = {
    "noise instead of a stream": lambda stream: random.Random(len(stream)).randbytes(80),
    "a stream cut in half": _cut,
    "a stream without its last byte": lambda stream: stream[:-1],
    "noise after the stream": lambda stream: stream + b"\xa7\x13\x99\x02\x41",
    "a zero after the stream": lambda stream: stream + b"\0",
    "a byte of the stream changed": _flipped,
    "no stream": lambda stream: b"",
    "its magic alone": lambda stream: stream[:4],
}
"""What is done to a sound compressed stream."""


def poisoned(now_ms: int = NOW_MS) -> dict[tuple[str, str], bytes]:
    """Every batch, by (codec name, what is wrong with it)."""
    found = {}
    for codec, name in CODECS.items():
        for what, (inside, count) in INSIDES.items():
            payload = compress(codec, inside) if codec else inside
            found[name, what] = batch_of(payload, codec=codec, count=count, now_ms=now_ms)
        if codec:
            for what, change in STREAMS.items():
                payload = change(compress(codec, TWO * 1))
                found[name, what] = batch_of(payload, codec=codec, now_ms=now_ms)
    return found
