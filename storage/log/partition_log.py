"""The log of one partition: append, read, look up, flush, cut, and give old segments away.

Synchronous and single-threaded: only the owner's thread may call it, except `FlushTicket.sync`, `Placed.write` and
`abandon`. Nothing here waits, logs or reads a clock. What is appended is readable at once and survives the death of the
process; it survives a power loss from the recovery point down, which a flush moves up.

Always true:
- log start <= every readable offset < log end; offsets rise, gaps are legal;
- a call that raises leaves the log as it was, but for an empty segment it may have started;
- the recovery point never passes the log end, and everything below it was fsynced.

What is known of a log and how it becomes durable is its `LogState`, appending is its `Appender`'s; what is long of the
rest are functions of the state, in modules of their own.

Source: Kafka's UnifiedLog, LocalLog, LogSegments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.clean import cleaning, swap
from storage.errors import LogClosed, OffsetOutOfRange, StorageError
from storage.files import DISK, Disk
from storage.log import log_lookup, log_reader, retention, truncation
from storage.log.appending import Appender
from storage.log.log_lookup import TimestampedOffset
from storage.log.log_reader import ReadResult
from storage.recovery.load import load
from storage.state.flush import FlushTicket
from storage.state.log_state import LogState
from storage.state.producer_snapshot import write_snapshot
from storage.state.recovery_report import RecoveryReport
from storage.state.tail import TailBudget

if TYPE_CHECKING:
    from pathlib import Path

    from storage.clean.cleaner import CleanResult
    from storage.clean.cleaning import CleanPlan, DirtyRange
    from storage.log.log_lookup import Search
    from storage.log.placed import Placed
    from storage.log.retention import DeletedSegment
    from storage.reading.batches import Parted
    from storage.reading.transaction_index import AbortedTransaction
    from storage.state.leader_epochs import LeaderEpochs
    from storage.state.log_config import LogConfig
    from storage.state.producer_state import ProducerState
    from storage.state.segment import Segment

__all__ = ["FlushTicket", "PartitionLog", "ReadResult", "TimestampedOffset"]

SHARED_TAIL = TailBudget()


class PartitionLog:
    """One partition's log, open. Make it with `open`. It has a state, which others read, and an appender.

    `append`, `append_assigned` and `roll` are the appender's own.
    """

    __slots__ = ("_appender", "append", "append_assigned", "roll", "state")

    def __init__(self, state: LogState) -> None:
        self.state = state
        self._appender = Appender(state)
        self.append = self._appender.append
        self.append_assigned = self._appender.append_assigned
        self.roll = self._appender.roll

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
        tail: TailBudget | None = SHARED_TAIL,
    ) -> PartitionLog:
        """The log in `directory`, made there when the folder is empty; the folder itself must exist.

        `clean`: the last shutdown was clean, so no batch is looked at but the last few headers. Otherwise every
        batch from the segment of `recovery_point` on is checked, and the log is cut at the first bad one; `recovery`
        then tells what was done. `log_start_offset` comes from its checkpoint, 0 when it has no entry.
        With a `tail` the newest batches are kept in memory for readers who wait for them.

        Fewer than `config.flush_messages` records are beyond the recovery point on return: a tail that is longer, left
        in the page cache by whoever had the log before, is fsynced first. Whoever is served by this log may be told of
        all that it holds.

        Raises: StorageError; CorruptFile when `leader-epoch-checkpoint` or a file name cannot be understood.
        """
        state = LogState(directory, config, disk, tail)
        try:
            load(
                state,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                now_ms=now_ms,
            )
        except OSError as error:
            raise StorageError("cannot open the log in", directory, error) from error
        log = cls(state)
        if state.log_end_offset - state.recovery_point >= config.flush_messages:
            state.flush()
        return log

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        """The partition's folder."""
        return self.state.directory

    @property
    def log_dir(self) -> str:
        """What tells its log directory from others: the path as text, which costs less to make and to look up."""
        return str(self.state.directory).rpartition("/")[0]

    @property
    def config(self) -> LogConfig:
        """The settings in force, which may be replaced at any time."""
        return self.state.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._appender.configure(config)

    @property
    def log_start_offset(self) -> int:
        """The first offset kept."""
        return self.state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.state.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Everything below it is durable."""
        return self.state.recovery_point

    @property
    def segments(self) -> list[Segment]:
        """The oldest first; the last is the active one."""
        return self.state.segments

    @property
    def bases(self) -> list[int]:
        """The base offsets of the segments."""
        return self.state.bases

    @property
    def epochs(self) -> LeaderEpochs:
        """Which leader epoch began at which offset."""
        return self.state.epochs

    @property
    def producers(self) -> ProducerState:
        """What is remembered of each producer."""
        return self.state.producers

    @property
    def recovery(self) -> RecoveryReport:
        """What opening the log changed on disk, until `forget_recovery`."""
        return self.state.recovery

    def forget_recovery(self) -> None:
        """What opening the log changed was told. A report names each file that was looked at."""
        self.state.recovery = RecoveryReport()

    @property
    def size_bytes(self) -> int:
        """Bytes in the batches of all segments."""
        return self.state.size_bytes

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch in the log, -1 when none is known."""
        return self.state.epochs.latest

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None when none is open."""
        return self.state.first_unstable_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where read_committed ends: no transaction below it is undecided. Never below the log start."""
        return self.state.last_stable_offset(high_watermark)

    def check_usable(self) -> None:
        """Raise what stops this log for good: it was closed, or an fsync has failed. Raises: StorageError."""
        self.state.check_usable()

    # -- appending what another thread writes --------------------------------------------------------------

    def place(self, batch: bytearray | memoryview | Parted, *, leader_epoch: int, now_ms: int = -1) -> Placed:
        """The first half of `append`: the batch has its offset, and is to be written by `placed.write()` in any thread.

        Nobody sees it before `finish`. Raises: as `append`.
        """
        return self._appender.place(batch, leader_epoch=leader_epoch, now_ms=now_ms)

    def place_behind(self, placed: Placed, batch: bytearray | memoryview | Parted) -> bool:
        """Have `batch` written together with those that are placed; False when it has to wait for the next time."""
        return self._appender.place_behind(placed, batch)

    def finish(self, placed: Placed) -> None:
        """The second half, of all that were placed together. Raises: StorageError when the disk refused, and then the
        log is as before.
        """
        self._appender.finish(placed)

    def settle(self) -> None:
        """Finish what is placed, if anything is; blocks until it is written. Whatever appends does this first."""
        self._appender.settle()

    def abandon(self) -> None:
        """The log is about to be opened anew: on return nobody writes to it, nor will. In any thread; may block."""
        self._appender.abandon()

    # -- making it durable ---------------------------------------------------------------------------------

    def begin_flush(self) -> FlushTicket:
        """Everything up to the log end, to be fsynced by `ticket.sync()` in any thread and then `finish_flush`."""
        return self.state.begin_flush()

    def finish_flush(self, ticket: FlushTicket) -> int:
        """Take over what `ticket.sync()` achieved; return the recovery point.

        Raises: StorageError when the sync failed or never ran; the log then refuses everything until opened anew.
        """
        return self.state.finish_flush(ticket)

    def flush(self, *, sync: bool = True) -> int:
        """The three calls at once, in this thread; return the recovery point. Raises: StorageError."""
        return self.state.flush(sync=sync)

    def close(self, *, sync: bool = True) -> None:
        """Flush everything, write indexes and the producer snapshot, and let go of the files.

        On return the log may be opened with `clean`, given that the recovery point is in its checkpoint. Without `sync`
        that is true once the caller has made the whole file system durable (`Disk.syncfs`).
        Raises: StorageError; the log is closed all the same, and must be opened as after a crash.
        """
        if self.state.closed:
            return
        try:
            self.state.check_usable()
            self.settle()
            active = self.state.active
            self.state.cut_torn_tail()
            if self._appender.has_appended:
                active.finish_time_index()
                self.state.add_unsynced(active.write_indexes())
            if self.state.log_end_offset > max(self.state.producers.snapshot_offset, 0):
                snapshot = write_snapshot(
                    self.state.directory, self.state.log_end_offset, self.state.producers, self.state.disk
                )
                self.state.add_unsynced([snapshot])
            self.state.flush(sync=sync)
        except OSError as error:
            raise StorageError("cannot close the log in", self.state.directory, error) from error
        finally:
            self.state.closed = True
            self.state.give_up(LogClosed("the log is closed:", self.state.directory))
            self.state.tail.clear()
            for segment in self.state.segments:
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
            return log_reader.read(self.state, offset, max_bytes, upper_bound_offset, min_one_batch, copied)
        except OSError as error:
            raise StorageError("cannot read", self.state.directory, error) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record with a timestamp >= `timestamp` (ms), at or above the log start; None when there is none.

        Looks inside batches. Raises: StorageError, CorruptBatch.
        """
        return log_lookup.found(self.timestamp_search(timestamp))

    def timestamp_search(self, timestamp: int) -> Search:
        """`offset_for_timestamp` in steps: what is yielded may be run in another thread, the steps themselves not."""
        return log_lookup.timestamp_search(self.state, timestamp)

    def timestamp_at(self, offset: int) -> int:
        """About when the first record at or after `offset` was made (ms), from its batch's header; -1 when not known.

        Within a batch of many records it is reckoned between the first one's time and the latest. Reads one header.
        Raises: OffsetOutOfRange below the log start; StorageError.
        """
        try:
            return log_lookup.timestamp_at(self.state, offset)
        except OSError as error:
            raise StorageError("cannot read", self.state.directory, error) from error

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """The first record with the largest timestamp of all; None in a log without timestamps."""
        return log_lookup.found(self.max_timestamp_search())

    def max_timestamp_search(self) -> Search:
        """`offset_of_max_timestamp` in steps, as `timestamp_search`."""
        return log_lookup.max_timestamp_search(self.state)

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that touch [`offset`, `upper_offset`), in the order of their markers."""
        return log_lookup.aborted_transactions(self.state, offset, upper_offset)

    # -- giving away ---------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that `offset` is the next to be written; a batch that holds it goes whole.

        Durable on return. Raises: StorageError.
        """
        self.settle()
        self.state.check_usable()
        self.state.truncations += 1
        try:
            truncation.truncate_to(self.state, offset)
        except OSError as error:
            refused = StorageError("cannot truncate the log in", self.state.directory, error)
            raise self.state.give_up(refused) from error
        self.state.recovery_point = min(self.state.recovery_point, offset)
        self._appender.truncated()

    def delete_records_before(self, offset: int) -> None:
        """Move the log start up to `offset`; its segments go with the next `apply_retention`.

        The owner keeps the log start in its checkpoint. Raises: OffsetOutOfRange above the log end.
        """
        if offset > self.state.log_end_offset:
            raise OffsetOutOfRange(
                offset, log_start_offset=self.state.log_start_offset, log_end_offset=self.state.log_end_offset
            )
        if offset > self.state.log_start_offset:
            self.state.log_start_offset = offset
            self.state.epochs.truncate_from_start(offset)

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[DeletedSegment]:
        """Give away segments that are too old, too many, or below the log start; say which and why.

        Their files are renamed and listed in `deleted_files` until `take_deleted_files`. Raises: StorageError.
        """
        self.settle()  # what no batch is left of is not what one is on its way to
        self.state.check_usable()
        try:
            return [] if self.state.swapping else retention.apply(self.state, now_ms, high_watermark, self.roll)
        except OSError as error:
            raise StorageError("cannot read", self.state.directory, error) from error

    def take_deleted_files(self) -> list[Path]:
        """The files that were renamed to `.deleted` since the last call. Unlink them with `files.remove_files`,
        in a thread, after `file.delete.delay.ms`; a start removes what was left.
        """
        files, self.state.deleted_files = self.state.deleted_files, []
        return files

    # -- compaction ----------------------------------------------------------------------------------------

    def dirty_range(self, checkpoint: int | None, now_ms: int, high_watermark: int) -> DirtyRange:
        """What a cleaning could do here; `checkpoint` is where the last one ended, None without one.

        Raises: StorageError.
        """
        self.state.check_usable()
        try:
            return cleaning.dirty_range(self.state, checkpoint, now_ms, high_watermark)
        except OSError as error:
            raise StorageError("cannot read", self.state.directory, error) from error

    def plan_cleaning(self, dirty: DirtyRange, now_ms: int, max_keys: int = cleaning.DEFAULT_MAX_KEYS) -> CleanPlan:
        """The plan for `cleaner.clean`, which may run in another process while this log goes on."""
        return cleaning.make_plan(self.state, dirty, now_ms, max_keys)

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
                self.state.give_up(error)
                raise
            done = self.finish_swap(swapping, result)
        swapping.settle()
        return done

    def begin_swap(self, result: CleanResult) -> swap.Swap:
        """`swap_in` in pieces, so that no fsync is waited for here: `prepare()` in any thread and `finish_swap`, until
        that has an answer, then `settle()` in any thread. Up to that answer the log gives no segment away.

        Raises: StorageError.
        """
        self.state.check_usable()
        self.state.swapping = True
        return swap.Swap(self.state, result)

    def finish_swap(self, swapping: swap.Swap, result: CleanResult) -> bool | None:
        """What `swap_in` answers; None when there is more to `prepare` and to finish.

        Raises: StorageError, also when `prepare` failed; the log is unusable then.
        """
        self.state.check_usable()
        if not swapping.prepared:
            raise self.state.give_up(swapping.error or StorageError("was not swapped in:", self.state.directory))
        if swapping.possible:
            # Memory must not serve what the files have lost.
            self.state.tail.drop_below(result.clean_end_offset)
        try:
            complete = swapping.take()
        except StorageError as error:
            self.state.give_up(error)
            raise
        if not complete:
            return None
        self.state.swapping = False
        return swapping.possible

    def release_unused(self) -> None:
        """Let go of descriptors, mappings and indexes of closed segments that nobody read since the last call."""
        unsynced = self.state.unsynced_paths()
        for segment in self.state.segments[:-1]:
            if not segment.was_read and segment.path(".log") not in unsynced:
                segment.release()
            segment.was_read = False
