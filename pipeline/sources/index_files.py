"""The offset index and the time index of a segment, as sequences: small ones read whole, of others what is looked at.

An index of a running broker is pre-sized, and zero behind its last entry; in an object store it may be large and far
away. `bisect` asks for a few entries, and they come in blocks.

Source: Kafka's OffsetIndex, TimeIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import overload

from pipeline.sources.files import File, Files
from storage.reading.indexes import OffsetIndex, TimeIndex

WHOLE_BYTES = 65_536
"""An index up to this size is read at once."""
_BLOCK_ENTRIES = 512
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class _Entries(Sequence[tuple[int, int]]):
    """The entries in front of the zeros at the end of an index file, its block last used kept. May raise OSError."""

    def __init__(self, file: File, entry: struct.Struct, limit: tuple[int, int], base: tuple[int, int]) -> None:
        self._file, self._entry, self._limit, self._base = file, entry, limit, base
        self._blocks: dict[int, bytes] = {}
        low, high = 0, file.size_bytes // entry.size
        while low < high:
            middle = (low + high) // 2
            if self._is_one(middle):
                low = middle + 1
            else:
                high = middle
        self._count = low

    def _is_one(self, at: int) -> bool:
        first, second = self._raw(at)
        return (first, second) != (0, 0) and 0 <= first < self._limit[0] and 0 <= second < self._limit[1]

    def _raw(self, at: int) -> tuple[int, int]:
        block, inside = divmod(at, _BLOCK_ENTRIES)
        if block not in self._blocks:
            size = _BLOCK_ENTRIES * self._entry.size
            self._blocks[block] = self._file.pread(size, block * size)
        first, second = self._entry.unpack_from(self._blocks[block], inside * self._entry.size)
        return first, second

    def _at(self, at: int) -> tuple[int, int]:
        first, second = self._raw(at)
        return first + self._base[0], second + self._base[1]

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, at: slice) -> list[tuple[int, int]]: ...
    def __getitem__(self, at: int | slice) -> tuple[int, int] | list[tuple[int, int]]:
        if isinstance(at, slice):
            return [self._at(one) for one in range(*at.indices(self._count))]
        if not -self._count <= at < self._count:
            raise IndexError(at)
        return self._at(at % self._count)


def offset_entries(files: Files, path: str, base_offset: int, size_bytes: int) -> Sequence[tuple[int, int]]:
    """(last offset, position) of each usable entry, for a log of `size_bytes`; none without the file."""
    try:
        with files.open(path) as file:
            if file.size_bytes <= WHOLE_BYTES:
                index = OffsetIndex.believed(file.pread(file.size_bytes, 0), size_bytes)
                offsets = [base_offset + offset for offset in index.offsets]
                return list(zip(offsets, index.positions, strict=True))
        return _Entries(files.open(path), _OFFSET_ENTRY, (1 << 31, size_bytes), (base_offset, 0))
    except OSError:
        return []


def time_entries(files: Files, path: str, base_offset: int, next_offset: int | None) -> Sequence[tuple[int, int]]:
    """(timestamp in ms, last offset of the batch it is of) of each entry; none without the file.

    `next_offset` is where the next segment begins. One that is damaged is not believed at all, for segments are left
    out by its word: entries rise in both numbers, lie in their segment, and have nothing but zeros behind them.
    """
    beyond = 1 << 31 if next_offset is None else next_offset - base_offset
    try:
        with files.open(path) as file:
            if file.size_bytes % _TIME_ENTRY.size:
                return []
            if file.size_bytes <= WHOLE_BYTES:
                data = file.pread(file.size_bytes, 0)
                index = TimeIndex.believed(data)
                offsets = index.offsets.tolist()
                if any(data[_TIME_ENTRY.size * len(index) :]) or offsets != sorted(offsets):
                    return []
                found: Sequence[tuple[int, int]] = [
                    (moment, base_offset + offset) for moment, offset in zip(index.timestamps, offsets, strict=True)
                ]
            else:
                found = _Entries(files.open(path), _TIME_ENTRY, (1 << 62, beyond), (0, base_offset))
                behind = _TIME_ENTRY.size * len(found)
                if any(file.pread(min(_TIME_ENTRY.size, file.size_bytes - behind), behind)):
                    return []
            inside = not found or (found[0][1] >= base_offset and found[-1][1] < base_offset + beyond)
            return found if inside else []
    except OSError:
        return []
