"""Group commit: one fsync serves every append before it, while the next one collects.

Partitions ask during a turn; at its end those that are not being flushed go to a worker thread together, `LOGS_AT_ONCE`
at most. At most `ROUNDS` threads are busy with this, so that a slow file does not hold up all the others.

Source: Kafka's UnifiedLog.flush; the sharing of one fsync is ours (D4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from broker.loop.primitives import perf_counter_ns
from protocol.errors import unraised
from storage.errors import is_explained

if TYPE_CHECKING:
    from broker.loop.runtime import Runtime
    from broker.partitions.partition import Partition
    from storage.log.partition_log import PartitionLog
    from storage.state.flush import FlushTicket

ROUNDS = 3
LOGS_AT_ONCE = 100
"""Of one round: to begin with thousands, and to end with them, would hold the loop for tens of milliseconds."""

log = get_logger(__name__)


class Flusher:
    """Takes partitions, gives them back by `partition.flushed()` or `partition.fail(error)`."""

    __slots__ = ("_busy", "_rounds", "_runtime", "_scheduled", "_stopped", "_wanted", "flush_ns", "flushes")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._wanted: dict[Partition, None] = {}
        self._busy: set[Partition] = set()
        self._rounds = 0
        self._scheduled = False
        self._stopped = False
        self.flushes = 0  # logs that were fsynced since the start
        self.flush_ns = 0  # what that took, in threads

    def stop(self) -> None:
        """Leave the rest to whoever closes the logs; what is being fsynced right now is finished."""
        self._stopped = True

    def request(self, partition: Partition) -> None:
        """Fsync all that `partition` holds by the end of this turn, or as soon as its running fsync is done."""
        self._wanted[partition] = None
        if not self._scheduled:
            self._scheduled = True
            self._runtime.soon(self._start)

    @property
    def idle(self) -> bool:
        """Whether nothing is being flushed or waits for it."""
        return not self._wanted and not self._busy

    def _start(self) -> None:
        self._scheduled = False
        if self._rounds >= ROUNDS or self._stopped:
            return
        busy = self._busy
        ready: list[Partition] = []
        for partition in self._wanted:
            if partition not in busy:
                ready.append(partition)
                if len(ready) == LOGS_AT_ONCE:
                    break
        work: list[tuple[Partition, PartitionLog, FlushTicket]] = []
        for partition in ready:
            del self._wanted[partition]
            if partition.error is not None:
                continue
            try:
                work.append((partition, partition.log, partition.log.begin_flush()))
            except Exception as error:
                partition.fail(error)
        self._rounds += bool(work)
        if len(ready) == LOGS_AT_ONCE and self._rounds < ROUNDS and not self._scheduled:
            self._scheduled = True
            self._runtime.next_turn(self._start)
        if not work:
            return
        busy.update(partition for partition, _, _ in work)

        def sync() -> tuple[list[Exception | None], int]:
            began_ns = perf_counter_ns()
            results: list[Exception | None] = []
            for partition, _, ticket in work:
                if self._stopped:
                    break
                try:
                    ticket.sync()
                except Exception as error:
                    if not is_explained(error):
                        log.exception("flush_failed", partition=partition.name)
                    # The frames of the one that was raised hold the results, and all that is flushed.
                    results.append(unraised(error))
                else:
                    results.append(None)
            return results, perf_counter_ns() - began_ns

        self._runtime.in_thread(
            sync,
            lambda synced: self._finish(work, *synced),
            lambda error: self._finish(work, [error] * len(work), 0),
        )

    def _finish(
        self, work: list[tuple[Partition, PartitionLog, FlushTicket]], results: list[Exception | None], took_ns: int
    ) -> None:
        self._rounds -= 1
        if self._stopped:
            return
        self.flushes += len(work)
        self.flush_ns += took_ns
        for at, error in enumerate(results):
            self._tell(*work[at], error)
        # What is the last to have a file that was deleted meanwhile takes long to close it: the system takes its memory
        # back then, some 20 ms for each 100 MB. So a thread lets go of it, and nothing here may have it any more.
        ended = _ended(work)
        work.clear()
        if ended:
            self._runtime.in_thread(ended.clear, _nothing, _nothing)
        if self._wanted and not self._scheduled:
            self._scheduled = True
            self._runtime.soon(self._start)

    def _tell(self, partition: Partition, flushed: PartitionLog, ticket: FlushTicket, error: Exception | None) -> None:
        self._busy.discard(partition)
        if partition.log is not flushed or partition.error is not None:
            return  # deleted, or failed and loaded anew meanwhile
        if error is not None:
            partition.fail(error)
            return
        try:
            flushed.finish_flush(ticket)
        except Exception as failure:
            partition.fail(failure)
        else:
            partition.flushed()


def _ended(work: list[tuple[Partition, PartitionLog, FlushTicket]]) -> list[tuple[PartitionLog, FlushTicket]]:
    """Those that may be the last to have a file: of a log that is gone or has failed, or of a rolled segment."""
    return [
        (flushed, ticket)
        for partition, flushed, ticket in work
        if ticket.closed
        or partition.log is not flushed
        or partition.error is not None
        or (ticket.active is not None and ticket.active is not flushed.state.active.file)
    ]


def _nothing(_: object) -> None:
    pass
