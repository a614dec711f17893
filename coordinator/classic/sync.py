"""SyncGroup: members ask what they are to do, the leader brings it.

Followers wait for the leader, the leader waits for its record: an assignment counts once it is committed.

Source: Kafka's GroupMetadataManager.classicGroupSyncToClassicGroup and expirePendingSync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator import events
from coordinator.append_errors import error_for_client
from coordinator.classic import rebalance_tracking as tracking
from coordinator.classic.answers import sync_error, synced
from coordinator.classic.causes import cause_by, ids_of
from coordinator.classic.checks import check_group_id, check_sync, check_sync_shape
from coordinator.classic.draft import Draft
from coordinator.classic.group_record import group_record
from coordinator.classic.inputs import SessionExpired
from coordinator.classic.rebalance import prepare, refuse_parked_syncs
from coordinator.classic.replacement import fenced
from coordinator.classic.tokens import AssignmentToken
from coordinator.group import GroupState
from coordinator.outcome import Appended, AppendFailed, Outcome, Reply, SetTimer
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.classic.inputs import Sync, SyncTimedOut
    from coordinator.view import GroupOutcome, View

_NONE = ErrorCode.NONE


def sync(view: View, request: Sync, now_ms: int) -> GroupOutcome:
    """Answer at once, or park until the assignment is there."""
    group, member_id = view.group, request.member_id
    error = (
        check_sync_shape(request.version, request.protocol_type, request.protocol_name)
        or check_group_id(request.group_id)
        or check_sync(
            group,
            member_id,
            request.instance_id,
            request.generation,
            request.protocol_type,
            request.protocol_name,
        )
    )
    if error is not _NONE or group is None:
        if error is ErrorCode.FENCED_INSTANCE_ID and group is not None:
            draft = Draft(view, group, now_ms)
            draft.reply(request.reply_to, sync_error(error))
            fenced(draft, "SyncGroup", request)
            return draft.outcome()
        return Outcome(group, replies=(Reply(request.reply_to, sync_error(error)),))
    if group.state is GroupState.COMPLETING_REBALANCE:
        draft = Draft(view, group, now_ms)
        _park(draft, request)
        return draft.outcome()
    member = group.members[member_id]
    if not group.pending_sync_count or member.synced_at_ms is not None:
        # Asked again, which any member may at any time.
        return Outcome(
            group,
            replies=(Reply(request.reply_to, synced(group, member.assignment)),),
            timers=(
                SetTimer(
                    ("heartbeat", group.group_id, member_id),
                    now_ms + member.session_timeout_ms,
                    SessionExpired(group.group_id, member_id),
                ),
            ),
        )
    draft = Draft(view, group, now_ms)
    draft.reply(request.reply_to, synced(group, member.assignment))
    draft.restart_session(member_id, member.session_timeout_ms)
    draft.update_member(member, altered(member, synced_at_ms=now_ms))
    if not draft.pending_sync_count:
        draft.cancel_timer("sync")
        draft.rest_members()
        tracking.ended(draft, "stable")
    return draft.outcome()


def assignment_written(view: View, success: Appended, now_ms: int) -> GroupOutcome:
    """The assignment counts from now on, unless the group has moved on: then everybody was told to join again."""
    token, group = success.token, view.group
    assert isinstance(token, AssignmentToken)
    if group is None or not _still_waits_for(token, view):
        return Outcome(group)
    draft = Draft(view, group, now_ms)
    assignments, members = token.assignments, {}
    for member_id, member in group.members.items():
        assignment = assignments.get(member_id, b"")
        if member.parked_sync is not None:
            draft.reply(member.parked_sync, synced(group, assignment))
            # Its timer was ignored while it waited, so it must be set again.
            draft.restart_session(member_id, member.session_timeout_ms)
        members[member_id] = altered(member, assignment=assignment, parked_sync=None)
    draft.replace_members(members)
    draft.assignment_in_flight = False
    draft.enter(GroupState.STABLE)
    count_of = view.topics.partition_count
    draft.assigned_partition_counts = {topic: count_of(topic) or 0 for topic in group.subscribed_topics or ()}
    draft.assigned_topic_ids = ids_of(view.topics, group.subscribed_topics)
    if not draft.pending_sync_count:
        tracking.ended(draft, "stable")
    return draft.outcome()


def assignment_refused(view: View, failure: AppendFailed, now_ms: int) -> GroupOutcome:
    """The assignment could not be written: nobody owns anything, and all must join again."""
    token, group = failure.token, view.group
    assert isinstance(token, AssignmentToken)
    if group is None or not _still_waits_for(token, view):
        return Outcome(group)
    draft = Draft(view, group, now_ms)
    error = error_for_client(failure.error)
    draft.event(events.AppendFailed(failure.error.name, "assignment"))
    refuse_parked_syncs(draft, error)
    prepare(draft, cause_by(now_ms, "append_failed", token.leader, detail={"error": failure.error.name}))
    return draft.outcome()


def sync_timed_out(view: View, timer: SyncTimedOut, now_ms: int) -> GroupOutcome:
    """Who has not asked for its assignment by now is out, static or not, heartbeats or not."""
    group = view.group
    if (
        group is None
        or group.generation != timer.generation
        or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        or not group.pending_sync_count
    ):
        return Outcome(group)
    draft = Draft(view, group, now_ms)
    waited = {"waited_ms": group.rebalance_timeout_ms}
    departed, causes = [], []
    for member in group.pending_sync():
        draft.remove_member(member.member_id)
        draft.forget_session(member.member_id)
        departed.append((member, "expired"))
        causes.append(cause_by(now_ms, "sync_timeout", member, detail=waited))
        draft.event(events.MemberLeft(causes[-1]))
    prepare(draft, causes[0], further_causes=causes[1:], departed=departed)
    return draft.outcome()


def _park(draft: Draft, request: Sync) -> None:
    member = draft.members[request.member_id]
    if member.parked_sync is not None:
        # Without an answer to the older nothing behind it on its connection would ever be begun (D7).
        draft.reply(member.parked_sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    draft.update_member(member, altered(member, parked_sync=request.reply_to, synced_at_ms=draft.now_ms))
    if not draft.pending_sync_count:
        draft.cancel_timer("sync")
    if draft.leader_id == request.member_id and not draft.assignment_in_flight:
        _write_assignment(draft, request)


def _write_assignment(draft: Draft, request: Sync) -> None:
    """Of the leader's plan; a second one of the same generation is not written, so that log and group agree."""
    planned = request.assignments
    assignments = {member_id: planned.get(member_id, b"") for member_id in draft.members}
    draft.assignment_in_flight = True
    draft.records.append(group_record(draft, assignments))
    draft.token = AssignmentToken(draft.group_id, draft.generation, draft.members[request.member_id], assignments)
    tracking.assignment_came(draft)


def _still_waits_for(token: AssignmentToken, view: View) -> bool:
    group = view.group
    return (
        group is not None
        and group.state is GroupState.COMPLETING_REBALANCE
        and group.generation == token.generation
        and group.assignment_in_flight
    )
