"""One segment: a file of batches with its indexes, and what is known about it in memory.

A segment is opened without reading a batch; its indexes, its descriptor and its mapping come when they are first
needed and go with `release`.

Source: Kafka's LogSegment.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from protocol.records.batch import CONTROL, HEADER_BYTES
from storage.errors import CorruptSegment
from storage.files import Disk, LogFile, write_file
from storage.reading.batch_file import BatchFile
from storage.reading.batches import OVERHEAD, STEP
from storage.reading.indexes import OFFSET_ENTRY_BYTES, OffsetIndex, TimeIndex
from storage.reading.transaction_index import AbortedTransaction, pack_transaction_index, parse_transaction_index
from storage.reading.walk import LEAST_LENGTH

WALK_BYTES = 4096
HINTS = 8
UNREAD = -2

_step = STEP.unpack_from


class Segment(BatchFile):
    """A segment file. `end_offset` of a closed one is the base of the next, so it is not kept here."""

    __slots__ = (
        "_aborted",
        "_ends",
        "_hints",
        "_offset_index",
        "_time_index",
        "created_ms",
        "first_timestamp",
        "index_interval_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "unindexed_bytes",
    )

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        size_bytes: int,
        created_ms: int,
        index_interval_bytes: int,
        disk: Disk,
    ) -> None:
        super().__init__(directory, base_offset, size_bytes, disk)
        self.created_ms = created_ms
        self.index_interval_bytes = index_interval_bytes
        self.max_timestamp = -1  # of any record; -1 is unknown or none
        self.max_timestamp_offset = base_offset  # the last offset of the batch that reached it
        # The first batch's max timestamp, which `segment.ms` counts from.
        self.first_timestamp = UNREAD if size_bytes else -1
        self.unindexed_bytes = 0  # since the last index entry
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._aborted: list[AbortedTransaction] | None = None
        self._hints: dict[int, int] = {}  # next offset of a finished read -> its position
        # Where reads of (start, limit) ended: several readers of one log ask for the same.
        self._ends: dict[tuple[int, int], tuple[int, int]] = {}

    # -- looking things up ---------------------------------------------------------------------------------

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, read from its file or rebuilt from the batches when first needed."""
        if self._offset_index is None:
            self.load_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, read from its file or rebuilt from the batches when first needed."""
        if self._time_index is None:
            self.load_indexes()
        assert self._time_index is not None
        return self._time_index

    def find(self, offset: int) -> int:
        """The position of the first batch that ends at or after `offset`; `size_bytes` when there is none."""
        hint = self._hints.get(offset)
        if hint is not None:
            return hint
        if offset <= self.base_offset:
            return 0
        position = self.offset_index.lookup(offset - self.base_offset)
        size = self.size_bytes
        chunk, at = b"", 0
        while position < size:
            if at + HEADER_BYTES > len(chunk):
                chunk, at = self._chunk(position, min(WALK_BYTES, size - position)), 0
            base_offset, length, delta = _step(chunk, at)
            if base_offset + delta >= offset:
                break
            if length < LEAST_LENGTH:
                raise CorruptSegment(self.path(".log"), position)
            at += length + OVERHEAD
            position += length + OVERHEAD
        return position

    def boundary(self, start: int, limit: int) -> tuple[int, int]:
        """The end of the last whole batch in [`start`, `limit`], and the base offset of the batch after it.

        Positions in bytes; `start` is a boundary itself. The offset is -1 when that end is the segment's.
        """
        size = self.size_bytes
        if limit >= size:
            return size, -1
        known = self._ends.get((start, limit))
        if known is None:
            known = self._walk_to_end(start, limit)
            if len(self._ends) >= HINTS:
                del self._ends[next(iter(self._ends))]
            self._ends[start, limit] = known
        return known

    def _walk_to_end(self, start: int, limit: int) -> tuple[int, int]:
        """As `boundary`, for a limit below the segment's size: some batch ends above it."""
        size = self.size_bytes
        position = max(start, self.offset_index.last_boundary(limit))
        chunk, at = b"", 0
        while True:
            if at + HEADER_BYTES > len(chunk):
                chunk, at = self._chunk(position, min(WALK_BYTES, size - position)), 0
            base_offset, length, _ = _step(chunk, at)
            if length < LEAST_LENGTH:
                raise CorruptSegment(self.path(".log"), position)
            after = position + length + OVERHEAD
            if after > limit:
                return position, base_offset
            at += after - position
            position = after

    def batch_end(self, start: int) -> tuple[int, int]:
        """As `boundary`, of the one batch at `start`, however long it is."""
        end = start + _step(self.file.pread(HEADER_BYTES, start))[1] + OVERHEAD
        return self.boundary(end, end)

    def find_end(self, upper_offset: int, start: int) -> int:
        """The position after the last batch that ends below `upper_offset`; `start` when there is none."""
        position = self.find(upper_offset)
        # A batch that holds the bound ends above it, and one that begins there is not meant either.
        return max(start, position)

    def remember(self, next_offset: int, position: int) -> None:
        """A read ended here; the next one of the same reader starts here."""
        hints = self._hints
        if len(hints) >= HINTS:
            del hints[next(iter(hints))]
        hints[next_offset] = position

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """The entries of the transaction index, in the order of their markers."""
        if self._aborted is None:
            try:
                data = self.path(".txnindex").read_bytes()
            except FileNotFoundError:
                data = b""
            self._aborted = parse_transaction_index(data)
        return self._aborted

    def latest_of_records(self) -> int:
        """The largest record timestamp (ms), -1 without one."""
        if self.max_timestamp < 0 and self.size_bytes:
            self.load_indexes()
        return self.max_timestamp

    def latest_timestamp(self) -> int:
        """The largest record timestamp (ms); the file's modification time when its records have none."""
        latest = self.latest_of_records()
        return latest if latest >= 0 else self.file.modified_ms()

    def read_first_timestamp(self) -> None:
        """Set `first_timestamp` from the first batch; -1 when there is none."""
        self.first_timestamp = -1
        for _, header in self.headers():
            self.first_timestamp = header[8]
            break

    # -- appending -----------------------------------------------------------------------------------------

    def note_batch(self, position: int, size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        """Take a batch that was written at `position` into the indexes. Source: LogSegment.append."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position == 0:
            self.first_timestamp = max_timestamp
        unindexed = self.unindexed_bytes
        if unindexed > self.index_interval_bytes:
            base_offset = self.base_offset
            self.offset_index.append(last_offset - base_offset, position)
            self.time_index.append_if_later(self.max_timestamp, self.max_timestamp_offset - base_offset)
            unindexed = 0
        self.unindexed_bytes = unindexed + size_bytes
        self.size_bytes = position + size_bytes

    # -- index files ---------------------------------------------------------------------------------------

    def load_indexes(self) -> None:
        """Read both indexes; where a file is missing or cannot be right, rebuild them from the batches."""
        offsets = times = None
        try:
            offsets = OffsetIndex.parse(self.path(".index").read_bytes())
            times = TimeIndex.parse(self.path(".timeindex").read_bytes())
        except FileNotFoundError:
            pass
        if offsets is None or times is None or (len(offsets) and offsets.positions[-1] >= self.size_bytes):
            self.rebuild_indexes()
            return
        self._offset_index, self._time_index = offsets, times
        self.unindexed_bytes = self.size_bytes - (offsets.positions[-1] if len(offsets) else 0)
        if len(times):
            self.max_timestamp = times.timestamps[-1]
            self.max_timestamp_offset = self.base_offset + times.offsets[-1]

    def last_indexed_position(self) -> int:
        """Where the batch of the last index entry begins, read from the file's end; 0 without a usable entry."""
        try:
            file = LogFile(self.path(".index"), os.O_RDONLY, self.disk)
        except FileNotFoundError:
            return 0
        size = file.size()
        if size < OFFSET_ENTRY_BYTES or size % OFFSET_ENTRY_BYTES:
            return 0
        position = int.from_bytes(file.pread(4, size - 4), "big")
        return position if position < self.size_bytes else 0

    def start_aborted(self) -> None:
        """Begin with an empty transaction index."""
        self._aborted = []

    def set_aborted(self, entries: list[AbortedTransaction]) -> None:
        """Replace the transaction index, in memory."""
        self._aborted = entries

    def rebuild_indexes(self) -> bool:
        """Make both indexes from the batch headers, in memory. Reads the headers of the whole segment.

        True when there are control batches, whose transaction index only the producers' whole history can make.
        """
        self.start_indexes()
        size, controls = self.size_bytes, 0
        try:
            for position, header in self.headers():
                controls |= header[5] & CONTROL
                last_offset = header[0] + header[6]
                self.note_batch(position, header[1] + OVERHEAD, last_offset, header[8])
        finally:
            self.size_bytes = size  # also of a segment with a bad batch: who checks it must come to that too
        self.finish_time_index()
        return controls != 0

    def start_indexes(self) -> None:
        """Begin with empty indexes and nothing known of the batches."""
        self._offset_index, self._time_index = OffsetIndex(), TimeIndex()
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        self.first_timestamp = -1
        self.unindexed_bytes = 0

    def finish_time_index(self) -> None:
        """Add the final time entry: the segment's maximum timestamp."""
        self.time_index.append_if_later(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def write_indexes(self, extra_suffix: str = "") -> list[Path]:
        """Write the index files as they are in memory; return them, to be fsynced. May raise `OSError`."""
        contents = [(".index", self.offset_index.to_bytes()), (".timeindex", self.time_index.to_bytes())]
        if self._aborted:
            contents.append((".txnindex", pack_transaction_index(self._aborted)))
        elif self._aborted is not None and self.path(".txnindex" + extra_suffix).exists():
            self.disk.unlink(self.path(".txnindex" + extra_suffix))
        paths = []
        for suffix, data in contents:
            paths.append(self.path(suffix + extra_suffix))
            write_file(paths[-1], data, sync=False, disk=self.disk)
        return paths

    def load_for_change(self) -> None:
        """Have the indexes and the transaction index in memory."""
        if self._offset_index is None:
            self.load_indexes()
        _ = self.aborted

    def cut(self, position: int, offset: int) -> None:
        """The file now ends at `position`, before the batch that held `offset`: forget what lay after it."""
        self.drop_view()
        self._hints.clear()
        self._ends.clear()
        self.size_bytes = position
        self.offset_index.truncate(position)
        self.time_index.truncate(offset - self.base_offset)
        self._aborted = [entry for entry in self.aborted if entry.last_offset < offset]
        indexed = self.offset_index.positions
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        if len(self.time_index):
            self.max_timestamp = self.time_index.timestamps[-1]
            self.max_timestamp_offset = self.base_offset + self.time_index.offsets[-1]
        # Time entries are sparse: what came after the last of them, up to the cut, is only in the batches.
        for _, header in self.headers(indexed[-1] if len(indexed) else 0):
            if header[8] > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header[8], header[0] + header[6]
        self.unindexed_bytes = position - (indexed[-1] if len(indexed) else 0)
        if position == 0:
            self.first_timestamp = -1

    @property
    def indexes_loaded(self) -> bool:
        """Are the indexes in memory, and so perhaps ahead of their files?"""
        return self._offset_index is not None

    def create(self) -> None:
        """Make an empty segment's files. May raise `OSError`; a `.log` of that name must not exist, or be empty."""
        try:
            self._file = LogFile(self.path(".log"), os.O_RDWR | os.O_CREAT | os.O_EXCL, self.disk)
        except FileExistsError:
            # An attempt that the disk refused has left it behind, when the disk refused to remove it too.
            left_behind = LogFile(self.path(".log"), os.O_RDWR, self.disk)
            if left_behind.size():
                raise
            self._file = left_behind
        self.start_indexes()
        self._aborted = []
        self.write_indexes()

    def discard_files(self) -> None:
        """Remove a segment that never came to be, as far as the disk lets us."""
        if self._file is None:
            return  # not even the first file was made, so none of that name is ours
        self.release()
        for suffix in (".log", ".index", ".timeindex"):
            with suppress(OSError):
                self.disk.unlink(self.path(suffix))

    def release(self) -> None:
        """Drop the descriptor, the mapping and the indexes, all of which come back when needed."""
        self._file = None
        self.drop_view()
        self._offset_index = self._time_index = None
        self._aborted = None
        self._hints.clear()
        self._ends.clear()
