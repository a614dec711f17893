"""Appending to a log, and beginning a new segment when the active one can take no more.

What is appended is readable at once and survives the death of the process. A call that raises leaves the log as it was,
but for an empty segment it may have started.

Source: Kafka's UnifiedLog.append, UnifiedLog.maybeRoll, LocalLog.roll.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from protocol.records.batch import CONTROL
from storage.errors import RecordListTooLarge, StorageError
from storage.reading.batches import HEADER, OVERHEAD, STAMP
from storage.state.log_config import INT32_MAX, INT64_MAX
from storage.state.producer_snapshot import write_snapshot
from storage.state.producer_tracking import note_producer
from storage.state.segment import UNREAD, Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.files import LogFile
    from storage.state.log_config import LogConfig
    from storage.state.log_state import LogState

_header = HEADER.unpack_from
_stamp = STAMP.pack_into


NOT_PREPARED = -1  # as the most index entries: the first append takes the slow way then


class Appender:
    """The writer's side of one log: works on the log's state, and knows when the active segment is full."""

    __slots__ = (
        "_file",
        "_indexed",
        "_latest_epoch",
        "_max_index_entries",
        "_roll_above",
        "_segment_bytes",
        "_state",
        "has_appended",
    )

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._file: LogFile
        self._indexed: Sequence[int] = ()
        self._roll_above = INT64_MAX
        self.has_appended = False  # to the active segment, since it is that: its index files are to be written
        self.activate()

    def activate(self) -> None:
        """The last segment is the active one. Part of opening and rolling."""
        state = self._state
        state.active = state.segments[-1]
        self.has_appended = False
        self._latest_epoch = state.epochs.latest
        self.configure(state.config)

    def truncated(self) -> None:
        """The log was cut, or was not that long: the last segment is the active one, perhaps still the same."""
        has_appended = self.has_appended and self._state.active is self._state.segments[-1]
        self.activate()
        self.has_appended = has_appended

    def configure(self, config: LogConfig) -> None:
        """Settings in force from the next append on."""
        self._state.config = config
        self._segment_bytes = config.segment_bytes
        self._state.active.index_interval_bytes = config.index_interval_bytes
        self._max_index_entries = NOT_PREPARED

    # -- appending -----------------------------------------------------------------------------------------

    def append(self, batch: bytearray | memoryview, *, leader_epoch: int, now_ms: int = -1) -> int:
        """Append one encoded, already checked batch; return the base offset it was given.

        On return the bytes are readable here but not durable: that is a flush. Takes over `batch`, and stamps its
        base offset and leader epoch in place. `now_ms` only matters to segments of batches without timestamps.

        Raises: RecordListTooLarge when it exceeds a whole segment; StorageError when the disk refused, and then the
        log is as before.
        """
        (_, length, _, _, _, attributes, delta, _, timestamp, producer_id, _, _, _) = header = _header(batch)
        state = self._state
        size = length + OVERHEAD
        base_offset = state.log_end_offset
        next_offset = base_offset + delta + 1
        segment = state.active
        position = segment.size_bytes
        if (
            position + size > self._segment_bytes
            or (timestamp if timestamp >= 0 else now_ms) > self._roll_above
            or len(self._indexed) >= self._max_index_entries
            or next_offset - segment.base_offset > INT32_MAX + 1
            or state.torn_tail
            or state.failure is not None
        ):
            segment = self._make_room(size, timestamp, next_offset, now_ms)
            position = segment.size_bytes
        # Stamping leaves the producer's CRC valid: it covers only what comes after it.
        _stamp(batch, 0, base_offset, length, leader_epoch)
        try:
            self._file.write_fully(batch, position)
        except OSError as error:
            raise self._undo_append(segment, position, error) from error
        segment.note_batch(position, size, next_offset - 1, timestamp)
        if position == 0:
            segment.created_ms = now_ms
            self._set_roll_time()
        if leader_epoch != self._latest_epoch:
            self._note_epoch(leader_epoch, base_offset)
        if producer_id >= 0:
            aborted = note_producer(state.producers, header, base_offset, batch if attributes & CONTROL else b"")
            if aborted is not None:
                segment.aborted.append(aborted)
        state.tail.add(base_offset, batch, next_offset, position)
        state.log_end_offset = next_offset
        return base_offset

    def append_assigned(self, batches: bytes | bytearray, *, now_ms: int = -1) -> int:
        """Append whole batches whose offsets and leader epochs are set already; return the new log end.

        Each must begin at the log end or above (a gap stays). Raises: as `append`; ValueError for an offset below the
        log end, or a batch that is cut off. Batches before the one refused stay.
        """
        state = self._state
        position, view = 0, memoryview(batches)
        while position < len(view):
            header = _header(view, position)
            base_offset, end = header[0], position + header[1] + OVERHEAD
            if end > len(view):
                raise ValueError(f"the batch at offset {base_offset} is cut off")
            if base_offset < state.log_end_offset:
                raise ValueError(f"offset {base_offset} is below the log end {state.log_end_offset}")
            before, state.log_end_offset = state.log_end_offset, base_offset
            try:
                self.append(bytearray(view[position:end]), leader_epoch=header[2], now_ms=now_ms)
            except BaseException:
                state.log_end_offset = before
                raise
            position = end
        return state.log_end_offset

    def _make_room(self, size: int, timestamp: int, next_offset: int, now_ms: int) -> Segment:
        """The active segment cannot take a batch as it is: make it ready, say why not, or roll."""
        state = self._state
        state.check_usable()
        active = state.active
        try:
            state.cut_torn_tail()
            if self._max_index_entries == NOT_PREPARED:
                self._prepare()
        except OSError as error:
            raise StorageError("cannot append to", active.path(".log"), error) from error
        if size > self._segment_bytes:
            raise RecordListTooLarge(size, segment_bytes=self._segment_bytes)
        if (
            active.size_bytes + size > self._segment_bytes
            or (timestamp if timestamp >= 0 else now_ms) > self._roll_above
            or len(self._indexed) >= self._max_index_entries
            or next_offset - active.base_offset > INT32_MAX + 1
        ) and state.log_end_offset != active.base_offset:
            self.roll(now_ms=now_ms)
            self._prepare()
        return state.active

    def _undo_append(self, segment: Segment, position: int, error: OSError) -> StorageError:
        """Take a half-written batch off the file again. Positioned writes make a second failure here harmless."""
        try:
            segment.file.truncate(position)
        except OSError:
            self._state.torn_tail = True  # cut before the next append, or by recovery
        return StorageError("cannot append to", segment.path(".log"), error)

    def _note_epoch(self, leader_epoch: int, base_offset: int) -> None:
        if leader_epoch >= 0:
            self._state.epochs.assign(leader_epoch, base_offset)
            self._latest_epoch = self._state.epochs.latest

    def roll(self, *, now_ms: int = -1) -> bool:
        """Start a new segment at the log end; False when the active one is empty and begins there already.

        Writes the old segment's indexes and a producer snapshot; their fsync is part of the next flush.
        Raises: StorageError, and the active segment stays the same.
        """
        state = self._state
        state.check_usable()
        old, base_offset = state.active, state.log_end_offset
        if base_offset == old.base_offset:
            return False
        new = Segment(state.directory, base_offset, 0, now_ms, state.config.index_interval_bytes, state.disk)
        try:
            state.cut_torn_tail()  # inside of the log a recovery would take it for its end
            new.create()
            old.finish_time_index()
            written = old.write_indexes()
            snapshot = write_snapshot(state.directory, base_offset, state.producers, state.disk)
        except OSError as error:
            new.discard_files()
            raise StorageError("cannot start segment", new.path(".log"), error) from error
        state.add_unsynced([*written, snapshot], files=[old.file])
        state.add_segment(new)
        self.activate()
        return True

    # -- when the active segment is full -----------------------------------------------------------------------

    def _prepare(self) -> None:
        """Get ready to append to the active segment: its indexes, and when it is full. Left until a batch comes."""
        active = self._state.active
        self.has_appended = True
        self._file = active.file
        self._indexed = active.offset_index.offsets
        self._max_index_entries = self._state.config.segment_index_bytes // 12 - 1
        self._set_roll_time()

    def _set_roll_time(self) -> None:
        """The max timestamp above which a batch starts a new segment."""
        segment, config = self._state.active, self._state.config
        if segment.first_timestamp == UNREAD:
            segment.read_first_timestamp()
        begin = segment.first_timestamp if segment.first_timestamp >= 0 else segment.created_ms
        # Not random, so that a run can be repeated, yet different from log to log.
        jitter = crc32(self._state.directory.name.encode()) % (config.segment_jitter_ms + 1)
        empty = segment.size_bytes == 0
        self._roll_above = INT64_MAX if empty or begin < 0 else begin + config.longest_segment_ms - jitter
