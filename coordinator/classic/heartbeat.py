"""Heartbeat: a member is alive, and learns whether it must join again.

Source: KIP-62; Kafka's GroupMetadataManager.classicGroupHeartbeatToClassicGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.classic.checks import check_group_id, check_heartbeat, extends_session
from coordinator.classic.draft import Draft
from coordinator.classic.inputs import SessionExpired
from coordinator.classic.replacement import fenced
from coordinator.layered import including
from coordinator.outcome import Outcome, Reply, SetTimer
from coordinator.values import altered
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse

if TYPE_CHECKING:
    from coordinator.classic.inputs import Heartbeat
    from coordinator.group import Group
    from coordinator.view import GroupOutcome, View


def _told(group: Group, member_id: str, now_ms: int) -> Group:
    """The group once the member is asked to join again: what it takes from here on is its own affair."""
    rebalance = group.rebalance
    if rebalance is None or member_id in rebalance.told:
        return group
    return altered(group, rebalance=altered(rebalance, told=including(rebalance.told, member_id, now_ms)))


def heartbeat(view: View, request: Heartbeat, now_ms: int) -> GroupOutcome:
    """The member's session begins anew, also while the others are being collected; the group stays as it is.

    But for what its ledger is told: when the member was asked to join again.
    """
    group, member_id = view.group, request.member_id
    error = check_group_id(request.group_id) or check_heartbeat(
        group, member_id, request.instance_id, request.generation
    )
    reply = Reply(request.reply_to, HeartbeatResponse(error_code=error))
    if group is not None and extends_session(error):
        deadline_ms = now_ms + group.members[member_id].session_timeout_ms
        key = ("heartbeat", group.group_id, member_id)
        if error is not ErrorCode.NONE:
            group = _told(group, member_id, now_ms)
        # Given by position: the names would cost a tenth of a heartbeat.
        return Outcome(group, (), (reply,), (SetTimer(key, deadline_ms, SessionExpired(group.group_id, member_id)),))
    if group is not None and error is ErrorCode.FENCED_INSTANCE_ID:
        draft = Draft(view, group, now_ms)
        draft.replies.append(reply)
        fenced(draft, "Heartbeat", request)
        return draft.outcome()
    return Outcome(group, replies=(reply,))
