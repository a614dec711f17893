"""When compacted logs are cleaned, and by whom: one pass at a time, in a process of its own.

The event loop makes the plan, the process writes new segments beside the old ones, and the event loop swaps them in. As
long as there is something to clean the next pass follows at once; otherwise the logs are looked at again after
`log.cleaner.backoff.ms`.

A log that a pass cannot make sense of is given up until the next start, by name. When the disk refuses, the pass is
tried again after a while: a compacted log that is never cleaned again would fill the disk that was full once.

Source: Kafka's LogCleaner, LogCleanerManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.loop.logs import get_logger
from protocol.errors import KafkaError
from storage.clean.cleaning import max_keys
from storage.errors import StorageError
from storage.reading.checkpoints import CLEANER

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from broker.config.settings import Settings
    from broker.loop.runtime import Runtime
    from broker.partitions import Partition, Partitions
    from broker.partitions.table import Key
    from storage.clean.cleaner import CleanResult
    from storage.clean.cleaning import CleanPlan, DirtyRange
    from storage.clean.swap import Swap
    from storage.log.partition_log import PartitionLog

_DISK_RETRY_MS = 60_000

log = get_logger(__name__)


def durable_end(partition: Partition) -> int:
    """Up to where `partition` may be cleaned: what is committed, and on the disk.

    A clean removes a value for the sake of a later one. A power loss that took the later one alone would leave neither,
    though the first was fsynced long ago.
    """
    return min(partition.high_watermark, partition.log.recovery_point)


class _Pass(NamedTuple):
    """What a pass has written, on its way into its log."""

    partition: Partition
    log: PartitionLog
    swapping: Swap
    result: CleanResult

    @property
    def is_void(self) -> bool:
        """Is the log no longer there, or loaded anew? A start has removed, or finished, what the pass wrote."""
        return self.partition.error is not None or self.partition.log is not self.log


class LogCleaning:
    """Cleans the compacted logs of `partitions`."""

    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        settings: Settings,
        remove_later: Callable[[PartitionLog, int], None],
    ) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._settings = settings
        self._remove_later = remove_later
        self._cleaned: dict[Key, int] = {}  # the checkpoint: up to where each log is clean
        self._uncleanable: set[Key] = set()
        self._refused: dict[Key, int] = {}  # by the disk: tried again from this moment (ms) on
        self._looking = False
        self._best: tuple[Partition, DirtyRange] | None = None
        self._running = False
        self._at: Partition | None = None  # of the pass that is running
        self._stopped = False
        self._writing = False
        self._unwritten = False
        # Since the start, for metrics.
        self.passes = 0
        self.busy_ms = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self._began_ms = 0

    @property
    def uncleanable(self) -> int:
        """Logs that are given up until the next start."""
        return len(self._uncleanable)

    def is_on(self, partition: Partition) -> bool:
        """Whether a pass is on this log now."""
        return self._running and self._at is partition

    def moved(self, partition: Partition) -> None:
        """A log lies in another directory: its checkpoint goes there too."""
        if (partition.topic, partition.index) in self._cleaned:
            self._write_checkpoint()

    def start(self) -> None:
        """Begin, a while after the broker has. Raises: CorruptFile."""
        self._cleaned = self._partitions.checkpoints.read(CLEANER)
        self._partitions.on_deleted.append(self._deleted)
        if self._settings.log_cleaner_enable:
            self._look_after(self._settings.log_initial_task_delay_ms)

    def stop(self) -> None:
        """Begin nothing more. What a running pass has written is thrown away."""
        self._stopped = True
        self._runtime.timers.cancel(("log_cleaning",))

    def _deleted(self, key: Key) -> None:
        # Another topic of this name begins anew.
        self._cleaned.pop(key, None)
        self._uncleanable.discard(key)
        self._refused.pop(key, None)

    def _look_after(self, delay_ms: int) -> None:
        self._runtime.timers.set(("log_cleaning",), self._runtime.now_ms() + max(delay_ms, 1), self.look)

    def look(self) -> None:
        """Clean the log with the largest dirty share, if one is due. Logs are looked at in slices."""
        if self._stopped or self._running or self._looking:
            return
        self._best = None
        self._looking = True
        self._runtime.in_slices(
            self._look_at_all(), self._looked, self._look_failed, owner=self, wanted=lambda: not self._stopped
        )

    def _looked(self, _: None) -> None:
        self._looking = False
        self._decide()

    def _look_failed(self, _: Exception) -> None:
        # One odd log must not end the cleaning of all the others.
        log.exception("cleaner_failed")
        self._looking = False
        self._look_after(self._settings.log_cleaner_backoff_ms)

    def _look_at_all(self) -> Generator[None, None, None]:
        """Remember in `_best` the dirtiest log that is due. Opens the logs that nobody has asked for yet."""
        for key in self._partitions.compacted():
            if key not in self._uncleanable:
                found = self._dirty(key)
                if found is not None and (self._best is None or found[1].ratio > self._best[1].ratio):
                    self._best = found
            yield

    def _dirty(self, key: Key) -> tuple[Partition, DirtyRange] | None:
        """What is to be cleaned of a log, None when nothing is due."""
        try:
            partition = self._partitions.get(*key)
            if partition is None or partition.error is not None or key in self._partitions.moving:
                return None
            if partition.log.recovery_point < partition.log.bases[-1]:
                self._partitions.flush(partition)  # closed segments that may be cleaned the next time
            dirty = partition.log.dirty_range(self._cleaned.get(key), self._runtime.now_ms(), durable_end(partition))
        except KafkaError:
            return None  # being loaded, or failed: said elsewhere
        if dirty.checkpoint_reset:
            self._correct(key, dirty.first_dirty)
        due = dirty.is_eligible(partition.settings.log.min_cleanable_dirty_ratio)
        return (partition, dirty) if due else None

    def _decide(self) -> None:
        best, self._best = self._best, None
        # Looked at again: the log may have been cut or deleted since, by a turn in between.
        chosen = None if best is None else self._dirty((best[0].topic, best[0].index))
        if chosen is not None:
            try:
                self._begin(*chosen)
            except Exception:
                log.exception("cleaner_failed")
                self._uncleanable.add((chosen[0].topic, chosen[0].index))
        if not self._running:
            self._look_after(self._settings.log_cleaner_backoff_ms)

    def _correct(self, key: Key, first_dirty: int) -> None:
        """The checkpoint lies outside of the log. Left, it would call clean what comes to lie below it later."""
        log.warning(
            "cleaner_checkpoint_corrected",
            topic=key[0],
            partition=key[1],
            was=self._cleaned[key],
            first_dirty_offset=first_dirty,
        )
        self._cleaned[key] = first_dirty
        self._write_checkpoint()

    def _begin(self, partition: Partition, dirty: DirtyRange) -> None:
        from storage.clean.cleaner import clean  # noqa: PLC0415  start-up does not pay for it

        settings = self._settings
        limit = max_keys(settings.log_cleaner_dedupe_buffer_size, settings.log_cleaner_io_buffer_load_factor)
        plan: CleanPlan = partition.log.plan_cleaning(dirty, self._runtime.now_ms(), limit)
        self._running, self._at = True, partition
        self._began_ms = self._runtime.now_ms()
        cleaned_log = partition.log
        self._runtime.in_process(
            clean,
            (plan,),
            lambda result: self._done(partition, cleaned_log, result),
            lambda error: self._failed(partition, error),
        )

    def _done(self, partition: Partition, cleaned_log: PartitionLog, result: CleanResult) -> None:
        self._running = False
        self.passes += 1
        self.busy_ms += self._runtime.now_ms() - self._began_ms
        self.bytes_read += result.bytes_read
        self.bytes_written += result.bytes_written
        if self._stopped:
            return
        if partition.error is not None or partition.log is not cleaned_log:
            self._look_after(1)  # deleted, or loaded anew: then the start has removed what the pass wrote
            return
        try:
            swapping = cleaned_log.begin_swap(result)
        except KafkaError as error:
            partition.fail(error)
            self._look_after(1)
            return
        self._running = True
        self._prepare(_Pass(partition, cleaned_log, swapping, result))

    def _prepare(self, done: _Pass) -> None:
        """Make the next output durable under the name that a start goes forward with, then take it."""

        def prepared(_: object = None) -> None:
            if self._stopped:
                self._running = False
            else:
                self._take(done)

        self._runtime.in_thread(done.swapping.prepare, prepared, prepared)

    def _take(self, done: _Pass) -> None:
        if done.is_void:
            self._end()
            return
        try:
            swapped = done.log.finish_swap(done.swapping, done.result)
        except Exception as error:
            self._swap_failed(done, error)
            return
        if swapped is None:
            self._prepare(done)
        elif not swapped:
            self._end()
        else:
            self._runtime.in_thread(
                done.swapping.settle, lambda _: self._settled(done), lambda error: self._swap_failed(done, error)
            )

    def _swap_failed(self, done: _Pass, error: Exception) -> None:
        if not isinstance(error, KafkaError):
            log.exception("cleaner_failed", exc_info=error)
        done.partition.fail(error)
        self._end()

    def _end(self) -> None:
        self._running = False
        self._look_after(1)

    def _settled(self, done: _Pass) -> None:
        """The checkpoint, not before the new names are durable: without them what it calls clean may be there again."""
        partition, result = done.partition, done.result
        if not (done.is_void or self._stopped):
            key = partition.topic, partition.index
            self._cleaned[key] = result.clean_end_offset
            self._refused.pop(key, None)
            self._write_checkpoint()
            self._remove_later(done.log, partition.settings.log.file_delete_delay_ms)
            log.info(
                "log_cleaned",
                topic=partition.topic,
                partition=partition.index,
                bytes_read=result.bytes_read,
                bytes_written=result.bytes_written,
                clean_to_offset=result.clean_end_offset,
            )
        self._end()

    def _failed(self, partition: Partition, error: Exception) -> None:
        from broker.loop.worker import WorkerDied  # noqa: PLC0415  start-up does not pay for it

        self._running = False
        if self._stopped:
            return
        if partition.error is not None:
            pass  # deleted or failed meanwhile: its files were taken from under the pass
        elif isinstance(error, WorkerDied):
            # Somebody killed the process; the log is not to blame.
            log.warning("cleaner_died", topic=partition.topic, partition=partition.index)
        elif isinstance(error, (OSError, StorageError)):
            key = partition.topic, partition.index
            if key not in self._refused:  # once, not for every try
                log.error(
                    "log_not_cleaned", topic=key[0], partition=key[1], error=str(error), again_in_ms=_DISK_RETRY_MS
                )
            self._refused[key] = self._runtime.now_ms() + _DISK_RETRY_MS
        else:
            self._uncleanable.add((partition.topic, partition.index))
            log.error(
                "log_uncleanable_until_restart",
                topic=partition.topic,
                partition=partition.index,
                error=f"{type(error).__name__}: {error}",
            )
        self._look_after(self._settings.log_cleaner_backoff_ms)

    def _write_checkpoint(self) -> None:
        if self._writing:
            self._unwritten = True
            return
        self._writing, self._unwritten = True, False
        checkpoints = self._partitions.checkpoints
        offsets, moment = dict(self._cleaned), checkpoints.moment()

        def written(_: None) -> None:
            self._writing = False
            if self._unwritten:
                self._write_checkpoint()

        def failed(error: Exception) -> None:
            # Lost, it costs the next start a pass over what is clean already.
            self._writing = False
            log.error("checkpoint_failed", file=CLEANER, error=str(error))

        self._runtime.in_thread(lambda: checkpoints.write(CLEANER, offsets, moment), written, failed)
