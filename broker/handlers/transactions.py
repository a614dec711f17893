"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, DescribeTransactions, ListTransactions.

Requests become inputs of the transactional id's leader, and answers get their version's shape. The rules are in
`coordinator.transactions`.

Source: Kafka's KafkaApis.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from broker.catalogue.internal_topics import OFFSETS_TOPIC
from broker.catalogue.topics_image import INTERNAL_TOPICS
from broker.coordinators.batches import LeaderState
from broker.handlers.authorizer import Operation, ResourceType, authorize, probe
from broker.handlers.context import Deferred
from broker.handlers.gathering import Gathering, deferring, gathered
from broker.loop.slices import InThread, Steps
from coordinator import re2_patterns
from coordinator.routing import partition_for
from coordinator.transactions.describe import list_transactions as list_of
from coordinator.transactions.inputs import AddPartitions, DescribeTransaction, EndTransaction, VerifyPartitions
from coordinator.transactions.transaction import TransactionState
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
_TITLES = {state.title: None for state in TransactionState}
_A_STEP = 128  # partitions, or transactions, that are looked at without a pause
_PATTERN_MAX_BYTES = 10_000_000  # of a compiled one

_Errors = dict["TopicPartition", ErrorCode]


T = TypeVar("T")


class _To(Generic[T]):
    """Where a rule's answer goes: to a call of ours."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[T], None]) -> None:
        self._then = then

    def complete(self, response: T) -> None:
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

    def answer(topics: list[AddPartitionsToTxnTopicResult]) -> None:
        deferred.complete(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))

    return deferring(broker, context, deferred, _add(broker, context, transaction, answer, deferred.fail))


def _for_brokers(broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest) -> Deferred:
    transactions = request.transactions

    def respond(results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    gathering = Gathering(len(transactions), respond)

    def answer(index: int, topics: list[AddPartitionsToTxnTopicResult]) -> None:
        transactional_id = transactions[index].transactional_id
        gathering.put(index, AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=topics))

    def steps() -> Steps[None]:
        for index, transaction in enumerate(transactions):
            yield from _add(broker, context, transaction, partial(answer, index), gathering.deferred.fail)
            yield None

    return deferring(broker, context, gathering.deferred, steps())


def _add(
    broker: Broker,
    context: RequestContext,
    transaction: AddPartitionsToTxnTransaction,
    told: Callable[[list[AddPartitionsToTxnTopicResult]], None],
    failed: Callable[[Exception], None],
) -> Steps[None]:
    """Ask the transaction's leader, unless something is wrong with a partition: then none joins."""
    transactional_id = transaction.transactional_id
    partitions = yield from _partitions(transaction.topics)
    from_client = context.version < _FROM_BROKERS

    def answer(errors: Iterable[tuple[TopicPartition, ErrorCode]]) -> None:
        broker.runtime.in_slices(_by_topic(errors, context.version), told, failed, owner=context.session)

    if from_client and not authorize(context, _WRITE, _TRANSACTIONAL_ID, transactional_id):
        answer((one, _FORBIDDEN) for one in partitions)
        return
    refused = yield from _refused(broker, context, partitions, from_client=from_client)
    if refused:
        # All or nothing: those that could have joined are not looked at.
        answer((one, refused.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED)) for one in partitions)
        return
    leader = broker.transactions.leader_of(transactional_id)
    pair = (transaction.producer_id, transaction.producer_epoch)
    reply_to: _To[_Errors] = _To(lambda errors: answer(errors.items()))
    if transaction.verify_only:
        leader.submit(VerifyPartitions(transactional_id, *pair, frozenset(partitions), reply_to))
    else:
        shown = 0 if from_client else 2
        leader.submit(
            AddPartitions(
                transactional_id,
                *pair,
                frozenset(partitions),
                shown,
                reply_to,
                context.client_id,
                context.client_host,
            )
        )


