"""The records of many batches at once: where each begins, and its fields as flat arrays.

Record starts are found in lock step: step i reads the length of the i-th record of every batch, so that a step costs
the same however many batches there are. Where few batches are left, a plain loop is faster. All other fields are read
for all records together, varints in rounds over those that have one more byte.

Nothing in the bytes is trusted: every size is checked before it is used, and the first that is wrong makes its batch a
bad one. The scalar twin is `protocol.records.batch_reader.iterate_records`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.decode.batches import Chunk, Flags, Ints, OnBad

Octets = npt.NDArray[np.uint8]

LOCK_STEP_BATCHES = 64
"""With fewer batches than this still active, the plain loop is faster (0.17 us a record, 11 us a step)."""
_SMALLEST_RECORD = 7  # a byte each: length, attributes, two deltas, two lengths, number of headers


class BadRecords(Exception):
    """Some batch of the chunk cannot be read; the text says why."""


class Records(NamedTuple):
    """All records of a chunk, in file order. Positions are in the chunk's data; a size of -1 is a null."""

    chunk: Chunk
    batch: Ints  # index into chunk.headers
    offset: Ints
    timestamp: Ints  # ms
    key_at: Ints
    key_size: Ints
    value_at: Ints
    value_size: Ints
    headers_at: Ints  # behind the number of headers
    header_count: Ints

    def __len__(self) -> int:
        return len(self.offset)

    def only(self, which: Flags) -> Records:
        """Those that a mask selects; itself when it selects all."""
        if which.all():
            return self
        at = np.flatnonzero(which)
        return Records(self.chunk, *[column[at] for column in self[1:]])


def read_records(chunk: Chunk, on_bad: OnBad, lock_step_batches: int = LOCK_STEP_BATCHES) -> Records | None:
    """The records of all batches of a chunk that can be read; `on_bad` hears of each other. None when none is left."""
    try:
        return _read(chunk, lock_step_batches)
    except BadRecords:
        pass
    # One is bad: ask each alone, which is slow and happens to next to nobody.
    good = []
    for index in range(len(chunk.headers)):
        try:
            _read(chunk.only(slice(index, index + 1)), lock_step_batches)
            good.append(index)
        except BadRecords as error:
            on_bad(chunk.headers, index, str(error))
    return _read(chunk.only(np.array(good)), lock_step_batches) if good else None


def _read(chunk: Chunk, lock_step_batches: int) -> Records:
    headers = chunk.headers
    counts = headers.column("record_count")
    if (counts * _SMALLEST_RECORD > chunk.ends - chunk.starts).any():
        raise BadRecords("more records announced than its bytes can hold")
    octets = np.frombuffer(chunk.data, np.uint8)
    body, stop = _boundaries(octets, chunk, counts, lock_step_batches)

    delta, at = varints(octets, body + 1)  # behind the attributes
    timestamp = np.repeat(headers.column("base_timestamp"), counts) + zigzag(delta)
    append_time = headers.is_log_append_time
    if append_time.any():
        max_timestamp = np.repeat(headers.column("max_timestamp"), counts)
        timestamp = np.where(np.repeat(append_time, counts), max_timestamp, timestamp)
    # Two more may pass the end of a record by twenty bytes, which the padding allows; its key's size is then too large.
    delta, at = varints(octets, at)
    offset_delta = zigzag(delta)
    if ((offset_delta < 0) | (offset_delta > np.repeat(headers.column("last_offset_delta"), counts))).any():
        raise BadRecords("an offset lies outside its batch")
    key_at, key_size = _sized(octets, at, stop)
    value_at, value_size = _sized(octets, key_at + np.maximum(key_size, 0), stop)
    count, headers_at = varints(octets, value_at + np.maximum(value_size, 0))
    _within(headers_at, stop)
    header_count = zigzag(count)
    with_headers = bool(header_count.any())
    if with_headers and ((header_count < 0) | (header_count > stop - headers_at)).any():
        raise BadRecords("a record claims more headers than it has bytes")
    records = Records(
        chunk,
        np.repeat(np.arange(len(counts)), counts),
        np.repeat(headers.base_offset, counts) + offset_delta,
        timestamp,
        *(key_at, key_size, value_at, value_size, headers_at, header_count),
    )
    end = header_spans(records, stop)[0] if with_headers else headers_at
    if (end != stop).any():
        raise BadRecords("a record's fields do not fill its length")
    return records


def varints(octets: Octets, at: Ints) -> tuple[Ints, Ints]:
    """The unsigned varints at these positions, and the positions behind them. Raises: BadRecords over ten bytes."""
    byte = octets[at]
    after = at + 1
    if byte.max(initial=0) < 0x80:
        return byte.astype(np.int64), after
    value = (byte & 0x7F).astype(np.int64)
    more = np.flatnonzero(byte >= 0x80)
    shift = 7
    while more.size:
        if shift > 63:
            raise BadRecords("variable-length integer is longer than ten bytes")
        position = after[more]
        byte = octets[position]
        value[more] |= (byte & 0x7F).astype(np.int64) << shift
        after[more] = position + 1
        more = more[byte >= 0x80]
        shift += 7
    return value, after


