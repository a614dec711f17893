"""Batches that take long to look into: looked into by worker threads, appended on the loop in the order they came in.

One batch of a partition is looked at at a time, so that its log has the order of the requests, on which the sequences
of idempotent producers rest; partitions take turns. Few run side by side: what each may decompress is held in memory,
and the threads are those that fsync.

Source: what Kafka's request handler threads do in UnifiedLog.append, under the partition's lock.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from broker.partitions.validation import prepare
from protocol.errors import KafkaError
from protocol.records.batch import DECOMPRESSED_LIMIT_BYTES

if TYPE_CHECKING:
    from broker.loop.runtime import Runtime
    from broker.partitions.partition import Partition, Unchecked
    from protocol.records.batch import BatchHeader

AT_ONCE = 2

log = get_logger(__name__)


class UnexpectedFailure(KafkaError):
    """A fault of ours while a batch was looked into; its trace is in the log."""


USUAL_BYTES = 64 << 20
"""What one batch may be decompressed to where its topic does not take batches that are larger than that."""


class Checks:
    """What waits for a thread, of all partitions. `limit_bytes`: what one batch may be decompressed to at most."""

    def __init__(self, runtime: Runtime, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> None:
        self._runtime = runtime
        self.limit_bytes = limit_bytes
        self._turns: deque[Partition] = deque()  # those with a batch that nobody looks at yet
        self._running = 0

    def add(self, partition: Partition, batch: Unchecked) -> None:
        """Look into `batch` and append it when those of `partition` before it are done with."""
        partition.unchecked.append(batch)
        if len(partition.unchecked) == 1:
            self._turns.append(partition)
            self._start()

    def _start(self) -> None:
        while self._turns and self._running < AT_ONCE:
            self._running += 1
            self._look_into_next(self._turns.popleft())

    def _look_into_next(self, partition: Partition) -> None:
        batch, settings = partition.unchecked[0], partition.settings
        limit_bytes = min(self.limit_bytes, max(USUAL_BYTES, settings.max_message_bytes))
        self._runtime.in_thread(
            lambda: prepare(batch.records, settings, batch.now_ms, batch.version, partition.name, limit_bytes),
            lambda prepared: self._looked(partition, prepared),
            lambda error: self._looked(partition, error),
        )

    def _looked(self, partition: Partition, found: tuple[bytearray, BatchHeader, int] | Exception) -> None:
        self._running -= 1
        batch = partition.unchecked.popleft()
        if partition.unchecked:
            self._turns.append(partition)
        try:
            _finish(partition, batch, found)
        finally:
            self._start()


def _finish(partition: Partition, batch: Unchecked, found: tuple[bytearray, BatchHeader, int] | Exception) -> None:
    if isinstance(found, KafkaError):
        batch.later(found)
        return
    if isinstance(found, Exception):
        log.error("batch_check_failed", partition=partition.name, exc_info=found)
        batch.later(UnexpectedFailure(f"{type(found).__name__}: {found}"))
        return
    try:
        info = partition.append_prepared(found, batch.now_ms, batch.guard, batch.verify)
    except KafkaError as error:
        batch.later(error)
        return
    batch.later(info)
