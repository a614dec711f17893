"""One partition's leader: its log, what is committed in it, and who waits for that.

`append` puts a batch into the log; it is *committed* once the high watermark has passed it. Under `flush.messages` =
2^63-1 (durability `os`) that is at once. Otherwise at most `flush.messages` - 1 records are ever committed without an
fsync, so under 1 (`always`) none: one fsync in a worker thread serves every append that came before it, and the next
one collects those that come while it runs.

Always true: log start <= last stable offset <= high watermark <= log end, and the high watermark never falls while the
partition lives. A log that refused a write or an fsync is failed: nothing more is appended or committed until it is
loaded anew.

Source: Kafka's Partition and UnifiedLog.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.loop.logs import get_logger
from broker.partitions.errors import PartitionFailed, PartitionGone, RecordsRefused
from broker.partitions.marker import marker_batch
from broker.partitions.validation import CODEC, SHORT_DECOMPRESSED_BYTES, SURELY_SHORT_BYTES, prepare, takes_long
from broker.partitions.writer import SLOWLY_AT_ONCE_BYTES
from protocol.records.errors import DecompressedTooLarge
from storage.errors import StorageError
from storage.reading.batches import Parted
from storage.state.producer_checks import Duplicate, Refuse, check, check_epoch, check_marker, check_unsequenced
from storage.state.producer_state import SEQUENCES

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.partitions.marker import Marker
    from broker.partitions.settings import PartitionSettings
    from broker.partitions.validation import Prepared
    from broker.partitions.writer import Writer
    from protocol.errors import KafkaError
    from protocol.records.batch import BatchHeader
    from storage.log.partition_log import PartitionLog
    from storage.log.placed import Placed
    from storage.state.log_state import LogState
    from storage.state.producer_state import Verification

log = get_logger(__name__)


NOTHING_COMMITTED = -1
"""In the place of `flush.messages` while a log is handed over."""

_new_tuple = tuple.__new__  # a named tuple's own constructor takes twice as long


class AppendInfo(NamedTuple):
    """Where a batch went. `log_append_time_ms` is -1 unless the topic stamps its records with the broker's time."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False  # an idempotent producer's repetition: nothing was written, the offsets are the first ones'


class Unchecked(NamedTuple):
    """A produced batch that nobody has looked into yet, and who is to be told what became of it."""

    records: bytes | bytearray | memoryview | None
    now_ms: int
    version: int
    guard: Verification | None
    verify: bool
    later: Callable[[AppendInfo | KafkaError], None]


class Together:
    """Batches that have their place in the log of a partition, for a worker thread to write: `placed.write()`."""

    __slots__ = ("error", "last_of", "log", "log_append_times_ms", "placed")

    def __init__(self, log: PartitionLog, placed: Placed) -> None:
        self.log = log
        self.placed = placed
        self.log_append_times_ms: list[int] = []
        self.last_of: dict[int, BatchHeader] = {}
        """The newest batch of each producer among them."""
        self.error: KafkaError | None = None
        """Why nobody may be told that they are in the log, whatever becomes of the write."""

    def add(self, header: BatchHeader, log_append_time_ms: int) -> None:
        """Note a batch that was placed."""
        self.log_append_times_ms.append(log_append_time_ms)
        if header.producer_id >= 0:
            self.last_of[header.producer_id] = header

    def follows(self, header: BatchHeader) -> bool | None:
        """Whether a batch goes on where its producer's last one among these ends; None when there is none."""
        last = self.last_of.get(header.producer_id)
        if last is None:
            return None
        return (
            header.producer_epoch == last.producer_epoch
            and header.is_transactional == last.is_transactional
            and header.base_sequence == (last.base_sequence + last.last_offset_delta + 1) % SEQUENCES
        )


class Waiter(Protocol):
    """A parked fetch."""

    def partition_changed(self, partition: Partition) -> None:
        """Look at `partition` again: it grew, its start or last stable offset moved, it failed or it is gone."""


