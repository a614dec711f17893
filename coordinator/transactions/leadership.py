"""A transactional id's time on this broker: loaded, unused for too long, given up.

Source: Kafka's TransactionStateManager.loadTransactionsForTxnTopicPartition, removeExpiredTransactionalIds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.outcome import Outcome
from coordinator.transactions.ending import cancel_timeout, timeout_timer
from coordinator.transactions.events import event, named
from coordinator.transactions.inputs import Expired
from coordinator.transactions.markers import cancel_retry, markers_of
from coordinator.transactions.transaction import PREPARED, RESTING, Ending, TransactionState
from coordinator.transactions.transitions import dead, staged
from coordinator.values import altered

if TYPE_CHECKING:
    from coordinator.transactions.events import TransactionEvent
    from coordinator.transactions.inputs import ExpireTransactionalId, TransactionLoaded, Unload
    from coordinator.transactions.transaction import Transaction
    from coordinator.transactions.view import TransactionOutcome, View


def loaded(view: View, event_: TransactionLoaded, now_ms: int) -> TransactionOutcome:
    """What was open goes on under its old clock; what was decided is carried out, from the first marker on."""
    transaction = view.transaction
    if transaction is None:
        return Outcome(None)
    if transaction.state is TransactionState.ONGOING:
        timer = timeout_timer(transaction, now_ms)
        return Outcome(transaction, timers=() if timer is None else (timer,), events=(_told(transaction, now_ms),))
    if transaction.state is TransactionState.COMPLETE_ABORT:
        return Outcome(transaction, events=(_aborted_before(transaction),))
    if transaction.state not in PREPARED:
        return Outcome(transaction)
    ending = Ending("loaded", transaction.last_update_ms)
    transaction = altered(transaction, unmarked=transaction.partitions, ending=ending)
    return Outcome(transaction, events=(_told(transaction, now_ms),), work=(markers_of(transaction),))


def _told(transaction: Transaction, now_ms: int) -> TransactionEvent:
    return event(
        "transaction_loaded",
        transaction,
        now_ms,
        state=transaction.state.title,
        committed=transaction.is_committed,
        open_ms=now_ms - transaction.start_ms,
        partition_count=len(transaction.partitions),
        partitions=named(transaction.partitions),
    )


def _aborted_before(transaction: Transaction) -> TransactionEvent:
    """What its last record still tells: when it ended, and how long after its first partition."""
    open_ms = transaction.last_update_ms - transaction.start_ms
    return event(
        "transaction_was_aborted",
        transaction,
        transaction.last_update_ms,
        open_ms=open_ms,
        timeout_ms=transaction.timeout_ms,
        timed_out=open_ms >= transaction.timeout_ms,
    )


def unload(view: View, event_: Unload, now_ms: int) -> TransactionOutcome:
    """Nothing of this process's memory counts any more: whoever leads the partition next loads its log."""
    transaction = view.transaction
    if transaction is None:
        return Outcome(None)
    return Outcome(None, timers=(cancel_timeout(transaction), cancel_retry(transaction)))


def expire_transactional_id(view: View, check: ExpireTransactionalId, now_ms: int) -> TransactionOutcome:
    """Forget an id that nobody has used for `transactional.id.expiration.ms`. Never one with a transaction."""
    transaction = view.transaction
    if transaction is None or transaction.is_busy or transaction.state not in RESTING:
        return Outcome(transaction)
    if transaction.last_update_ms > now_ms - view.settings.id_expiration_ms:
        return Outcome(transaction)
    return staged(view, transaction, dead(transaction), Expired())
