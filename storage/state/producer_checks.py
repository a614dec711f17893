"""May a batch of a producer, or a marker of its transaction, be appended? Pure verdicts over the producer's entry.

A batch that opens a transaction must have been verified: its partition belongs to a transaction that the transaction
coordinator has open. `Verification` is what a partition keeps of such a question from before it is asked until the
transaction's first batch is in the log. It counts by identity: a marker that comes between the question and its answer
takes it away, and then the answer, which may be about the transaction before, lets nothing in.

Source: KIP-98, KIP-360, KIP-890; Kafka's ProducerAppendInfo, VerificationStateEntry, UnifiedLog.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.errors import ErrorCode
from storage.state.producer_state import NO_EPOCH, SEQUENCES, ProducerEntry, Verification

MAX_EPOCH = 32_767


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
    guard: Verification | None = None,
    verify: bool = False,
) -> Verdict:
    """May this data batch of an idempotent producer be appended? `entry` is what the log knows of it.

    `verification` is the question about this producer that the log keeps, `guard` the one that this request has asked
    and had answered well. With `verify` a batch that opens a transaction must hold the log's. A batch without producer
    id needs no check. An unknown producer may begin anywhere.
    Source: ProducerAppendInfo.appendDataBatch, UnifiedLog.analyzeAndValidateProducerState.
    """
    if base_sequence < 0:
        return Refuse(ErrorCode.INVALID_RECORD, f"producer {producer_id} sent sequence {base_sequence}")
    if entry is not None and entry.epoch == epoch:
        last_sequence = (base_sequence + last_offset_delta) % SEQUENCES
        for sent in entry.batches:
            if sent.last_sequence == last_sequence and sent.first_sequence == base_sequence:
                return Duplicate(sent.base_offset, sent.last_offset, sent.timestamp)
    refused = check_epoch(entry, producer_id=producer_id, epoch=epoch)
    if refused is None and transactional:
        refused = _check_verified(entry, producer_id, epoch, verification, guard, verify=verify)
    if refused is not None:
        return refused
    expected = _expected_sequence(entry, epoch, base_sequence, verification)
    if base_sequence != expected:
        return Refuse(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id} at epoch {epoch}: expected sequence {expected}, batch has {base_sequence}",
        )
    if not transactional and entry is not None and entry.transaction_first_offset >= 0:
        return Refuse(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {producer_id} has a transaction open, batch is outside of it",
        )
    return ACCEPT


def check_unsequenced(
    entry: ProducerEntry | None,
    *,
    producer_id: int,
    epoch: int,
    verification: Verification | None = None,
    guard: Verification | None = None,
    verify: bool = False,
) -> Refuse | None:
    """May the group coordinator append these offsets to the producer's transaction? Its sequences mean nothing there.

    Source: ProducerAppendInfo with AppendOrigin.COORDINATOR.
    """
    return check_epoch(entry, producer_id=producer_id, epoch=epoch) or _check_verified(
        entry, producer_id, epoch, verification, guard, verify=verify
    )


def check_marker(
    entry: ProducerEntry | None,
    *,
    producer_id: int,
    epoch: int,
    coordinator_epoch: int,
    transaction_version: int,
) -> Refuse | None:
    """May this marker be appended?

    A coordinator of transaction version 2 raises the epoch before it writes markers, so that a marker of the epoch that
    is in use here is one that comes late, and would end the transaction after its own. With no transaction open it is
    the repetition of a marker whose answer was lost, and refusing it would leave the coordinator asking for ever
    (KAFKA-19999). The highest epoch is let through either way: it cannot be raised.
    Source: ProducerAppendInfo.checkProducerEpoch, checkCoordinatorEpoch.
    """
    if producer_id < 0 or epoch < 0:
        return Refuse(ErrorCode.UNKNOWN_SERVER_ERROR, f"a marker of producer {producer_id} at epoch {epoch}")
    if entry is None:
        return None
    known = entry.epoch
    late = epoch <= known if transaction_version >= 2 else epoch < known
    if late and epoch == known:
        late = entry.transaction_first_offset >= 0 and epoch != MAX_EPOCH
    if late:
        return Refuse(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} is at epoch {known}, a marker of transaction version {transaction_version} has "
            f"{epoch}",
        )
    if coordinator_epoch < entry.coordinator_epoch:
        return Refuse(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"producer {producer_id} has a marker of coordinator epoch {entry.coordinator_epoch}, this one is of "
            f"{coordinator_epoch}",
        )
    return None


def check_epoch(entry: ProducerEntry | None, *, producer_id: int, epoch: int) -> Refuse | None:
    """Is the producer fenced here? Asked too before a verification is begun, since its answer would change nothing."""
    if entry is None or epoch >= entry.epoch:
        return None
    return Refuse(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} is at epoch {entry.epoch}, batch has {epoch}",
    )


def _check_verified(
    entry: ProducerEntry | None,
    producer_id: int,
    epoch: int,
    verification: Verification | None,
    guard: Verification | None,
    *,
    verify: bool,
) -> Refuse | None:
    if not verify or (entry is not None and entry.is_open(epoch)) or (guard is not None and guard is verification):
        return None
    return Refuse(ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has no verified transaction here")


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
