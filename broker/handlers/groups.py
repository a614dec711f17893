"""FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups.

Requests become inputs of the group's leader, and answers get their version's shape. The rules are in `coordinator`.

Source: Kafka's KafkaApis.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from broker.coordinators.batches import LeaderState
from broker.groups.silence import silent_ms
from broker.handlers.authorizer import Operation, ResourceType, authorize, authorized_operations, probe
from broker.handlers.context import Deferred
from broker.handlers.gathering import Gathering, deferring, gathered, one_by_one
from broker.loop.slices import InThread, Steps
from coordinator.classic.answers import join_error, sync_error, without_null_protocol
from coordinator.classic.checks import check_sync_shape
from coordinator.classic.inputs import Heartbeat, Join, Leave, Leaver, Sync, fresh_member_id
from coordinator.offsets.describe import list_groups as list_of
from coordinator.offsets.inputs import DeleteGroup, DescribeGroup
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.broker import Broker
    from broker.groups.groups import GroupLeader
    from broker.handlers.context import RequestContext
    from coordinator.outcome import ReplyTo
    from coordinator.shard import Shard

T = TypeVar("T")

MOST_PROTOCOLS = 1_000
"""Of one member. A client lists its assignors, a handful; rules look at those of all members in one go."""
MEMBERS_AT_ONCE = 2_048
"""Of a classic group, which its leader is told, or assigns something to, in one step."""
_LISTED_AT_ONCE = 64
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_NULL_PROTOCOL_SINCE = 7
_READ, _DESCRIBE, _DELETE = Operation.READ, Operation.DESCRIBE, Operation.DELETE
_GROUP_RESOURCE = ResourceType.GROUP
_FORBIDDEN = ErrorCode.GROUP_AUTHORIZATION_FAILED


class Shaped:
    """Where a rule's answer goes when the request's version wants it in another shape."""

    __slots__ = ("_shape", "deferred")

    def __init__(self, shape: Callable[[JoinGroupResponse], JoinGroupResponse]) -> None:
        self.deferred = Deferred()
        self._shape = shape

    def complete(self, response: JoinGroupResponse) -> None:
        """Answer with `response` in the request's shape."""
        self.deferred.complete(self._shape(response))


# -- FindCoordinator ---------------------------------------------------------------------------------------------


def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Deferred:
    """Say where the coordinator of each key is: one key up to version 3, any number from version 4 on."""
    version = context.version
    if version >= 4:
        return one_by_one(
            broker,
            context,
            request.coordinator_keys,
            lambda key: _found(broker, context, request.key_type, key),
            lambda found: FindCoordinatorResponse(coordinators=found),
        )
    one = _find(broker, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=ErrorCode(one.error_code).message,  # of NONE it is "NONE", as Kafka's is
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _found(broker: Broker, context: RequestContext, key_type: int, key: str) -> Coordinator:
    coordinator = _find(broker, context, key_type, key)
    # Kafka sends an empty text with the ordinary errors, and the error's own only for kinds it does not know; share
    # groups it knows, in versions too that cannot ask for them.
    known = key_type in (_GROUP, _TRANSACTION, _SHARE)
    coordinator.error_message = "" if known else ErrorCode(coordinator.error_code).message
    return coordinator


def _find(broker: Broker, context: RequestContext, key_type: int, key: str) -> Coordinator:
    error = _coordinator_error(context, key_type, key)
    if error is ErrorCode.NONE:
        coordinators = broker.transactions if key_type == _TRANSACTION else broker.groups
        node_id = coordinators.coordinator_of(key)
        if node_id == broker.node_id:
            endpoint = broker.endpoint(context.listener)
            return Coordinator(key=key, node_id=node_id, host=endpoint.host, port=endpoint.port)
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error)


