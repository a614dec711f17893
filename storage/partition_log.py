"""The log of one partition: append, read, look up, flush, cut, and give old segments away.

Synchronous and single-threaded: only the owner's thread may call it, except `FlushTicket.sync`. Nothing here waits,
logs or reads a clock. What is appended is readable at once and survives the death of the process; it survives a
power loss from the recovery point down, which a flush moves up.

Always true:
- log start <= every readable offset < log end; offsets rise, gaps are legal;
- a call that raises leaves the log as it was, but for an empty segment it may have started;
- the recovery point never passes the log end, and everything below it was fsynced.

Flushing is in `log_state`, appending in `log_writing`; what is long of the rest is in modules of its own.

Source: Kafka's UnifiedLog, LocalLog, LogSegments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import cleaning, log_lookup, log_reader, retention, swap, truncation
from storage.errors import LogClosed, OffsetOutOfRange, StorageError
from storage.files import DISK, Disk
from storage.flush import FlushTicket
from storage.log_lookup import TimestampedOffset
from storage.log_reader import ReadResult
from storage.log_state import NOT_PREPARED
from storage.log_writing import WritableLog
from storage.producer_snapshot import write_snapshot
from storage.recovery import load
from storage.tail import TailBudget

if TYPE_CHECKING:
    from pathlib import Path

    from storage.cleaner import CleanResult
    from storage.cleaning import CleanPlan, DirtyRange
    from storage.log_config import LogConfig
    from storage.log_lookup import Search
    from storage.retention import DeletedSegment
    from storage.transaction_index import AbortedTransaction

__all__ = ["FlushTicket", "PartitionLog", "ReadResult", "TimestampedOffset"]

SHARED_TAIL = TailBudget()


class PartitionLog(WritableLog):
    """One partition's log, open. Make it with `open`.

    `config` may be replaced at any time. `segments` and `bases` (their base offsets) are for the room's own modules.
    """

    __slots__ = ()

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

        Fewer than `config.flush_messages` records are beyond the recovery point on return: a tail that is longer, left
        in the page cache by whoever had the log before, is fsynced first. Whoever is served by this log may be told of
        all that it holds.

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
        if log.log_end_offset - log.recovery_point >= config.flush_messages:
            log.flush()
        return log

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
            self.cut_torn_tail()
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
        return log_lookup.found(self.timestamp_search(timestamp))

    def timestamp_search(self, timestamp: int) -> Search:
        """`offset_for_timestamp` in steps: what is yielded may be run in another thread, the steps themselves not."""
        return log_lookup.timestamp_search(self, timestamp)

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
        return log_lookup.found(self.max_timestamp_search())

    def max_timestamp_search(self) -> Search:
        """`offset_of_max_timestamp` in steps, as `timestamp_search`."""
        return log_lookup.max_timestamp_search(self)

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
        done = None
        while done is None:
            try:
                swapping.prepare()
            except StorageError as error:
                self._failure = error
                raise
            done = self.finish_swap(swapping, result)
        swapping.settle()
        return done

    def begin_swap(self, result: CleanResult) -> swap.Swap:
        """`swap_in` in pieces, so that no fsync is waited for here: `prepare()` in any thread and `finish_swap`, until
        that has an answer, then `settle()` in any thread. Up to that answer the log gives no segment away.

        Raises: StorageError.
        """
        self.check_usable()
        self._swapping = True
        return swap.Swap(self, result)

    def finish_swap(self, swapping: swap.Swap, result: CleanResult) -> bool | None:
        """What `swap_in` answers; None when there is more to `prepare` and to finish.

        Raises: StorageError, also when `prepare` failed; the log is unusable then.
        """
        self.check_usable()
        if not swapping.prepared:
            self._failure = swapping.error or StorageError("was not swapped in:", self.directory)
            raise self._failure
        if swapping.possible:
            # Memory must not serve what the files have lost.
            self.tail.drop_below(result.clean_end_offset)
        try:
            complete = swapping.take()
        except StorageError as error:
            self._failure = error
            raise
        if not complete:
            return None
        self._swapping = False
        return swapping.possible

    def release_unused(self) -> None:
        """Let go of descriptors, mappings and indexes of closed segments that nobody read since the last call."""
        unsynced = {file.path for file in self._unsynced}
        for segment in self.segments[:-1]:
            if not segment.was_read and segment.path(".log") not in unsynced:
                segment.release()
            segment.was_read = False