class PartitionOwner(Protocol):
    """What a partition needs of those around it (`Partitions`)."""

    writer: Writer
    """Who writes what is not written on the loop."""

    def wake(self, partition: Partition) -> None:
        """Tell the waiters of `partition` at the end of this turn."""

    def flush(self, partition: Partition) -> None:
        """Fsync what is appended so far, at the end of this turn; then `partition.flushed()` or `.fail(error)`."""

    def refused(self, partition: Partition, error: StorageError) -> None:
        """An append was refused by the disk; the log is as before."""

    def suspect(self, partition: Partition) -> None:
        """A read was refused: look whether it is the disk."""

    def check_later(self, partition: Partition, batch: Unchecked) -> None:
        """Have `batch` looked into and written elsewhere, behind those that were given before."""

    def failed(self, partition: Partition) -> None:
        """Load the partition's log anew."""


class Partition:
    """The leader of one partition. Only the event loop calls it."""

    __slots__ = (
        "_after_write",
        "_commits",
        "_flush_messages",
        "_owner",
        "_together",
        "_writer",
        "error",
        "held",
        "high_watermark",
        "index",
        "leader_epoch",
        "log",
        "name",
        "settings",
        "topic",
        "topic_id",
        "unchecked",
        "waiters",
    )

    def __init__(
        self,
        owner: PartitionOwner,
        topic: str,
        index: int,
        topic_id: bytes,
        log: PartitionLog,
        settings: PartitionSettings,
        leader_epoch: int = 0,
    ) -> None:
        self._owner = owner
        self._writer = owner.writer
        self.topic = topic
        self.index = index
        self.name = f"{topic}-{index}"
        self.topic_id = topic_id
        self.log = log
        self.settings = settings
        self.leader_epoch = leader_epoch
        self.error: KafkaError | None = None
        # A sole replica leads with all that its log holds (Kafka's Partition.makeLeader).
        self.high_watermark = log.log_end_offset
        self.waiters: dict[Waiter, None] = {}
        self._commits: deque[tuple[int, Callable[[KafkaError | None], None]]] = deque()
        self._flush_messages = settings.log.flush_messages
        self.held: PartitionLog | None = None
        """While `log` is about to take its place in another directory: the log that still counts at a start."""
        self.unchecked: deque[Unchecked] = deque()
        """Batches that a worker thread looks into or writes, or that wait for that, in the order in which they came."""
        self._together: Together | None = None  # what a worker thread is writing
        self._after_write: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Partition {self.name} end {self.log.log_end_offset} hw {self.high_watermark}>"

    @property
    def log_start_offset(self) -> int:
        """The first offset kept."""
        return self.log.state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.log.state.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end of what read_committed may see: the first open transaction, or the high watermark."""
        log = self.log.state
        if not log.producers.entries:
            start, end = log.log_start_offset, self.high_watermark
            return end if end > start else start  # every fetch comes here: a call less
        return log.last_stable_offset(self.high_watermark)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch not above `epoch` and where it ends; (-1, -1) when there is none.

        The current epoch ends at the log end, even before its first batch.
        """
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        return self.log.epochs.end_offset_for(epoch, self.log.log_end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the batch that holds `offset`; the current one where the log does not say."""
        epoch = self.log.epochs.epoch_for_offset(offset)
        return epoch if epoch >= 0 else self.leader_epoch

    def append(self, batch: bytearray | memoryview, log_append_time_ms: int = -1, now_ms: int = -1) -> AppendInfo:
        """Append one encoded, already checked batch, and say which offsets it got. Takes over `batch`.

        `now_ms` only matters to batches without timestamps. On return it is readable in the log; when it is committed
        is for `when_committed`.
        Raises: KafkaError (PartitionFailed, StorageError, RecordListTooLarge), and then nothing of it is in the log.
        """
        if self.error is not None:
            raise self.error.afresh()
        began_ns = self._writer.clock_ns() if len(batch) > SLOWLY_AT_ONCE_BYTES else 0
        # A log that refused a write is as before and takes the next one; one whose fsync failed raises for good.
        try:
            base_offset = self.log.append(batch, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except StorageError as error:
            self._refused(error)
            raise
        if began_ns:
            self._writer.took(self._writer.clock_ns() - began_ns)
        state = self.log.state
        end = state.log_end_offset
        self._appended(state, end)
        return _new_tuple(AppendInfo, (base_offset, end - 1, log_append_time_ms, state.log_start_offset, False))

    def _appended(self, state: LogState, end: int) -> None:
        """The log has grown: commit what it has, or see to it that it will be."""
        if end - state.recovery_point < self._flush_messages:
            # `when_committed` is empty here unless the settings were just changed, and then a flush is on its way.
            self.high_watermark = end
            if self._commits:
                self._complete(end)
            if self.waiters:
                self._owner.wake(self)
        else:
            self._owner.flush(self)

    def produce(
        self,
        records: bytes | bytearray | memoryview | None,
        now_ms: int,
        version: int,
        guard: Verification | None = None,
        verify: bool = True,
    ) -> AppendInfo | None:
        """Check what a producer sent, and append it. `version` is that of its Produce request.

        None, and nothing was done, when checking or writing it may take long, or what came before is not done with:
        then it is for `produce_later`.

        `guard` is what `start_verification` gave and the transaction coordinator has since consented to; with `verify`
        no transaction is opened without it. A repetition of one of the producer's last five batches is not written
        again: the info is the first one's.
        Raises: KafkaError with the code to answer; nothing is in the log then.
        """
        if self.error is not None:
            raise self.error.afresh()
        settings = self.settings
        if (
            self.unchecked
            or (records is not None and self.is_large(len(records)))
            or (
                (records is None or len(records) >= SURELY_SHORT_BYTES or len(records) < 23 or records[22] & CODEC)
                and takes_long(records, settings)
            )
        ):
            return None
        try:
            prepared = prepare(records, settings, now_ms, version, self.name, SHORT_DECOMPRESSED_BYTES)
        except DecompressedTooLarge:
            return None
        size_bytes = len(prepared[0])
        if records is not None and size_bytes > len(records) and self.is_large(size_bytes):
            return None  # it has been compressed anew, into more
        return self.append_prepared(prepared, now_ms, guard, verify)

    def produce_later(self, batch: Unchecked) -> None:
        """Have `batch` checked and written by worker threads, behind those that were given before; `batch.later` is
        told what `produce` would have returned or raised.
        """
        self._owner.check_later(self, batch)

    def is_large(self, size_bytes: int) -> bool:
        """Whether a batch of that size is not to be written on the loop: it is long, or the active segment has no room
        for it, and a new one's files wait for a busy disk. While a log is handed over all are: its copy may be thrown
        away, with what a thread is still about.
        """
        state = self.log.state
        return (
            size_bytes > self._writer.at_once_bytes or state.active.size_bytes + size_bytes > state.config.segment_bytes
        ) and self.held is None

    def append_prepared(
        self,
        prepared: Prepared,
        now_ms: int,
        guard: Verification | None = None,
        verify: bool = True,
    ) -> AppendInfo:
        """Append what `prepare` has made. Raises: as `produce`."""
        batch, header, log_append_time_ms = prepared
        known = self._known(header, guard, verify)
        if known is not None:
            return known
        whole = batch.whole() if isinstance(batch, Parted) else batch
        return self.append(whole, log_append_time_ms, now_ms)

    # -- what a worker thread writes -----------------------------------------------------------------------

    @property
    def is_being_written(self) -> bool:
        """Whether a worker thread writes batches to it."""
        return self._together is not None

    def place_prepared(
        self,
        prepared: Prepared,
        now_ms: int,
        guard: Verification | None = None,
        verify: bool = True,
    ) -> AppendInfo | Together:
        """As `append_prepared`, but what is not in the log yet has its place there: for a worker thread to write, and
        then for `written`. Until then nothing else is placed. Raises: as `produce`.
        """
        batch, header, log_append_time_ms = prepared
        known = self._known(header, guard, verify)
        if known is not None:
            return known
        try:
            placed = self.log.place(batch, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except StorageError as error:
            self._refused(error)
            raise
        self._together = together = Together(self.log, placed)
        together.add(header, log_append_time_ms)
        return together

    def place_behind(
        self,
        together: Together,
        prepared: Prepared,
        guard: Verification | None = None,
        verify: bool = True,
    ) -> bool:
        """Have a batch written together with others; False, and nothing was done, when it must wait: for room, or since
        only the log will say what is to become of it.
        """
        batch, header, log_append_time_ms = prepared
        follows = together.follows(header)
        try:
            if follows is False or (follows is None and self._known(header, guard, verify) is not None):
                return False
        except RecordsRefused:
            return False
        if not together.log.place_behind(together.placed, batch):
            return False
        together.add(header, log_append_time_ms)
        return True

    def written(self, together: Together) -> list[AppendInfo]:
        """A worker thread has written what was placed: it is in the log. Raises: as `produce`."""
        if self._together is together:
            self._together = None
        if together.error is not None:
            raise together.error.afresh()
        try:
            together.log.finish(together.placed)
        except StorageError as error:
            self._refused(error)
            raise
        state = self.log.state
        self._appended(state, state.log_end_offset)
        return [
            AppendInfo(base_offset, base_offset + header[6], log_append_time_ms, state.log_start_offset)
            for (_, header, base_offset), log_append_time_ms in zip(
                together.placed.batches, together.log_append_times_ms, strict=True
            )
        ]

    def when_written(self, callback: Callable[[], None]) -> None:
        """Call back when nothing is being written: at once, or when it has been told to those whose it is, and before
        anything else is placed.
        """
        if self._together is None:
            callback()
        else:
            self._after_write.append(callback)

    def after_write(self) -> None:
        """What was written has been told: call back those who waited for it."""
        waiting, self._after_write = self._after_write, []
        for callback in waiting:
            try:
                callback()
            except Exception:  # a fault of one keeps it from nobody else
                log.exception("callback_failed", callback=repr(callback))

    def _known(self, header: BatchHeader, guard: Verification | None, verify: bool) -> AppendInfo | None:
        """Where the batch is in the log already, None where it is not. Raises: KafkaError, why it may not be there."""
        if self.error is not None:
            raise self.error.afresh()
        if header.producer_id < 0:
            return None
        log = self.log
        producers = log.producers
        verdict = check(
            producers.entries.get(header.producer_id),
            producer_id=header.producer_id,
            epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            last_offset_delta=header.last_offset_delta,
            transactional=header.is_transactional,
            verification=producers.verifications.get(header.producer_id),
            guard=guard,
            verify=verify,
        )
        if isinstance(verdict, Duplicate):
            start = log.log_start_offset
            return AppendInfo(verdict.base_offset, verdict.last_offset, verdict.timestamp, start, duplicate=True)
        if isinstance(verdict, Refuse):
            raise RecordsRefused(verdict.code, verdict.why)
        return None

    # -- transactions --------------------------------------------------------------------------------------

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, transaction_v2: bool
    ) -> Verification | None:
        """What this producer must hold to open a transaction here; None when its transaction is open already.

        The transaction coordinator is asked by the caller. Raises: KafkaError when asking would be in vain.
        """
        if self.error is not None:
            raise self.error.afresh()
        producers = self.log.producers
        entry = producers.entries.get(producer_id)
        refused = check_epoch(entry, producer_id=producer_id, epoch=epoch)
        if refused is not None:
            raise RecordsRefused(refused.code, refused.why)
        if entry is not None and entry.is_open(epoch):
            return None
        return producers.start_verification(producer_id, epoch, sequence, now_ms, transaction_v2=transaction_v2)

    def check_unsequenced(self, producer_id: int, epoch: int, guard: Verification | None, verify: bool) -> None:
        """May the group coordinator append offsets to this producer's transaction? Raises: KafkaError."""
        if self.error is not None:
            raise self.error.afresh()
        producers = self.log.producers
        refused = check_unsequenced(
            producers.entries.get(producer_id),
            producer_id=producer_id,
            epoch=epoch,
            verification=producers.verifications.get(producer_id),
            guard=guard,
            verify=verify,
        )
        if refused is not None:
            raise RecordsRefused(refused.code, refused.why)

    def append_marker(
        self, marker: Marker, now_ms: int, done: Callable[[KafkaError | None], None] | None = None
    ) -> int:
        """End a producer's transaction here; return the marker's offset. `done(None)` once that is committed.

        Written even when no transaction is open, since the coordinator repeats markers whose answers it has not seen:
        readers pass over such a one.
        Raises: KafkaError with the code to answer, and then nothing of it is in the log.
        """
        if self.error is not None:
            raise self.error.afresh()
        refused = check_marker(
            self.log.producers.entries.get(marker.producer_id),
            producer_id=marker.producer_id,
            epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        if refused is not None:
            raise RecordsRefused(refused.code, refused.why)
        offset = self.append(marker_batch(marker, now_ms), now_ms=now_ms).last_offset
        if done is not None:
            self.when_committed(offset, done)
        return offset

    def when_committed(self, offset: int, callback: Callable[[KafkaError | None], None]) -> None:
        """Call `callback(None)` once `offset` is committed, or `callback(error)` when it cannot be.

        At once, when that is known already. Callbacks of one partition come in the order of their offsets.
        """
        if self.error is not None:
            callback(self.error)
        elif offset < self.high_watermark:
            callback(None)
        else:
            self._commits.append((offset, callback))

    def wait_for_data(self, waiter: Waiter) -> None:
        """Tell `waiter` about every change until `stop_waiting`."""
        self.waiters[waiter] = None

    def stop_waiting(self, waiter: Waiter) -> None:
        """Forget `waiter`; one that is not waiting is no error."""
        self.waiters.pop(waiter, None)

    def delete_records_before(self, offset: int) -> int:
        """Move the log start to `offset`, at most the high watermark; return the log start then."""
        if self.error is not None:
            raise self.error.afresh()
        log = self.log
        if offset > log.log_start_offset:
            log.delete_records_before(offset)
            self.changed()
        return log.log_start_offset

    def changed(self) -> None:
        """The log start or the last stable offset moved: parked fetches look again."""
        if self.waiters:
            self._owner.wake(self)

    def flushed(self) -> None:
        """An fsync has moved the recovery point: commit what it covers, and ask for the next one if more has come."""
        if self.held is not None:
            return
        log = self.log
        end = log.log_end_offset
        if end - log.recovery_point < self._flush_messages:
            committed = end
        else:
            committed = log.recovery_point
            self._owner.flush(self)
        if committed > self.high_watermark:
            self.high_watermark = committed
            self._complete(committed)
            if self.waiters:
                self._owner.wake(self)

    def configure(self, settings: PartitionSettings) -> None:
        """The topic's configuration changed."""
        self.settings = settings
        self._flush_messages = settings.log.flush_messages if self.held is None else NOTHING_COMMITTED
        self.log.config = settings.log
        if self.error is None:
            self.flushed()

    def hand_over(self, copy: PartitionLog) -> None:
        """Append to `copy`, which has all of `log`. Until `handed_over` nothing is committed, retained or cleaned."""
        self.held, self.log = self.log, copy
        self._flush_messages = NOTHING_COMMITTED

    def handed_over(self) -> None:
        """What `log` holds counts at a start: commit again."""
        self.held = None
        self._flush_messages = self.settings.log.flush_messages
        if self.error is None:
            self.flushed()

    def take_back(self, cause: object) -> None:
        """The hand-over has failed: what was appended since is refused, and the log that was held is loaded anew."""
        if self.held is None:
            return
        self.log, self.held = self.held, None
        self._flush_messages = self.settings.log.flush_messages
        self.fail(cause)

    def fail(self, cause: object) -> None:
        """The disk refused. Whoever waits gets KAFKA_STORAGE_ERROR; the log is loaded anew."""
        if self.error is not None:
            return
        self._end(PartitionFailed(self.topic, self.index, cause))
        self._owner.failed(self)

    def read_failed(self, error: KafkaError) -> None:
        """A read was refused: say so. Reading again may go well, so the partition goes on if its log does."""
        log.error("partition_read_failed", topic=self.topic, partition=self.index, error=str(error))
        self._owner.suspect(self)
        self._fail_if_unusable()

    def _refused(self, error: StorageError) -> None:
        """The disk has refused a batch."""
        self._owner.refused(self, error)
        self._fail_if_unusable()

    def _fail_if_unusable(self) -> None:
        """A log that has given up for good must be loaded anew; after any other error it is as before."""
        try:
            self.log.check_usable()
        except StorageError as error:
            self.fail(error)

    def delete(self) -> None:
        """The topic is gone: whoever waits gets UNKNOWN_TOPIC_OR_PARTITION."""
        self._end(PartitionGone(self.topic, self.index))

    def recovered(self, log: PartitionLog) -> None:
        """Go on with `log`, loaded anew after a failure. What was not committed was refused, and may be gone."""
        self.log = log
        self.error = None
        self.high_watermark = log.log_end_offset
        self.changed()

    def _end(self, error: KafkaError) -> None:
        self.error = error
        if self._together is not None:
            self._together.error = error
            self._together = None  # it is over with the log; nobody need wait for its thread
            self.after_write()
        commits, self._commits = self._commits, deque()
        for _, callback in commits:
            callback(error)
        if self.waiters:
            self._owner.wake(self)

    def _complete(self, committed: int) -> None:
        commits = self._commits
        while commits and commits[0][0] < committed:
            commits.popleft()[1](None)