def _refused(
    broker: Broker, context: RequestContext, partitions: Iterable[TopicPartition], *, from_client: bool
) -> Steps[_Errors]:
    image = broker.catalogue.image
    refused: _Errors = {}
    for number, (topic, index) in enumerate(partitions, start=1):
        may = not from_client or (
            topic not in INTERNAL_TOPICS and authorize(context, _WRITE, ResourceType.TOPIC, topic)
        )
        count = image.partition_count(topic)
        if not number % _A_STEP:
            yield None
        if not may:
            refused[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif count is None or not 0 <= index < count:
            refused[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> Steps[list[TopicPartition]]:
    """Each once, in the order of the request."""
    found: dict[TopicPartition, None] = {}
    for topic in topics:
        name, indexes = topic.name, topic.partitions
        for at in range(0, len(indexes), _A_STEP):
            found.update([((name, index), None) for index in indexes[at : at + _A_STEP]])
            yield None
    return list(found)


def _by_topic(
    errors: Iterable[tuple[TopicPartition, ErrorCode]], version: int
) -> Steps[list[AddPartitionsToTxnTopicResult]]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for number, ((topic, index), error) in enumerate(errors, start=1):
        code = _for_version(error, version)
        result = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        topics.setdefault(topic, []).append(result)
        if not number % _A_STEP:
            yield None
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
            context.client_host,
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
            context.client_host,
        )
    )
    return deferred


# -- administration ------------------------------------------------------------------------------------------------


def describe_transactions(broker: Broker, context: RequestContext, request: DescribeTransactionsRequest) -> Deferred:
    """State, producer and partitions of each transactional id asked for."""
    ids = request.transactional_ids
    gathering: Gathering[DescribedTransaction] = Gathering(
        len(ids), lambda results: DescribeTransactionsResponse(transaction_states=results)
    )

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

    return gathered(broker, context, gathering, len(ids), describe, once=ids)


def list_transactions(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Deferred:
    """Every transactional id that passes the request's filters."""
    leaders = broker.transactions.leaders
    matches = None
    if request.transactional_id_pattern:
        matches = _matcher(request.transactional_id_pattern)
        if matches is None:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)

    deferred = Deferred()
    in_slices = partial(
        broker.runtime.in_slices, failed=deferred.fail, owner=context.session, wanted=deferred.is_wanted
    )

    def respond(parts: list[list[ListedTransaction]]) -> None:
        loading = any(leader.state is LeaderState.LOADING for leader in leaders)
        in_slices(_visible(context, request, [] if loading else parts, loading=loading), deferred.complete)

    def ask(filters: ListTransactionsRequest) -> None:
        gathering = Gathering(len(leaders), respond)

        def settled(index: int, shard: TransactionShard) -> None:
            steps = _listed(shard, filters, matches, broker.runtime.now_ms())
            in_slices(steps, partial(gathering.put, index))

        for index, leader in enumerate(leaders):
            leader.when_settled(partial(settled, index, leader.shard))

    in_slices(_filters(request), ask)
    return deferred


def _filters(request: ListTransactionsRequest) -> Steps[ListTransactionsRequest]:
    """What the leaders are asked: states that nobody can be in, and repetitions, are left out."""

    def short() -> ListTransactionsRequest:
        named = request.state_filters
        return ListTransactionsRequest(
            state_filters=[title for title in _TITLES if title in named] or named[:1],
            producer_id_filters=list(set(request.producer_id_filters)),
            duration_filter=request.duration_filter,
        )

    if len(request.state_filters) + len(request.producer_id_filters) > _A_STEP:
        filters: ListTransactionsRequest = yield InThread(short)
        return filters
    return short()


def _listed(
    shard: TransactionShard, filters: ListTransactionsRequest, matches: Callable[[str], bool] | None, now_ms: int
) -> Steps[list[ListedTransaction]]:
    transactions = list(shard.states.values())
    found: list[ListedTransaction] = []
    for at in range(0, len(transactions), _A_STEP):
        found += list_of(transactions[at : at + _A_STEP], filters, matches, now_ms).transaction_states
        yield None
    return found


def _visible(
    context: RequestContext, request: ListTransactionsRequest, parts: list[list[ListedTransaction]], *, loading: bool
) -> Steps[ListTransactionsResponse]:
    if loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    unknown: list[str] = []
    for at in range(0, len(request.state_filters), _A_STEP):
        unknown += [name for name in request.state_filters[at : at + _A_STEP] if name not in _TITLES]
        yield None
    seen: list[ListedTransaction] = []
    for part in parts:
        for at in range(0, len(part), _A_STEP):
            seen += [
                one
                for one in part[at : at + _A_STEP]
                if probe(context, _DESCRIBE, _TRANSACTIONAL_ID, one.transactional_id)
            ]
            yield None
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=seen)


def _matcher(pattern: str) -> Callable[[str], bool] | None:
    """Whether a whole id matches; None: it is no expression."""
    try:
        compiled = re2_patterns.compiled(pattern, max_mem_bytes=_PATTERN_MAX_BYTES)
    except ValueError:
        return None
    return lambda name: compiled.fullmatch(name) is not None
