"""Metadata and DescribeTopicPartitions: which topics there are, and who leads them.

Source: KIP-516, KIP-966; Kafka's KafkaApis, DescribeTopicPartitionsRequestHandler.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from broker.catalogue.internal_topics import LEDGER_TOPIC, new_topic
from broker.catalogue.topic_changes import Refused, check_name
from broker.handlers.authorizer import (
    Operation,
    ResourceType,
    authorize,
    authorized_operations,
    cluster_operations,
    probe,
)
from broker.handlers.context import Deferred
from broker.handlers.gathering import PACE, Gathering, deferring, sliced
from broker.loop.slices import InThread, Steps
from protocol.errors import ErrorCode
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.broker import Broker
    from broker.catalogue.topics_image import Topic
    from broker.handlers.context import RequestContext

_FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_PARTITIONS_A_STEP = 100
_NOT_REQUESTED = -2_147_483_648  # the authorized operations of somebody who did not ask for them


def metadata(broker: Broker, context: RequestContext, request: MetadataRequest) -> MetadataResponse | Deferred:
    """The topics asked for, created first where the client and the broker allow that."""
    requested = request.topics
    if requested is None or (context.version == 0 and not requested):
        return sliced(broker, context, _all(broker, context, request))
    if context.version < 12 and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in requested):
        refused = [
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
            )
            for topic in requested
        ]
        return _response(broker, context, request, refused)
    if not (request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable):
        return sliced(broker, context, _answer(broker, context, request, {}))
    deferred = Deferred()

    def answer(created: dict[str, ErrorCode]) -> None:
        broker.runtime.in_slices(
            _answer(broker, context, request, created),
            deferred.complete,
            deferred.fail,
            owner=context.session,
            wanted=deferred.is_wanted,
        )

    def create(missing: list[str]) -> None:
        results: Gathering[ErrorCode] = Gathering(
            len(missing),
            lambda results: answer(dict(zip(missing, results, strict=True))),
        )

        # The answer says nothing of what is owed for topics that nobody asked for in so many words.
        pay = None if context.limits is None else context.limits.mutation(strict=True, told=False)

        def ensure(index: int) -> None:
            wish = new_topic(missing[index], broker.settings)
            broker.catalogue.ensure_topic(wish, lambda result: results.put(index, _why_absent(result.error)), pay=pay)

        deferring(broker, context, deferred, results.ask_each(ensure))

    broker.runtime.in_slices(
        _to_create(broker, context, requested),
        create,
        deferred.fail,
        owner=context.session,
        wanted=deferred.is_wanted,
    )
    deferred.raise_failure()
    return cast("MetadataResponse", deferred.response) if deferred.done else deferred


def _all(broker: Broker, context: RequestContext, request: MetadataRequest) -> Steps[MetadataResponse]:
    # A consumer of `.*` must not read, and so cause, its own rebalances.
    topics = []
    for topic in broker.catalogue.image:
        if topic.name != LEDGER_TOPIC and _sees(context, topic.name):
            topics.append((yield from _described(broker, context, request, topic)))
        yield None
    return _response(broker, context, request, topics)


def _to_create(broker: Broker, context: RequestContext, requested: Iterable[MetadataRequestTopic]) -> Steps[list[str]]:
    """Names that are asked for, absent, legal and may be created by this client."""
    image = broker.catalogue.image
    names: dict[str, None] = {}
    for count, topic in enumerate(requested):
        if count % PACE == PACE - 1:
            yield None
        name = _requested_name(topic)
        if name is None or image.topic(name) is not None:
            continue
        if not (_sees(context, name) and may_create(context, name)):
            continue
        try:
            check_name(name)
        except Refused:
            continue
        names[name] = None
    return list(names)


def _answer(
    broker: Broker, context: RequestContext, request: MetadataRequest, created: dict[str, ErrorCode]
) -> Steps[MetadataResponse]:
    """The answer for topics by name or id, as the image is now; `created` says what became of the absent ones."""
    image = broker.catalogue.image
    topics: list[MetadataResponseTopic] = []
    told: set[tuple[str | None, bytes]] = set()
    for count, requested in enumerate(request.topics or ()):
        if count % PACE == PACE - 1:
            yield None
        # A topic that is asked for twice is told once.
        by_name = _requested_name(requested)
        key = by_name, requested.topic_id
        if key in told:
            continue
        told.add(key)
        if by_name is None:
            topic = image.topic_by_id(requested.topic_id)
            error = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = image.topic(by_name)
            error = created.get(by_name) or _absence(by_name)
            if topic is None and request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable:
                error = error if may_create(context, by_name) else _FORBIDDEN
        name = topic.name if topic is not None else by_name
        if name is not None and not _may_describe(context, name):
            # An id is no secret, a name is: neither is told to who came with the other.
            topics.append(
                MetadataResponseTopic(error_code=_FORBIDDEN, name=by_name, topic_id=requested.topic_id, partitions=[])
            )
        elif topic is not None:
            topics.append((yield from _described(broker, context, request, topic)))
        else:
            topics.append(
                MetadataResponseTopic(error_code=error, name=by_name, topic_id=requested.topic_id, partitions=[])
            )
    return _response(broker, context, request, topics)


def _requested_name(topic: MetadataRequestTopic) -> str | None:
    """The name by which a topic is asked for; none where an id is: the Java client sends an empty name beside it."""
    return topic.name if topic.topic_id == ZERO_UUID else None


def _why_absent(error: ErrorCode) -> ErrorCode:
    """What becomes of a topic's creation, in the words of Metadata."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED else error


