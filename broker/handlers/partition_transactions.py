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
    from collections.abc import Callable

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from broker.partitions import Partition
    from protocol.messages.describe_producers import DescribeProducersRequest
    from protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
    from storage.state.producer_state import ProducerEntry


def describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """What each partition remembers of those who wrote to it; -1 stands for nothing remembered, none or none open."""
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
                    result.active_producers = _producers(broker, topic.name, index)
                except KafkaError as error:
                    result.error_code = error.code
            results.append(result)
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


def _producers(broker: Broker, topic: str, index: int) -> list[ProducerState]:
    partition: Partition | None = broker.partitions.get(topic, index)
    if partition is None:
        raise _NoPartition
    if partition.error is not None:
        raise partition.error.afresh()
    return [_state(entry) for entry in partition.log.producers.entries.values()]


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
    writing = _Writing()
    if not (
        authorize(context, Operation.ALTER, ResourceType.CLUSTER)
        or authorize(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    ):
        for refused in request.markers:
            for topic, index in _partitions(refused):
                writing.results[refused.producer_id, topic, index] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return writing.start()
    for wanted in request.markers:
        marker = Marker(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.transaction_result,
            wanted.coordinator_epoch,
            wanted.transaction_version,
        )
        for topic, index in _partitions(wanted):
            broker.markers.write(topic, index, marker, writing.one(wanted.producer_id, topic, index))
    return writing.start()


def _partitions(marker: WritableTxnMarker) -> list[tuple[str, int]]:
    return [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]


class _Writing:
    """A request of which markers are on their way."""

    __slots__ = ("_deferred", "_missing", "_started", "results")

    def __init__(self) -> None:
        self.results: dict[tuple[int, str, int], ErrorCode] = {}
        self._deferred = Deferred()
        self._missing = 0
        self._started = False

    def one(self, producer_id: int, topic: str, index: int) -> Callable[[ErrorCode], None]:
        """Where the result of one marker in one partition goes."""
        self._missing += 1
        return partial(self._done, (producer_id, topic, index))

    def _done(self, key: tuple[int, str, int], code: ErrorCode) -> None:
        self.results[key] = code
        self._missing -= 1
        self._finish()

    def start(self) -> Deferred:
        """All was asked for: answer as soon as nothing is missing."""
        self._started = True
        self._finish()
        return self._deferred

    def _finish(self) -> None:
        if self._missing or not self._started:
            return
        markers: dict[int, dict[str, list[WritableTxnMarkerPartitionResult]]] = {}
        for (producer_id, topic, index), code in self.results.items():
            result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
            markers.setdefault(producer_id, {}).setdefault(topic, []).append(result)
        self._deferred.complete(
            WriteTxnMarkersResponse(
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
        )
