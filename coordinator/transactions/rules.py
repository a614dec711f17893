"""Which rule answers which input, and what a request is answered that cannot be served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.outcome import Appended, AppendFailed
from coordinator.transactions.add_partitions import add_partitions, verify_partitions
from coordinator.transactions.answers import end_refused, init_refused, partitions_answer
from coordinator.transactions.describe import describe_transaction, not_described
from coordinator.transactions.end_transaction import end_transaction
from coordinator.transactions.ending import transaction_timed_out
from coordinator.transactions.init_producer_id import init_producer_id
from coordinator.transactions.inputs import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    ExpireTransactionalId,
    InitProducerId,
    MarkersWritten,
    RetryMarkers,
    TransactionLoaded,
    TransactionTimedOut,
    Unload,
    VerifyPartitions,
)
from coordinator.transactions.leadership import expire_transactional_id, loaded, unload
from coordinator.transactions.markers import markers_written, retry_markers
from coordinator.transactions.written import append_failed, appended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coordinator.outcome import Input, Reply
    from coordinator.transactions.view import TransactionOutcome, View
    from protocol.errors import ErrorCode

RULES: Mapping[type[Input], Callable[[View, Any, int], TransactionOutcome]] = {
    InitProducerId: init_producer_id,
    AddPartitions: add_partitions,
    VerifyPartitions: verify_partitions,
    EndTransaction: end_transaction,
    TransactionTimedOut: transaction_timed_out,
    MarkersWritten: markers_written,
    RetryMarkers: retry_markers,
    DescribeTransaction: describe_transaction,
    ExpireTransactionalId: expire_transactional_id,
    TransactionLoaded: loaded,
    Unload: unload,
    Appended: appended,
    AppendFailed: append_failed,
}

_REFUSALS: Mapping[type[Input], Callable[[Any, ErrorCode], Reply]] = {
    InitProducerId: init_refused,
    AddPartitions: partitions_answer,
    VerifyPartitions: partitions_answer,
    EndTransaction: end_refused,
    DescribeTransaction: not_described,
}


def unserved(event: Input, error: ErrorCode) -> Reply | None:
    """The answer to a request that cannot be served now; None when nobody waits for one.

    `error`: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS while the log is being loaded. What is wrong with a
    request that is never right is not said: the coordinator that serves it will.
    """
    refusal = _REFUSALS.get(type(event))
    return None if refusal is None else refusal(event, error)
