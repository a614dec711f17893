"""Time is over: a session, or the time to give partitions up.

Source: KIP-848; Kafka's GroupMetadataManager.scheduleConsumerGroupSessionTimeout,
scheduleConsumerGroupRebalanceTimeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.consumer.causes import cause_by
from coordinator.consumer.draft import session_timeout_ms
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
    detail = {
        "session_timeout_ms": session_timeout_ms(view, member),
        "last_heard_ms": timer.last_heard_ms,
        "last_api": timer.last_api,
        **(timer.edge or {}),
    }
    if member.is_away:
        detail["away"] = True
    return remove(view, [cause_by(now_ms, "session_expired", member, detail)], now_ms)


def rebalance_timed_out(view: View, timer: RebalanceTimedOut, now_ms: int) -> AnyGroupOutcome:
    """A member has not given up what it had to. One that has gone on since is left alone."""
    group = view.consumer_group
    member = group.members.get(timer.member_id) if group is not None else None
    if group is None or member is None or member.epoch != timer.epoch:
        return Outcome(group or view.group)
    rebalance = group.tracking.rebalance
    told_at_ms = rebalance.revoking.get(timer.member_id) if rebalance is not None else None
    detail = {
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "waited_ms": None if told_at_ms is None else now_ms - told_at_ms,
        "last_heard_ms": timer.last_heard_ms,
        **(timer.edge or {}),
    }
    return remove(view, [cause_by(now_ms, "rebalance_timeout", member, detail)], now_ms)
