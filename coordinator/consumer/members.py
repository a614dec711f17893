"""Who it is that sends a heartbeat: a member, a new one, or one that takes the place of another.

A member id keeps its instance id for as long as it lives. So a static member that joins again under the id it has is
itself, and is given what it had, as a dynamic one would be: the answer to its first join was lost, or it was fenced.
Kafka up to 4.4 takes it for its own rival there and fences it for good (its pull request 23542 mends that).

Source: KIP-848; Kafka's GroupMetadataManager.getOrMaybeSubscribeDynamicConsumerMember,
getOrMaybeSubscribeStaticConsumerMember, replaceMember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.consumer.answers import Refused
from coordinator.consumer.causes import replaced_event
from coordinator.consumer.checks import check_epoch, fenced_instance, unknown_instance, unknown_member
from coordinator.consumer.group import ConsumerMember
from coordinator.consumer.inputs import ConsumerHeartbeat
from coordinator.consumer.records import current_record, member_record, member_tombstones, target_record
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.classic.inputs import Join
    from coordinator.consumer.draft import Draft
    from coordinator.consumer.group import ConsumerGroup


def present_member(group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member that sends a heartbeat after its join. Raises: Refused."""
    member_id, instance_id = request.member_id, request.instance_id
    member = named_member(group, member_id, instance_id)
    check_epoch(member, request.epoch, request.owned)
    return member


def named_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member of this id, and of this instance id if one is given. Raises: Refused."""
    if instance_id is not None:
        holder_id = group.static_members.get(instance_id)
        if holder_id is None:
            raise unknown_instance(instance_id)
        if holder_id != member_id:
            raise fenced_instance(instance_id, member_id, holder_id)
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(member_id)
    return member


def joining_member(draft: Draft, request: ConsumerHeartbeat | Join, member_id: str) -> ConsumerMember:
    """The member that joins: one that is there, a new one, or a successor, whose inheritance is written.

    A static member of the classic protocol always takes the place of whoever holds its instance id.
    Raises: Refused.
    """
    group, instance_id = draft.group, request.instance_id
    member = group.members.get(member_id)
    if member is not None:
        if member.instance_id != instance_id:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"Member {member_id!r} has the instance id {member.instance_id!r}, and joins with {instance_id!r}.",
            )
        if member.is_away:
            # It comes back to what it had. What it held it holds since epoch 0, as its leaving has written.
            return altered(member, epoch=0, previous_epoch=0)
        return member
    holder_id = None if instance_id is None else group.static_members.get(instance_id)
    if holder_id is None:
        return ConsumerMember(member_id, instance_id=instance_id)
    holder = group.members[holder_id]
    if isinstance(request, ConsumerHeartbeat) and holder.classic is None and not holder.is_away:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance id {instance_id!r} is still held by member {holder_id!r}.",
        )
    return _succeed(draft, holder, request, member_id)


def _succeed(draft: Draft, holder: ConsumerMember, request: ConsumerHeartbeat | Join, member_id: str) -> ConsumerMember:
    """The new id has all that the old one had, and is as far as one that has just come."""
    group_id = draft.group_id
    target = draft.group.targets.get(holder.member_id)
    successor = altered(holder, member_id=member_id, epoch=0, previous_epoch=0)
    draft.write_all(member_tombstones(group_id, holder.member_id))
    draft.forget_member(holder.member_id)
    draft.write(member_record(group_id, successor))
    if target is not None:
        draft.write(target_record(group_id, member_id, target))
    draft.write(current_record(group_id, successor))
    draft.event(replaced_event(holder, request, member_id))
    draft.successor_of = holder
    return successor
