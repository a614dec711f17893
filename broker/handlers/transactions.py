"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, DescribeTransactions, ListTransactions.

Requests become inputs of the transactional id's leader, and answers get their version's shape. The rules are in
`coordinator.transactions`.

Source: Kafka's KafkaApis.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import re2

from broker.catalogue.internal_topics import OFFSETS_TOPIC
from broker.catalogue.topics_image import INTERNAL_TOPICS
from broker.coordinators.batches import LeaderState
from broker.handlers.authorizer import Operation, ResourceType, authorize, probe
from broker.handlers.context import Deferred
from broker.handlers.gathering import Gathering, gathered, refuse_repetition
from coordinator.routing import partition_for
from coordinator.transactions.describe import list_transactions as list_of
from coordinator.transactions.inputs import AddPartitions, DescribeTransaction, EndTransaction, VerifyPartitions
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.list_transactions import ListedTransaction, ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from coordinator.transactions.shard import TransactionShard
    from coordinator.transactions.transaction import TopicPartition

_FROM_BROKERS = 4  # AddPartitionsToTxn
_FENCED_KNOWN_SINCE = 2  # AddPartitionsToTxn and AddOffsetsToTxn
_FORBIDDEN = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_WRITE, _DESCRIBE = Operation.WRITE, Operation.DESCRIBE
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
_PATTERN_MAX_BYTES = 10_000_000  # of a compiled one

_Errors = dict["TopicPartition", ErrorCode]


