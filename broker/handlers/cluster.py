"""DescribeCluster, and what a cluster of one node answers to elections and reassignments.

Source: KIP-700, KIP-919, KIP-1073, KIP-460, KIP-455.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.authorizer import Operation, ResourceType, authorize, cluster_operations
from broker.handlers.gathering import PACE, sliced
from broker.loop.slices import Steps
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.handlers.context import Deferred, RequestContext
    from protocol.messages.alter_partition_reassignments import ReassignablePartition

_BROKERS, _CONTROLLERS = 1, 2
_PREFERRED, _UNCLEAN = 0, 1
_FORBIDDEN = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_NOT_REQUESTED = -2_147_483_648


def describe_cluster(
    broker: Broker, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """This node, as broker and controller in one."""
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return DescribeClusterResponse(
            error_code=error,
            error_message="This is an endpoint of type BROKER; another type was asked for.",
            cluster_id="",
            brokers=[],
        )
    endpoint = broker.endpoint(context.listener)
    rights = _NOT_REQUESTED
    if request.include_cluster_authorized_operations:
        rights = cluster_operations(context)
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.settings.broker_rack,
                is_fenced=False,
            )
        ],
        cluster_authorized_operations=rights,
    )


def elect_leaders(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse | Deferred:
    """Every partition has its leader: this node. Asked for all partitions, there is nothing to tell."""
    return sliced(broker, context, _elected(broker, context, request))


def _elected(broker: Broker, context: RequestContext, request: ElectLeadersRequest) -> Steps[ElectLeadersResponse]:
    image = broker.catalogue.image
    allowed = authorize(context, Operation.ALTER, ResourceType.CLUSTER)
    known_type = request.election_type in (_PREFERRED, _UNCLEAN)
    results: list[ReplicaElectionResult] = []
    for requested in request.topic_partitions or ():
        count = image.partition_count(requested.topic) or 0
        told: list[PartitionResult] = []
        for partition in requested.partitions:
            unknown = "" if 0 <= partition < count else f"No such partition as {requested.topic}-{partition}"
            if not count:
                unknown = f"No such topic as {requested.topic}"
            told.append(_election(partition, unknown=unknown, known_type=known_type, allowed=allowed))
            if len(told) % PACE == 0:
                yield None
        results.append(ReplicaElectionResult(topic=requested.topic, partition_result=told))
        yield None
    error = ErrorCode.NONE if known_type else ErrorCode.INVALID_REQUEST
    if not allowed:
        error = _FORBIDDEN
    return ElectLeadersResponse(error_code=error, replica_election_results=results)


def _election(partition: int, *, unknown: str, known_type: bool, allowed: bool) -> PartitionResult:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if unknown else ErrorCode.ELECTION_NOT_NEEDED
    if not known_type:
        error = ErrorCode.INVALID_REQUEST
    if not allowed:
        error = _FORBIDDEN
    message = unknown if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error.message
    return PartitionResult(partition_id=partition, error_code=error, error_message=message)


def alter_partition_reassignments(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse | Deferred:
    """The only replica set there is can be asked for again; any other is refused."""
    return sliced(broker, context, _reassigned(broker, context, request))


def _reassigned(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Steps[AlterPartitionReassignmentsResponse]:
    allowed = authorize(context, Operation.ALTER, ResourceType.CLUSTER)
    image = broker.catalogue.image
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        count = image.partition_count(topic.name) or 0
        told: list[ReassignablePartitionResponse] = []
        for one in topic.partitions:
            told.append(_reassignment(broker, one, count) if allowed else _not_reassigned(one))
            if len(told) % PACE == 0:
                yield None
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=told))
        yield None
    error = ErrorCode.NONE if allowed else _FORBIDDEN
    return AlterPartitionReassignmentsResponse(
        error_code=error, error_message=None if allowed else error.message, responses=responses
    )


def _not_reassigned(requested: ReassignablePartition) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=requested.partition_index, error_code=_FORBIDDEN, error_message=_FORBIDDEN.message
    )


def _reassignment(broker: Broker, requested: ReassignablePartition, count: int) -> ReassignablePartitionResponse:
    message = None
    if not 0 <= requested.partition_index < count:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        message = "The partition does not exist."
    elif requested.replicas is None:
        error = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        message = error.message
    elif list(requested.replicas) == [broker.node_id]:
        error = ErrorCode.NONE
    else:
        error = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        message = f"The only broker is {broker.node_id}, so replicas {list(requested.replicas)} cannot be placed."
    return ReassignablePartitionResponse(
        partition_index=requested.partition_index, error_code=error, error_message=message
    )


def list_partition_reassignments(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse | Deferred:
    """None is ever under way."""
    if not authorize(context, Operation.DESCRIBE, ResourceType.CLUSTER):
        return sliced(broker, context, _refusal_of_each(request))
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])


def _refusal_of_each(request: ListPartitionReassignmentsRequest) -> Steps[ListPartitionReassignmentsResponse]:
    """The refusal, which in Kafka's answers repeats what was asked."""
    topics = []
    for topic in request.topics or ():
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(OngoingPartitionReassignment(partition_index=index))
            if len(partitions) % PACE == 0:
                yield None
        topics.append(OngoingTopicReassignment(name=topic.name, partitions=partitions))
        yield None
    return ListPartitionReassignmentsResponse(error_code=_FORBIDDEN, error_message=_FORBIDDEN.message, topics=topics)
