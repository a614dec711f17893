"""Batches that take long to look into or to write: worker threads do it, and the order is that in which they came.

One batch of a partition has its turn at a time, so that its log has the order of the requests, on which the sequences
of idempotent producers rest; partitions take turns. Few are looked into side by side: what each may decompress is held
in memory, and the threads are those that fsync. What is large is then written by `broker.partitions.writer`, with what
waits behind it.

Source: what Kafka's request handler threads do in UnifiedLog.append, under the partition's lock.
"""

from __future__ import annotations

from collections import Counter, deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from broker.partitions.partition import Together
from broker.partitions.validation import CODEC, SHORT_DECOMPRESSED_BYTES, prepare, takes_long
from protocol.errors import KafkaError
from protocol.records.batch import DECOMPRESSED_LIMIT_BYTES
from protocol.records.errors import DecompressedTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.loop.runtime import Runtime
    from broker.partitions.partition import AppendInfo, Partition, Unchecked
    from broker.partitions.validation import Prepared
    from broker.partitions.writer import Writer
    from storage.log.placed import Placed

AT_ONCE = 2
"""So many are looked into by threads side by side."""
LOOKED_MAX = 2
"""So many that were looked into may wait to be written to a log directory: each may be there twice, as it came and as
it is written.
"""

USUAL_BYTES = 64 << 20
"""What one batch may be decompressed to where its topic does not take batches that are larger than that."""

_TOGETHER_BYTES = 1 << 20
"""What is written in one call, unless one batch is larger."""

# What is looked into in one turn of the loop, of one partition: in bytes, as which its records count too.
_TURN = 1 << 20
_RECORD_EFFORT = 1_300

log = get_logger(__name__)


class UnexpectedFailure(KafkaError):
    """A fault of ours while a batch was looked into or appended; its trace is in the log."""