def zigzag(value: Ints) -> Ints:
    """Signed numbers from what `varints` gives."""
    return (value.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(value & 1)


def _within(at: Ints, stop: Ints) -> None:
    if (at > stop).any():
        raise BadRecords("a record is cut off")


def _sized(octets: Octets, at: Ints, stop: Ints) -> tuple[Ints, Ints]:
    size, at = varints(octets, at)
    size = zigzag(size)
    _within(at, stop)
    if ((size < -1) | (size > stop - at)).any():
        raise BadRecords("a key or value passes its record's end, or has a negative length")
    return at, size


def _lengths() -> Ints:
    """For the first two bytes of a record, taken as a little-endian number: how far behind its first byte it ends.

    `_UNUSUAL` where two bytes do not tell (records of 8 KiB and more), or tell that it has a negative length.
    """
    pair = np.arange(1 << 16, dtype=np.int64)
    low, high = pair & 0xFF, pair >> 8
    is_long = low >= 0x80
    size = np.where(is_long, (low & 0x7F) | (high << 7), low)
    unusual = ((size & 1) == 1) | (is_long & (high >= 0x80))
    return np.where(unusual, _UNUSUAL, (size >> 1) + 1 + is_long)


_UNUSUAL = 1 << 40  # beyond every chunk
_LENGTHS = _lengths()


def _boundaries(octets: Octets, chunk: Chunk, counts: Ints, lock_step_batches: int) -> tuple[Ints, Ints]:
    """Where each record's content begins (behind its length) and ends."""
    stop = np.empty(int(counts.sum()), np.int64)
    first = np.cumsum(counts) - counts
    order = np.argsort(-counts, kind="stable")  # the active batches are always the first ones
    at, limit, slot = chunk.starts[order], chunk.ends[order], first[order]
    descending = counts[order]
    steps = 0
    if len(descending) >= lock_step_batches:
        # As many as the batch with which too few are left has records.
        steps = int(descending[lock_step_batches - 1])
        active = np.searchsorted(-descending, -np.arange(steps), side="left")
        pairs = np.ndarray((len(octets) - 1,), "<u2", chunk.data, strides=(1,))
        for width in active.tolist():
            position, out = at[:width], slot[:width]
            end = position + _LENGTHS[pairs[position]]
            if (end > limit[:width]).any():
                end = _unusual_ends(octets, position, limit[:width])
            stop[out] = end
            out += 1
            at[:width] = end
    for index in range(int(np.searchsorted(-descending, -steps, side="left"))):
        begin = int(slot[index])
        slots = slice(begin, begin + int(descending[index]) - steps)
        at[index] = _plain_loop(chunk.data, int(at[index]), int(limit[index]), stop[slots])
    if (at != limit).any():
        raise BadRecords("bytes are left after the last record")
    start = np.empty_like(stop)
    start[1:] = stop[:-1]
    start[first] = chunk.starts
    return varints(octets, start)[1], stop


def _unusual_ends(octets: Octets, position: Ints, limit: Ints) -> Ints:
    """The ends of records of any length. Raises: BadRecords."""
    size, after = varints(octets, position)
    if (size & 1).any():
        raise BadRecords("a record has a negative length")
    end = after + (size.view(np.uint64) >> np.uint64(1)).view(np.int64)
    if ((end > limit) | (end < after)).any():
        raise BadRecords("a record passes the end of its batch")
    return end


def _plain_loop(data: bytearray, at: int, limit: int, stop: Ints) -> int:
    """Fill in where the records of one batch end; where the last one does."""
    stops: list[int] = []
    add_stop = stops.append
    for _ in range(len(stop)):
        if at >= limit:
            raise BadRecords("a record is cut off")
        size = data[at]
        at += 1
        if size >= 0x80:
            shift = 7
            size &= 0x7F
            while True:
                byte = data[at]
                at += 1
                size |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift > 63:
                    raise BadRecords("variable-length integer is longer than ten bytes")
        if size & 1:
            raise BadRecords("a record has a negative length")
        at += size >> 1
        if at > limit:
            raise BadRecords("a record passes the end of its batch")
        add_stop(at)
    stop[:] = stops
    return at


def header_spans(records: Records, stop: Ints | None = None) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Where every header lies: end of each record's headers, then per header (in record order) the record's index, and
    position and size of its name and value (size -1: null).

    With `stop`, the ends of the records, sizes are checked. Raises: BadRecords.
    """
    octets = np.frombuffer(records.chunk.data, np.uint8)
    at = records.headers_at.copy()
    left = records.header_count.copy()
    found: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []
    active = np.flatnonzero(left > 0)
    while active.size:
        limit = stop[active] if stop is not None else np.full(len(active), len(octets))
        name_at, name_size = _sized(octets, at[active], limit)
        value_at, value_size = _sized(octets, name_at + np.maximum(name_size, 0), limit)
        if (name_size < 0).any():
            raise BadRecords("a record header has no name")
        found.append((active, name_at, name_size, value_at, value_size))
        at[active] = value_at + np.maximum(value_size, 0)
        left[active] -= 1
        active = active[left[active] > 0]
    if not found:
        empty = np.zeros(0, np.int64)
        return at, empty, empty, empty, empty, empty
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    record, name_at, name_size, value_at, value_size = (column[order] for column in columns)
    return at, record, name_at, name_size, value_at, value_size