class _To:
    """Where a rule's answer goes: to a call of ours."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[Any], None]) -> None:
        self._then = then

    def complete(self, response: Any) -> None:
        """Tell it."""
        self._then(response)


# -- AddPartitionsToTxn, AddOffsetsToTxn ---------------------------------------------------------------------------


def add_partitions_to_txn(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Deferred:
    """Partitions join a transaction, one for each request up to version 3; brokers, from 4 on, ask about several."""
    if context.version >= _FROM_BROKERS:
        if not authorize(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return _for_brokers(broker, context, request)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    deferred = Deferred()

    def answer(errors: Mapping[TopicPartition, ErrorCode]) -> None:
        told = {one: _for_version(error, context.version) for one, error in errors.items()}
        deferred.complete(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(told)))

    _add(broker, context, transaction, answer)
    return deferred


def _for_brokers(broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest) -> Deferred:
    transactions = request.transactions

    def respond(results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    gathering = Gathering(len(transactions), respond)

    def ask(index: int) -> None:
        transaction = transactions[index]

        def answer(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            result = AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=_by_topic(errors)
            )
            gathering.put(index, result)

        _add(broker, context, transaction, answer)

    return gathered(broker, context, gathering, len(transactions), ask)


def _add(
    broker: Broker,
    context: RequestContext,
    transaction: AddPartitionsToTxnTransaction,
    answer: Callable[[Mapping[TopicPartition, ErrorCode]], None],
) -> None:
    transactional_id = transaction.transactional_id
    partitions = _partitions(transaction.topics)
    from_client = context.version < _FROM_BROKERS
    if from_client and not authorize(context, _WRITE, _TRANSACTIONAL_ID, transactional_id):
        answer(dict.fromkeys(partitions, _FORBIDDEN))
        return
    refused = _refused(broker, context, partitions, from_client=from_client)
    if refused:
        # All or nothing: those that could have joined are not looked at.
        answer({one: refused.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions})
        return
    leader = broker.transactions.leader_of(transactional_id)
    pair = (transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        leader.submit(VerifyPartitions(transactional_id, *pair, frozenset(partitions), _To(answer)))
    else:
        shown = 0 if from_client else 2
        leader.submit(
            AddPartitions(
                transactional_id,
                *pair,
                frozenset(partitions),
                shown,
                _To(answer),
                context.client_id,
                "/" + context.host,
            )
        )


def _refused(
    broker: Broker, context: RequestContext, partitions: Iterable[TopicPartition], *, from_client: bool
) -> _Errors:
    image = broker.catalogue.image
    refused: _Errors = {}
    for topic, index in partitions:
        may = not from_client or (
            topic not in INTERNAL_TOPICS and authorize(context, _WRITE, ResourceType.TOPIC, topic)
        )
        count = image.partition_count(topic)
        if not may:
            refused[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif count is None or not 0 <= index < count:
            refused[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _by_topic(errors: Mapping[TopicPartition, ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), error in errors.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        topics.setdefault(topic, []).append(result)
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in topics.items()]


def _for_version(error: ErrorCode, version: int) -> ErrorCode:
    """Clients before KIP-588 know a fenced producer under another code."""
    if error is ErrorCode.PRODUCER_FENCED and version < _FENCED_KNOWN_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def add_offsets_to_txn(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Deferred:
    """The partition of `__consumer_offsets` that the group's offsets lie in joins the transaction."""
    transactional_id = request.transactional_id
    if not authorize(context, _WRITE, _TRANSACTIONAL_ID, transactional_id):
        return AddOffsetsToTxnResponse(error_code=_FORBIDDEN)
    if not authorize(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    # The topic need not be there yet: the group coordinator makes it before it takes any offset.
    count = len(broker.groups.leaders) or broker.settings.offsets_topic_num_partitions
    place = (OFFSETS_TOPIC, partition_for(request.group_id, count))
    deferred = Deferred()

    def answer(errors: Mapping[TopicPartition, ErrorCode]) -> None:
        deferred.complete(AddOffsetsToTxnResponse(error_code=_for_version(errors[place], context.version)))

    broker.transactions.leader_of(transactional_id).submit(
        AddPartitions(
            transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({place}),
            0,
            _To(answer),
            context.client_id,
            "/" + context.host,
        )
    )
    return deferred


# -- EndTxn --------------------------------------------------------------------------------------------------------


def end_txn(broker: Broker, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Deferred:
    """A producer decides its transaction; answered when the decision is durable."""
    transactional_id = request.transactional_id
    if not authorize(context, _WRITE, _TRANSACTIONAL_ID, transactional_id):
        return EndTxnResponse(error_code=_FORBIDDEN)
    deferred = Deferred()
    broker.transactions.leader_of(transactional_id).submit(
        EndTransaction(
            transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            context.version,
            deferred,
            context.client_id,
            "/" + context.host,
        )
    )
    return deferred


# -- administration ------------------------------------------------------------------------------------------------


def describe_transactions(broker: Broker, context: RequestContext, request: DescribeTransactionsRequest) -> Deferred:
    """State, producer and partitions of each transactional id asked for."""
    ids = request.transactional_ids
    refuse_repetition(ids, len(ids))
    gathering = Gathering(len(ids), lambda results: DescribeTransactionsResponse(transaction_states=results))

    def visible(index: int, described: DescribedTransaction) -> None:
        described.topics = [
            topic for topic in described.topics if probe(context, _DESCRIBE, ResourceType.TOPIC, topic.topic)
        ]
        gathering.put(index, described)

    def describe(index: int) -> None:
        transactional_id = ids[index]
        if not authorize(context, _DESCRIBE, _TRANSACTIONAL_ID, transactional_id):
            refused = DescribedTransaction(error_code=_FORBIDDEN, transactional_id=transactional_id)
            gathering.put(index, refused)
            return
        reply_to = _To(partial(visible, index))
        broker.transactions.leader_of(transactional_id).submit(DescribeTransaction(transactional_id, reply_to))

    return gathered(broker, context, gathering, len(ids), describe)


def list_transactions(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Deferred:
    """Every transactional id that passes the request's filters."""
    leaders = broker.transactions.leaders
    matches = None
    if request.transactional_id_pattern:
        try:
            matches = _matcher(request.transactional_id_pattern)
        except re2.error:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)

    def listed(shard: TransactionShard | None) -> ListTransactionsResponse:
        transactions = [] if shard is None else shard.states.values()
        return list_of(transactions, request, matches, broker.runtime.now_ms())

    def respond(parts: list[list[ListedTransaction]]) -> ListTransactionsResponse:
        if any(leader.state is LeaderState.LOADING for leader in leaders):
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        response = listed(None)
        response.transaction_states = [
            one for part in parts for one in part if probe(context, _DESCRIBE, _TRANSACTIONAL_ID, one.transactional_id)
        ]
        return response

    gathering = Gathering(len(leaders), respond)

    def ask(index: int) -> None:
        leader = leaders[index]
        leader.when_settled(lambda: gathering.put(index, listed(leader.shard).transaction_states))

    return gathered(broker, context, gathering, len(leaders), ask)


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a whole id matches. Not Python's own expressions: some of those take for ever. Raises: re2.error."""
    options = re2.Options()
    options.max_mem = _PATTERN_MAX_BYTES
    options.log_errors = False
    compiled = re2.compile(pattern, options=options)
    return lambda name: compiled.fullmatch(name) is not None
