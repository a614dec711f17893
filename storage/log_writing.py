"""Appending to a log, and beginning a new segment when the active one can take no more.

What is appended is readable at once and survives the death of the process. A call that raises leaves the log as it was,
but for an empty segment it may have started.

Source: Kafka's UnifiedLog.append, UnifiedLog.maybeRoll, LocalLog.roll.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from protocol.records.batch import CONTROL, TRANSACTIONAL
from storage.batches import HEADER, OVERHEAD, STAMP, read_marker
from storage.errors import RecordListTooLarge, StorageError
from storage.log_config import INT32_MAX, INT64_MAX
from storage.log_state import NOT_PREPARED, LogState
from storage.producer_snapshot import write_snapshot
from storage.segment import UNREAD, Segment
from storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from storage.files import Buffer
    from storage.producer_state import ProducerState

_header = HEADER.unpack_from
_stamp = STAMP.pack_into


class WritableLog(LogState):
    """A log with its writer's side."""

    __slots__ = ()

    # -- appending -----------------------------------------------------------------------------------------

    def append(self, batch: bytearray | memoryview, *, leader_epoch: int, now_ms: int = -1) -> int:
        """Append one encoded, already checked batch; return the base offset it was given.

        On return the bytes are readable here but not durable: that is a flush. Takes over `batch`, and stamps its
        base offset and leader epoch in place. `now_ms` only matters to segments of batches without timestamps.

        Raises: RecordListTooLarge when it exceeds a whole segment; StorageError when the disk refused, and then the
        log is as before.
        """
        (_, length, _, _, _, attributes, delta, _, timestamp, producer_id, _, _, _) = header = _header(batch)
        size = length + OVERHEAD
        base_offset = self.log_end_offset
        next_offset = base_offset + delta + 1
        segment = self._active
        position = segment.size_bytes
        if (
            position + size > self._segment_bytes
            or (timestamp if timestamp >= 0 else now_ms) > self._roll_above
            or len(self._indexed) >= self._max_index_entries
            or next_offset - segment.base_offset > INT32_MAX + 1
            or self._torn_tail
            or self._failure is not None
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
            self.note_producer(segment, header, base_offset, batch if attributes & CONTROL else b"")
        self.tail.add(base_offset, batch, next_offset, position)
        self.log_end_offset = next_offset
        return base_offset

    def append_assigned(self, batches: bytes | bytearray, *, now_ms: int = -1) -> int:
        """Append whole batches whose offsets and leader epochs are set already; return the new log end.

        Each must begin at the log end or above (a gap stays). Raises: as `append`; ValueError for an offset below the
        log end, or a batch that is cut off. Batches before the one refused stay.
        """
        position, view = 0, memoryview(batches)
        while position < len(view):
            header = _header(view, position)
            base_offset, end = header[0], position + header[1] + OVERHEAD
            if end > len(view):
                raise ValueError(f"the batch at offset {base_offset} is cut off")
            if base_offset < self.log_end_offset:
                raise ValueError(f"offset {base_offset} is below the log end {self.log_end_offset}")
            before, self.log_end_offset = self.log_end_offset, base_offset
            try:
                self.append(bytearray(view[position:end]), leader_epoch=header[2], now_ms=now_ms)
            except BaseException:
                self.log_end_offset = before
                raise
            position = end
        return self.log_end_offset

    def _make_room(self, size: int, timestamp: int, next_offset: int, now_ms: int) -> Segment:
        """The active segment cannot take a batch as it is: make it ready, say why not, or roll."""
        self.check_usable()
        active = self._active
        try:
            self.cut_torn_tail()
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
        ) and self.log_end_offset != active.base_offset:
            self.roll(now_ms=now_ms)
            self._prepare()
        return self._active

    def _undo_append(self, segment: Segment, position: int, error: OSError) -> StorageError:
        """Take a half-written batch off the file again. Positioned writes make a second failure here harmless."""
        try:
            self.disk.ftruncate(segment.file.fd, position)
        except OSError:
            self._torn_tail = True  # cut before the next append, or by recovery
        return StorageError("cannot append to", segment.path(".log"), error)

    def _note_epoch(self, leader_epoch: int, base_offset: int) -> None:
        if leader_epoch >= 0:
            self.epochs.assign(leader_epoch, base_offset)
            self._latest_epoch = self.epochs.latest

    def note_producer(self, segment: Segment, header: tuple[int, ...], base_offset: int, control: Buffer) -> None:
        """Keep the producer table in step with a batch; `control` is the whole batch when it is a control batch."""
        aborted = note_producer(self.producers, header, base_offset, control)
        if aborted is not None:
            segment.aborted.append(aborted)

    def roll(self, *, now_ms: int = -1) -> bool:
        """Start a new segment at the log end; False when the active one is empty and begins there already.

        Writes the old segment's indexes and a producer snapshot; their fsync is part of the next flush.
        Raises: StorageError, and the active segment stays the same.
        """
        self.check_usable()
        old, base_offset = self._active, self.log_end_offset
        if base_offset == old.base_offset:
            return False
        new = Segment(self.directory, base_offset, 0, now_ms, self._config.index_interval_bytes, self.disk)
        try:
            self.cut_torn_tail()  # inside of the log a recovery would take it for its end
            new.create()
            old.finish_time_index()
            written = old.write_indexes()
            snapshot = write_snapshot(self.directory, base_offset, self.producers, self.disk)
        except OSError as error:
            new.discard_files()
            raise StorageError("cannot start segment", new.path(".log"), error) from error
        self.add_unsynced([*written, snapshot], files=[old.file])
        self.add_segment(new)
        self.activate()
        return True

    # -- when the active segment is full -----------------------------------------------------------------------

    def _prepare(self) -> None:
        """Get ready to append to the active segment: its indexes, and when it is full. Left until a batch comes."""
        active = self._active
        self._file = active.file
        self._indexed = active.offset_index.offsets
        self._max_index_entries = self._config.segment_index_bytes // 12 - 1
        self._set_roll_time()

    def _set_roll_time(self) -> None:
        """The max timestamp above which a batch starts a new segment."""
        segment, config = self._active, self._config
        if segment.first_timestamp == UNREAD:
            segment.read_first_timestamp()
        begin = segment.first_timestamp if segment.first_timestamp >= 0 else segment.created_ms
        # Not random, so that a run can be repeated, yet different from log to log.
        jitter = crc32(self.directory.name.encode()) % (config.segment_jitter_ms + 1)
        empty = segment.size_bytes == 0
        self._roll_above = INT64_MAX if empty or begin < 0 else begin + config.longest_segment_ms - jitter


def note_producer(
    producers: ProducerState, header: tuple[int, ...], base_offset: int, control: Buffer
) -> AbortedTransaction | None:
    """Take a batch into `producers`; return the transaction that it aborted, for the index of its segment.

    `control` is the whole batch when it is a control batch.
    """
    attributes, delta, timestamp = header[5], header[6], header[8]
    producer_id, epoch = header[9], header[10]
    if not attributes & CONTROL:
        producers.data_appended(
            producer_id,
            epoch,
            header[11],
            base_offset,
            delta,
            timestamp,
            transactional=attributes & TRANSACTIONAL != 0,
        )
        return None
    marker = read_marker(control)
    if marker is None:
        return None
    aborted, coordinator_epoch = marker
    completed = producers.marker_appended(
        producer_id, epoch, coordinator_epoch, base_offset + delta, timestamp, aborted=aborted
    )
    if completed is None or not aborted:
        return None
    stable = producers.first_open_offset(completed.last_offset + 1)
    return AbortedTransaction(producer_id, completed.first_offset, completed.last_offset, stable)
