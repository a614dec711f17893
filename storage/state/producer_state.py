"""What a partition remembers of each producer: sequences, epoch, and the transaction it has open.

`ProducerState` is the table, kept in step with every append and rebuilt from batches at load. `producer_checks` says
what may be appended, `producer_snapshot` puts the table on disk.

Always true: `open_transactions` lists first offsets in rising order, since a transaction opens at the log end.

Source: KIP-98, KIP-360, KIP-890; Kafka's ProducerStateManager, ProducerStateEntry, VerificationStateEntry.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

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

    def is_open(self, epoch: int) -> bool:
        """Has it a transaction of this epoch open here?"""
        return self.transaction_first_offset >= 0 and self.epoch == epoch


class Verification:
    """A question to the transaction coordinator about a producer that wants to open a transaction here (KIP-890).

    One for each producer at a time; batches that ask while it is there share it. `lowest_sequence` is the lowest they
    came with, and holds the others back: one that went ahead of it would leave it out of order for ever.
    """

    __slots__ = ("created_ms", "epoch", "lowest_sequence", "transaction_v2")

    def __init__(self, epoch: int, lowest_sequence: int, transaction_v2: bool, created_ms: int = -1) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.transaction_v2 = transaction_v2  # the partition is added by the question, and each transaction begins at 0
        self.created_ms = created_ms

    def update_lowest(self, epoch: int, sequence: int) -> None:
        """Another batch asks. Source: VerificationStateEntry.maybeUpdateLowestSequenceAndEpoch."""
        if epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        elif epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has just ended. Offsets are inclusive; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """The producers of one log. The caller feeds it each batch that was appended, in order."""

    __slots__ = ("_open", "_undecided", "entries", "snapshot_offset", "verifications")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.verifications: dict[int, Verification] = {}  # in memory only: whoever asked has died with the process
        self._open: dict[int, int] = {}  # first offset -> producer id; insertion order is offset order
        self.snapshot_offset = -1  # of the newest snapshot file
        self._undecided: deque[CompletedTransaction] = deque()  # ended, marker perhaps not below the high watermark

    def restore(self, entry: ProducerEntry) -> None:
        """Take over an entry of a snapshot. Call in order of `transaction_first_offset`."""
        self.entries[entry.producer_id] = entry
        if entry.transaction_first_offset >= 0:
            self._open[entry.transaction_first_offset] = entry.producer_id

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, transaction_v2: bool
    ) -> Verification:
        """What a batch must hold to open a transaction, once the transaction coordinator has answered well."""
        found = self.verifications.get(producer_id)
        if found is None:
            found = self.verifications[producer_id] = Verification(epoch, sequence, transaction_v2, now_ms)
        else:
            found.update_lowest(epoch, sequence)
        return found

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
        if transactional:
            self.verifications.pop(producer_id, None)
            if entry.transaction_first_offset < 0:
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
        """A transaction marker is in the log; return the transaction it ended, None when none was open.

        A question that is asked meanwhile is about the transaction that has ended, so its answer counts no more; only
        with version 2, which raises the epoch, it is of the next one already when the epochs are equal.
        """
        verification = self.verifications.get(producer_id)
        if verification is not None and not (verification.transaction_v2 and verification.epoch == epoch):
            del self.verifications[producer_id]
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

        One with an open transaction is never forgotten. Questions to the transaction coordinator go by their own age.
        """
        for producer_id in [
            producer_id
            for producer_id, verification in self.verifications.items()
            if now_ms - verification.created_ms >= expiration_ms
        ]:
            del self.verifications[producer_id]
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
        self.verifications.clear()
        self._open.clear()
        self._undecided.clear()
