"""DeleteRecords: a partition begins later from now on.

Source: KIP-107; Kafka's KafkaApis.handleDeleteRecordsRequest, Partition.deleteRecordsOnLeader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.topics_image import INTERNAL_TOPICS
from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.gathering import sliced
from broker.loop.slices import Steps
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.handlers.context import Deferred, RequestContext
    from broker.partitions import Partition
    from protocol.messages.delete_records import DeleteRecordsRequest

HIGH_WATERMARK = -1


def delete_records(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Deferred:
    """Move the log start of each partition; answer where it is then. -1 in the request means the high watermark.

    Of a partition that is named twice the last offset counts, as in Kafka.
    """
    return sliced(broker, context, _deleted(broker, context, request))


def _deleted(broker: Broker, context: RequestContext, request: DeleteRecordsRequest) -> Steps[DeleteRecordsResponse]:
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            wanted.setdefault(topic.name, {})[partition.partition_index] = partition.offset
        yield None
    topics = []
    for name, offsets in wanted.items():
        allowed = authorize(context, Operation.DELETE, ResourceType.TOPIC, name)
        results = []
        for index, offset in offsets.items():
            low_watermark = -1
            code: int = ErrorCode.NONE
            if not allowed:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else:
                code, low_watermark = _delete(broker, name, index, offset)
            results.append(
                DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=code)
            )
            yield None
        topics.append(DeleteRecordsTopicResult(name=name, partitions=results))
    return DeleteRecordsResponse(topics=topics)


def _delete(broker: Broker, topic: str, index: int, offset: int) -> tuple[int, int]:
    """(error code, log start then)."""
    try:
        partition: Partition | None = broker.partitions.get(topic, index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
        if topic in INTERNAL_TOPICS:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, -1
        log = partition.settings.log
        if log.compact and not log.delete:
            # A compacted log never gives records away by offset. Source: UnifiedLog.maybeIncrementLogStartOffset.
            return ErrorCode.POLICY_VIOLATION, -1
        if offset == HIGH_WATERMARK:
            offset = partition.high_watermark
        if offset < 0 or offset > partition.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE, -1
        return ErrorCode.NONE, partition.delete_records_before(offset)
    except KafkaError as error:
        return error.code, -1
