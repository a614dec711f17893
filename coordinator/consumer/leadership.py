"""The coordinator takes a consumer group over, gives it up, or cannot serve it.

Source: Kafka's GroupMetadataManager.onLoaded, GroupCoordinatorService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.consumer.answers import Refused, heartbeat_error
from coordinator.consumer.checks import check_shape
from coordinator.consumer.draft import TIMERS_OF_A_MEMBER, group_event, timers_of
from coordinator.consumer.inputs import ConsumerHeartbeat, DescribeConsumerGroup
from coordinator.consumer.rebalance_tracking import resumed
from coordinator.events import CoordinatorLoaded
from coordinator.outcome import CancelTimer, Outcome, Reply
from coordinator.values import altered
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import DescribedConsumerGroup

if TYPE_CHECKING:
    from coordinator.classic.inputs import GroupLoaded, Unload
    from coordinator.outcome import Input
    from coordinator.view import AnyGroupOutcome, ConsumerSettings, View


def loaded(view: View, event: GroupLoaded, now_ms: int) -> AnyGroupOutcome:
    """Every member has a whole session to show up, and the whole rebalance timeout to give up what it must."""
    group = view.consumer_group
    if group is None or not group.members:
        return Outcome(group)
    timers = tuple([timer for member in group.members.values() for timer in timers_of(view, member, now_ms)])
    told = group_event(CoordinatorLoaded(len(group.members), event.load_ms, event.unclean), group, now_ms)
    resuming = resumed(view, group, now_ms)
    if resuming is None:
        return Outcome(group, timers=timers, events=(told,))
    rebalance, began = resuming
    return Outcome(
        altered(group, tracking=altered(group.tracking, rebalance=rebalance)), timers=timers, events=(told, began)
    )


def unload(view: View, event: Unload, now_ms: int) -> AnyGroupOutcome:
    """Nobody waits in such a group. No timer of it fires any more."""
    group = view.consumer_group
    if group is None:
        return Outcome(None)
    timers = tuple(
        [CancelTimer((name, group.group_id, member_id)) for member_id in group.members for name in TIMERS_OF_A_MEMBER]
    )
    return Outcome(group, timers=timers)


def unserved(request: Input, error: ErrorCode, settings: ConsumerSettings) -> Reply | None:
    """The answer when no shard can take the request; None when it is none of this package, or nobody waits.

    What is wrong with the request itself comes first.
    """
    if isinstance(request, ConsumerHeartbeat):
        try:
            check_shape(request, settings)
        except Refused as refused:
            return Reply(request.reply_to, heartbeat_error(refused.error, refused.message))
        return Reply(request.reply_to, heartbeat_error(error))
    if isinstance(request, DescribeConsumerGroup):
        code = error if request.group_id else ErrorCode.INVALID_GROUP_ID
        return Reply(request.reply_to, DescribedConsumerGroup(group_id=request.group_id, error_code=code))
    return None
