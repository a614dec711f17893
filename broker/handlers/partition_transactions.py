"""DescribeProducers and WriteTxnMarkers: the transactions that partitions have open, seen and ended from outside.

Markers come from transaction coordinators; here they come from an operator who ends a transaction that no coordinator
knows of (`kafka-transactions.sh abort`). Written all the same, also where nothing is open.

Source: KIP-98, KIP-664; Kafka's KafkaApis.handleDescribeProducersRequest, handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.catalogue.topic_changes import Refused, check_name
from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.context import Deferred
from broker.handlers.gathering import PACE, deferring, refuse_repetition, sliced
from broker.loop.slices import Steps
from broker.partitions import Marker
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    ProducerState,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from broker.partitions import Partition
    from protocol.messages.describe_producers import DescribeProducersRequest
    from protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
    from storage.state.producer_state import ProducerEntry

_A_STEP = 128  # results, or producers, that are told of without a pause


def describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse | Deferred:
    """What each partition remembers of those who wrote to it; -1 stands for nothing remembered, none or none open."""
    return sliced(broker, context, _described(broker, context, request))


def _described(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> Steps[DescribeProducersResponse]:
    count = 0
    for number, topic in enumerate(request.topics, start=1):
        count += len(topic.partition_indexes)
        if not number % _A_STEP:
            yield None
    # A topic may stand in any number of entries: each partition is one and the same, with all of its producers.
    requested = ((topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    yield from refuse_repetition(requested, count)
    topics = []
    for topic in request.topics:
        refusal = _refusal(broker, context, topic.name)
        results = []
        for index in topic.partition_indexes:
            result = DescribeProducersPartitionResponse(partition_index=index)
            if refusal is not None:
                result.error_code, result.error_message = refusal
            else:
                try:
                    result.active_producers = yield from _producers(broker, topic.name, index)
                except KafkaError as error:
                    result.error_code = error.code
            results.append(result)
            if not len(results) % PACE:
                yield None
        topics.append(DescribeProducersTopicResponse(name=topic.name, partitions=results))
    return DescribeProducersResponse(topics=topics)


def _refusal(broker: Broker, context: RequestContext, name: str) -> tuple[ErrorCode, str] | None:
    try:
        check_name(name)
    except Refused as refused:
        return refused.code, str(refused)
    code = ErrorCode.NONE
    if not authorize(context, Operation.READ, ResourceType.TOPIC, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif broker.catalogue.image.topic(name) is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return (code, code.message) if code else None


class _NoPartition(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _producers(broker: Broker, topic: str, index: int) -> Steps[list[ProducerState]]:
    partition: Partition | None = broker.partitions.get(topic, index)
    if partition is None:
        raise _NoPartition
    if partition.error is not None:
        raise partition.error.afresh()
    states: list[ProducerState] = []
    for entry in list(partition.log.producers.entries.values()):
        states.append(_state(entry))
        if not len(states) % _A_STEP:
            yield None
    return states


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )


def write_txn_markers(broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest) -> Deferred:
    """Write every marker into every partition of its; answered when all are committed or refused."""
    deferred = Deferred()
    return deferring(broker, context, deferred, _marking(broker, context, request, deferred))


def _marking(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest, deferred: Deferred
) -> Steps[None]:
    def finished(results: dict[tuple[int, str, int], ErrorCode]) -> None:
        broker.runtime.in_slices(_answer(results), deferred.complete, deferred.fail, owner=context.session)

    writing = _Writing(finished)
    allowed = authorize(context, Operation.ALTER, ResourceType.CLUSTER) or authorize(
        context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER
    )
    for wanted in request.markers:
        marker = Marker(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.transaction_result,
            wanted.coordinator_epoch,
            wanted.transaction_version,
        )
        for topic, index in _partitions(wanted):
            one = writing.one(wanted.producer_id, topic, index)
            if allowed:
                broker.markers.write(topic, index, marker, one)
            else:
                one(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            if not len(writing) % PACE:
                yield None
    writing.start()


def _partitions(marker: WritableTxnMarker) -> Iterator[tuple[str, int]]:
    return ((topic.name, index) for topic in marker.topics for index in topic.partition_indexes)


class _Writing:
    """A request of which markers are on their way."""

    __slots__ = ("_begun", "_finished", "_missing", "_results", "_started")

    def __init__(self, finished: Callable[[dict[tuple[int, str, int], ErrorCode]], None]) -> None:
        self._results: dict[tuple[int, str, int], ErrorCode] = {}
        self._finished = finished
        self._begun = self._missing = 0
        self._started = False

    def __len__(self) -> int:
        return self._begun

    def one(self, producer_id: int, topic: str, index: int) -> Callable[[ErrorCode], None]:
        """Where the result of one marker in one partition goes."""
        self._begun += 1
        self._missing += 1
        return partial(self._done, (producer_id, topic, index))

    def _done(self, key: tuple[int, str, int], code: ErrorCode) -> None:
        self._results[key] = code
        self._missing -= 1
        self._finish()

    def start(self) -> None:
        """All was asked for: answer as soon as nothing is missing."""
        self._started = True
        self._finish()

    def _finish(self) -> None:
        if self._started and not self._missing:
            self._finished(self._results)


def _answer(results: dict[tuple[int, str, int], ErrorCode]) -> Steps[WriteTxnMarkersResponse]:
    markers: dict[int, dict[str, list[WritableTxnMarkerPartitionResult]]] = {}
    for number, ((producer_id, topic, index), code) in enumerate(results.items(), start=1):
        result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        markers.setdefault(producer_id, {}).setdefault(topic, []).append(result)
        if not number % _A_STEP:
            yield None
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            )
            for producer_id, topics in markers.items()
        ]
    )
