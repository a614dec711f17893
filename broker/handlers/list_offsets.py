"""ListOffsets and OffsetForLeaderEpoch: what a timestamp, a mark or an epoch stands for in a partition.

Source: KIP-79, KIP-320, KIP-734; Kafka's UnifiedLog.fetchOffsetByTimestamp, LeaderEpochFileCache.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from broker.handlers.authorizer import Operation, ResourceType, authorize, probe
from broker.handlers.gathering import sliced
from broker.loop.slices import InThread, Steps, Until
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from protocol.records.errors import CorruptBatch
from storage.log.log_lookup import CROWDED

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.handlers.context import Deferred, RequestContext
    from broker.partitions import Partition
    from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest
    from protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )
    from storage.log.log_lookup import LookRoom, TimestampedOffset
    from storage.log.partition_log import PartitionLog

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
# Since which version each mark may be asked for. Source: ListOffsetsRequest.json, KafkaApis.
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


def list_offsets(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Deferred:
    """The offset for each partition's timestamp; -1 with no error where no record fits.

    As in Kafka each topic and partition is answered once, INVALID_REQUEST when it was named twice.
    """
    return sliced(broker, context, _listed(broker, context, request))


def _listed(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    committed_only = request.isolation_level == 1
    requested: dict[str, dict[int, ListOffsetsPartition]] = {}
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        partitions = requested.setdefault(topic.name, {})
        for count, wanted in enumerate(topic.partitions):
            if partitions.setdefault(wanted.partition_index, wanted) is not wanted:
                twice.add((topic.name, wanted.partition_index))
            if count & 255 == 255:
                yield None
    topics = []
    for name, partitions in requested.items():
        allowed = authorize(context, Operation.DESCRIBE, ResourceType.TOPIC, name)
        results: list[ListOffsetsPartitionResponse] = []
        for index, wanted in partitions.items():
            result = ListOffsetsPartitionResponse(partition_index=index)
            if not allowed:
                result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif (name, index) in twice:
                result.error_code = ErrorCode.INVALID_REQUEST
            else:
                try:
                    partition = _leader(broker, name, index, wanted.current_leader_epoch)
                    room = broker.partitions.look_room
                    yield from _look_up(partition, wanted, context.version, committed_only, room, result)
                except CorruptBatch:
                    # As Kafka; and CORRUPT_MESSAGE would be asked for again and again.
                    result.error_code = ErrorCode.INVALID_RECORD
                except KafkaError as error:
                    result.error_code = error.code
            results.append(result)
            yield None
        if partitions:
            topics.append(ListOffsetsTopicResponse(name=name, partitions=results))
    return ListOffsetsResponse(topics=topics)


def offset_for_leader_epoch(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse | Deferred:
    """The largest epoch not above each asked one, and where it ends; -1/-1 when there is none."""
    return sliced(broker, context, _epoch_ends(broker, context, request))


def _epoch_ends(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    topics = []
    for_brokers = probe(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    for topic in request.topics:
        allowed = for_brokers or authorize(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        results = []
        for wanted in topic.partitions:
            result = EpochEndOffset(partition=wanted.partition)
            if not allowed:
                result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else:
                try:
                    _epoch_end(broker, topic.topic, wanted, result)
                except KafkaError as error:
                    result.error_code = error.code
            results.append(result)
            yield None
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=results))
    return OffsetForLeaderEpochResponse(topics=topics)


class _Refused(KafkaError):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # the class attribute of KafkaError, one of several here


def _leader(broker: Broker, topic: str, index: int, current_leader_epoch: int) -> Partition:
    partition: Partition | None = broker.partitions.get(topic, index)
    if partition is None:
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
    if partition.error is not None:
        raise partition.error.afresh()
    ours = partition.leader_epoch
    if 0 <= current_leader_epoch != ours:
        older = current_leader_epoch < ours
        raise _Refused(
            ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{topic}-{index} is at leader epoch {ours}, request says {current_leader_epoch}",
        )
    return partition


def _look_up(
    partition: Partition,
    wanted: ListOffsetsPartition,
    version: int,
    committed_only: bool,
    room: LookRoom,
    result: ListOffsetsPartitionResponse,
) -> Steps[None]:
    timestamp = wanted.timestamp
    end = partition.last_stable_offset if committed_only else partition.high_watermark
    if timestamp < 0 and (timestamp < EARLIEST_PENDING_UPLOAD or version < _SINCE.get(timestamp, 0)):
        raise _Refused(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} in version {version}")
    if timestamp == LATEST:
        result.offset = end
        result.leader_epoch = partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        result.offset = partition.log_start_offset
        result.leader_epoch = partition.epoch_of(result.offset)
    elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        pass  # no tiered storage: there is none
    else:
        found = yield from _found(partition.log, timestamp, room)
        # A hit at or above the end is no hit, even when an earlier record would do.
        if found is not None and found.offset < end:
            result.timestamp = found.timestamp
            result.offset = found.offset
            result.leader_epoch = partition.epoch_of(found.offset)


def _found(log: PartitionLog, timestamp: int, room: LookRoom) -> Steps[TimestampedOffset | None]:
    """The record of a time, or the latest. What its search looks into is decompressed and read in a thread."""
    search = log.max_timestamp_search() if timestamp == MAX_TIMESTAMP else log.timestamp_search(timestamp)
    result: object = None
    try:
        while True:
            try:
                look = search.send(result)
            except StopIteration as end:
                return cast("TimestampedOffset | None", end.value)
            result = None
            if look is None:
                yield None
            else:
                result = look.run() if look.is_short else (yield InThread(partial(look.run, room)))
                if result is CROWDED and room.holders:
                    yield Until(room.wait)
    finally:
        search.close()  # when the client has gone: a native generator does not end by itself


def _epoch_end(broker: Broker, topic: str, wanted: OffsetForLeaderPartition, result: EpochEndOffset) -> None:
    partition = _leader(broker, topic, wanted.partition, wanted.current_leader_epoch)
    result.leader_epoch, result.end_offset = partition.epoch_end(wanted.leader_epoch)
