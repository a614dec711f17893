"""What logs need in the background: fsyncs, checkpoints, retention, forgetting of producers and of deleted files.

Everything is a timer on the event loop; whatever waits for the disk goes to a worker thread, and compaction
(`broker.partitions.cleaning`) to a process. `stop` closes every log, writes the checkpoints and, when nothing at all
went wrong, the marker of a clean shutdown, last.

Source: Kafka's LogManager.
"""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from broker.partitions.cleaning import LogCleaning
from protocol.errors import KafkaError
from storage.errors import CorruptFile, StorageError
from storage.files import LogFile, remove_files
from storage.reading.checkpoints import HIGH_WATERMARK, LOG_START, RECOVERY_POINT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence
    from pathlib import Path

    from broker.config.settings import Settings
    from broker.loop.runtime import Runtime
    from broker.partitions import Partition, Partitions
    from broker.partitions.table import Key
    from storage.log.partition_log import PartitionLog

FLUSH_TICK_MS = 1_000
CLOSERS = 4
"""Threads that close logs side by side at a stop."""
LOGS_A_STEP = 32
MANY = 200
"""So many logs are closed without an fsync of each small file: one call makes the file system durable."""
log = get_logger(__name__)


class LogManager:
    """Keeps the logs of `partitions`."""

    def __init__(self, runtime: Runtime, partitions: Partitions, settings: Settings) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._settings = settings
        self._flushed_ms: dict[Partition, int] = {}  # since when a log holds what is not fsynced
        self._writing: set[str] = set()
        self._passing: set[str] = set()  # looks at all logs that are on their way
        self._stopped = False
        self._high_watermarks: dict[Key, int] = {}
        self._whole: dict[Path, LogFile] = {}
        self._recovered = False
        self._to_recover: list[Key] = []  # all that lay in unclean directories at the start
        self._started_ms = 0
        self.cleaning = LogCleaning(runtime, partitions, settings, self.remove_later)

    def start(self) -> None:
        """Begin. After a crash, also open (and so recover) every log, in worker threads."""
        self._high_watermarks = self._partitions.checkpoints.read(HIGH_WATERMARK)
        self._started_ms = self._runtime.now_ms()
        self._whole = _opened_for_syncing(self._partitions.directories)
        self._partitions.on_deleted.append(self._deleted)
        settings = self._settings
        flush_tick_ms = min(settings.log_flush_interval_ms or FLUSH_TICK_MS, FLUSH_TICK_MS)
        self._every("flush", flush_tick_ms, lambda: self._pass("flush", self._flush()))
        self._every(
            RECOVERY_POINT,
            settings.log_flush_offset_checkpoint_interval_ms,
            lambda: self._checkpoint(RECOVERY_POINT),
        )
        self._every(
            LOG_START,
            settings.log_flush_start_offset_checkpoint_interval_ms,
            lambda: self._checkpoint(LOG_START),
        )
        self._every(
            HIGH_WATERMARK,
            settings.replica_high_watermark_checkpoint_interval_ms,
            lambda: self._checkpoint(HIGH_WATERMARK),
        )
        self._every(
            "retention",
            settings.log_retention_check_interval_ms,
            lambda: self._pass("retention", self._retention()),
            first_ms=settings.log_initial_task_delay_ms,
        )
        self._every(
            "producers",
            settings.producer_id_expiration_check_interval_ms,
            lambda: self._pass("producers", self._expire_producers()),
        )
        self.cleaning.start()
        if self._partitions.recovers:
            self._to_recover = [
                (topic.name, index)
                for topic, index in self._partitions.unopened()
                if not self._partitions.is_offline(topic.name, index)
                and self._partitions.folder(topic.name, index).parent in self._partitions.unclean
            ]
            for _ in range(settings.num_recovery_threads_per_data_dir):
                self._recover_next()

    def _deleted(self, key: Key) -> None:
        self._high_watermarks.pop(key, None)

    def _every(self, name: str, interval_ms: int, work: Callable[[], None], *, first_ms: int | None = None) -> None:
        timers, key = self._runtime.timers, ("log_manager", name)
        interval_ms = max(interval_ms, 1)

        def run() -> None:
            if self._stopped:
                return
            timers.set(key, self._runtime.now_ms() + interval_ms, run)
            try:
                work()
            except Exception:
                # One odd log must not end the keeping of all the others.
                log.exception("log_keeping_failed", task=name)

        timers.set(key, self._runtime.now_ms() + (interval_ms if first_ms is None else first_ms), run)

    def _pass(self, name: str, steps: Generator[None, None, None]) -> None:
        """Look at all logs, a few in each turn of the loop, unless the last look of this kind is still on its way."""
        if name in self._passing:
            return
        self._passing.add(name)

        def failed(_: Exception) -> None:
            self._passing.discard(name)
            log.exception("log_keeping_failed", task=name)

        self._runtime.in_slices(
            steps,
            lambda _: self._passing.discard(name),
            failed,
            owner=(self, name),
            wanted=lambda: not self._stopped,
        )

    # -- recovery ------------------------------------------------------------------------------------------

    def _since_start_ms(self) -> int:
        return self._runtime.now_ms() - self._started_ms

    def _recover_next(self) -> None:
        if self._stopped:
            return
        following = next(self._partitions.unopened(), None)
        if following is not None:
            self._partitions.open_in_thread([following], self._recover_next)
        elif not self._recovered and not self._partitions.loading:
            self._recovered = True
            failed = len(self._partitions.failures)
            log.info("logs_recovered", logs=len(self._partitions), failed=failed, took_ms=self._since_start_ms())

    # -- flushing ------------------------------------------------------------------------------------------

    def _flush(self) -> Generator[None, None, None]:
        """Fsync what has been unsynced for `flush.ms`, or `log.flush.interval.ms` where the topic does not say."""
        now_ms = self._runtime.now_ms()
        before, self._flushed_ms = self._flushed_ms, {}
        default_ms = self._settings.log_flush_interval_ms
        tick_ms = FLUSH_TICK_MS // 2  # a tick that comes a moment early is not made to wait for the next one
        for count, partition in enumerate(self._partitions):
            if count % LOGS_A_STEP == LOGS_A_STEP - 1:
                yield
            if partition.error is not None or partition.log.log_end_offset <= partition.log.recovery_point:
                continue
            since = before.get(partition, now_ms)
            interval_ms = partition.settings.log.flush_ms
            if default_ms is not None and default_ms < interval_ms:
                interval_ms = default_ms if interval_ms >= 2**63 - 1 else interval_ms
            if now_ms - since + tick_ms >= interval_ms:
                self._partitions.flush(partition)
            else:
                self._flushed_ms[partition] = since

    # -- checkpoints ---------------------------------------------------------------------------------------

    def _offsets(self, name: str) -> dict[Key, int]:
        partitions = self._partitions
        if name == RECOVERY_POINT:
            offsets = dict(partitions.recovery_points)
            offsets.update(((p.topic, p.index), (p.held or p.log).recovery_point) for p in partitions)
        elif name == HIGH_WATERMARK:
            offsets = self._high_watermarks
            offsets.update(((p.topic, p.index), p.high_watermark) for p in partitions)
            offsets = dict(offsets)
        else:
            offsets = dict(partitions.log_starts)
            for partition in partitions:
                key = partition.topic, partition.index
                if partition.log.log_start_offset > partition.log.bases[0]:
                    offsets[key] = partition.log.log_start_offset
                else:
                    offsets.pop(key, None)
        return offsets

    def _checkpoint(self, name: str) -> None:
        if self._stopped or name in self._writing:
            return
        self._writing.add(name)
        checkpoints = self._partitions.checkpoints
        offsets, moment = self._offsets(name), checkpoints.moment()

        def failed(error: Exception) -> None:
            self._writing.discard(name)
            log.error("checkpoint_failed", file=name, error=str(error))

        self._runtime.in_thread(
            lambda: checkpoints.write(name, offsets, moment), lambda _: self._writing.discard(name), failed
        )

    # -- retention -----------------------------------------------------------------------------------------

    def _retention(self) -> Generator[None, None, None]:
        """Look at every log, opening those that nobody has asked for yet."""
        for topic, index in list(self._partitions.all()):
            try:
                partition = self._partitions.get(topic, index)
            except KafkaError:
                partition = None
            if partition is not None:
                partition.when_written(partial(self._retain, partition))
            yield

    def _retain(self, partition: Partition) -> None:
        if partition.error is not None or partition.held is not None or self._stopped:
            return
        partition_log = partition.log
        before = partition_log.log_start_offset
        try:
            deleted = partition_log.apply_retention(self._runtime.now_ms(), partition.high_watermark)
        except KafkaError as error:
            log.error("retention_failed", topic=partition.topic, partition=partition.index, error=str(error))
            return
        for segment in deleted:
            log.info(
                "segment_deleted",
                topic=partition.topic,
                partition=partition.index,
                base_offset=segment.base_offset,
                bytes=segment.size_bytes,
                because_of=segment.reason.value,
            )
        if partition_log.log_start_offset != before:
            partition.changed()
        self.remove_later(partition_log, partition.settings.log.file_delete_delay_ms)
        partition_log.release_unused()

    def remove_later(self, partition_log: PartitionLog, delay_ms: int) -> None:
        """Unlink the files that the log has renamed to `.deleted`, after `delay_ms`."""
        files = partition_log.take_deleted_files()
        if files:
            self._later(delay_ms, lambda: remove_files(files))

    def _later(self, delay_ms: int, work: Callable[[], None]) -> None:
        def start() -> None:
            self._runtime.in_thread(
                work, lambda _: None, lambda error: log.error("files_not_removed", error=str(error))
            )

        self._runtime.timers.set(("log_manager", "remove", id(work)), self._runtime.now_ms() + delay_ms, start)

    def _expire_producers(self) -> Generator[None, None, None]:
        now_ms = self._runtime.now_ms()
        expiration_ms = self._settings.producer_id_expiration_ms
        for partition in self._partitions:
            yield
            partition.log.producers.expire(now_ms, expiration_ms)

    # -- the end -------------------------------------------------------------------------------------------

    def stop(self, mark_clean: Callable[[Path], None], done: Callable[[bool], None]) -> None:
        """Close every log, write the checkpoints, then `mark_clean(directory)`; at last `done(whether all were clean)`.

        Nothing may be appended any more. A log that failed, or whose closing fails, leaves the marker of its directory
        unwritten: the next start then recovers, from the recovery points that were reached.
        """
        self._stopped = True
        self.cleaning.stop()
        self._partitions.flusher.stop()
        self._partitions.writer.stop()
        partitions = list(self._partitions)
        self._partitions.disks.stop()
        unclean = set(self._partitions.disks.offline)
        # The log that counts is not the one that is closed.
        unclean.update(one.held.directory.parent for one in partitions if one.held is not None)
        # What has not been recovered yet must be at the next start, also in a directory where nothing is loading now.
        unrecovered = [key for key in self._to_recover if self._partitions.opened(*key) is None]
        for key in (*self._partitions.failures, *self._partitions.loading, *unrecovered):
            # One that was deleted while it was opened has no folder any more.
            if self._partitions.has(*key) and not self._partitions.is_offline(*key):
                unclean.add(self._partitions.folder(*key).parent)
        whole = {} if len(partitions) <= MANY else self._whole.copy()
        for directory in self._partitions.disks.returned:
            whole.pop(directory, None)  # what is open there may be the disk that was before
        # Closing is waiting for the disk, and the file system serves several who wait at once.
        shares = [share for at in range(CLOSERS) if (share := partitions[at::CLOSERS])]
        missing = len(shares)

        def closed(failed: set[Path]) -> None:
            nonlocal missing
            unclean.update(failed)
            missing -= 1
            if missing <= 0:
                self._runtime.in_thread(lambda: self._write_last(unclean, mark_clean, whole), done, broken)

        def broken(error: Exception) -> None:
            log.error("shutdown_not_clean", error=str(error))
            done(False)

        for share in shares:
            self._runtime.in_thread(partial(_close, share, whole), closed, broken)
        if not shares:
            closed(set())

    def _write_last(
        self, unclean: set[Path], mark_clean: Callable[[Path], None], whole: Mapping[Path, LogFile]
    ) -> bool:
        checkpoints = self._partitions.checkpoints
        names = RECOVERY_POINT, LOG_START, HIGH_WATERMARK
        moments = {name: (self._offsets(name), checkpoints.moment()) for name in names}
        offline = self._partitions.disks.offline
        clean = not offline
        for directory in self._partitions.directories:
            if directory in offline:
                continue
            try:
                if directory in whole:
                    whole[directory].sync_file_system()
                for name, (offsets, moment) in moments.items():
                    checkpoints.write_in(directory, name, offsets, moment)
                if directory in unclean:
                    clean = False
                else:
                    mark_clean(directory)
            except (StorageError, CorruptFile, OSError) as error:
                log.error("shutdown_not_clean", directory=str(directory), error=str(error))
                clean = False
        return clean


def _opened_for_syncing(directories: Sequence[Path]) -> dict[Path, LogFile]:
    """The directories, held open so that `syncfs` tells of all that fails from now on; none where it would not.

    Linux reports a failed write-back through `syncfs` since 5.8.
    """
    if sys.platform != "linux":
        return {}
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release is None or (int(release[1]), int(release[2])) < (5, 8):
        return {}
    return {directory: LogFile(directory, os.O_RDONLY) for directory in directories}


def _close(partitions: list[Partition], whole: Collection[Path]) -> set[Path]:
    """Close these logs, durably unless they lie in one of `whole`; the directories where that did not go well.

    In a worker thread.
    """
    unclean = set()
    for partition in partitions:
        directory = partition.log.directory.parent
        if partition.error is not None:
            partition.log.abandon()  # whoever has the directory next must not be written to
            unclean.add(directory)
            continue
        try:
            partition.log.close(sync=directory not in whole)
        except Exception as error:
            unclean.add(directory)
            log.error("log_not_closed", topic=partition.topic, partition=partition.index, error=str(error))
    return unclean
