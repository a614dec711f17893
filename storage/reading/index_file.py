"""An offset index or a time index as it lies in a file: of a small one all entries, of others what is looked at.

For whoever reads beside a running broker, or what was left by one: an index is pre-sized then, and zero behind its last
entry, and in an object store it may be large and far away. `bisect` asks for a few entries, and they come in blocks.
`pread` gives a count of bytes from a position on. Offsets and positions are absolute.

Source: Kafka's OffsetIndex, TimeIndex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, overload

from storage.reading.indexes import OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeIndex

if TYPE_CHECKING:
    import struct

    Pread = Callable[[int, int], bytes]

WHOLE_BYTES = 65_536
"""An index up to this size is read at once."""
_BLOCK_ENTRIES = 512


class _Entries(Sequence[tuple[int, int]]):
    """The entries in front of the zeros at the end of a file, its blocks kept once read. May raise `OSError`."""

    def __init__(
        self, pread: Pread, file_bytes: int, entry: struct.Struct, limit: tuple[int, int], base: tuple[int, int]
    ) -> None:
        self._pread, self._entry, self._limit, self._base = pread, entry, limit, base
        self._blocks: dict[int, bytes] = {}
        low, high = 0, file_bytes // entry.size
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
            self._blocks[block] = self._pread(size, block * size)
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


def offset_entries(pread: Pread, file_bytes: int, base_offset: int, log_bytes: int) -> Sequence[tuple[int, int]]:
    """(last offset, position) of each usable entry of an `.index`, for a log of `log_bytes`. May raise `OSError`."""
    if file_bytes > WHOLE_BYTES:
        return _Entries(pread, file_bytes, OFFSET_ENTRY, (1 << 31, log_bytes), (base_offset, 0))
    index = OffsetIndex.believed(pread(file_bytes, 0), log_bytes)
    return [(base_offset + offset, position) for offset, position in zip(index.offsets, index.positions, strict=True)]


def time_entries(pread: Pread, file_bytes: int, base_offset: int, next_offset: int | None) -> Sequence[tuple[int, int]]:
    """(timestamp in ms, last offset of the batch it is of) of each entry of a `.timeindex`. May raise `OSError`.

    `next_offset` is where the next segment begins. One that is damaged is not believed at all, for segments are left
    out by its word: entries rise in both numbers, lie in their segment, and have nothing but zeros behind them.
    """
    if file_bytes % TIME_ENTRY.size:
        return []
    beyond = 1 << 31 if next_offset is None else next_offset - base_offset
    found: Sequence[tuple[int, int]]
    if file_bytes > WHOLE_BYTES:
        found = _Entries(pread, file_bytes, TIME_ENTRY, (1 << 62, beyond), (0, base_offset))
        behind = TIME_ENTRY.size * len(found)
        if any(pread(min(TIME_ENTRY.size, file_bytes - behind), behind)):
            return []
    else:
        data = pread(file_bytes, 0)
        index = TimeIndex.believed(data)
        offsets = index.offsets.tolist()
        if any(data[TIME_ENTRY.size * len(index) :]) or offsets != sorted(offsets):
            return []
        found = [(moment, base_offset + offset) for moment, offset in zip(index.timestamps, offsets, strict=True)]
    inside = not found or (found[0][1] >= base_offset and found[-1][1] < base_offset + beyond)
    return found if inside else []
