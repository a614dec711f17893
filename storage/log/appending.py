"""Appending to a log, and beginning a new segment when the active one can take no more.

What is appended is readable at once and survives the death of the process. A call that raises leaves the log as it was,
but for an empty segment it may have started. `append` writes at once; `place` and `finish` are its two halves, for a
batch, or some, that another thread writes in between.

Always true: whatever else changes the end of the log finishes first what is placed.

Source: Kafka's UnifiedLog.append, UnifiedLog.maybeRoll, LocalLog.roll.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from protocol.records.batch import CONTROL
from storage.errors import LogClosed, RecordListTooLarge, StorageError
from storage.log.next_segment import NextSegment
from storage.log.placed import MOST_BATCHES, Placed
from storage.reading.batches import HEADER, OVERHEAD, STAMP, Parted, head_of
from storage.reading.folder import segment_path
from storage.state.log_config import INT32_MAX, INT64_MAX
from storage.state.producer_tracking import note_producer
from storage.state.segment import UNREAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.files import Buffer, LogFile
    from storage.state.log_config import LogConfig
    from storage.state.log_state import LogState
    from storage.state.segment import Segment

_header = HEADER.unpack_from
_stamp = STAMP.pack_into


def _cannot_append(segment: Segment, error: Exception) -> StorageError:
    return StorageError("cannot append to", segment.path(".log"), error if isinstance(error, OSError) else None)


# As the most index entries: the next append takes the slow way then.
NOT_PREPARED = -1
PLACED = -2  # something is, and it finishes that first


class Appender:
    """The writer's side of one log: works on the log's state, and knows when the active segment is full."""

    __slots__ = (
        "_file",
        "_indexed",
        "_latest_epoch",
        "_max_index_entries",
        "_placed",
        "_roll_above",
        "_roll_failed",
        "_segment_bytes",
        "_state",
        "has_appended",
    )

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._file: LogFile
        self._indexed: Sequence[int] = ()
        self._placed: Placed | None = None
        self._roll_above = INT64_MAX
        self._roll_failed = False  # an empty file of the next segment may have stayed, so that its offsets are its own
        self.has_appended = False  # to the active segment, since it is that: its index files are to be written
        self.activate()

    def activate(self) -> None:
        """The last segment is the active one. Part of opening and rolling."""
        state = self._state
        state.active = state.segments[-1]
        self.has_appended = False
        self._roll_failed = False
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
        (_, length, _, _, _, _, delta, _, timestamp, _, _, _, _) = header = _header(batch)
        state = self._state
        size = length + OVERHEAD
        base_offset = state.log_end_offset
        segment = state.active
        if (
            segment.size_bytes + size > self._segment_bytes
            or (timestamp if timestamp >= 0 else now_ms) > self._roll_above
            or len(self._indexed) >= self._max_index_entries
            or base_offset + delta - segment.base_offset > INT32_MAX
            or state.torn_tail
            or state.failure is not None
        ):
            segment = self._make_room(size, timestamp, delta, now_ms)
            base_offset = state.log_end_offset
        # Stamping leaves the producer's CRC valid: it covers only what comes after it.
        _stamp(batch, 0, base_offset, length, leader_epoch)
        position = segment.size_bytes
        try:
            self._file.write_fully(batch, position)
        except OSError as error:
            raise self._undo_append(segment, position, error) from error
        self._take(batch, header, base_offset, segment, leader_epoch, now_ms)
        return base_offset

    def place(self, batch: bytearray | memoryview | Parted, *, leader_epoch: int, now_ms: int = -1) -> Placed:
        """Give a batch its offset and its place, as `append` does; it is in the log when it was written and `finish`ed.

        Where it needs a new segment that is made when it is written. Raises: as `append`.
        """
        header, state = _header(head_of(batch)), self._state
        size = header[1] + OVERHEAD
        self._make_ready(size)
        segment, following = state.active, None
        if self._must_roll(size, header[8], header[6], now_ms):
            following = self._next_segment(now_ms)
            segment = following.segment
        self._placed = placed = Placed(segment, state.log_end_offset, leader_epoch, now_ms, following)
        self._put(placed, batch, header)
        self._max_index_entries = PLACED
        return placed

    def place_behind(self, placed: Placed, batch: bytearray | memoryview | Parted) -> bool:
        """Have `batch` written together with those that are placed, if it fits behind them in their segment."""
        header = _header(head_of(batch))
        timestamp = header[8]
        if (
            placed is not self._placed
            or placed.position == 0  # when the segment is full is known once it has a first batch
            or len(placed.batches) >= MOST_BATCHES
            or self._is_full(
                placed.position + placed.size_bytes + header[1] + OVERHEAD,
                timestamp if timestamp >= 0 else placed.now_ms,
                len(self._indexed) + len(placed.batches),
                placed.next_offset + header[6],
            )
        ):
            return False
        self._put(placed, batch, header)
        return True

    def _put(self, placed: Placed, batch: bytearray | memoryview | Parted, header: tuple[Any, ...]) -> None:
        _stamp(head_of(batch), 0, placed.next_offset, header[1], placed.leader_epoch)
        placed.add(batch, header)

    def finish(self, placed: Placed) -> None:
        """The batches were written: they are in the log. What is finished already is no error.

        Raises: StorageError when they were refused, and then the log is without them.
        """
        if placed is self._placed:
            self.settle()
        if placed.error is not None:
            raise placed.error.afresh()

    def settle(self) -> None:
        """Finish what is placed, if anything is; blocks until it is written. An error is for its owner."""
        placed = self._placed
        if placed is None:
            return
        placed.write()
        self._placed = None
        if self._max_index_entries == PLACED:
            self._max_index_entries = self._most_index_entries
        following = placed.following
        if placed.is_given_up:  # the file is another log's by now
            placed.error = LogClosed("the log was given up while this was written:", placed.segment.path(".log"))
            return
        if following is not None and following.is_made:
            self._take_segment(following)
            self._prepare()
        if placed.refused is None:
            for batch, header, base_offset in placed.batches:
                self._take(batch, header, base_offset, placed.segment, placed.leader_epoch, placed.now_ms)
        elif isinstance(placed.refused, StorageError):
            placed.error = placed.refused  # the segment could not be made
            self._not_rolled()
        elif placed.segment is self._state.active:
            placed.error = self._undo_append(placed.segment, placed.position, placed.refused)
        else:
            placed.error = _cannot_append(placed.segment, placed.refused)

    def abandon(self) -> None:
        """The log is given up, and will be read anew: on return no thread writes to it, nor will. Any thread may call
        it; it blocks until a write that is going on has ended.
        """
        placed = self._placed
        if placed is not None:
            placed.abandon()

    def _take(
        self,
        batch: Buffer | Parted,
        header: tuple[Any, ...],
        base_offset: int,
        segment: Segment,
        leader_epoch: int,
        now_ms: int,
    ) -> None:
        """The batch is in the file, behind all others: it is in the log."""
        (_, length, _, _, _, attributes, delta, _, timestamp, producer_id, _, _, _) = header
        state = self._state
        next_offset = base_offset + delta + 1
        position = segment.size_bytes
        segment.note_batch(position, length + OVERHEAD, next_offset - 1, timestamp)
        if position == 0:
            segment.created_ms = now_ms
            self._set_roll_time()
        if leader_epoch != self._latest_epoch:
            self._note_epoch(leader_epoch, base_offset)
        if producer_id >= 0:
            whole: Buffer = b""  # of which a marker is read
            if attributes & CONTROL:
                whole = batch.whole() if isinstance(batch, Parted) else batch
            aborted = note_producer(state.producers, header, base_offset, whole)
            if aborted is not None:
                segment.aborted.append(aborted)
        state.tail.add(base_offset, batch, next_offset, position)
        state.log_end_offset = next_offset

    def append_assigned(self, batches: bytes | bytearray, *, now_ms: int = -1) -> int:
        """Append whole batches whose offsets and leader epochs are set already; return the new log end.

        Each must begin at the log end or above (a gap stays). Raises: as `append`; ValueError for an offset below the
        log end, or a batch that is cut off. Batches before the one refused stay.
        """
        self.settle()
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

    def _make_room(self, size: int, timestamp: int, delta: int, now_ms: int) -> Segment:
        """The active segment may not be able to take a batch as it is: make it ready, say why not, or roll."""
        self._make_ready(size)
        if self._must_roll(size, timestamp, delta, now_ms):
            self.roll(now_ms=now_ms)
            self._prepare()
        return self._state.active

    def _make_ready(self, size: int) -> None:
        """Have the active segment ready for a batch of that size. Raises: as `append`."""
        self.settle()
        state = self._state
        state.check_usable()
        try:
            state.cut_torn_tail()
            if self._max_index_entries == NOT_PREPARED:
                self._prepare()
        except OSError as error:
            raise StorageError("cannot append to", state.active.path(".log"), error) from error
        if size > self._segment_bytes:
            raise RecordListTooLarge(size, segment_bytes=self._segment_bytes)

    def _must_roll(self, size: int, timestamp: int, delta: int, now_ms: int) -> bool:
        """Whether a batch is the first of another segment."""
        state = self._state
        return state.log_end_offset != state.active.base_offset and (
            self._roll_failed
            or self._is_full(
                state.active.size_bytes + size,
                timestamp if timestamp >= 0 else now_ms,
                len(self._indexed),
                state.log_end_offset + delta,
            )
        )

    def _is_full(self, size_bytes: int, timestamp: int, index_entries: int, last_offset: int) -> bool:
        """Whether the active segment may not become so large, by a batch of that time, with so many entries before."""
        return (
            size_bytes > self._segment_bytes
            or timestamp > self._roll_above
            or index_entries >= self._most_index_entries
            or last_offset - self._state.active.base_offset > INT32_MAX
        )

    @property
    def _most_index_entries(self) -> int:
        return self._state.config.segment_index_bytes // 12 - 1

    def _undo_append(self, segment: Segment, position: int, error: Exception) -> StorageError:
        """Take a half-written batch off the file again. Positioned writes make a second failure here harmless."""
        try:
            segment.file.truncate(position)
        except OSError:
            self._state.torn_tail = True  # cut before the next append, or by recovery
        return _cannot_append(segment, error)

    def _note_epoch(self, leader_epoch: int, base_offset: int) -> None:
        if leader_epoch >= 0:
            self._state.epochs.assign(leader_epoch, base_offset)
            self._latest_epoch = self._state.epochs.latest

    def roll(self, *, now_ms: int = -1) -> bool:
        """Start a new segment at the log end; False when the active one is empty and begins there already.

        Writes the old segment's indexes and a producer snapshot; their fsync is part of the next flush.
        Raises: StorageError, and the active segment stays the same.
        """
        self.settle()
        state = self._state
        state.check_usable()
        if state.log_end_offset == state.active.base_offset:
            return False
        following = self._next_segment(now_ms)
        try:
            following.make()
        except StorageError:
            self._not_rolled()
            raise
        self._take_segment(following)
        return True

    def _not_rolled(self) -> None:
        """Nothing more comes into the active segment: a start would look for it in the next one, whose empty file may
        be there, and find nothing.
        """
        self._roll_failed = True
        self._max_index_entries = NOT_PREPARED

    def _next_segment(self, now_ms: int) -> NextSegment:
        """What follows the active segment, whose end is whole. Raises: StorageError."""
        state = self._state
        try:
            state.cut_torn_tail()  # inside of the log a recovery would take it for its end
            return NextSegment(state, now_ms)
        except OSError as error:
            path = segment_path(state.directory, state.log_end_offset, ".log")
            raise StorageError("cannot start segment", path, error) from error

    def _take_segment(self, following: NextSegment) -> None:
        following.take(self._state)
        self.activate()

    # -- when the active segment is full -----------------------------------------------------------------------

    def _prepare(self) -> None:
        """Get ready to append to the active segment: its indexes, and when it is full. Left until a batch comes."""
        active = self._state.active
        self.has_appended = True
        self._file = active.file
        self._indexed = active.offset_index.offsets
        self._max_index_entries = self._most_index_entries
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
