"""The bytes of a split, window by window, as whole and checked batches; what is wrong is raised, or noted and skipped.

Memory: one window, or one batch where that is larger. The rest of the file is never loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pipeline.decode.batches import (
    CHUNK_BYTES,
    PAD_BYTES,
    CorruptBatch,
    Headers,
    believable_size,
    find_batch,
    is_zero,
    read_headers,
    walk,
)
from pipeline.errors import DataError
from pipeline.sources import plan
from pipeline.sources.files import File
from pipeline.sources.plan import NO_END, Split
from pipeline.sources.segments import header_at
from protocol.records.batch_header import HEADER_BYTES

_SEARCH_BYTES = 16 * CHUNK_BYTES
_LAST_RELATIVE_OFFSET = (1 << 31) - 1
"""What an index entry can say. Source: Kafka's LogSegment.canConvertToRelativeOffset."""


class Window(NamedTuple):
    """Some whole batches: `data` (padded), whose first byte lies at `origin` of `file`, and the headers."""

    data: bytearray
    origin: int
    headers: Headers
    file: str


class Lost(NamedTuple):
    """What was left out, or only noticed. Offsets inclusive; `last_offset` None when nothing readable follows."""

    file: str
    position: int
    first_offset: int
    last_offset: int | None
    kind: str
    reason: str


class Problems:
    """Told of everything that cannot be read: raises, or with `skip` keeps the list."""

    def __init__(self, *, skip: bool) -> None:
        self.skip = skip
        self.found: list[Lost] = []

    def bad(self, file: str, position: int, first_offset: int, last_offset: int | None, reason: str) -> None:
        """A batch is lost. Raises: CorruptBatch unless bad ones are to be skipped."""
        if not self.skip:
            raise CorruptBatch(file, position, first_offset, reason)
        self.found.append(Lost(file, position, first_offset, last_offset, "skipped", reason))

    def bad_records(self, file: str, headers: Headers, index: int, reason: str) -> None:
        """As `bad`, for a batch whose header is right."""
        base, last = int(headers.base_offset[index]), int(headers.last_offset[index])
        self.bad(file, int(headers.position[index]), base, max(base, last), reason)


def windows(split: Split, problems: Problems, *, check_crc: bool, relocate: bool = True) -> Iterator[Window]:
    """The batches of a split in order. Raises: CorruptBatch, DataError."""
    try:
        file = split.files.open(split.file)
    except FileNotFoundError as error:
        if not relocate:
            raise DataError(f"{split.file} vanished while it was read") from error
        yield from _elsewhere(split, problems, check_crc)
        return
    except OSError as error:
        raise DataError(f"{split.file} cannot be read: {error.strerror}") from error
    try:
        if relocate and split.base_offset >= 0 and split.position:
            found = header_at(split.file, split.position, split.files)
            if found is None or found.base_offset != split.base_offset:
                # The cleaner put another file here.
                yield from _elsewhere(split, problems, check_crc)
                return
        yield from _Reading(file, split, problems, check_crc).windows()
    except OSError as error:
        raise DataError(f"{split.file} cannot be read: {error.strerror}") from error
    finally:
        file.__exit__(None, None, None)


def _elsewhere(split: Split, problems: Problems, check_crc: bool) -> Iterator[Window]:
    for part in plan.locate(split):
        yield from windows(part, problems, check_crc=check_crc, relocate=False)


