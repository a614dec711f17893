"""What is wrong with a heartbeat, before and after one looks at its group.

Source: KIP-848; Kafka's GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid,
GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.consumer.answers import Refused
from coordinator.consumer.group import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.consumer.group import ConsumerMember
    from coordinator.consumer.inputs import ConsumerHeartbeat
    from coordinator.consumer.reconcile import Owned
    from coordinator.view import ConsumerSettings

MEMBER_ID_BY_CLIENT_SINCE = 1


def check_shape(request: ConsumerHeartbeat, settings: ConsumerSettings) -> None:
    """What can be said without looking at any group. Raises: Refused."""
    epoch = request.epoch
    if request.version >= MEMBER_ID_BY_CLIENT_SINCE or epoch > 0 or epoch == LEAVE_EPOCH:
        _check_not_blank(request.member_id, "MemberId")
    _check_not_blank(request.group_id, "GroupId")
    _check_not_blank(request.instance_id, "InstanceId")
    _check_not_blank(request.rack_id, "RackId")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("A member that joins must give its RebalanceTimeoutMs.")
        if request.owned is None or request.owned:
            raise _invalid("A member that joins must give TopicPartitions, and own none.")
        if request.names is None and request.regex is None:
            raise _invalid("A member that joins must give SubscribedTopicNames or SubscribedTopicRegex.")
    elif epoch == LEAVE_STATIC_EPOCH:
        if request.instance_id is None:
            raise _invalid("Only a member with an InstanceId can leave for a while (epoch -2).")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid(f"{epoch} is no member epoch.")
    if request.assignor is not None and request.assignor not in settings.assignors:
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"There is no assignor {request.assignor!r}; there are {', '.join(settings.assignors)}.",
        )


def _check_not_blank(text: str | None, field: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{field} must not be empty.")


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Whether the member may go on from the epoch that it gives. Raises: Refused.

    One that gives its previous epoch has not had the last answer, if it owns no more than it was told to.
    """
    # Who begins anew may always do so: it has dropped everything.
    if epoch in (0, member.epoch):
        return
    if epoch > member.epoch:
        raise _fenced(f"The member is at epoch {member.epoch}, and says {epoch}: it must join again, with epoch 0.")
    if epoch != member.previous_epoch or not _is_subset(owned, member):
        raise _fenced(f"The member is at epoch {member.epoch}, and says {epoch}: it must join again, with epoch 0.")


def _fenced(message: str) -> Refused:
    return Refused(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _is_subset(owned: Owned | None, member: ConsumerMember) -> bool:
    if owned is None:
        return False
    assigned = member.assigned
    return all(topic_id in assigned and held <= assigned[topic_id].keys() for topic_id, held in owned.items())


def unknown_member(member_id: str) -> Refused:
    """Nobody of this id is in the group."""
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"There is no member {member_id!r} in the group.")


def unknown_instance(instance_id: str) -> Refused:
    """Nobody holds the instance id."""
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"There is no member with instance id {instance_id!r} in the group.")


def fenced_instance(instance_id: str, member_id: str, holder_id: str) -> Refused:
    """Another member holds the instance id."""
    return Refused(
        ErrorCode.FENCED_INSTANCE_ID,
        f"Instance id {instance_id!r} is held by member {holder_id!r}, not by {member_id!r}.",
    )


def no_such_group(group_id: str) -> Refused:
    """There is no group of this name, or it is of another kind."""
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {group_id!r}.")
