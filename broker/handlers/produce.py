"""Produce: batches into partitions, answered when they are committed.

On one node acks 1 and -1 mean the same; acks 0 gets no answer at all, and an error closes the connection, which is all
that such a producer can notice. Topics are not created here: clients ask Metadata first. What is part of a transaction
takes a look at `produce_transactional` first.

Source: Kafka's KafkaApis.handleProduceRequest, ReplicaManager.appendRecords.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.catalogue.topics_image import INTERNAL_TOPICS
from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.context import CloseConnection, Deferred
from broker.handlers.produce_transactional import for_produce, has_transactional, question, what_is_wanted
from broker.loop.logs import get_logger
from broker.partitions import RecordsRefused, Unchecked
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from broker.partitions import AppendInfo, Partition
    from broker.partitions.verification import Permits
    from protocol.messages.produce import ProduceRequest, TopicProduceData
    from storage.state.producer_state import Verification

_WRITE = Operation.WRITE
_TOPIC = ResourceType.TOPIC

# Refused by what the log knows rather than by what the batch is: the answer says where the log begins, as Kafka's does.
_TELLS_LOG_START = frozenset(
    {ErrorCode.INVALID_TIMESTAMP, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH}
)

log = get_logger(__name__)


def produce(broker: Broker, context: RequestContext, request: ProduceRequest) -> ProduceResponse | Deferred | None:
    """Append every batch that may be, each on its own: an error of one partition leaves the others alone."""
    acks = request.acks
    refuse_all: KafkaError | None = None
    if not -1 <= acks <= 1:
        refuse_all = RecordsRefused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}, must be -1, 0 or 1")
    if has_transactional(request):
        return _produce_transactional(broker, context, request, refuse_all)
    return _append(broker, context, request, refuse_all, None)


def _produce_transactional(
    broker: Broker, context: RequestContext, request: ProduceRequest, refuse_all: KafkaError | None
) -> ProduceResponse | Deferred | None:
    """Have the transaction coordinator asked where a batch opens a transaction, then append."""
    transactional_id = request.transactional_id
    if transactional_id is None or not authorize(context, _WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        refuse_all = RecordsRefused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, f"no WRITE on transactional id {transactional_id}"
        )
    if refuse_all is not None or transactional_id is None:
        return _append(broker, context, request, refuse_all, None)
    wanted, producers = what_is_wanted(request, lambda topic: _topic_of(broker, context, topic, context.version))
    if len(producers) > 1:
        refuse_all = RecordsRefused(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
        )
    if refuse_all is not None or not wanted:
        return _append(broker, context, request, refuse_all, None)
    producer_id, epoch = producers.pop()
    deferred = Deferred()
    verified = partial(_append_verified, broker, context, request, deferred)
    broker.verifier.ask(question(transactional_id, producer_id, epoch, wanted, verified, context.version))
    return deferred


def _append_verified(
    broker: Broker, context: RequestContext, request: ProduceRequest, deferred: Deferred, permits: Permits
) -> None:
    try:
        response = _append(broker, context, request, None, for_produce(permits, context.version), deferred)
    except CloseConnection as verdict:
        deferred.complete(verdict.with_traceback(None))  # whose frames hold this promise, and the request
        return
    if not isinstance(response, Deferred):  # the answer, or none: else it is this very one
        deferred.complete(response)


def _append(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    refuse_all: KafkaError | None,
    permits: Permits | None,
    deferred: Deferred | None = None,
) -> ProduceResponse | Deferred | None:
    """Append, and answer once all is committed, through `deferred` if there is one already.

    `permits`: what lets transactional batches in, or keeps them out.
    """
    acks = request.acks
    version = context.version
    now_ms = broker.runtime.now_ms()
    get = broker.partitions.get
    waiting: _Waiting | None = None
    # Where nobody is asked for rights, and topics come by name, most names need no further look.
    is_plain = context.rights is None and version < 13
    topics = []
    failed: PartitionProduceResponse | None = None  # never the error itself: its frames hold this one, and the request
    for topic in request.topic_data:
        name, refusal = topic.name, refuse_all
        if refusal is None and not (is_plain and name not in INTERNAL_TOPICS):
            name, refusal = _topic_of(broker, context, topic, version)
        results = []
        for data in topic.partition_data:
            index = data.index
            if refusal is not None:
                failed = _error(index, refusal)
                results.append(failed)
                continue
            partition = None
            guard: Verification | None = None
            try:
                partition = get(name, index)
                if partition is None:
                    raise RecordsRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}")
                if permits is None:
                    info = partition.produce(data.records, now_ms, version)
                else:
                    permit = permits.get((name, index))
                    if isinstance(permit, KafkaError):
                        partition = None  # it was not the log that refused
                        raise permit.afresh()
                    guard = permit
                    info = partition.produce(data.records, now_ms, version, guard, broker.verifier.enabled)
            except KafkaError as error:
                failed = _error(index, error, partition)
                results.append(failed)
                continue
            if info is None:  # looking into it takes long
                result = PartitionProduceResponse(index=index)
                if waiting is None:
                    waiting = _Waiting(broker, acks, deferred)
                later = waiting.expect(partition, result)
                verify = permits is None or broker.verifier.enabled
                partition.produce_later(Unchecked(data.records, now_ms, version, guard, verify, later))
            else:
                result = PartitionProduceResponse(
                    index=index,
                    base_offset=info.base_offset,
                    log_append_time_ms=info.log_append_time_ms,
                    log_start_offset=info.log_start_offset,
                )
                if info.last_offset >= partition.high_watermark and acks:
                    if waiting is None:
                        waiting = _Waiting(broker, acks, deferred)
                    waiting.add(partition, info.last_offset, result)
            results.append(result)
        if results:  # a topic without partitions is left out of the answer too, as in Kafka
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results))
    if acks == 0:
        if failed is not None:
            raise CloseConnection(_unanswered(failed))
        return None if waiting is None else waiting.start(None, request.timeout_ms)
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
        # Not its name: who came with an id may not know it.
        forbidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return name, RecordsRefused(forbidden, forbidden.message)
    if name in INTERNAL_TOPICS:
        return name, RecordsRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
    return name, None


def _unanswered(failed: PartitionProduceResponse) -> str:
    return f"acks=0 and {ErrorCode(failed.error_code).name}: {failed.error_message}"


def _error(index: int, error: KafkaError, partition: Partition | None = None) -> PartitionProduceResponse:
    record_errors = []
    if isinstance(error, RecordsRefused) and error.record_errors:
        record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why) for at, why in error.record_errors
        ]
    tells_log_start = partition is not None and error.code in _TELLS_LOG_START
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=partition.log_start_offset if partition is not None and tells_log_start else -1,
        record_errors=record_errors,
        error_message=str(error),
    )


class _Waiting:
    """A request some of whose batches are not committed, or not even looked into."""

    __slots__ = ("_acks", "_broker", "_deferred", "_missing", "_response", "_started")

    def __init__(self, broker: Broker, acks: int, deferred: Deferred | None) -> None:
        self._broker = broker
        self._acks = acks
        self._started = False
        self._missing: dict[int, PartitionProduceResponse] = {}
        self._deferred = deferred or Deferred()
        self._response: ProduceResponse | None = None

    def add(self, partition: Partition, last_offset: int, result: PartitionProduceResponse) -> None:
        key = id(result)
        self._missing[key] = result

        def committed(error: KafkaError | None) -> None:
            if self._missing.pop(key, None) is None:
                return  # it took longer than the client would wait
            if error is not None:
                _spoil(result, error.code, str(error))
            if not self._missing and self._started:
                self._finish()

        partition.when_committed(last_offset, committed)

    def expect(
        self, partition: Partition, result: PartitionProduceResponse
    ) -> Callable[[AppendInfo | KafkaError], None]:
        """Wait for `result` to be filled by what is returned."""
        key = id(result)
        self._missing[key] = result

        def looked(found: AppendInfo | KafkaError) -> None:
            if key not in self._missing:
                return  # it took longer than the client would wait
            if isinstance(found, KafkaError):
                refused = _error(result.index, found, partition)
                _spoil(result, refused.error_code, refused.error_message)
                result.record_errors = refused.record_errors
                result.log_start_offset = refused.log_start_offset
                if not self._acks:
                    self._deferred.complete(CloseConnection(_unanswered(refused)))
            else:
                result.base_offset = found.base_offset
                result.log_append_time_ms = found.log_append_time_ms
                result.log_start_offset = found.log_start_offset
                if self._acks and found.last_offset >= partition.high_watermark:
                    self.add(partition, found.last_offset, result)
                    return
            del self._missing[key]
            if not self._missing and self._started:
                self._finish()

        return looked

    def start(self, response: ProduceResponse | None, timeout_ms: int) -> Deferred:
        self._response = response
        self._started = True
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


def _spoil(result: PartitionProduceResponse, code: int, message: str | None) -> None:
    result.error_code = code
    result.error_message = message
    result.base_offset = result.log_append_time_ms = result.log_start_offset = -1
