"""ConsumerGroupDescribe, and such groups in ListGroups.

Source: KIP-848, KIP-1099; Kafka's ConsumerGroup.asDescribedGroup, ConsumerGroupMember.asConsumerGroupDescribeMember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.consumer.group import NOTHING
from coordinator.consumer.target import preferred_assignor
from coordinator.outcome import Outcome, Reply
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedTopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coordinator.consumer.group import ConsumerGroup, ConsumerMember
    from coordinator.consumer.inputs import DescribeConsumerGroup
    from coordinator.view import AnyGroupOutcome, Topics, View

GROUP_TYPE = "consumer"
PROTOCOL_TYPE = "consumer"
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def describe_consumer_group(view: View, request: DescribeConsumerGroup, now_ms: int) -> AnyGroupOutcome:
    """Answer with the group as it is."""
    group = view.consumer_group
    if group is not None:
        described = _described(group, view.topics, tuple(view.consumer_settings.assignors))
    elif not request.group_id:
        described = DescribedConsumerGroup(group_id="", error_code=ErrorCode.INVALID_GROUP_ID)
    else:
        described = DescribedConsumerGroup(
            group_id=request.group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=_not_found(request.group_id, view),
        )
    return Outcome(group or view.group, (), (Reply(request.reply_to, described),))


def _not_found(group_id: str, view: View) -> str:
    return f"Group {group_id} not found." if view.group is None else f"Group {group_id} is not a consumer group."


def _described(group: ConsumerGroup, topics: Topics, assignors: tuple[str, ...]) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, assignors),
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> DescribedConsumerMember:
    held: dict[bytes, list[int]] = {}
    for partitions in (member.assigned, member.pending):
        for topic_id, epochs in partitions.items():
            held.setdefault(topic_id, []).extend(epochs)
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.names),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(held, topics),
        target_assignment=_assignment(group.targets.get(member.member_id, NOTHING), topics),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(held: Mapping[bytes, Iterable[int]], topics: Topics) -> DescribedAssignment:
    found = []
    for topic_id, partitions in held.items():
        name = topics.topic_name(topic_id)
        if name is not None:  # a topic that is gone has no name to be told by
            found.append(DescribedTopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions)))
    return DescribedAssignment(topic_partitions=found)
