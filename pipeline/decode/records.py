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
    batch = np.repeat(np.arange(len(counts)), counts)

    delta, at = varints(octets, body + 1)  # behind the attributes
    timestamp = headers.column("base_timestamp")[batch] + zigzag(delta)
    append_time = headers.is_log_append_time
    if append_time.any():
        timestamp = np.where(append_time[batch], headers.column("max_timestamp")[batch], timestamp)
    _within(at, stop)
    delta, at = varints(octets, at)
    offset_delta = zigzag(delta)
    if ((offset_delta < 0) | (offset_delta > headers.column("last_offset_delta")[batch])).any():
        raise BadRecords("an offset lies outside its batch")
    _within(at, stop)
    key_at, key_size = _sized(octets, at, stop)
    value_at, value_size = _sized(octets, key_at + np.maximum(key_size, 0), stop)
    count, headers_at = varints(octets, value_at + np.maximum(value_size, 0))
    _within(headers_at, stop)
    header_count = zigzag(count)
    if ((header_count < 0) | (header_count > stop - headers_at)).any():
        raise BadRecords("a record claims more headers than it has bytes")
    records = Records(
        chunk,
        batch,
        headers.base_offset[batch] + offset_delta,
        timestamp,
        *(key_at, key_size, value_at, value_size, headers_at, header_count),
    )
    end = header_spans(records, stop)[0] if header_count.any() else headers_at
    if (end != stop).any():
        raise BadRecords("a record's fields do not fill its length")
    return records


def varints(octets: Octets, at: Ints) -> tuple[Ints, Ints]:
    """The unsigned varints at these positions, and the positions behind them. Raises: BadRecords over ten bytes."""
    byte = octets[at]
    value = (byte & 0x7F).astype(np.int64)
    after = at + 1
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


def _boundaries(octets: Octets, chunk: Chunk, counts: Ints, lock_step_batches: int) -> tuple[Ints, Ints]:
    """Where each record's content begins (behind its length) and ends."""
    total = int(counts.sum())
    body = np.empty(total, np.int64)
    stop = np.empty(total, np.int64)
    first = np.cumsum(counts) - counts
    order = np.argsort(-counts, kind="stable")  # the active batches are always the first ones
    at, limit, out = chunk.starts[order], chunk.ends[order], first[order]
    descending = counts[order]
    step = 0
    longest = int(descending[0]) if len(descending) else 0
    if len(descending) >= lock_step_batches:
        active = np.searchsorted(-descending, -np.arange(longest), side="left")
        for step, width in enumerate(active.tolist()):
            if width < lock_step_batches:
                break
            position = at[:width]
            low, high = octets[position], octets[position + 1]
            long = low >= 0x80
            size = np.where(long, (low & 0x7F) | (high.astype(np.int64) << 7), low)
            after = position + 1 + long
            if (long & (high >= 0x80)).any():  # over 8 KiB
                size, after = varints(octets, position)
            if (size & 1).any():
                raise BadRecords("a record has a negative length")
            end = after + (size.view(np.uint64) >> np.uint64(1)).view(np.int64)
            if ((end > limit[:width]) | (end < after)).any():
                raise BadRecords("a record passes the end of its batch")
            slot = out[:width] + step
            body[slot] = after
            stop[slot] = end
            at[:width] = end
        else:
            step = longest
    width = int(np.searchsorted(-descending, -step, side="left"))
    for index in range(width):
        slots = slice(int(out[index]) + step, int(out[index]) + int(descending[index]))
        at[index] = _plain_loop(chunk.data, int(at[index]), int(limit[index]), body[slots], stop[slots])
    if (at != limit).any():
        raise BadRecords("bytes are left after the last record")
    return body, stop


def _plain_loop(data: bytearray, at: int, limit: int, body: Ints, stop: Ints) -> int:
    """Fill in the records of one batch; where the last one ends."""
    bodies: list[int] = []
    stops: list[int] = []
    add_body, add_stop = bodies.append, stops.append
    for _ in range(len(body)):
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
        add_body(at)
        at += size >> 1
        if at > limit:
            raise BadRecords("a record passes the end of its batch")
        add_stop(at)
    body[:] = bodies
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
