"""DescribeTransactions and ListTransactions.

Source: KIP-664, KIP-994, KIP-1152; Kafka's TransactionCoordinator.handleDescribeTransactions,
TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.outcome import Outcome, Reply
from coordinator.transactions.transaction import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import DescribedTransaction, DescribeTransactionsTopicData
from protocol.messages.list_transactions import ListedTransaction, ListTransactionsResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coordinator.transactions.inputs import DescribeTransaction
    from coordinator.transactions.transaction import Transaction
    from coordinator.transactions.view import TransactionOutcome, View
    from protocol.messages.list_transactions import ListTransactionsRequest

_STATES = {state.title: state for state in TransactionState}


def describe_transaction(view: View, request: DescribeTransaction, now_ms: int) -> TransactionOutcome:
    """One id as it is; of a decided transaction those partitions that still wait for their marker."""
    transaction = view.transaction
    if not request.transactional_id:
        return Outcome(transaction, replies=(not_described(request, ErrorCode.INVALID_REQUEST),))
    if transaction is None or transaction.producer_epoch < 0:
        return Outcome(transaction, replies=(not_described(request, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),))
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.waiting):
        topics.setdefault(topic, []).append(partition)
    described = DescribedTransaction(
        transactional_id=request.transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[DescribeTransactionsTopicData(topic=topic, partitions=which) for topic, which in topics.items()],
    )
    return Outcome(transaction, replies=(Reply(request.reply_to, described),))


def not_described(request: DescribeTransaction, error: ErrorCode) -> Reply:
    """Nothing but the error."""
    return Reply(request.reply_to, DescribedTransaction(error_code=error, transactional_id=request.transactional_id))


def list_transactions(
    transactions: Iterable[Transaction],
    request: ListTransactionsRequest,
    matches: Callable[[str], bool] | None,
    now_ms: int,
) -> ListTransactionsResponse:
    """Those that pass every filter. `matches` is the request's pattern, None when it has none.

    An id without a transaction counts as begun at -1, so it passes a filter for long ones, as in Kafka.
    """
    names = request.state_filters
    states = {_STATES[name] for name in names if name in _STATES}
    producer_ids = set(request.producer_id_filters)
    longer_than_ms = request.duration_filter
    listed = [
        ListedTransaction(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            transaction_state=one.state.title,
        )
        for one in transactions
        if one.producer_epoch >= 0
        and (not names or one.state in states)
        and (not producer_ids or one.producer_id in producer_ids)
        and (longer_than_ms < 0 or now_ms - one.start_ms > longer_than_ms)
        and (matches is None or matches(one.transactional_id))
    ]
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in names if name not in _STATES], transaction_states=listed
    )
