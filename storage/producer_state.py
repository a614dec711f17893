"""What a partition remembers of each producer: sequences, epoch, and the transaction it has open.

`check` is a pure verdict over one producer's entry and the batch it sent; `ProducerState` is the table, kept in step
with every append and rebuilt from batches at load. `storage.producer_snapshot` puts it on disk.

Always true: `open_transactions` lists first offsets in rising order, since a transaction opens at the log end.

Source: KIP-98, KIP-360, KIP-890; Kafka's ProducerStateManager, ProducerAppendInfo, ProducerStateEntry.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from protocol.errors import ErrorCode

REMEMBERED_BATCHES = 5
SEQUENCES = 2**31  # sequences run from 0 to 2^31 - 1 and then start again
NO_SEQUENCE = -1
NO_EPOCH = -1


class SentBatch(NamedTuple):
    """One batch of a producer as it lies in the log. First offset and first sequence are `offset_delta` below."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int  # the batch's max timestamp, ms

    @property
    def first_sequence(self) -> int:
        """The sequence of its first record; sequences wrap to 0 after 2^31 - 1."""
        return (self.last_sequence - self.offset_delta) % SEQUENCES

    @property
    def base_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer: `batches` holds the last five data batches of `epoch`, oldest first."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_EPOCH,
        batches: tuple[SentBatch, ...] = (),
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        transaction_first_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches = batches
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset

    @property
    def last_sequence(self) -> int:
        """The sequence of the newest remembered record, -1 when no batch is remembered."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """The offset of the newest remembered data record, -1 when no batch is remembered."""
        return self.batches[-1].last_offset if self.batches else -1


@dataclass(frozen=True, slots=True)
class Accept:
    """The batch may be appended."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is in the log already: answer success with these."""

    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """The batch must not be appended; `why` says both sides."""

    code: ErrorCode
    why: str


@dataclass(frozen=True, slots=True)
class Verification:
    """A transactional append that is being, or was, asked about at the transaction coordinator (KIP-890)."""

    epoch: int
    lowest_sequence: int
    transaction_v2: bool
    passed: bool


Verdict = Accept | Duplicate | Refuse
ACCEPT = Accept()


def check(
    entry: ProducerEntry | None,
    *,
    producer_id: int,
    epoch: int,
    base_sequence: int,
    last_offset_delta: int,
    transactional: bool,
    verification: Verification | None = None,
    verify: bool = False,
) -> Verdict:
    """May this data batch of an idempotent producer be appended? `entry` is what the log knows of it.

    `verify`: a batch that opens a transaction must have passed verification. A batch without producer id needs no
    check. An unknown producer may begin anywhere. Source: ProducerAppendInfo.appendDataBatch, UnifiedLog.append.
    """
    if base_sequence < 0:
        return Refuse(ErrorCode.INVALID_RECORD, f"producer {producer_id} sent sequence {base_sequence}")
    if entry is not None and entry.epoch == epoch:
        last_sequence = (base_sequence + last_offset_delta) % SEQUENCES
        for sent in entry.batches:
            if sent.last_sequence == last_sequence and sent.first_sequence == base_sequence:
                return Duplicate(sent.base_offset, sent.last_offset, sent.timestamp)
    known_epoch = entry.epoch if entry is not None else NO_EPOCH
    is_open = entry is not None and entry.transaction_first_offset >= 0
    if epoch < known_epoch:
        return Refuse(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} is at epoch {known_epoch}, batch has {epoch}",
        )
    opens = transactional and not (is_open and epoch == known_epoch)
    if opens and verify and not (verification is not None and verification.passed):
        return Refuse(ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has no verified transaction here")
    expected = _expected_sequence(entry, epoch, base_sequence, verification)
    if base_sequence != expected:
        return Refuse(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id} at epoch {epoch}: expected sequence {expected}, batch has {base_sequence}",
        )
    if is_open and not transactional:
        return Refuse(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {producer_id} has a transaction open, batch is outside of it",
        )
    return ACCEPT


def _expected_sequence(
    entry: ProducerEntry | None, epoch: int, base_sequence: int, verification: Verification | None
) -> int:
    """The sequence that fits; `base_sequence` itself where any does."""
    remembers = entry is not None and bool(entry.batches)
    if verification is not None:
        if verification.transaction_v2 and not remembers and base_sequence != 0:
            return 0
        if base_sequence > verification.lowest_sequence:
            return verification.lowest_sequence
    if entry is None or entry.epoch == NO_EPOCH:
        return base_sequence
    if epoch != entry.epoch:
        return 0
    return (entry.last_sequence + 1) % SEQUENCES  # 0 when only a marker was seen of this epoch


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has just ended. Offsets are inclusive; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """The producers of one log. The caller feeds it each batch that was appended, in order."""

    __slots__ = ("_open", "_undecided", "entries", "snapshot_offset")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}  # first offset -> producer id; insertion order is offset order
        self.snapshot_offset = -1  # of the newest snapshot file
        self._undecided: deque[CompletedTransaction] = deque()  # ended, marker perhaps not below the high watermark

    def restore(self, entry: ProducerEntry) -> None:
        """Take over an entry of a snapshot. Call in order of `transaction_first_offset`."""
        self.entries[entry.producer_id] = entry
        if entry.transaction_first_offset >= 0:
            self._open[entry.transaction_first_offset] = entry.producer_id

    def data_appended(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        base_offset: int,
        offset_delta: int,
        timestamp: int,
        *,
        transactional: bool,
    ) -> None:
        """A data batch with a producer id is in the log. Nothing is refused here: `check` was asked before."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        last_sequence = (base_sequence + offset_delta) % SEQUENCES if base_sequence >= 0 else NO_SEQUENCE
        sent = SentBatch(last_sequence, base_offset + offset_delta, offset_delta, timestamp)
        if entry.epoch != epoch:
            entry.epoch = epoch
            entry.batches = (sent,)
        else:
            entry.batches = (*entry.batches[-(REMEMBERED_BATCHES - 1) :], sent)
        entry.last_timestamp = timestamp
        if transactional and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = base_offset
            self._open[base_offset] = producer_id

    def marker_appended(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp: int,
        *,
        aborted: bool,
    ) -> CompletedTransaction | None:
        """A transaction marker is in the log; return the transaction it ended, None when none was open."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        if entry.epoch != epoch:
            entry.epoch = epoch
            entry.batches = ()
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        first_offset = entry.transaction_first_offset
        if first_offset < 0:
            return None
        entry.transaction_first_offset = -1
        self._open.pop(first_offset, None)
        completed = CompletedTransaction(producer_id, first_offset, offset, aborted)
        self._undecided.append(completed)
        return completed

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which every transaction is decided, and decided below the high watermark.

        Call it whenever the high watermark moved: it also forgets transactions that are decided for good.
        """
        undecided = self._undecided
        while undecided and undecided[0].last_offset < high_watermark:
            undecided.popleft()
        stable = high_watermark
        for first_offset in self._open:
            stable = min(stable, first_offset)
            break
        for completed in undecided:
            stable = min(stable, completed.first_offset)
        return stable

    def first_open_offset(self, default: int) -> int:
        """The first offset of the oldest open transaction, `default` when none is open."""
        return next(iter(self._open), default)

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Forget producers silent for `expiration_ms` by their records' timestamps; return their ids.

        One with an open transaction is never forgotten.
        """
        gone = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self.entries[producer_id]
        return gone

    def clear(self) -> None:
        """Forget everything, before a rebuild."""
        self.entries.clear()
        self._open.clear()
        self._undecided.clear()
