"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the protocol of KIP-848.

Requests become inputs of the group's leader; the rules are in `coordinator.consumer`.

Source: Kafka's KafkaApis.handleConsumerGroupHeartbeat, handleConsumerGroupDescribe.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import partial
from typing import TYPE_CHECKING

from broker.groups.silence import silent_ms
from broker.handlers.authorizer import Operation, ResourceType, authorize, authorized_operations
from broker.handlers.context import Deferred
from broker.handlers.gathering import Gathering, deferring, gathered, one_by_one
from broker.loop.slices import InThread, Steps
from coordinator.consumer.answers import heartbeat_error
from coordinator.consumer.inputs import ConsumerHeartbeat, DescribeConsumerGroup
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
        TopicPartitions,
    )

_READ, _DESCRIBE = Operation.READ, Operation.DESCRIBE
_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
MOST_NAMES = 10_000
"""Of topics that one member subscribes to: the rules look at all of them in one go."""
_A_STEP = 128  # names that are looked at without a pause
_OFF = "The consumer protocol is off here (group.coordinator.rebalance.protocols): set group.protocol=classic."


def consumer_group_heartbeat(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Deferred:
    """A member joins, is alive, has given partitions up, or goes.

    Where the protocol is switched off it is offered all the same, and refused: a client that is not offered it may look
    for a broker that has it for ever, without a word (librdkafka).
    """
    if not is_on(broker):
        return heartbeat_error(ErrorCode.UNSUPPORTED_VERSION, _OFF)
    if not authorize(context, _READ, _GROUP, request.group_id):
        return heartbeat_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names, owned = request.subscribed_topic_names, request.topic_partitions
    if names is not None and len(names) > MOST_NAMES:
        text = f"A member may name {MOST_NAMES} topics, not {len(names)}: subscribe by a regular expression."
        return heartbeat_error(ErrorCode.INVALID_REQUEST, text)
    deferred = Deferred()
    if not names and not owned:
        _submit(broker, context, request, None if names is None else (), None if owned is None else {}, deferred)
        return deferred
    return deferring(broker, context, deferred, _reading(broker, context, request, deferred))


def _reading(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest, deferred: Deferred
) -> Steps[None]:
    """The request's lists, which may be long."""
    named, told = request.subscribed_topic_names, request.topic_partitions
    names: tuple[str, ...] | None = None
    if named is not None:
        for at in range(0, len(named), _A_STEP):
            for name in named[at : at + _A_STEP]:
                if not authorize(context, _DESCRIBE, _TOPIC, name):
                    deferred.complete(heartbeat_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                    return
            yield None
        in_order = partial(_in_order, named)
        names = in_order() if len(named) <= _A_STEP else (yield InThread(in_order))
    owned: dict[bytes, frozenset[int]] | None = None
    if told is not None:
        by_topic = partial(_by_topic, told)
        short = sum(len(topic.partitions) for topic in told) <= 8 * _A_STEP
        owned = by_topic() if short else (yield InThread(by_topic))
    _submit(broker, context, request, names, owned, deferred)


def _in_order(names: list[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _by_topic(owned: list[TopicPartitions]) -> dict[bytes, frozenset[int]]:
    found = {topic.topic_id: frozenset(topic.partitions) for topic in owned}
    if len(found) < len(owned):  # a topic that is named twice is owned as both say
        found = dict.fromkeys(found, frozenset())
        for topic in owned:
            found[topic.topic_id] |= frozenset(topic.partitions)
    return found


def _submit(
    broker: Broker,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    names: tuple[str, ...] | None,
    owned: dict[bytes, frozenset[int]] | None,
    deferred: Deferred,
) -> None:
    group_id, groups = request.group_id, broker.groups
    leader = groups.leader_of(group_id)
    instance_id = request.instance_id
    fresh_id = "" if request.member_id else short_uuid(groups.new_uuid())
    if not request.member_epoch:
        groups.peers.joined(context.session.peer, group_id, request.member_id or fresh_id)
    elif groups.peers.awaited:
        groups.peers.heard(context.session.peer, group_id, request.member_id)
    leader.submit(
        ConsumerHeartbeat(
            group_id,
            request.member_id,
            request.member_epoch,
            instance_id,
            request.rack_id,
            request.rebalance_timeout_ms,
            names,
            request.subscribed_topic_regex,
            request.server_assignor,
            owned,
            context.version,
            fresh_id,
            context.client_id,
            context.client_host,
            deferred,
            partial(authorize, context, _DESCRIBE, _TOPIC),
            silent_ms(leader, group_id, instance_id) if instance_id and not request.member_epoch else None,
        )
    )


def is_on(broker: Broker) -> bool:
    """Whether members may speak this protocol."""
    return "consumer" in broker.settings.group_coordinator_rebalance_protocols


def short_uuid(text: str) -> str:
    """A UUID as Kafka prints it: 22 characters."""
    return urlsafe_b64encode(bytes.fromhex(text.replace("-", ""))).decode().rstrip("=")


class _Part:
    """Where one group's description goes. A group of a topic that the caller may not see is not described."""

    __slots__ = ("_context", "_gathering", "_index", "_operations")

    def __init__(
        self, gathering: Gathering[DescribedConsumerGroup], index: int, context: RequestContext, *, operations: bool
    ) -> None:
        self._gathering = gathering
        self._index = index
        self._context = context
        self._operations = operations

    def complete(self, described: DescribedConsumerGroup) -> None:
        if described.error_code == ErrorCode.NONE:
            if not self._may_see_all(described):
                described = DescribedConsumerGroup(
                    group_id=described.group_id,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message="The group has described topics that are not authorized.",
                )
            elif self._operations:
                described.authorized_operations = authorized_operations(self._context, _GROUP, described.group_id)
        self._gathering.put(self._index, described)

    def _may_see_all(self, described: DescribedConsumerGroup) -> bool:
        seen: set[str] = set()
        for member in described.members:
            seen.update(member.subscribed_topic_names)
            for assignment in (member.assignment, member.target_assignment):
                seen.update(topic.topic_name for topic in assignment.topic_partitions)
        return all(authorize(self._context, _DESCRIBE, _TOPIC, name) for name in seen)


def consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Deferred | ConsumerGroupDescribeResponse:
    """State, epochs and members of each group asked for."""
    names = request.group_ids
    if not is_on(broker):
        return one_by_one(broker, context, names, _unsupported, _all_described)
    gathering = Gathering(len(names), _all_described)

    def describe(index: int) -> None:
        group_id = names[index]
        if not authorize(context, _DESCRIBE, _GROUP, group_id):
            gathering.put(index, _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        part = _Part(gathering, index, context, operations=request.include_authorized_operations)
        broker.groups.leader_of(group_id).submit(DescribeConsumerGroup(group_id, part))

    return gathered(broker, context, gathering, len(names), describe, once=names)


def _all_described(results: list[DescribedConsumerGroup]) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=results)


def _unsupported(group_id: str) -> DescribedConsumerGroup:
    return _refused(group_id, ErrorCode.UNSUPPORTED_VERSION)


def _refused(group_id: str, error: ErrorCode) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(group_id=group_id, error_code=error)