def _may_describe(context: RequestContext, topic: str) -> bool:
    return authorize(context, Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _sees(context: RequestContext, topic: str) -> bool:
    return probe(context, Operation.DESCRIBE, ResourceType.TOPIC, topic)


def may_create(context: RequestContext, topic: str) -> bool:
    """Whether the principal may create any topic, or this one."""
    return probe(context, Operation.CREATE, ResourceType.CLUSTER) or authorize(
        context, Operation.CREATE, ResourceType.TOPIC, topic
    )


def _absence(name: str) -> ErrorCode:
    """Why there is no topic of this name: nobody made one, or nobody may."""
    try:
        check_name(name)
    except Refused as refusal:
        return refusal.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _described(
    broker: Broker, context: RequestContext, request: MetadataRequest, topic: Topic
) -> Steps[MetadataResponseTopic]:
    node = [broker.node_id]
    rights = _NOT_REQUESTED
    if request.include_topic_authorized_operations:
        rights = authorized_operations(context, ResourceType.TOPIC, topic.name)
    partitions: list[MetadataResponsePartition] = []
    epochs = topic.leader_epochs
    for first in range(0, len(epochs), _PARTITIONS_A_STEP):
        if first:
            yield None
        partitions += [
            MetadataResponsePartition(
                error_code=ErrorCode.NONE,
                partition_index=partition,
                leader_id=broker.node_id,
                leader_epoch=leader_epoch,
                replica_nodes=node,
                isr_nodes=node,
                offline_replicas=[],
            )
            for partition, leader_epoch in enumerate(epochs[first : first + _PARTITIONS_A_STEP], first)
        ]
    if broker.partitions.disks.offline:
        for one in partitions:
            if broker.partitions.is_offline(topic.name, one.partition_index):
                one.error_code, one.leader_id, one.offline_replicas = ErrorCode.LEADER_NOT_AVAILABLE, -1, node
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=rights,
    )


def _response(
    broker: Broker, context: RequestContext, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    endpoint = broker.endpoint(context.listener)
    rights = _NOT_REQUESTED
    if request.include_cluster_authorized_operations:
        rights = cluster_operations(context)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.settings.broker_rack
            )
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
        cluster_authorized_operations=rights,
    )


def describe_topic_partitions(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Deferred:
    """Topics by name, at most so many partitions in one answer, and a cursor to go on from.

    Without names: all topics. The cursor names the topic and partition that come next.
    """
    return sliced(broker, context, _page(broker, context, request))


def _in_order(topics: list[TopicRequest]) -> list[str]:
    return sorted({topic.name for topic in topics})


def _page(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    image = broker.catalogue.image
    fetch_all = not request.topics
    if fetch_all:
        requested = [name for name in image.names() if name != LEDGER_TOPIC]
    else:
        in_order = partial(_in_order, request.topics)
        requested = in_order() if len(request.topics) <= _PARTITIONS_A_STEP else (yield InThread(in_order))
    cursor = request.cursor
    first_partition = 0
    if cursor is not None and (cursor.partition_index < 0 or (not fetch_all and cursor.topic_name not in requested)):
        refused = ErrorCode.INVALID_REQUEST
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(error_code=refused, name=name, topic_id=ZERO_UUID, partitions=[])
                for name in requested
            ],
            next_cursor=None,
        )
    if cursor is not None:
        requested = [name for name in requested if name >= cursor.topic_name]
        if requested and requested[0] == cursor.topic_name:
            first_partition = cursor.partition_index
    left = max(min(request.response_partition_limit, broker.settings.max_request_partition_size_limit), 1)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for position, name in enumerate(requested):
        yield None
        topic = image.topic(name)
        allowed = (_sees if fetch_all else _may_describe)(context, name)
        if topic is None or not allowed:
            if not fetch_all:
                error = _absence(name) if allowed else _FORBIDDEN
                absent = DescribeTopicPartitionsResponseTopic(error_code=error, name=name, topic_id=ZERO_UUID)
                # Kafka tells what may be done with a topic that is not there, too.
                absent.topic_authorized_operations = authorized_operations(context, ResourceType.TOPIC, name)
                topics.append(absent)
            continue
        if left == 0:
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=0)
            )
        begin = first_partition if position == 0 else 0
        end = min(topic.partition_count, begin + left)
        topics.append(_partitions(broker, context, topic, range(begin, end)))
        left -= max(end - begin, 0)
        if end < topic.partition_count:
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=end)
            )
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=None)


def _partitions(
    broker: Broker, context: RequestContext, topic: Topic, partitions: range
) -> DescribeTopicPartitionsResponseTopic:
    node = [broker.node_id]
    offline = {one for one in partitions if broker.partitions.is_offline(topic.name, one)}
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition in offline else ErrorCode.NONE,
                partition_index=partition,
                leader_id=-1 if partition in offline else broker.node_id,
                leader_epoch=topic.leader_epochs[partition],
                replica_nodes=node,
                isr_nodes=node,
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=node if partition in offline else [],
            )
            for partition in partitions
        ],
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, topic.name),
    )