def _coordinator_error(context: RequestContext, key_type: int, key: str) -> ErrorCode:
    if key_type == _GROUP:
        return ErrorCode.NONE if authorize(context, _DESCRIBE, _GROUP_RESOURCE, key) else _FORBIDDEN
    if key_type == _TRANSACTION:
        may = authorize(context, _DESCRIBE, ResourceType.TRANSACTIONAL_ID, key)
        return ErrorCode.NONE if may else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if key_type == _SHARE and not authorize(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_REQUEST


# -- the life of a member ------------------------------------------------------------------------------------------


def join_group(broker: Broker, context: RequestContext, request: JoinGroupRequest) -> Deferred:
    """A member wants to be in the next generation; the answer usually waits for the others."""
    group_id, member_id, instance_id = request.group_id, request.member_id, request.group_instance_id
    shaped: Shaped | None = None
    if context.version < _NULL_PROTOCOL_SINCE:
        shaped = Shaped(without_null_protocol)
    deferred = shaped.deferred if shaped is not None else Deferred()
    reply_to: ReplyTo = shaped or deferred
    if not authorize(context, _READ, _GROUP_RESOURCE, group_id):
        reply_to.complete(join_error(_FORBIDDEN, member_id))
        return deferred
    if len(request.protocols) > MOST_PROTOCOLS:
        reply_to.complete(join_error(ErrorCode.INVALID_REQUEST, member_id))
        return deferred
    groups = broker.groups
    client_id = context.client_id
    leader = groups.leader_of(group_id)
    fresh_id = "" if member_id else fresh_member_id(instance_id, client_id, groups.new_uuid())
    groups.peers.joined(context.session.peer, group_id, member_id or fresh_id)
    leader.submit(
        Join(
            group_id,
            member_id,
            instance_id,
            request.protocol_type,
            tuple([(protocol.name, protocol.metadata) for protocol in request.protocols]),
            request.session_timeout_ms,
            request.session_timeout_ms if context.version == 0 else request.rebalance_timeout_ms,
            context.version,
            fresh_id,
            client_id,
            context.client_host,
            reply_to,
            request.reason,
            None if member_id or instance_id is None else silent_ms(leader, group_id, instance_id),
        )
    )
    return deferred


def sync_group(broker: Broker, context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | Deferred:
    """A member asks what it is to read; the leader says what everybody is."""
    error = check_sync_shape(context.version, request.protocol_type, request.protocol_name)
    if error is not ErrorCode.NONE:
        return sync_error(error)
    group_id = request.group_id
    if not authorize(context, _READ, _GROUP_RESOURCE, group_id):
        return sync_error(_FORBIDDEN)
    deferred = Deferred()
    assignments = request.assignments
    if len(assignments) > MEMBERS_AT_ONCE:
        return deferring(broker, context, deferred, _reading(broker, context, request, deferred))
    _sync(broker, context, request, {one.member_id: one.assignment for one in assignments}, deferred)
    return deferred


def _reading(broker: Broker, context: RequestContext, request: SyncGroupRequest, deferred: Deferred) -> Steps[None]:
    """The assignments of a large group, of each member the last one."""
    plan: dict[str, bytes] = yield InThread(lambda: {one.member_id: one.assignment for one in request.assignments})
    _sync(broker, context, request, plan, deferred)
    while plan:  # what was of use has been taken out of it, and half a million entries are much to let go of at once
        for _ in range(min(len(plan), MEMBERS_AT_ONCE)):
            plan.popitem()
        yield None


def _sync(
    broker: Broker,
    context: RequestContext,
    request: SyncGroupRequest,
    assignments: dict[str, bytes],
    deferred: Deferred,
) -> None:
    group_id = request.group_id
    broker.groups.leader_of(group_id).submit(
        Sync(
            group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            assignments,
            context.version,
            deferred,
            context.client_id,
            context.client_host,
        )
    )


def heartbeat(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse | Deferred:
    """A member is alive."""
    group_id = request.group_id
    if not authorize(context, _READ, _GROUP_RESOURCE, group_id):
        return HeartbeatResponse(error_code=_FORBIDDEN)
    deferred = Deferred()
    groups = broker.groups
    if groups.peers.awaited:
        groups.peers.heard(context.session.peer, group_id, request.member_id)
    groups.leader_of(group_id).submit(
        Heartbeat(
            group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            deferred,
            context.client_id,
            context.client_host,
        )
    )
    return deferred


def leave_group(broker: Broker, context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse | Deferred:
    """Members go: one up to version 2, any number from version 3 on."""
    group_id = request.group_id
    if not authorize(context, _READ, _GROUP_RESOURCE, group_id):
        return LeaveGroupResponse(error_code=_FORBIDDEN)
    if context.version < 3:
        leavers = [Leaver(request.member_id)]
    else:
        leavers = [Leaver(member.member_id, member.group_instance_id, member.reason) for member in request.members]
    deferred = Deferred()
    broker.groups.leader_of(group_id).submit(
        Leave(group_id, leavers, context.version, deferred, context.client_id, context.client_host)
    )
    return deferred


# -- administration ------------------------------------------------------------------------------------------------


class _Part(Generic[T]):
    """Where one group's result goes in an answer about several."""

    __slots__ = ("_gathering", "_index", "_shape")

    def __init__(self, gathering: Gathering[T], index: int, shape: Callable[[T], T] | None = None) -> None:
        self._gathering = gathering
        self._index = index
        self._shape = shape

    def complete(self, result: T) -> None:
        self._gathering.put(self._index, result if self._shape is None else self._shape(result))


def describe_groups(broker: Broker, context: RequestContext, request: DescribeGroupsRequest) -> Deferred:
    """State and members of each group asked for."""
    names = request.groups
    gathering: Gathering[DescribedGroup] = Gathering(len(names), _all_described)
    shape = partial(_with_operations, context) if request.include_authorized_operations else None

    def describe(index: int) -> None:
        group_id = names[index]
        if not authorize(context, _DESCRIBE, _GROUP_RESOURCE, group_id):
            gathering.put(index, DescribedGroup(group_id=group_id, error_code=_FORBIDDEN))
            return
        reply_to = _Part(gathering, index, shape)
        broker.groups.leader_of(group_id).submit(DescribeGroup(group_id, context.version, reply_to))

    return gathered(broker, context, gathering, len(names), describe, once=names)


def _all_described(results: list[DescribedGroup]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=results)


def _with_operations(context: RequestContext, described: DescribedGroup) -> DescribedGroup:
    if described.error_code == ErrorCode.NONE:
        described.authorized_operations = authorized_operations(context, _GROUP_RESOURCE, described.group_id)
    return described


def delete_groups(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> Deferred:
    """Remove groups that have no members, with their offsets."""
    names = list(dict.fromkeys(request.groups_names))
    gathering: Gathering[DeletableGroupResult] = Gathering(len(names), _all_deleted)

    def delete(index: int) -> None:
        group_id = names[index]
        if not authorize(context, _DELETE, _GROUP_RESOURCE, group_id):
            gathering.put(index, DeletableGroupResult(group_id=group_id, error_code=_FORBIDDEN))
            return
        broker.groups.leader_of(group_id).submit(
            DeleteGroup(group_id, _Part(gathering, index), context.client_id, context.client_host)
        )

    return gathered(broker, context, gathering, len(names), delete)


def _all_deleted(results: list[DeletableGroupResult]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=results)


def list_groups(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> Deferred:
    """Every group, or those in one of the states and of one of the types asked for."""
    leaders = broker.groups.leaders
    in_slices = partial(broker.runtime.in_slices, owner=context.session)
    deferred = Deferred()
    gathering = Gathering(len(leaders), partial(_all_listed, in_slices, context, leaders, deferred))

    def settled(index: int, shard: Shard) -> None:
        in_slices(_listed(shard, request), partial(gathering.put, index), deferred.fail, wanted=deferred.is_wanted)

    for index, leader in enumerate(leaders):
        leader.when_settled(partial(settled, index, leader.shard))
    return deferred


def _all_listed(
    in_slices: Callable[..., None],
    context: RequestContext,
    leaders: list[GroupLeader],
    deferred: Deferred,
    parts: list[list[ListedGroup]],
) -> None:
    if any(leader.state is LeaderState.LOADING for leader in leaders):
        deferred.complete(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    else:
        in_slices(_visible(context, parts), deferred.complete, deferred.fail, wanted=deferred.is_wanted)


def _listed(shard: Shard, request: ListGroupsRequest) -> Steps[list[ListedGroup]]:
    groups = list(shard.states.values())
    listed: list[ListedGroup] = []
    for at in range(0, len(groups), _LISTED_AT_ONCE):
        listed += list_of(groups[at : at + _LISTED_AT_ONCE], request.states_filter, request.types_filter)
        yield None
    return listed


def _visible(context: RequestContext, parts: list[list[ListedGroup]]) -> Steps[ListGroupsResponse]:
    sees_all = probe(context, _DESCRIBE, ResourceType.CLUSTER)
    groups: list[ListedGroup] = []
    for part in parts:
        for at in range(0, len(part), _LISTED_AT_ONCE):
            groups += [
                group
                for group in part[at : at + _LISTED_AT_ONCE]
                if sees_all or probe(context, _DESCRIBE, _GROUP_RESOURCE, group.group_id)
            ]
            yield None
    return ListGroupsResponse(groups=groups)
