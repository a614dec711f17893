"""Time is over: a session, or the time to give partitions up.

Source: KIP-848; Kafka's GroupMetadataManager.scheduleConsumerGroupSessionTimeout,
scheduleConsumerGroupRebalanceTimeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.consumer.removal import remove
from coordinator.outcome import Outcome

if TYPE_CHECKING:
    from coordinator.classic.inputs import SessionExpired
    from coordinator.consumer.inputs import RebalanceTimedOut
    from coordinator.view import AnyGroupOutcome, View


def session_expired(view: View, timer: SessionExpired, now_ms: int) -> AnyGroupOutcome:
    """A member was not heard of in time, or did not come back in time. A late tick does nothing."""
    group = view.consumer_group
    member = group.members.get(timer.member_id) if group is not None else None
    if member is None:
        return Outcome(group or view.group)
    return expel(view, timer.member_id, "session_expired", now_ms)


def rebalance_timed_out(view: View, timer: RebalanceTimedOut, now_ms: int) -> AnyGroupOutcome:
    """A member has not given up what it had to. One that has gone on since is left alone."""
    group = view.consumer_group
    member = group.members.get(timer.member_id) if group is not None else None
    if member is None or member.epoch != timer.epoch:
        return Outcome(group or view.group)
    return expel(view, timer.member_id, "rebalance_timeout", now_ms)


def expel(view: View, member_id: str, cause: str, now_ms: int) -> AnyGroupOutcome:
    """A member is out because of a timer."""
    return remove(view, [member_id], cause, now_ms)