class _Reading:
    """One file being read."""

    def __init__(self, file: File, split: Split, problems: Problems, check_crc: bool) -> None:
        self.file, self.split, self.problems, self.check_crc = file, split, problems, check_crc
        self.size = file.size_bytes
        self.limit = min(split.end_position, self.size)
        self._window = bytearray()
        self._bases: list[Any] = []  # base offsets of what was handed out: eight bytes a batch
        self._highest = np.full(1, -1, np.int64)
        name = split.file.rpartition("/")[2].partition(".")[0]
        self.first_offset = int(name) if name.isdigit() else max(split.base_offset, 0)
        self.next_offset = max(split.base_offset, split.start_offset if not split.position else 0)

    def read(self, position: int, size: int) -> bytearray:
        """Bytes of the file, padded; fewer than asked for when it ends."""
        data = bytearray(size + PAD_BYTES)
        count = self.file.fill(memoryview(data)[:size], position)
        if count < size:
            del data[count : count + size - count]
        return data

    def _read_window(self, position: int, size: int) -> bytearray:
        """As `read`, into one buffer that every window uses: rows are copied out of it before the next is read."""
        if size != CHUNK_BYTES:
            return self.read(position, size)
        if not self._window:
            self._window = bytearray(CHUNK_BYTES + PAD_BYTES)
        filled = self.file.fill(memoryview(self._window)[:CHUNK_BYTES], position)
        return self._window if filled == CHUNK_BYTES else self.read(position, size)

    def windows(self) -> Iterator[Window]:
        at, size = self.split.position, CHUNK_BYTES
        while at < self.limit:
            data = self._read_window(at, min(size, self.limit - at))
            filled = len(data) - PAD_BYTES
            size = CHUNK_BYTES
            found = walk(data, 0, filled, check_crc=self.check_crc, until_offset=self.split.end_offset)
            if found.positions:
                headers = self._in_place(read_headers(data, found.positions, at))
                if len(headers):
                    self.next_offset = int(headers.last_offset[-1]) + 1
                    yield Window(data, at, headers, self.split.file)
            stop = at + found.stop
            if not found.reason:
                if found.stop < filled:
                    return  # the end offset
                at = stop
            elif found.is_cut and at + filled < self.limit:
                if found.stop == 0:
                    size = self._whole_size(data)
                at = stop
            elif found.is_cut and self.limit < self.size and not self.split.is_tail:
                self.limit, at = self.size, stop  # a file that was exchanged may have its batches elsewhere
            elif is_zero(memoryview(data)[found.stop : filled]) and self._only_zeros(at + filled):
                return  # a pre-allocated file
            else:
                at = self._skip(stop, found.reason)

    def _in_place(self, headers: Headers) -> Headers:
        """Without batches whose offsets were read before, or cannot be in this file: a CRC does not cover them."""
        base = headers.base_offset
        again = np.zeros(len(base), bool)
        highest = np.maximum.accumulate(np.concatenate([self._highest, base]))
        if (base <= highest[:-1]).any():
            together = np.concatenate([*self._bases, base])
            _, first, which = np.unique(together, return_index=True, return_inverse=True)
            again = (first[which] < np.arange(len(together)))[len(together) - len(base) :]
        beyond = base > self.first_offset + _LAST_RELATIVE_OFFSET
        for index in np.flatnonzero(again | beyond):
            why = "its offsets were there before" if again[index] else f"offset {base[index]} cannot be in this file"
            self.problems.bad_records(self.split.file, headers, int(index), why)
        kept = ~(again | beyond)
        if not kept.all():
            headers = headers[kept]
        if len(headers):
            self._bases.append(headers.base_offset)
            self._highest = highest[-1:]
        return headers

    def _whole_size(self, data: bytearray) -> int:
        """Of a batch larger than a window; what its length field claims is bounded by the file."""
        return max(12 + int.from_bytes(data[8:12], "big"), 2 * CHUNK_BYTES)

    def _only_zeros(self, position: int) -> bool:
        while position < self.limit:
            data = self.read(position, min(_SEARCH_BYTES, self.limit - position))
            if not is_zero(data):
                return False
            position += len(data) - PAD_BYTES
        return True

    def _skip(self, position: int, reason: str) -> int:
        """Note what cannot be read at `position`, and say where reading can go on."""
        data = self.read(position, min(_SEARCH_BYTES, self.limit - position))
        filled = len(data) - PAD_BYTES
        base, last = self.next_offset, None
        if filled >= HEADER_BYTES:
            header = read_headers(data, [0], position)
            base = max(base, int(header.base_offset[0]))
            last = max(base, int(header.last_offset[0]))
        size = believable_size(data, 0, filled)
        if not size:
            base, size = self.next_offset, self._distance(position, data)
            last = None if self.split.end_offset == NO_END else self.split.end_offset - 1
        if position + size + HEADER_BYTES <= self.limit:
            last = int(read_headers(self.read(position + size, HEADER_BYTES), [0]).base_offset[0]) - 1
        if (
            not self.split.is_tail
            and position + size >= self.limit
            and ("passes the end" in reason or "no whole" in reason)
        ):
            reason = f"incomplete last batch of a segment that is not the last: {reason}"
        self.problems.bad(self.split.file, position, base, last, reason)
        return position + size

    def _distance(self, position: int, data: bytearray) -> int:
        """How far behind `position` the next whole batch begins; the rest of the split when there is none."""
        at, skip = position, 1
        while True:
            filled = len(data) - PAD_BYTES
            found = find_batch(data, skip, filled, self.next_offset - 1)
            if found is not None:
                return at + found - position
            if at + filled >= self.limit or filled < _SEARCH_BYTES:
                return self.limit - position
            # Half a window further, so that a batch across its end is seen whole.
            at, skip = at + _SEARCH_BYTES // 2, 0
            data = self.read(at, min(_SEARCH_BYTES, self.limit - at))
