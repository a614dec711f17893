"""Produce: batches into partitions, answered when they are committed.

On one node acks 1 and -1 mean the same; acks 0 gets no answer at all, and an error closes the connection, which is all
that such a producer can notice. Topics are not created here: clients ask Metadata first.

Source: Kafka's KafkaApis.handleProduceRequest, ReplicaManager.appendRecords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.authorizer import Operation, ResourceType, authorize
from broker.context import CloseConnection, Deferred
from broker.logs import get_logger
from broker.partitions import RecordsRefused
from broker.topics_image import INTERNAL_TOPICS
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.context import RequestContext
    from broker.partitions import Partition
    from protocol.messages.produce import ProduceRequest, TopicProduceData

_TRANSACTIONAL = 0x10
_WRITE = Operation.WRITE
_TOPIC = ResourceType.TOPIC

# Refused by what the log knows rather than by what the batch is: the answer says where the log begins, as Kafka's does.
_TELLS_LOG_START = frozenset(
    {ErrorCode.INVALID_TIMESTAMP, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH}
)

log = get_logger()


def produce(broker: Broker, context: RequestContext, request: ProduceRequest) -> ProduceResponse | Deferred | None:
    """Append every batch that may be, each on its own: an error of one partition leaves the others alone."""
    acks = request.acks
    version = context.version
    refuse_all: KafkaError | None = None
    if not -1 <= acks <= 1:
        refuse_all = RecordsRefused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}, must be -1, 0 or 1")
    transactional = _has_transactional(request)
    if transactional and refuse_all is None and request.transactional_id is None:
        refuse_all = RecordsRefused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without a transactional id"
        )
    now_ms = broker.runtime.now_ms()
    get = broker.partitions.get
    waiting: _Waiting | None = None
    topics = []
    failed = None
    for topic in request.topic_data:
        name, refusal = topic.name, refuse_all
        if refusal is None:
            name, refusal = _topic_of(broker, context, topic, version)
        results = []
        for data in topic.partition_data:
            index = data.index
            if refusal is not None:
                results.append(_error(index, refusal))
                failed = refusal
                continue
            partition = None
            try:
                if transactional and _is_transactional(data.records):
                    raise RecordsRefused(
                        ErrorCode.INVALID_TXN_STATE,
                        "this broker has no transactions yet: the batch belongs to none that is open",
                    )
                partition = get(name, index)
                if partition is None:
                    raise RecordsRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}")
                info = partition.produce(data.records, now_ms, version)
            except KafkaError as error:
                results.append(_error(index, error))
                if partition is not None and error.code in _TELLS_LOG_START:
                    results[-1].log_start_offset = partition.log_start_offset
                failed = error
                continue
            result = PartitionProduceResponse(
                index=index,
                base_offset=info.base_offset,
                log_append_time_ms=info.log_append_time_ms,
                log_start_offset=info.log_start_offset,
            )
            results.append(result)
            if info.last_offset >= partition.high_watermark and acks:
                if waiting is None:
                    waiting = _Waiting(broker)
                waiting.add(partition, info.last_offset, result)
        if results:  # a topic without partitions is left out of the answer too, as in Kafka
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results))
    if acks == 0:
        if failed is not None:
            raise CloseConnection(f"acks=0 and {failed.code.name}: {failed}")
        return None
    response = ProduceResponse(responses=topics)
    if waiting is None:
        return response
    return waiting.start(response, request.timeout_ms)


def _topic_of(
    broker: Broker, context: RequestContext, topic: TopicProduceData, version: int
) -> tuple[str, KafkaError | None]:
    """The topic's name, and why nothing may be appended to it."""
    name = topic.name
    if version >= 13:
        known = broker.catalogue.image.topic_by_id(topic.topic_id)
        if known is None:
            return "", RecordsRefused(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic.topic_id.hex()}")
        name = known.name
    if not authorize(context, _WRITE, _TOPIC, name):
        return name, RecordsRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no WRITE on topic {name}")
    if name in INTERNAL_TOPICS:
        return name, RecordsRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
    return name, None


def _is_transactional(records: bytes | bytearray | memoryview | None) -> bool:
    # Attributes are at 21-22 of a batch of magic 2; whatever else this is, is refused later for what it is.
    return records is not None and len(records) > 22 and records[16] == 2 and records[22] & _TRANSACTIONAL != 0


def _has_transactional(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if _is_transactional(data.records):
                return True
    return False


def _error(index: int, error: KafkaError) -> PartitionProduceResponse:
    record_errors = []
    if isinstance(error, RecordsRefused) and error.record_errors:
        record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why) for at, why in error.record_errors
        ]
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        record_errors=record_errors,
        error_message=str(error),
    )


class _Waiting:
    """A request some of whose batches are appended but not committed."""

    __slots__ = ("_broker", "_deferred", "_missing", "_response")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._missing: dict[int, PartitionProduceResponse] = {}
        self._deferred = Deferred()
        self._response: ProduceResponse | None = None

    def add(self, partition: Partition, last_offset: int, result: PartitionProduceResponse) -> None:
        key = id(result)
        self._missing[key] = result

        def committed(error: KafkaError | None) -> None:
            if self._missing.pop(key, None) is None:
                return  # it took longer than the client would wait
            if error is not None:
                _spoil(result, error.code, str(error))
            if not self._missing and self._response is not None:
                self._finish()

        partition.when_committed(last_offset, committed)

    def start(self, response: ProduceResponse, timeout_ms: int) -> Deferred:
        self._response = response
        if self._missing:
            runtime = self._broker.runtime
            runtime.timers.set(self, runtime.now_ms() + max(timeout_ms, 0), self._timed_out)
        else:
            self._finish()
        return self._deferred

    def _timed_out(self) -> None:
        missing, self._missing = self._missing, {}
        for result in missing.values():
            _spoil(result, ErrorCode.REQUEST_TIMED_OUT, "not committed within the request's timeout")
        self._finish()

    def _finish(self) -> None:
        self._broker.runtime.timers.cancel(self)
        self._deferred.complete(self._response)


def _spoil(result: PartitionProduceResponse, code: int, message: str) -> None:
    result.error_code = code
    result.error_message = message
    result.base_offset = result.log_append_time_ms = result.log_start_offset = -1