class Checks:
    """The batches that wait, of all partitions. `limit_bytes`: what one batch may be decompressed to at most.

    Always true: a partition with batches that wait is busy, and whoever has it goes on with the next one.
    """

    def __init__(self, runtime: Runtime, writer: Writer, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> None:
        self._runtime = runtime
        self._writer = writer
        self.limit_bytes = limit_bytes
        self._busy: set[Partition] = set()
        self._turns: dict[str, deque[Partition]] = {}  # by log directory: whose first batch nobody looks at yet
        self._running = 0
        self._looked: dict[Partition, Prepared] = {}  # the first batch of each, where it is known already

    @property
    def idle(self) -> bool:
        """Whether no batch waits."""
        return not self._busy

    def add(self, partition: Partition, batch: Unchecked) -> None:
        """Look into `batch` and append it when those of `partition` before it are done with."""
        partition.unchecked.append(batch)
        if partition not in self._busy:
            self._busy.add(partition)
            self._go_on(partition)

    def _go_on(self, partition: Partition) -> None:
        """Append what is short to look into and to write; hand the partition to a thread for what is not."""
        effort = _TURN
        while partition.unchecked and not self._writer.stopped:
            records = partition.unchecked[0].records
            if partition not in self._looked:
                if effort <= 0:
                    self._runtime.next_turn(lambda: self._go_on(partition))
                    return
                if partition.is_large(0 if records is None else len(records)) and not takes_long(
                    records, partition.settings
                ):
                    self._want(partition)  # and is looked into then
                    return
                effort -= _effort(records)
            found = self._first(partition)
            if found is None:
                return
            if not isinstance(found, KafkaError) and partition.is_large(len(found[0])):
                self._looked[partition] = found
                self._want(partition)
                return
            self._taken(partition)
            self._tell(partition, self._append(partition, found))
        self._busy.discard(partition)

    def _tell(self, partition: Partition, outcome: AppendInfo | KafkaError) -> None:
        """The first batch that waited is done with."""
        batch = partition.unchecked.popleft()
        try:
            batch.later(outcome)
        except Exception:  # a fault of one who is told must not leave the others waiting
            log.exception("callback_failed", callback=repr(batch.later))

    # -- looking into them -----------------------------------------------------------------------------------

    def _first(self, partition: Partition) -> Prepared | KafkaError | None:
        """The first batch that waits, as it may be appended, or why not; None when a thread is to look into it."""
        found = self._looked.get(partition)
        if found is not None:
            return found
        batch = partition.unchecked[0]
        if not takes_long(batch.records, partition.settings):
            try:
                return _prepare(partition, batch, SHORT_DECOMPRESSED_BYTES)
            except DecompressedTooLarge:
                pass  # as it was not known to be
            except Exception as error:
                return _refusal(partition, error)
        self._turns.setdefault(partition.log.log_dir, deque()).append(partition)
        self._start()
        return None

    def _taken(self, partition: Partition) -> None:
        """What is known of the first batch is made use of: another one may be looked into."""
        if self._looked.pop(partition, None) is not None:
            self._start()

    def _start(self) -> None:
        if not self._turns:
            return
        waiting = Counter(partition.log.log_dir for partition in self._looked)
        for directory, turns in list(self._turns.items()):
            while turns and self._running < AT_ONCE and waiting[directory] < LOOKED_MAX:
                self._running += 1
                self._look(turns.popleft())
            if not turns:
                del self._turns[directory]
            else:
                self._turns[directory] = self._turns.pop(directory)  # another one is the first the next time

    def _look(self, partition: Partition) -> None:
        batch = partition.unchecked[0]
        limit_bytes = min(self.limit_bytes, max(USUAL_BYTES, partition.settings.max_message_bytes))
        self._runtime.in_thread(
            lambda: _prepare(partition, batch, limit_bytes),
            lambda prepared: self._found(partition, prepared),
            lambda error: self._found(partition, error),
        )

    def _found(self, partition: Partition, found: Prepared | Exception) -> None:
        self._running -= 1
        if isinstance(found, Exception):
            self._tell(partition, _refusal(partition, found))
        else:
            self._looked[partition] = found
        self._go_on(partition)
        self._start()

    # -- appending them --------------------------------------------------------------------------------------

    def _append(self, partition: Partition, found: Prepared | KafkaError) -> AppendInfo | KafkaError:
        if isinstance(found, KafkaError):
            return found
        batch = partition.unchecked[0]
        try:
            return partition.append_prepared(found, batch.now_ms, batch.guard, batch.verify)
        except Exception as error:
            return _refusal(partition, error)

    def _want(self, partition: Partition) -> None:
        self._writer.want(partition.log.log_dir, partial(self._place, partition))

    def _place(self, partition: Partition) -> tuple[Placed, Callable[[], None]] | None:
        """The partition has its turn to be written: the first batches that wait, as many as may be written together."""
        effort = _TURN - _effort(partition.unchecked[0].records)
        found = self._first(partition)
        if found is None:
            return None
        self._taken(partition)
        outcome: AppendInfo | Together | KafkaError
        if isinstance(found, KafkaError) or not partition.is_large(len(found[0])):
            outcome = self._append(partition, found)
        else:
            batch = partition.unchecked[0]
            try:
                outcome = partition.place_prepared(found, batch.now_ms, batch.guard, batch.verify)
            except Exception as error:
                outcome = _refusal(partition, error)
        if isinstance(outcome, Together):
            self._place_behind(partition, outcome, effort)
            return outcome.placed, partial(self._written, partition, outcome)
        self._tell(partition, outcome)
        self._runtime.next_turn(lambda: self._go_on(partition))
        return None

    def _place_behind(self, partition: Partition, together: Together, effort: int) -> None:
        for batch in islice(partition.unchecked, 1, None):
            size = 0 if batch.records is None else len(batch.records)
            if (
                effort <= 0
                or together.placed.size_bytes + size > _TOGETHER_BYTES
                or takes_long(batch.records, partition.settings)
            ):
                return
            effort -= _effort(batch.records)
            try:
                if not partition.place_behind(
                    together, _prepare(partition, batch, SHORT_DECOMPRESSED_BYTES), batch.guard, batch.verify
                ):
                    return
            except Exception:
                return  # what is wrong with it is told when it is the first

    def _written(self, partition: Partition, together: Together) -> None:
        outcomes: Sequence[AppendInfo | KafkaError]
        try:
            outcomes = partition.written(together)
        except Exception as error:
            outcomes = [_refusal(partition, error)] * len(together.placed.batches)
        for outcome in outcomes:
            self._tell(partition, outcome)
        partition.after_write()
        self._go_on(partition)


def _effort(records: bytes | bytearray | memoryview | None) -> int:
    """About how much there is to do for a batch that does not take long."""
    if records is None or len(records) < 61:
        return 0
    if records[22] & CODEC:
        return len(records) + SHORT_DECOMPRESSED_BYTES
    return len(records) + _RECORD_EFFORT * int.from_bytes(records[57:61], "big")


def _refusal(partition: Partition, error: Exception) -> KafkaError:
    if isinstance(error, KafkaError):
        return error.afresh()
    log.error("append_failed", partition=partition.name, exc_info=error)
    return UnexpectedFailure(f"{type(error).__name__}: {error}")


def _prepare(partition: Partition, batch: Unchecked, limit_bytes: int) -> Prepared:
    return prepare(batch.records, partition.settings, batch.now_ms, batch.version, partition.name, limit_bytes)
