"""Partitions join a transaction, before anything is written to them; and the question whether they are in it.

Source: KIP-98, KIP-890; Kafka's TransactionCoordinator.handleAddPartitionsToTransaction,
handleVerifyPartitionsInTransaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.outcome import Outcome, Reply
from coordinator.transactions.answers import partitions_answer
from coordinator.transactions.events import event, named
from coordinator.transactions.inputs import Added
from coordinator.transactions.transaction import PREPARED, TransactionState
from coordinator.transactions.transitions import staged, with_partitions
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.transactions.inputs import AddPartitions, VerifyPartitions
    from coordinator.transactions.transaction import Transaction
    from coordinator.transactions.view import TransactionOutcome, View

_NONE = ErrorCode.NONE


def check_epoch(transaction: Transaction, producer_id: int, producer_epoch: int) -> ErrorCode:
    """Whether the id belongs to this producer, in this epoch."""
    if transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return _NONE


def add_partitions(view: View, request: AddPartitions, now_ms: int) -> TransactionOutcome:
    """The transaction is open with these partitions in it, once that is in the log."""
    transaction = view.transaction
    if not request.transactional_id:
        return Outcome(transaction, replies=(partitions_answer(request, ErrorCode.INVALID_REQUEST),))
    if transaction is None:
        return Outcome(None, replies=(partitions_answer(request, ErrorCode.INVALID_PRODUCER_ID_MAPPING),))
    if transaction.is_busy:
        # Asked first: the next producer may already use an id that this state does not know yet.
        return Outcome(transaction, replies=(partitions_answer(request, ErrorCode.CONCURRENT_TRANSACTIONS),))
    error = check_epoch(transaction, request.producer_id, request.producer_epoch)
    if error:
        return _refused(transaction, request, error, now_ms)
    if transaction.state is TransactionState.ONGOING and request.partitions <= transaction.partitions:
        return Outcome(transaction, replies=(partitions_answer(request, _NONE),))
    if request.client_version >= 2 and not view.settings.value_version:
        # The record could not say what the client relies on.
        return Outcome(transaction, replies=(partitions_answer(request, ErrorCode.UNSUPPORTED_VERSION),))
    then = with_partitions(transaction, view.settings, now_ms, request.partitions, request.client_version)
    return staged(view, transaction, then, Added(request))


def verify_partitions(view: View, request: VerifyPartitions, now_ms: int) -> TransactionOutcome:
    """Whether each partition is in the transaction of this producer.

    What is on its way to the log does not matter: the partition asks itself once more when it appends.
    """
    transaction = view.transaction
    if not request.transactional_id:
        error = ErrorCode.INVALID_REQUEST
    elif transaction is None:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    else:
        error = check_epoch(transaction, request.producer_id, request.producer_epoch)
        if not error and transaction.state in PREPARED:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
    if error or transaction is None:
        return Outcome(transaction, replies=(partitions_answer(request, error),))
    inside = transaction.partitions
    errors = {one: _NONE if one in inside else ErrorCode.TRANSACTION_ABORTABLE for one in request.partitions}
    return Outcome(transaction, replies=(Reply(request.reply_to, errors),))


def _refused(transaction: Transaction, request: AddPartitions, error: ErrorCode, now_ms: int) -> TransactionOutcome:
    refused = event(
        "transaction_request_refused",
        transaction,
        now_ms,
        request="AddPartitionsToTxn",
        error=error.name,
        given_id=request.producer_id,
        given_epoch=request.producer_epoch,
        client_id=request.client_id,
        client_host=request.client_host,
        partitions=named(request.partitions),
    )
    return Outcome(transaction, replies=(partitions_answer(request, error),), events=(refused,))
