"""What follows when a change of state is in the log, or was refused by it.

Only here does the state change, and only here are requests answered that change it. A write that was not committed in
time is in the log all the same, and counts as made: its client is told to ask again.

Source: Kafka's TransactionStateManager.appendTransactionToLog, TransactionMetadata.completeTransitionTo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.append_errors import error_for_client
from coordinator.outcome import Outcome, Reply, SetTimer
from coordinator.transactions.answers import end_answer, end_refused, init_answer, init_refused, partitions_answer
from coordinator.transactions.ending import cancel_timeout, timed_out_again, timeout_timer
from coordinator.transactions.events import event, named
from coordinator.transactions.inputs import Added, Completed, Decided, EndTransaction, Expired, Initialized
from coordinator.transactions.markers import cancel_retry, markers_of, retry_timer
from coordinator.transactions.transaction import NO_EPOCH, Holder, TransactionState
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coordinator.outcome import Appended, AppendFailed, AppendToken
    from coordinator.transactions.transaction import Transaction
    from coordinator.transactions.view import TransactionOutcome, View

_NONE = ErrorCode.NONE
_BUSY = ErrorCode.CONCURRENT_TRANSACTIONS


def appended(view: View, event: Appended, now_ms: int) -> TransactionOutcome:
    """The change is durable: it holds from now on."""
    return _holds(view, event.token, _NONE, now_ms)


def append_failed(view: View, failure: AppendFailed, now_ms: int) -> TransactionOutcome:
    """The change is not in the log: everything is as before, and whoever asked for it is told."""
    if failure.error is ErrorCode.REQUEST_TIMED_OUT:
        return _holds(view, failure.token, error_for_client(failure.error), now_ms)
    transaction = view.transaction
    if transaction is None or transaction.pending is None:
        return Outcome(transaction)
    error = error_for_client(failure.error)
    wanted = transaction.pending.state
    before: Transaction | None = altered(transaction, pending=None)
    timers: tuple[SetTimer, ...] = ()
    if transaction.producer_epoch == NO_EPOCH:
        before = None  # it was to be the first record of this id
    token = failure.token
    if isinstance(token, Completed):
        timers = (retry_timer(transaction, 1, now_ms),)
    elif isinstance(token, Decided) and token.request is None:
        timers = (timed_out_again(transaction, now_ms),)
    failed = event(
        "transaction_write_failed", transaction, now_ms, state=wanted.title, error=ErrorCode(failure.error).name
    )
    return Outcome(before, replies=_replies(token, transaction.pending, error), timers=timers, events=(failed,))


def _holds(view: View, token: AppendToken, error: ErrorCode, now_ms: int) -> TransactionOutcome:
    """`error`: what the client is told although the change was made; NONE if it is answered as it should be."""
    before = view.transaction
    if before is None or before.pending is None:
        return Outcome(before)
    outcome = _THEN[type(token)](before, before.pending, token, now_ms)
    outcome.replies = _replies(token, before.pending, error)
    if error and outcome.work:
        # The decision is not durable yet, and markers must not come before it. Inputs wait for what is on its way.
        outcome.work = ()
        outcome.timers = (*outcome.timers, retry_timer(before, 1, now_ms))
    return outcome


def _initialized(before: Transaction, then: Transaction, token: AppendToken, now_ms: int) -> TransactionOutcome:
    assert isinstance(token, Initialized)
    client_id, client_host = token.request.client_id, token.request.client_host
    known = before.producer_epoch != NO_EPOCH
    told = event(
        "producer_initialized",
        then,
        now_ms,
        timeout_ms=then.timeout_ms,
        client_id=client_id,
        client_host=client_host,
        **({"before_id": before.producer_id, "before_epoch": before.producer_epoch} if known else {}),
    )
    return Outcome(altered(then, holder=Holder(client_id, client_host)), events=(told,))


def _added(before: Transaction, then: Transaction, token: AppendToken, now_ms: int) -> TransactionOutcome:
    if before.state is TransactionState.ONGOING:
        return Outcome(then)
    timer = timeout_timer(then, now_ms)
    began = event("transaction_began", then, now_ms, partitions=named(then.partitions))
    return Outcome(then, timers=() if timer is None else (timer,), events=(began,))


def _decided(before: Transaction, then: Transaction, token: AppendToken, now_ms: int) -> TransactionOutcome:
    then = altered(then, unmarked=then.partitions)
    ending, holder = then.ending, then.holder
    assert ending is not None
    told = event(
        "transaction_decided",
        then,
        now_ms,
        committed=then.is_committed,
        cause=ending.cause,
        client_id=ending.client_id,
        client_host=ending.client_host,
        holder_id="" if holder is None else holder.client_id,
        holder_host="" if holder is None else holder.client_host,
        open_ms=now_ms - then.start_ms,
        timeout_ms=then.timeout_ms,
        partition_count=len(then.partitions),
        partitions=named(then.partitions),
        producer_epoch_before=before.producer_epoch,
    )
    return Outcome(then, timers=(cancel_timeout(then),), events=(told,), work=(markers_of(then),))


def _completed(before: Transaction, then: Transaction, token: AppendToken, now_ms: int) -> TransactionOutcome:
    ending = before.ending
    told = event(
        "transaction_completed",
        then,
        now_ms,
        committed=then.is_committed,
        cause="" if ending is None else ending.cause,
        markers_ms=now_ms - before.last_update_ms,
        partition_count=len(before.partitions),
    )
    return Outcome(altered(then, ending=None), timers=(cancel_retry(then),), events=(told,))


def _expired(before: Transaction, then: Transaction, token: AppendToken, now_ms: int) -> TransactionOutcome:
    idle_ms = now_ms - before.last_update_ms
    return Outcome(None, events=(event("transactional_id_expired", then, now_ms, idle_ms=idle_ms),))


_THEN: Mapping[type[AppendToken], Callable[[Transaction, Transaction, AppendToken, int], TransactionOutcome]] = {
    Initialized: _initialized,
    Added: _added,
    Decided: _decided,
    Completed: _completed,
    Expired: _expired,
}


def _replies(token: AppendToken, then: Transaction, error: ErrorCode) -> tuple[Reply, ...]:
    if isinstance(token, Initialized):
        return (init_refused(token.request, error) if error else init_answer(token.request, then),)
    if isinstance(token, Added):
        return (partitions_answer(token.request, error),)
    if not isinstance(token, Decided) or token.request is None:
        return ()
    if isinstance(token.request, EndTransaction):
        return (end_refused(token.request, error) if error else end_answer(token.request, then),)
    # It asked for the id, found a transaction open and had it aborted: it comes again for its own epoch.
    return (init_refused(token.request, error or _BUSY),)
