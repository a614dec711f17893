"""DescribeQuorum and UnregisterBroker: the metadata log has one voter, which is also the only broker.

Source: KIP-595, KIP-836, KIP-853, KIP-631; Kafka's KafkaRaftClient, ReplicationControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.context import Deferred
from broker.handlers.gathering import PACE, sliced
from broker.loop.slices import Steps
from protocol.errors import ErrorCode
from protocol.messages.describe_quorum import (
    DescribeQuorumListener,
    DescribeQuorumNode,
    DescribeQuorumPartitionResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicResponse,
    ReplicaState,
)
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.catalogue.requests import Result
    from broker.handlers.context import RequestContext

_FORBIDDEN = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_METADATA = "__cluster_metadata"


def describe_quorum(
    broker: Broker, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse | Deferred:
    """This node as leader of the metadata log. Asked for anything else, each partition is unknown."""
    if not authorize(context, Operation.DESCRIBE, ResourceType.CLUSTER):
        return DescribeQuorumResponse(error_code=_FORBIDDEN, error_message=_FORBIDDEN.message)
    requested = request.topics
    only = requested[0].partitions if len(requested) == 1 and requested[0].topic_name == _METADATA else []
    if len(only) != 1 or only[0].partition_index != 0:
        return sliced(broker, context, _all_unknown(request))
    epoch, end_offset, voter_directory = broker.catalogue.quorum()
    now_ms = broker.runtime.now_ms()
    leader = ReplicaState(
        replica_id=broker.node_id,
        replica_directory_id=voter_directory or ZERO_UUID,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = DescribeQuorumPartitionResponse(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",  # as Kafka has it
        leader_id=broker.node_id,
        leader_epoch=epoch,
        high_watermark=end_offset,
        current_voters=[leader],
        observers=[],
    )
    endpoint = broker.endpoint(context.listener)
    listener = DescribeQuorumListener(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
    return DescribeQuorumResponse(
        error_message="",
        topics=[DescribeQuorumTopicResponse(topic_name=_METADATA, partitions=[partition])],
        nodes=[DescribeQuorumNode(node_id=broker.node_id, listeners=[listener])],
    )


def _all_unknown(request: DescribeQuorumRequest) -> Steps[DescribeQuorumResponse]:
    topics: list[DescribeQuorumTopicResponse] = []
    for topic in request.topics:
        told: list[DescribeQuorumPartitionResponse] = []
        for one in topic.partitions:
            told.append(_unknown(one.partition_index))
            if not len(told) % PACE:
                yield None
        topics.append(DescribeQuorumTopicResponse(topic_name=topic.topic_name, partitions=told))
        yield None
    return DescribeQuorumResponse(topics=topics)


def _unknown(index: int) -> DescribeQuorumPartitionResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumPartitionResponse(partition_index=index, error_code=error, error_message=error.message)


def unregister_broker(
    broker: Broker, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse | Deferred:
    """Forget the registration of another broker, which a directory that had more of them may hold."""
    if not authorize(context, Operation.ALTER, ResourceType.CLUSTER):
        return UnregisterBrokerResponse(error_code=_FORBIDDEN, error_message=_FORBIDDEN.message)
    deferred = Deferred()

    def answer(result: Result) -> None:
        deferred.complete(UnregisterBrokerResponse(error_code=result.error, error_message=result.message))

    broker.catalogue.unregister_broker(request.broker_id, answer)
    return deferred
