"""Silence: a session, a pending id's time or a new member's time is over.

Source: KIP-62, KIP-394; Kafka's GroupMetadataManager.expireClassicGroupMemberHeartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator import events
from coordinator.classic.causes import cause_by
from coordinator.classic.draft import Draft
from coordinator.classic.rebalance import maybe_complete, prepare
from coordinator.group import GroupState
from coordinator.outcome import Outcome

if TYPE_CHECKING:
    from coordinator.classic.inputs import SessionExpired
    from coordinator.view import GroupOutcome, View


def session_expired(view: View, timer: SessionExpired, now_ms: int) -> GroupOutcome:
    """Drop a member, or a pending id, that was not heard of in time; the others rejoin, or go on without it."""
    group, member_id = view.group, timer.member_id
    if group is None or group.state is GroupState.DEAD:
        return Outcome(group)
    draft = Draft(view, group, now_ms)
    if member_id in group.pending_members:
        draft.drop_pending(member_id)
        draft.event(events.PendingMemberExpired(member_id))
        maybe_complete(draft)
        return draft.outcome()
    member = group.members.get(member_id)
    if member is None:
        # It left after this timer was set: a late tick, no error.
        return Outcome(group)
    waits = member.parked_join is not None or member.parked_sync is not None
    if waits and not member.is_new:
        # Who waits for an answer is alive. The timer is set again when the answer goes out.
        return Outcome(group)
    silence = {
        "session_timeout_ms": member.session_timeout_ms,
        "last_heard_ms": timer.last_heard_ms,
        "last_api": timer.last_api,
        **(timer.edge or {}),
    }
    cause = cause_by(now_ms, "session_expired", member, detail=silence)
    draft.remove_member(member_id)
    draft.event(events.SessionExpired(cause))
    if draft.state is GroupState.PREPARING_REBALANCE:
        draft.further_cause(cause)
        draft.departed(member, "expired")
        maybe_complete(draft)
    else:
        prepare(draft, cause, departed=((member, "expired"),))
    return draft.outcome()
