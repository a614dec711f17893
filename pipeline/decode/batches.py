"""Record batches as arrays: where they lie, whether they are whole, what their headers say, their records' bytes.

The vectorised twin of `protocol.records.batch_header`, which decides what is right, and of `storage.reading.walk`;
tests hold them equal. Only the walk from header to header, one step a batch, is plain Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coordinator.why.terms import plural
from pipeline.errors import DataError
from protocol.errors import KafkaError
from protocol.records.batch_header import COMPRESSION_MASK, CONTROL, HEADER_BYTES, LOG_APPEND_TIME, MAGIC, TRANSACTIONAL
from protocol.records.compression import DECOMPRESSED_LIMIT_BYTES, decompress
from protocol.records.crc import crc32c

Bytes = bytes | bytearray | memoryview
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PAD_BYTES = 64
"""Behind the last byte that means something, so that no look-up of a number passes the end of its array."""
CHUNK_BYTES = 4 * 1024 * 1024
"""How many bytes of records are decoded at once, after decompression. 1 and 16 MiB were slower."""
RATIO_LIMIT = 1000
"""How much larger than its compressed form a batch may be, once it is large at all."""
_LARGE_BYTES = 1024 * 1024

CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "unknown 5", "unknown 6", "unknown 7")

_HEAD = struct.Struct(">qiibI")
_BASE_AND_LENGTH = struct.Struct(">qi")
_FIELDS = np.dtype(
    {
        "names": [
            *("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta"),
            *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "record_count"),
        ],
        "formats": [">i8", ">i4", ">i4", "i1", ">u4", ">i2", ">i4", ">i8", ">i8", ">i8", ">i2", ">i4", ">i4"],
        "offsets": [0, 8, 12, 16, 17, 21, 23, 27, 35, 43, 51, 53, 57],
        "itemsize": HEADER_BYTES,
    }
)


class CorruptBatch(DataError):
    """A batch that cannot be read: which file, at which position (bytes) and base offset (-1 unknown), and why."""

    def __init__(self, file: str, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{file}, position {position}, offset {offset}: {reason}")
        self.file, self.position, self.offset, self.reason = file, position, offset, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.position, self.offset, self.reason)


class Walk(NamedTuple):
    """Whole batches found in a row. `stop` is where the next would begin; `reason` why it is none, "" at the end."""

    positions: list[int]
    stop: int
    reason: str
    is_cut: bool  # the next batch may be whole once there are more bytes


def walk(data: Bytes, begin: int, end: int, *, check_crc: bool = True, until_offset: int | None = None) -> Walk:
    """The batches of `data` between two positions; stops before one that begins at `until_offset` or above."""
    positions: list[int] = []
    add = positions.append
    unpack = _HEAD.unpack_from
    view = memoryview(data)
    at = begin
    while at + HEADER_BYTES <= end:
        base_offset, length, _, magic, crc = unpack(data, at)
        stop = at + 12 + length
        if magic != MAGIC or length < HEADER_BYTES - 12 or base_offset < 0:
            return Walk(positions, at, _bad_header(base_offset, length, magic), False)
        if until_offset is not None and base_offset >= until_offset:
            return Walk(positions, at, "", False)
        if stop > end:
            return Walk(positions, at, f"batch of {plural(length + 12, 'byte')} passes the end", True)
        if check_crc and crc32c(view[at + 21 : stop]) != crc:
            return Walk(positions, at, f"CRC mismatch: header says {crc:08x}", False)
        add(at)
        at = stop
    return Walk(
        positions, at, "" if at >= end else f"{plural(end - at, 'byte is', 'bytes are')} no whole batch", at < end
    )


def _bad_header(base_offset: int, length: int, magic: int) -> str:
    if magic in {0, 1} and length >= 14:
        return f"message format v{magic}, convert with Kafka"
    if magic != MAGIC:
        return f"no record batch: magic {magic}"
    return f"bad length {length}" if length < HEADER_BYTES - 12 else f"bad base offset {base_offset}"


def believable_size(data: Bytes, at: int, end: int) -> int:
    """The size of the batch at `at` if its length field leads to another header or exactly to `end`, else 0."""
    if at + HEADER_BYTES > end:
        return 0
    base_offset, length = _BASE_AND_LENGTH.unpack_from(data, at)
    stop = at + 12 + length
    if length < HEADER_BYTES - 12 or stop > end:
        return 0
    if stop + HEADER_BYTES <= end:
        next_offset, next_length, _, magic, _ = _HEAD.unpack_from(data, stop)
        if magic != MAGIC or next_length < HEADER_BYTES - 12 or next_offset <= base_offset:
            return 0
    return int(stop - at)


def find_batch(data: Bytes, begin: int, end: int, above_offset: int) -> int | None:
    """The first position from `begin` on where a whole batch with a right CRC lies, its base offset above the given."""
    if end - begin < HEADER_BYTES:
        return None
    octets = np.frombuffer(data, np.uint8)
    candidates = begin + np.flatnonzero(octets[begin + 16 : end - HEADER_BYTES + 17] == MAGIC)
    lengths = np.ndarray((len(data) - 3,), ">i4", data, strides=(1,))[candidates + 8].astype(np.int64)
    offsets = np.ndarray((len(data) - 7,), ">i8", data, strides=(1,))[candidates].astype(np.int64)
    # A batch's offsets are at most 2^31 above the segment's first.
    likely = (lengths >= HEADER_BYTES - 12) & (candidates + 12 + lengths <= end)
    likely &= (offsets > above_offset) & (offsets < above_offset + (1 << 32))
    view = memoryview(data)
    for at in candidates[likely].tolist():
        _, length, _, _, crc = _HEAD.unpack_from(data, at)
        if crc32c(view[at + 21 : at + 12 + length]) == crc:
            return int(at)
    return None


def is_zero(data: Bytes) -> bool:
    """Whether there is nothing but zeros, at the speed of memory."""
    return bytes(data).count(0) == len(data)


class Headers:
    """The headers of some batches: one array per field, and `position` (bytes, in the file). Timestamps in ms."""

    __slots__ = ("fields", "position")

    def __init__(self, fields: npt.NDArray[Any], position: Ints) -> None:
        self.fields = fields
        self.position = position

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, which: Any) -> Headers:
        return Headers(self.fields[which], self.position[which])

    def column(self, name: str) -> Ints:
        """A field as native integers."""
        return self.fields[name].astype(np.int64)

    @property
    def base_offset(self) -> Ints:
        """First offset of each batch."""
        return self.column("base_offset")

    @property
    def last_offset(self) -> Ints:
        """Last offset that each batch ever had."""
        return self.column("base_offset") + self.column("last_offset_delta")

    @property
    def size_bytes(self) -> Ints:
        """Each whole batch, header included."""
        return self.column("length") + 12

    @property
    def compression(self) -> Ints:
        """Codec numbers."""
        return self.column("attributes") & COMPRESSION_MASK

    def flag(self, bit: int) -> Flags:
        """Whether an attribute bit is set."""
        flags: Flags = (self.column("attributes") & bit) != 0
        return flags

    @property
    def is_control(self) -> Flags:
        """Control batches, which consumers never see."""
        return self.flag(CONTROL)

    @property
    def is_transactional(self) -> Flags:
        """Batches of a transaction, its marker included."""
        return self.flag(TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> Flags:
        """Batches whose records all have the max timestamp."""
        return self.flag(LOG_APPEND_TIME)


def read_headers(data: Bytes, positions: list[int], origin: int = 0) -> Headers:
    """The headers at `positions` of `data`, whose first byte lies at `origin` of the file."""
    at = np.array(positions, np.int64)
    return Headers(windows(data, at, _FIELDS), at + origin)


def windows(data: Bytes, at: Ints, fields: np.dtype[Any]) -> npt.NDArray[Any]:
    """The bytes at each of these places of `data`, copied next to one another, as these fields.

    One copy of forty bytes from anywhere costs what one number from there does.
    """
    size = fields.itemsize
    # A view that steps one byte at a time.
    view = np.ndarray((max(len(data) - size + 1, 0),), f"V{size}", data, strides=(1,))
    return view[at].view(fields)


class Chunk(NamedTuple):
    """Batches to be decoded together: their headers, and where in `data` (padded) the records of each lie."""

    headers: Headers
    data: bytearray
    starts: Ints
    ends: Ints

    def only(self, which: Any) -> Chunk:
        """Some of its batches."""
        return Chunk(self.headers[which], self.data, self.starts[which], self.ends[which])


OnBad = Callable[[Headers, int, str], None]
"""Told of a batch that cannot be read: headers, which of them, why. Raises, or returns and the batch is left out."""


def chunks(data: bytearray, headers: Headers, origin: int, on_bad: OnBad, batch_records: int) -> Iterator[Chunk]:
    """The records of the batches, decompressed, in chunks of about `CHUNK_BYTES` or `batch_records`.

    `data` is padded with `PAD_BYTES`; its first byte lies at `origin` of the file. Empty batches are left out.
    """
    counts = headers.column("record_count")
    bad = (counts < 0) | (headers.column("last_offset_delta") < 0)
    for index in np.flatnonzero(bad).tolist():
        on_bad(headers, index, "negative record count or last offset delta")
    stuffed = ~bad & (counts == 0) & (headers.size_bytes > HEADER_BYTES)
    for index in np.flatnonzero(stuffed).tolist():
        on_bad(headers, index, "bytes are left after the last record")
    kept = np.flatnonzero(~bad & (counts > 0))
    if not len(kept):
        return
    headers, counts = headers[kept], counts[kept]
    starts = headers.position - origin + HEADER_BYTES
    ends = starts - HEADER_BYTES + headers.size_bytes
    if not headers.compression.any():
        whole = Chunk(headers, data, starts, ends)
        for begin, end in _cuts(counts, ends - starts, batch_records):
            yield whole.only(slice(begin, end))
        return
    yield from _decompressed(data, headers, starts, ends, on_bad, batch_records)


def _cuts(counts: Ints, sizes: Ints, batch_records: int) -> Iterator[tuple[int, int]]:
    if int(counts.sum()) <= batch_records and int(sizes.sum()) <= 2 * CHUNK_BYTES:
        yield 0, len(counts)
        return
    begin = records = size = 0
    for index, (count, bytes_) in enumerate(zip(counts.tolist(), sizes.tolist(), strict=True)):
        if index > begin and (records + count > batch_records or size + bytes_ > 2 * CHUNK_BYTES):
            yield begin, index
            begin, records, size = index, 0, 0
        records += count
        size += bytes_
    yield begin, len(counts)


def _decompressed(
    data: bytearray, headers: Headers, starts: Ints, ends: Ints, on_bad: OnBad, batch_records: int
) -> Iterator[Chunk]:
    view = memoryview(data)
    codecs, counts = headers.compression.tolist(), headers.column("record_count").tolist()
    parts: list[Bytes] = []
    which: list[int] = []
    size = records = 0
    for index, (codec, start, end) in enumerate(zip(codecs, starts.tolist(), ends.tolist(), strict=True)):
        part: Bytes = view[start:end]
        if codec:
            try:
                part = decompress(codec, part, limit_bytes(end - start))
            except KafkaError as error:
                on_bad(headers, index, str(error))
                continue
        if which and (size + len(part) > CHUNK_BYTES or records + counts[index] > batch_records):
            yield _joined(headers, which, parts)
            parts, which, size, records = [], [], 0, 0
        parts.append(part)
        which.append(index)
        size += len(part)
        records += counts[index]
    if which:
        yield _joined(headers, which, parts)


def limit_bytes(compressed_bytes: int) -> int:
    """How far a batch may grow: neither beyond what memory is made for, nor beyond any honest ratio."""
    return min(DECOMPRESSED_LIMIT_BYTES, max(RATIO_LIMIT * compressed_bytes, _LARGE_BYTES))


def _joined(headers: Headers, which: list[int], parts: list[Bytes]) -> Chunk:
    ends = np.cumsum(np.array([len(part) for part in parts], np.int64))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    return Chunk(headers[np.array(which)], bytearray(b"".join([*parts, bytes(PAD_BYTES)])), starts, ends)
