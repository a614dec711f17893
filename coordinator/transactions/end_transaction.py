"""EndTxn: a producer decides its transaction.

Two sets of rules, by the version of the request and whatever level the cluster has. Before KIP-890 the epoch stays, and
an answer that was lost is known by the state; since then the epoch rises with every end, so a request with the epoch
before the current one is the same that came before.

Source: KIP-98, KIP-588, KIP-890; Kafka's TransactionCoordinator.endTransaction, endTransactionWithTV1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.outcome import Outcome
from coordinator.transactions.answers import end_answer, end_refused
from coordinator.transactions.events import event
from coordinator.transactions.inputs import Decided, TakeProducerId
from coordinator.transactions.transaction import (
    COMPLETED,
    LARGEST_EPOCH,
    NO_PRODUCER_ID,
    Ending,
    TransactionState,
)
from coordinator.transactions.transitions import decided, decided_with_bump, staged
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.transactions.inputs import EndTransaction
    from coordinator.transactions.transaction import Transaction
    from coordinator.transactions.view import TransactionOutcome, View

BUMPS_SINCE = 5
_NONE = ErrorCode.NONE
_STRANGER = ErrorCode.INVALID_PRODUCER_ID_MAPPING
_FENCED = ErrorCode.PRODUCER_FENCED
_BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
_WRONG_STATE = ErrorCode.INVALID_TXN_STATE


def end_transaction(view: View, request: EndTransaction, now_ms: int) -> TransactionOutcome:
    """Decide, or say that it is decided, or that it cannot be."""
    transaction = view.transaction
    if not request.transactional_id:
        return Outcome(transaction, replies=(end_refused(request, ErrorCode.INVALID_REQUEST),))
    if transaction is None:
        return Outcome(None, replies=(end_refused(request, _STRANGER),))
    bumps = request.version >= BUMPS_SINCE
    verdict = (_since_kip_890 if bumps else _before_kip_890)(transaction, request)
    if verdict is _NONE:
        return Outcome(transaction, replies=(end_answer(request, transaction),))
    if verdict is not None:
        return _refused(transaction, request, verdict, now_ms)
    if bumps and not view.settings.value_version:
        # The record could not say what the client relies on.
        return Outcome(transaction, replies=(end_refused(request, ErrorCode.UNSUPPORTED_VERSION),))
    ending = Ending("client", now_ms, request.client_id, request.client_host)
    settings, committed = view.settings, request.committed
    if not bumps:
        then = decided(
            transaction,
            settings,
            now_ms,
            committed=committed,
            client_version=0,
            epoch=transaction.producer_epoch,
            last_epoch=transaction.last_producer_epoch,
            ending=ending,
        )
        return staged(view, transaction, then, Decided(request))
    next_id = NO_PRODUCER_ID
    if transaction.is_exhausted:
        if request.fresh_error:
            return Outcome(transaction, replies=(end_refused(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),))
        if request.fresh_id is None:
            return Outcome(transaction, work=(TakeProducerId(request),))
        next_id = request.fresh_id
    then = decided_with_bump(transaction, settings, now_ms, committed=committed, ending=ending, next_id=next_id)
    return staged(view, transaction, then, Decided(request))


def _before_kip_890(transaction: Transaction, request: EndTransaction) -> ErrorCode | None:
    """The answer; None when the transaction is to be decided now."""
    if transaction.producer_id != request.producer_id:
        return _STRANGER
    if transaction.producer_epoch != request.producer_epoch:
        return _FENCED
    if transaction.is_busy:
        return _BUSY
    if transaction.state is TransactionState.ONGOING:
        return None
    if transaction.state in COMPLETED:
        return _NONE if transaction.is_committed == request.committed else _WRONG_STATE
    return _WRONG_STATE


def _since_kip_890(transaction: Transaction, request: EndTransaction) -> ErrorCode | None:
    """The answer; None when there is something to decide, be it an empty abort."""
    if transaction.is_busy:
        # Asked first: the next producer may already use an id that this state does not know yet.
        return _BUSY
    epoch, given = transaction.producer_epoch, request.producer_epoch
    is_over = transaction.state in COMPLETED
    came_before_rotation = (
        is_over
        and request.producer_id == transaction.previous_producer_id
        and given == LARGEST_EPOCH - 1
        and epoch == 0
    )
    if transaction.producer_id != request.producer_id and not came_before_rotation:
        return _STRANGER
    # Nobody is given the last epoch: it is there only because somebody was shut out by it.
    came_before = came_before_rotation or (is_over and given + 1 == epoch < LARGEST_EPOCH)
    if given != epoch and not came_before:
        return _FENCED
    if transaction.state is TransactionState.ONGOING:
        return None
    if came_before:
        return _NONE if transaction.is_committed == request.committed else _WRONG_STATE
    # Nothing is open. A client in doubt may abort all the same, and so get past whatever it does not know of.
    return _WRONG_STATE if request.committed else None


def _refused(transaction: Transaction, request: EndTransaction, error: ErrorCode, now_ms: int) -> TransactionOutcome:
    reply = end_refused(request, error)
    if error is _BUSY:
        return Outcome(transaction, replies=(reply,))
    refused = event(
        "transaction_request_refused",
        transaction,
        now_ms,
        request="EndTxn",
        error=error.name,
        state=transaction.state.title,
        committed=request.committed,
        given_id=request.producer_id,
        given_epoch=request.producer_epoch,
        client_id=request.client_id,
        client_host=request.client_host,
    )
    return Outcome(transaction, replies=(reply,), events=(refused,))
