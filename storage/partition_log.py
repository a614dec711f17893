"""The log of one partition: append, read, look up, flush, cut, and give old segments away.

Synchronous and single-threaded: only the owner's thread may call it, except `FlushTicket.sync`. Nothing here waits,
logs or reads a clock. What is appended is readable at once and survives the death of the process; it survives a
power loss from the recovery point down, which a flush moves up.

Always true:
- log start <= every readable offset < log end; offsets rise, gaps are legal;
- a call that raises leaves the log as it was, but for an empty segment it may have started;
- the recovery point never passes the log end, and everything below it was fsynced.

Source: Kafka's UnifiedLog, LocalLog, LogSegments.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from protocol.records.batch import CONTROL, TRANSACTIONAL
from storage import cleaning, log_lookup, log_reader, retention, swap, truncation
from storage.batches import HEADER, OVERHEAD, STAMP, read_marker
from storage.errors import LogClosed, OffsetOutOfRange, RecordListTooLarge, StorageError
from storage.files import DISK, Disk, LogFile
from storage.flush import FlushTicket
from storage.leader_epochs import LeaderEpochs
from storage.log_config import INT32_MAX, INT64_MAX, LogConfig
from storage.log_lookup import TimestampedOffset
from storage.log_reader import ReadResult
from storage.producer_snapshot import write_snapshot
from storage.producer_state import ProducerState
from storage.recovery import RecoveryReport, load
from storage.segment import UNREAD, Segment
from storage.tail import Tail, TailBudget
from storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.cleaner import CleanResult
    from storage.cleaning import CleanPlan, DirtyRange
    from storage.files import Buffer
    from storage.retention import DeletedSegment

__all__ = ["FlushTicket", "PartitionLog", "ReadResult", "TimestampedOffset"]

SHARED_TAIL = TailBudget()
NOT_PREPARED = -1  # as the most index entries: the first append takes the slow way then

_header = HEADER.unpack_from
_stamp = STAMP.pack_into


class PartitionLog:
    """One partition's log, open. Make it with `open`.

    `config` may be replaced at any time. `segments` and `bases` (their base offsets) are for the room's own modules.
    """

    __slots__ = (
        "_active",
        "_closed",
        "_config",
        "_failure",
        "_file",
        "_indexed",
        "_latest_epoch",
        "_max_index_entries",
        "_names",
        "_names_synced",
        "_roll_above",
        "_segment_bytes",
        "_swapping",
        "_torn_tail",
        "_truncations",
        "_unsynced",
        "_unsynced_paths",
        "bases",
        "deleted_files",
        "directory",
        "disk",
        "epochs",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery",
        "recovery_point",
        "segments",
        "tail",
    )

    def __init__(self, directory: Path, config: LogConfig, disk: Disk, tail: TailBudget) -> None:
        self.directory = directory
        self.disk = disk
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.epochs = LeaderEpochs(directory, disk)
        self.producers = ProducerState()
        self.tail = Tail(tail)
        self.recovery = RecoveryReport()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.deleted_files: list[Path] = []  # renamed to `.deleted`; the owner unlinks them: `take_deleted_files`
        self._config = config
        self._failure: StorageError | None = None
        self._file: LogFile
        self._indexed: Sequence[int] = ()
        self._max_index_entries = NOT_PREPARED
        self._roll_above = INT64_MAX
        self._closed = False
        self._torn_tail = False
        self._swapping = False
        self._truncations = 0  # a flush begun before a truncation must not move the recovery point above it
        self._unsynced: list[LogFile] = []  # of rolled segments
        self._unsynced_paths: list[Path] = []  # of their indexes, and of snapshots
        self._names = 0  # grows with every file made or renamed: the directory needs an fsync
        self._names_synced = 0
        self._latest_epoch = -1

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        now_ms: int = -1,
        disk: Disk = DISK,
        tail: TailBudget = SHARED_TAIL,
    ) -> PartitionLog:
        """The log in `directory`, made there when the folder is empty; the folder itself must exist.

        `clean`: the last shutdown was clean, so no batch is looked at but the last few headers. Otherwise every
        batch from the segment of `recovery_point` on is checked, and the log is cut at the first bad one; `recovery`
        then tells what was done. `log_start_offset` comes from its checkpoint, 0 when it has no entry.

        Raises: StorageError; CorruptFile when `leader-epoch-checkpoint` or a file name cannot be understood.
        """
        log = cls(directory, config, disk, tail)
        try:
            load(
                log,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                now_ms=now_ms,
            )
        except OSError as error:
            raise StorageError("cannot open the log in", directory, error) from error
        log.activate()
        return log

    def activate(self) -> None:
        """The last segment is the active one; work out when it is full. Part of opening, rolling and truncating."""
        self._active = self.segments[-1]
        self._latest_epoch = self.epochs.latest
        self.config = self._config

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        """The settings in force."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._segment_bytes = config.segment_bytes
        self._active.index_interval_bytes = config.index_interval_bytes
        self._max_index_entries = NOT_PREPARED

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

    @property
    def size_bytes(self) -> int:
        """Bytes in the batches of all segments."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch in the log, -1 when none is known."""
        return self._latest_epoch

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None when none is open."""
        first = self.producers.first_open_offset(-1)
        return first if first >= 0 else None

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where read_committed ends: no transaction below it is undecided. Never below the log start."""
        return max(self.producers.last_stable_offset(high_watermark), self.log_start_offset)

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
            if self._torn_tail:
                self.disk.ftruncate(active.file.fd, active.size_bytes)
                self._torn_tail = False
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
        attributes, delta, timestamp = header[5], header[6], header[8]
        producer_id, epoch = header[9], header[10]
        if not attributes & CONTROL:
            self.producers.data_appended(
                producer_id,
                epoch,
                header[11],
                base_offset,
                delta,
                timestamp,
                transactional=attributes & TRANSACTIONAL != 0,
            )
            return
        marker = read_marker(control)
        if marker is None:
            return
        aborted, coordinator_epoch = marker
        completed = self.producers.marker_appended(
            producer_id, epoch, coordinator_epoch, base_offset + delta, timestamp, aborted=aborted
        )
        if completed is not None and aborted:
            stable = self.producers.first_open_offset(completed.last_offset + 1)
            segment.aborted.append(
                AbortedTransaction(producer_id, completed.first_offset, completed.last_offset, stable)
            )

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

    def check_usable(self) -> None:
        """Raise what stops this log for good: it was closed, or an fsync has failed. Raises: StorageError."""
        if self._failure is not None:
            raise self._failure

    # -- making it durable ---------------------------------------------------------------------------------

    def begin_flush(self) -> FlushTicket:
        """Everything up to the log end, to be fsynced by `ticket.sync()` in any thread and then `finish_flush`."""
        self.check_usable()
        return FlushTicket(
            offset=self.log_end_offset,
            truncations=self._truncations,
            closed=list(self._unsynced),
            active=self._active.file if self.log_end_offset > self.recovery_point else None,
            paths=list(self._unsynced_paths),
            directory=self.directory if self._names != self._names_synced else None,
            names_version=self._names,
            epochs=(self.epochs, self.epochs.content()) if self.epochs.is_dirty else None,
            what=self.directory,
            disk=self.disk,
        )

    def finish_flush(self, ticket: FlushTicket) -> int:
        """Take over what `ticket.sync()` achieved; return the recovery point.

        Raises: StorageError when the sync failed or never ran; the log then refuses everything until opened anew.
        """
        if not ticket.synced:
            self._failure = ticket.error or StorageError("was not flushed:", self.directory)
            raise self._failure
        if ticket.paths:
            # The same file may have been written again since: by identity, not by name.
            written = set(map(id, ticket.paths))
            self._unsynced_paths = [path for path in self._unsynced_paths if id(path) not in written]
        self._names_synced = max(self._names_synced, ticket.names_version)
        if ticket.truncations == self._truncations:
            # Not the active segment's: it may have grown since, and been rolled, and then the rest is still to come.
            done = set(map(id, ticket.closed))
            self._unsynced = [file for file in self._unsynced if id(file) not in done]
            self.recovery_point = max(self.recovery_point, ticket.offset)
        return self.recovery_point

    def flush(self, *, sync: bool = True) -> int:
        """The three calls at once, in this thread; return the recovery point. Raises: StorageError.

        Without `sync` nothing is fsynced: see `close`.
        """
        ticket = self.begin_flush()
        with suppress(StorageError):  # which the ticket keeps, and `finish_flush` raises
            ticket.sync() if sync else ticket.skip()
        return self.finish_flush(ticket)

    def add_segment(self, segment: Segment) -> None:
        """Append a segment that was just made. The caller activates it."""
        self.segments.append(segment)
        self.bases.append(segment.base_offset)
        self._names += 1

    def add_unsynced(self, paths: Sequence[Path], *, files: Sequence[LogFile] = ()) -> None:
        """The next flush fsyncs these too, and the folder with their names."""
        self._unsynced += files
        self._unsynced_paths += paths
        self._names += 1

    def close(self, *, sync: bool = True) -> None:
        """Flush everything, write indexes and the producer snapshot, and let go of the files.

        On return the log may be opened with `clean`, given that the recovery point is in its checkpoint. Without `sync`
        that is true once the caller has made the whole file system durable (`Disk.syncfs`).
        Raises: StorageError; the log is closed all the same, and must be opened as after a crash.
        """
        if self._closed:
            return
        try:
            self.check_usable()
            active = self._active
            if self._torn_tail:
                self.disk.ftruncate(active.file.fd, active.size_bytes)
            if self._max_index_entries != NOT_PREPARED:  # something was appended
                active.finish_time_index()
                self.add_unsynced(active.write_indexes())
            if self.log_end_offset > max(self.producers.snapshot_offset, 0):
                snapshot = write_snapshot(self.directory, self.log_end_offset, self.producers, self.disk)
                self.add_unsynced([snapshot])
            self.flush(sync=sync)
        except OSError as error:
            raise StorageError("cannot close the log in", self.directory, error) from error
        finally:
            self._closed = True
            self._failure = LogClosed("the log is closed:", self.directory)
            self.tail.clear()
            for segment in self.segments:
                segment.release()

    # -- reading -------------------------------------------------------------------------------------------

    def segment_index(self, offset: int) -> int:
        """Which of `segments` holds `offset`; 0 for one below the first."""
        return max(0, bisect_right(self.bases, offset) - 1)

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upper_bound_offset: int | None = None,
        min_one_batch: bool = True,
        copied: bool = False,
    ) -> ReadResult:
        """Whole batches from the one that holds `offset` on, at most `max_bytes` and below `upper_bound_offset`.

        With `min_one_batch` the first batch comes even if it is larger. The buffers may be views of mapped files:
        hand them to a socket and do not look into them. `copied` gives plain bytes that may be looked at.
        Raises: OffsetOutOfRange below the log start and beyond the log end; StorageError.
        """
        try:
            return log_reader.read(self, offset, max_bytes, upper_bound_offset, min_one_batch, copied)
        except OSError as error:
            raise StorageError("cannot read", self.directory, error) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record with a timestamp >= `timestamp` (ms), at or above the log start; None when there is none.

        Looks inside batches. Raises: StorageError, CorruptBatch.
        """
        return log_lookup.offset_for_timestamp(self, timestamp)

    def timestamp_at(self, offset: int) -> int:
        """About when the first record at or after `offset` was made (ms), from its batch's header; -1 when not known.

        Within a batch of many records it is reckoned between the first one's time and the latest. Reads one header.
        Raises: OffsetOutOfRange below the log start; StorageError.
        """
        try:
            return log_lookup.timestamp_at(self, offset)
        except OSError as error:
            raise StorageError("cannot read", self.directory, error) from error

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """The first record with the largest timestamp of all; None in a log without timestamps."""
        return log_lookup.offset_of_max_timestamp(self)

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that touch [`offset`, `upper_offset`), in the order of their markers."""
        return log_lookup.aborted_transactions(self, offset, upper_offset)

    # -- giving away ---------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that `offset` is the next to be written; a batch that holds it goes whole.

        Durable on return. Raises: StorageError.
        """
        self.check_usable()
        self._truncations += 1
        try:
            truncation.truncate_to(self, offset)
        except OSError as error:
            self._failure = StorageError("cannot truncate the log in", self.directory, error)
            raise self._failure from error
        self.recovery_point = min(self.recovery_point, offset)
        self.activate()

    def delete_records_before(self, offset: int) -> None:
        """Move the log start up to `offset`; its segments go with the next `apply_retention`.

        The owner keeps the log start in its checkpoint. Raises: OffsetOutOfRange above the log end.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[DeletedSegment]:
        """Give away segments that are too old, too many, or below the log start; say which and why.

        Their files are renamed and listed in `deleted_files` until `take_deleted_files`. Raises: StorageError.
        """
        self.check_usable()
        try:
            return [] if self._swapping else retention.apply(self, now_ms, high_watermark)
        except OSError as error:
            raise StorageError("cannot read", self.directory, error) from error

    def take_deleted_files(self) -> list[Path]:
        """The files that were renamed to `.deleted` since the last call. Unlink them with `files.remove_files`,
        in a thread, after `file.delete.delay.ms`; a start removes what was left.
        """
        files, self.deleted_files = self.deleted_files, []
        return files

    # -- compaction ----------------------------------------------------------------------------------------

    def dirty_range(self, checkpoint: int | None, now_ms: int, high_watermark: int) -> DirtyRange:
        """What a cleaning could do here; `checkpoint` is where the last one ended, None without one.

        Raises: StorageError.
        """
        self.check_usable()
        try:
            return cleaning.dirty_range(self, checkpoint, now_ms, high_watermark)
        except OSError as error:
            raise StorageError("cannot read", self.directory, error) from error

    def plan_cleaning(self, dirty: DirtyRange, now_ms: int, max_keys: int = cleaning.DEFAULT_MAX_KEYS) -> CleanPlan:
        """The plan for `cleaner.clean`, which may run in another process while this log goes on."""
        return cleaning.make_plan(self, dirty, now_ms, max_keys)

    def swap_in(self, result: CleanResult) -> bool:
        """Take over what a cleaning wrote, durably; False (and its files are removed) when the log was cut or lost
        segments meanwhile. Then `result.clean_end_offset` belongs into the cleaner checkpoint.

        Raises: StorageError; the log then refuses everything until opened anew, which finishes or undoes the swap.
        """
        swapping = self.begin_swap(result)
        try:
            swapping.prepare()
        except StorageError as error:
            self._failure = error
            raise
        done = self.finish_swap(swapping, result)
        swapping.settle()
        return done

    def begin_swap(self, result: CleanResult) -> swap.Swap:
        """`swap_in` in pieces, so that no fsync is waited for here: then `prepare()` in any thread, `finish_swap`, and
        `settle()` in any thread. Until `finish_swap` the log gives no segment away. Raises: StorageError.
        """
        self.check_usable()
        self._swapping = True
        return swap.Swap(self, result)

    def finish_swap(self, swapping: swap.Swap, result: CleanResult) -> bool:
        """What `swap_in` answers. Raises: StorageError, also when `prepare` failed; the log is unusable then."""
        self._swapping = False
        self.check_usable()
        if not swapping.prepared:
            self._failure = swapping.error or StorageError("was not swapped in:", self.directory)
            raise self._failure
        try:
            done = swapping.take()
        except StorageError as error:
            self._failure = error
            raise
        if done:
            # Memory must not serve what the files have lost.
            self.tail.drop_below(result.clean_end_offset)
        return done

    def release_unused(self) -> None:
        """Let go of descriptors, mappings and indexes of closed segments that nobody read since the last call."""
        unsynced = {file.path for file in self._unsynced}
        for segment in self.segments[:-1]:
            if not segment.was_read and segment.path(".log") not in unsynced:
                segment.release()
            segment.was_read = False
