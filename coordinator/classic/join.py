"""JoinGroup: somebody wants to be in the next generation.

The answer usually waits: the request is parked until the join phase is over (`rebalance.complete`).

Source: KIP-62, KIP-394; Kafka's GroupMetadataManager.classicGroupJoinToClassicGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator import events
from coordinator.append_errors import error_for_client
from coordinator.classic import rebalance_tracking as tracking
from coordinator.classic.answers import join_error, joined, member_list
from coordinator.classic.causes import cause_by, changed_cause, joined_cause, rejoined_cause
from coordinator.classic.checks import (
    check_capacity,
    check_group_id,
    check_member,
    check_session_timeout,
    check_supports,
)
from coordinator.classic.draft import Draft
from coordinator.classic.group_record import new_group_record
from coordinator.classic.rebalance import maybe_complete, prepare, rebalance_or_complete
from coordinator.classic.replacement import fenced, replace_static_member
from coordinator.classic.tokens import NewGroupToken
from coordinator.group import Group, GroupState, Member
from coordinator.layered import including
from coordinator.outcome import AppendFailed, Outcome, Reply
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.classic.inputs import Join
    from coordinator.view import GroupOutcome, View

_NONE = ErrorCode.NONE


def join(view: View, request: Join, now_ms: int) -> GroupOutcome:
    """Admit, park or refuse. A group nobody knew is created by whoever comes without a member id."""
    error = check_group_id(request.group_id) or check_session_timeout(request.session_timeout_ms, view.settings)
    group = view.group
    if error is _NONE and group is None and request.member_id:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    if error is not _NONE:
        return Outcome(group, replies=(Reply(request.reply_to, join_error(error, request.member_id)),))
    if group is not None:
        draft = Draft(view, group, now_ms)
        _admit(draft, request)
        return draft.outcome()
    draft = Draft(view, Group(request.group_id, state_timestamp_ms=now_ms), now_ms)
    _admit(draft, request)
    # The group must be on record before its first member knows of it, even if that member's join failed.
    draft.records.append(new_group_record(request.group_id, now_ms))
    draft.token = NewGroupToken(request.group_id, tuple([reply.to for reply in draft.replies]))
    return draft.outcome()


def new_group_refused(view: View, failure: AppendFailed, now_ms: int) -> GroupOutcome:
    """The first record of a group was not written: the group is forgotten, and all who wait in it are told."""
    token = failure.token
    assert isinstance(token, NewGroupToken)
    error = error_for_client(failure.error)
    group = view.group
    replies = [Reply(to, join_error(error)) for to in token.answered]
    late = failure.error is ErrorCode.REQUEST_TIMED_OUT
    if late or group is None or group.generation > 0 or group.state is GroupState.DEAD:
        # It has been through a join phase meanwhile, so it lives without that record; or has it, only late.
        return Outcome(group, replies=tuple(replies))
    draft = Draft(view, group, now_ms)
    draft.replies.extend(replies)
    for member in group.members.values():
        if member.parked_join is not None:
            draft.reply(member.parked_join, join_error(error))
        draft.forget_session(member.member_id)
    for member_id in group.pending_members:
        draft.forget_session(member_id)
    draft.cancel_timer("join")
    draft.event(events.AppendFailed(failure.error.name, "new group"))
    tracking.ended(draft, "removed")
    outcome = draft.outcome()
    # Offsets that were committed into it meanwhile keep their group.
    has_offsets = view.offsets or view.pending_offsets
    outcome.after = Group(group.group_id, state_timestamp_ms=now_ms) if has_offsets else None
    return outcome


def _admit(draft: Draft, request: Join) -> None:
    """What follows once its id and protocols are known to be right: from the capacity check on."""
    group, member_id, instance_id = draft.before, request.member_id, request.instance_id
    if check_capacity(group, member_id, draft.settings.max_size) is not _NONE:
        _turn_away(draft, request)
        return
    if group.state is GroupState.DEAD:
        _refuse(draft, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    error = check_supports(group, request.protocol_type, [name for name, _ in request.protocols])
    if error is not _NONE:
        draft.event(_join_refused(group, request, error))
        _refuse(draft, request, error)
    elif member_id == "":
        if instance_id is not None:
            if instance_id in group.static_members:
                replace_static_member(draft, request)
            else:
                _add_member(draft, request, request.new_member_id)
        elif request.version >= 4:
            _give_member_id(draft, request)
        else:
            _add_member(draft, request, request.new_member_id)
    elif member_id in group.pending_members:
        if instance_id is not None:
            # No client does this: ids of static members are never pending.
            draft.reply(request.reply_to, join_error(ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            _add_member(draft, request, member_id)
    else:
        error = check_member(group, member_id, instance_id)
        if error is ErrorCode.FENCED_INSTANCE_ID:
            fenced(draft, "JoinGroup", request)
        if error is not _NONE:
            _refuse(draft, request, error)
        else:
            _join_again(draft, request, group.members[member_id])


def _refuse(draft: Draft, request: Join, error: ErrorCode) -> None:
    draft.reply(request.reply_to, join_error(error, request.member_id))


def _join_refused(group: Group, request: Join, error: ErrorCode) -> events.JoinRefused:
    offered = tuple([name for name, _ in request.protocols])
    common = tuple([name for name, votes in group.protocol_votes.items() if votes == len(group.members)])
    return events.JoinRefused(request.member_id, request.client_id, request.client_host, error.name, offered, common)


def _turn_away(draft: Draft, request: Join) -> None:
    """The group is full: not even a known or pending id stays."""
    draft.reply(request.reply_to, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
    draft.event(events.MemberTurnedAway(request.member_id, request.client_id, request.client_host))
    draft.event(_join_refused(draft.before, request, ErrorCode.GROUP_MAX_SIZE_REACHED))
    member_id = request.member_id
    if member_id in draft.pending_members:
        draft.drop_pending(member_id)
        draft.forget_session(member_id)
        maybe_complete(draft)
    elif member_id in draft.members:
        member = draft.remove_member(member_id)
        draft.forget_session(member_id)
        size = {"size": len(draft.before.members), "limit": draft.settings.max_size}
        cause = cause_by(draft.now_ms, "over_capacity", member, detail=size)
        rebalance_or_complete(draft, cause, departed=((member, "removed"),))


def _give_member_id(draft: Draft, request: Join) -> None:
    """KIP-394: a client that never comes back with its id was never a member."""
    member_id = request.new_member_id
    draft.pending_members = including(draft.pending_members, member_id, None)
    draft.restart_session(member_id, request.session_timeout_ms)
    draft.reply(request.reply_to, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def _add_member(draft: Draft, request: Join, member_id: str) -> None:
    if draft.state is GroupState.PREPARING_REBALANCE and draft.previous_state is GroupState.EMPTY:
        draft.new_member_added = True
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.session_timeout_ms if request.version == 0 else request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        request.protocols,
        parked_join=request.reply_to,
        is_new=True,
        joined_at_ms=draft.now_ms,
    )
    draft.add_member(member)
    # It cannot heartbeat before it is answered. Should its client be gone, this ends the wait for it.
    draft.restart_session(member_id, draft.settings.new_member_join_timeout_ms)
    draft.event(events.MemberJoined(tracking.who(member), request.reason))
    rebalance_or_complete(draft, joined_cause(draft.now_ms, member, request.reason))


def _join_again(draft: Draft, request: Join, member: Member) -> None:
    state = draft.state
    unchanged = member.protocols == request.protocols
    is_leader = draft.leader_id == member.member_id
    if state is GroupState.PREPARING_REBALANCE:
        cause = changed_cause(draft, member, request)
        _park(draft, request, member)
        if cause is not None:
            draft.further_cause(cause)
        maybe_complete(draft)
    elif state is GroupState.COMPLETING_REBALANCE and unchanged:
        # It may have missed the answer to its JoinGroup.
        _repeat_generation(draft, request, list_members=is_leader)
    elif state is GroupState.STABLE and unchanged and not is_leader:
        _repeat_generation(draft, request, list_members=False)
    else:
        # Stable, and the leader came unchanged: it saw something that the group must know, such as new partitions.
        cause = rejoined_cause(draft, member, request)
        _park(draft, request, member)
        prepare(draft, cause)


def _park(draft: Draft, request: Join, member: Member) -> None:
    """What the member says now counts, and its answer waits. Client id and host stay as they were."""
    if member.parked_join is not None:
        # Without an answer to the older nothing behind it on its connection would ever be begun (D7).
        older = join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        draft.reply(member.parked_join, older)
    draft.update_member(
        member,
        altered(
            member,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=(request.session_timeout_ms if request.version == 0 else request.rebalance_timeout_ms),
            parked_join=request.reply_to,
            joined_at_ms=draft.now_ms if member.parked_join is None else member.joined_at_ms,
            successor=(
                None
                if member.instance_id is None
                else member.acted_for_by(request.client_id, request.client_host)  # not known since the group was loaded
            ),
        ),
    )


def _repeat_generation(draft: Draft, request: Join, *, list_members: bool) -> None:
    everybody = member_list(draft.members.values(), draft.protocol_name) if list_members else []
    draft.reply(request.reply_to, joined(draft, request.member_id, draft.leader_id, everybody))
