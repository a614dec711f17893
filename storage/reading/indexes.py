"""The offset index and the time index of a segment: Kafka's bytes on disk, plain arrays in memory.

Both are sparse and sorted, so a look-up is a bisection and then a short walk over batch headers. They live in
memory while their segment is written or read, and are never mapped: a read error in a mapping would kill the
process (docs/decisions/memory-mapped-segments.md). Their files are written when a segment is rolled or closed
(docs/decisions/index-files.md); a crash before that makes recovery rebuild them from the batches.

Always true: offsets and positions of the offset index rise strictly, and so do the timestamps of the time index.

Source: Kafka's AbstractIndex, OffsetIndex, TimeIndex.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt

OFFSET_ENTRY = struct.Struct(">ii")  # offset and position
TIME_ENTRY = struct.Struct(">qi")  # timestamp and offset

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12


class OffsetIndex:
    """Where batches start. An entry: the batch whose last offset is base + `offsets[i]` starts at `positions[i]`."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")

    @classmethod
    def parse(cls, data: bytes) -> OffsetIndex | None:
        """The index in the bytes of an `.index` file, or None when they cannot be one (rebuild it then).

        Zero entries that follow real ones are the unused rest of a pre-sized file, and are left out.
        """
        index, end = cls.sound_part(data)
        return index if end == len(data) else None

    @classmethod
    def sound_part(cls, data: bytes) -> tuple[OffsetIndex, int]:
        """As `parse`, up to the first entry that does not rise or is cut off, and where that is in `data` (bytes).

        The length of `data` when there is none.
        """
        whole = len(data) - len(data) % OFFSET_ENTRY_BYTES
        words = array("i", data[:whole])
        if sys.byteorder == "little":
            words.byteswap()
        index = cls()
        index.offsets, index.positions = words[0::2], words[1::2]
        while len(index.offsets) and index.offsets[-1] == 0 and index.positions[-1] == 0:
            if len(index.offsets) == 1:
                break  # A lone (0, 0) may be real: a first batch of one record, indexed by an old broker.
            index.offsets.pop()
            index.positions.pop()
        count = min(_rising(index.offsets), _rising(index.positions))
        if count == len(index):
            return index, whole
        del index.offsets[count:]
        del index.positions[count:]
        return index, count * OFFSET_ENTRY_BYTES

    @classmethod
    def believed(cls, data: bytes, size_bytes: int) -> OffsetIndex:
        """The entries up to the first that does not rise, or points beyond the `size_bytes` of the log.

        For whoever reads beside a running broker, or what was left by one. A lone (0, 0) is left out: so looks the
        first entry of a pre-sized, still empty file.
        """
        words = array("i", data[: len(data) - len(data) % OFFSET_ENTRY_BYTES])
        if sys.byteorder == "little":
            words.byteswap()
        index = cls()
        last = (-1, -1)
        for offset, position in zip(words[0::2], words[1::2], strict=True):
            if offset <= last[0] or not last[1] < position < size_bytes:
                break
            index.append(offset, position)
            last = offset, position
        return cls() if index.offsets.tolist() == [0] and index.positions[0] == 0 else index

    def to_bytes(self) -> bytes:
        """The content of the `.index` file, without a pre-sized rest."""
        words = array("i", bytes(OFFSET_ENTRY_BYTES * len(self.offsets)))
        words[0::2], words[1::2] = self.offsets, self.positions
        if sys.byteorder == "little":
            words.byteswap()
        return words.tobytes()

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry; both numbers must be above the last entry's."""
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def lookup(self, relative_offset: int) -> int:
        """A position at or before the batch that holds the offset: the greatest entry's not above it, else 0."""
        at = bisect_right(self.offsets, relative_offset)
        return self.positions[at - 1] if at else 0

    def last_boundary(self, position: int) -> int:
        """The greatest known start of a batch at or before `position` (bytes)."""
        at = bisect_right(self.positions, position)
        return self.positions[at - 1] if at else 0

    def truncate(self, position: int) -> None:
        """Forget the batches that start at `position` or later."""
        at = bisect_left(self.positions, position)
        del self.offsets[at:]
        del self.positions[at:]

    def __len__(self) -> int:
        return len(self.offsets)


class TimeIndex:
    """The maximum timestamp so far, each time it grew. `offsets[i]` is the last offset (relative) of its batch."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("i")

    @classmethod
    def parse(cls, data: bytes) -> TimeIndex | None:
        """The index in the bytes of a `.timeindex` file, or None when they cannot be one."""
        index, end = cls.sound_part(data)
        return index if end == len(data) else None

    @classmethod
    def sound_part(cls, data: bytes) -> tuple[TimeIndex, int]:
        """As `parse`, up to the first entry that does not rise or is cut off, and where that is in `data` (bytes).

        The length of `data` when there is none.
        """
        whole = len(data) - len(data) % TIME_ENTRY_BYTES
        index = cls()
        for timestamp, offset in TIME_ENTRY.iter_unpack(data[:whole]):
            if timestamp == 0 and offset == 0 and len(index):
                break  # the unused rest of a pre-sized file
            index.timestamps.append(timestamp)
            index.offsets.append(offset)
        count = _rising(index.timestamps)
        if count == len(index):
            return index, whole
        del index.timestamps[count:]
        del index.offsets[count:]
        return index, count * TIME_ENTRY_BYTES

    @classmethod
    def believed(cls, data: bytes) -> TimeIndex:
        """The entries up to the first that is zero or does not rise."""
        index = cls()
        for timestamp, offset in TIME_ENTRY.iter_unpack(memoryview(data)[: len(data) - len(data) % TIME_ENTRY_BYTES]):
            if (timestamp == 0 and offset == 0) or (index.timestamps and timestamp <= index.timestamps[-1]):
                break
            index.timestamps.append(timestamp)
            index.offsets.append(offset)
        return index

    def to_bytes(self) -> bytes:
        """The content of the `.timeindex` file."""
        return b"".join(map(TIME_ENTRY.pack, self.timestamps, self.offsets))

    def append_if_later(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry when `timestamp` (ms) is above the last entry's; a negative one says nothing."""
        if timestamp >= 0 and (not self.timestamps or timestamp > self.timestamps[-1]):
            self.timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def lookup(self, timestamp: int) -> int:
        """An offset (relative) before which no record is as late as `timestamp`: 0 when nothing is known."""
        at = bisect_right(self.timestamps, timestamp)
        return self.offsets[at - 1] if at else 0

    def truncate(self, relative_offset: int) -> None:
        """Forget entries of batches whose last offset is `relative_offset` or later."""
        at = bisect_left(self.offsets, relative_offset)
        del self.timestamps[at:]
        del self.offsets[at:]

    def __len__(self) -> int:
        return len(self.timestamps)


def _rising(values: array[int]) -> int:
    """How many of them rise, from the first on."""
    following = values[1:]
    if all(map(lt, values, following)):
        return len(values)
    return next(at for at, pair in enumerate(zip(values, following, strict=False), start=1) if pair[1] <= pair[0])
