"""The end of a transaction that its producer does not ask for: fencing, and the timeout.

Both abort, and both shut the producer out that had it: by the rules of the level that the cluster has, whatever the
client speaks. Source: KIP-98, KIP-890; Kafka's TransactionCoordinator.abortTimedOutTransactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.outcome import CancelTimer, Outcome, SetTimer
from coordinator.transactions.inputs import Decided, TakeProducerId, TransactionTimedOut
from coordinator.transactions.transaction import NO_PRODUCER_ID, NO_TIMEOUT_MS, Ending, TransactionState
from coordinator.transactions.transitions import decided_with_bump, fenced, staged

if TYPE_CHECKING:
    from coordinator.transactions.inputs import InitProducerId
    from coordinator.transactions.transaction import Transaction
    from coordinator.transactions.view import TransactionOutcome, View

TRY_AGAIN_MS = 1_000
"""When an abort that could not be written is tried again."""


def timeout_timer(transaction: Transaction, now_ms: int) -> SetTimer | None:
    """When an open transaction is aborted; None for one that somebody else decides."""
    if transaction.timeout_ms == NO_TIMEOUT_MS:
        return None
    # Kafka aborts what is older than its timeout: at the deadline itself a commit still wins.
    deadline_ms = transaction.start_ms + transaction.timeout_ms + 1
    event = TransactionTimedOut(transaction.transactional_id, transaction.start_ms)
    return SetTimer(_timer(transaction), max(deadline_ms, now_ms), event)


def cancel_timeout(transaction: Transaction) -> CancelTimer:
    """It is not open any more."""
    return CancelTimer(_timer(transaction))


def transaction_timed_out(view: View, timeout: TransactionTimedOut, now_ms: int) -> TransactionOutcome:
    """Abort what has been open for too long."""
    transaction = view.transaction
    if transaction is None or transaction.state is not TransactionState.ONGOING:
        return Outcome(transaction)
    if transaction.start_ms != timeout.start_ms:
        return Outcome(transaction)  # another one by now, which has its own timer
    if transaction.pending is not None or timeout.fresh_error:
        return Outcome(transaction, timers=(timed_out_again(transaction, now_ms),))
    return aborted(view, transaction, timeout, Ending("timed_out", now_ms), now_ms)


def aborted(
    view: View,
    transaction: Transaction,
    event: InitProducerId | TransactionTimedOut,
    ending: Ending,
    now_ms: int,
) -> TransactionOutcome:
    """Decide an open transaction for abort, and shut its producer out."""
    request = None if isinstance(event, TransactionTimedOut) else event
    if not view.settings.bumps_epochs:
        then = fenced(transaction, view.settings, now_ms, ending)
        return staged(view, transaction, then, Decided(request))
    next_id = NO_PRODUCER_ID
    if transaction.is_exhausted:
        if event.fresh_id is None:
            return Outcome(transaction, work=(TakeProducerId(event),))
        next_id = event.fresh_id
    then = decided_with_bump(transaction, view.settings, now_ms, committed=False, ending=ending, next_id=next_id)
    return staged(view, transaction, then, Decided(request))


def timed_out_again(transaction: Transaction, now_ms: int) -> SetTimer:
    """When an abort that could not be made is tried again."""
    again = TransactionTimedOut(transaction.transactional_id, transaction.start_ms)
    return SetTimer(_timer(transaction), now_ms + TRY_AGAIN_MS, again)


def _timer(transaction: Transaction) -> tuple[str, str]:
    return ("transaction", transaction.transactional_id)
