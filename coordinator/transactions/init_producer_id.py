"""InitProducerId with a transactional id: a producer takes it over, and whoever had it is shut out.

Source: KIP-98, KIP-360, KIP-588, KIP-890, KIP-939; Kafka's TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.outcome import Outcome
from coordinator.transactions.answers import init_refused
from coordinator.transactions.ending import aborted
from coordinator.transactions.events import event
from coordinator.transactions.inputs import Initialized, TakeProducerId
from coordinator.transactions.transaction import (
    LARGEST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Ending,
    Transaction,
    TransactionState,
)
from coordinator.transactions.transitions import initialized, rotated, staged
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.transactions.inputs import InitProducerId
    from coordinator.transactions.view import TransactionOutcome, TransactionSettings, View

_NONE = ErrorCode.NONE


def check_request(request: InitProducerId, settings: TransactionSettings) -> ErrorCode:
    """What can be said without looking at the id."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if request.enable_2pc and not settings.two_phase_commit:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared:
        return ErrorCode.UNSUPPORTED_VERSION
    if not request.enable_2pc and not 0 < request.timeout_ms <= settings.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return _NONE


def check_producer(transaction: Transaction, request: InitProducerId) -> ErrorCode:
    """Whether the producer that the client says it is may go on under this id."""
    if request.producer_id == NO_PRODUCER_ID or transaction.producer_epoch == NO_EPOCH:
        return _NONE
    if request.producer_id == transaction.producer_id:
        return _NONE
    # It may have asked before for the id that came after an exhausted one, and not heard the answer.
    was_exhausted = request.producer_epoch >= LARGEST_EPOCH - 1
    if request.producer_id == transaction.previous_producer_id and was_exhausted:
        return _NONE
    return ErrorCode.PRODUCER_FENCED


def init_producer_id(view: View, request: InitProducerId, now_ms: int) -> TransactionOutcome:
    """Give the id to the producer that asks, after an abort if a transaction is open under it."""
    transaction = view.transaction
    error = check_request(request, view.settings)
    if not error and request.fresh_error:
        # Kafka too answers "loading" when it has no id in hand: every client asks again.
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error:
        return Outcome(transaction, replies=(init_refused(request, error),))
    timeout_ms = NO_TIMEOUT_MS if request.enable_2pc else request.timeout_ms
    if transaction is None:
        if request.fresh_id is None:
            return Outcome(None, work=(TakeProducerId(request),))
        transaction = Transaction(request.transactional_id, request.fresh_id, NO_EPOCH, timeout_ms)
    if transaction.is_busy:
        return Outcome(transaction, replies=(init_refused(request, ErrorCode.CONCURRENT_TRANSACTIONS),))
    error = check_producer(transaction, request)
    if error:
        return _fenced(transaction, request, now_ms)
    if transaction.state is TransactionState.ONGOING:
        ending = Ending("fenced", now_ms, request.client_id, request.client_host)
        return aborted(view, transaction, request, ending, now_ms)
    return _new_epoch(view, transaction, request, timeout_ms, now_ms)


def _new_epoch(
    view: View, transaction: Transaction, request: InitProducerId, timeout_ms: int, now_ms: int
) -> TransactionOutcome:
    epoch, given = transaction.producer_epoch, request.producer_epoch
    knows_itself = given != NO_EPOCH
    if transaction.is_exhausted and (not knows_itself or given == epoch):
        if request.fresh_id is None:
            return Outcome(transaction, work=(TakeProducerId(request),))
        last = epoch if knows_itself else NO_EPOCH
        then = rotated(
            transaction, view.settings, now_ms, timeout_ms=timeout_ms, new_id=request.fresh_id, last_epoch=last
        )
        return staged(view, transaction, then, Initialized(request))
    if not knows_itself:
        epoch, last = epoch + 1, NO_EPOCH
    elif epoch in (given, NO_EPOCH):
        epoch, last = epoch + 1, epoch
    elif given == transaction.last_producer_epoch:
        last = given  # it asks again, since it did not hear the answer: the same once more
    else:
        return _fenced(transaction, request, now_ms)
    then = initialized(transaction, view.settings, now_ms, timeout_ms=timeout_ms, epoch=epoch, last_epoch=last)
    return staged(view, transaction, then, Initialized(request))


def _fenced(transaction: Transaction, request: InitProducerId, now_ms: int) -> TransactionOutcome:
    refused = event(
        "transaction_request_refused",
        transaction,
        now_ms,
        request="InitProducerId",
        error=ErrorCode.PRODUCER_FENCED.name,
        given_id=request.producer_id,
        given_epoch=request.producer_epoch,
        client_id=request.client_id,
        client_host=request.client_host,
    )
    reply = init_refused(request, ErrorCode.PRODUCER_FENCED)
    return Outcome(transaction, replies=(reply,), events=(refused,))
