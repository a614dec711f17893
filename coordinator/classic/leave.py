"""LeaveGroup: members go, each with its own result, and the group rebalances once for all of them.

Source: KIP-345 (batches), KIP-800 (reasons); Kafka's GroupMetadataManager.classicGroupLeaveToClassicGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator import events
from coordinator.append_errors import error_for_client
from coordinator.classic.causes import left_cause
from coordinator.classic.checks import check_group_id, check_member
from coordinator.classic.draft import Draft
from coordinator.classic.rebalance import maybe_complete, prepare
from coordinator.classic.replacement import fenced
from coordinator.classic.tokens import EmptyGroupToken
from coordinator.group import GroupState, Member
from coordinator.outcome import AppendFailed, Outcome, Reply
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from coordinator.cause import Cause
    from coordinator.classic.inputs import Leave, Leaver
    from coordinator.view import GroupOutcome, View

_NONE = ErrorCode.NONE


def leave(view: View, request: Leave, now_ms: int) -> GroupOutcome:
    """Take the members out in request order. Whoever of them waits for a join or a sync is answered."""
    group = view.group
    error = check_group_id(request.group_id)
    if error is _NONE and group is not None and group.state is GroupState.DEAD:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error is not _NONE:
        return Outcome(group, replies=(Reply(request.reply_to, refused(error)),))
    if group is None:
        unknown = [ErrorCode.UNKNOWN_MEMBER_ID] * len(request.members)
        return Outcome(None, replies=(Reply(request.reply_to, answer(request, unknown)),))
    draft = Draft(view, group, now_ms)
    results: list[ErrorCode] = []
    departed: list[tuple[Member, str]] = []
    causes: list[Cause] = []
    for leaver in request.members:
        error, member = _take_out(draft, leaver, request)
        results.append(error)
        if member is not None:
            cause = left_cause(now_ms, member, leaver, request.client_id, request.client_host)
            departed.append((member, "removed" if cause.trigger == "member_removed" else "left"))
            causes.append(cause)
            draft.event(events.MemberLeft(cause))
    if _NONE in results:
        _go_on_without(draft, causes, departed)
    # The others' answers come before, for their sake, and are kept apart: they hold even if the record is refused.
    outcome = draft.outcome()
    outcome.replies = (*outcome.replies, Reply(request.reply_to, answer(request, results)))
    if isinstance(outcome.token, EmptyGroupToken):
        outcome.token.leave = request
    return outcome


def empty_group_refused(view: View, failure: AppendFailed, now_ms: int) -> GroupOutcome:
    """That the group is empty was not written down; it is all the same.

    After a crash the last generation would be back, and its members, who are gone, would expire again.
    """
    token, group = failure.token, view.group
    assert isinstance(token, EmptyGroupToken)
    replies = token.replies
    if token.leave is not None:
        replies = (*replies, Reply(token.leave.reply_to, refused(error_for_client(failure.error))))
    if group is None:
        return Outcome(None, replies=replies)
    draft = Draft(view, group, now_ms)
    draft.replies.extend(replies)
    if failure.error is not ErrorCode.REQUEST_TIMED_OUT:  # else it is written, only late
        draft.event(events.AppendFailed(failure.error.name, "empty group"))
    return draft.outcome()


def refused(error: ErrorCode) -> LeaveGroupResponse:
    """Nobody was taken out."""
    return LeaveGroupResponse(error_code=error, members=[])


def _take_out(draft: Draft, leaver: Leaver, request: Leave) -> tuple[ErrorCode, Member | None]:
    """What the leaver is told, and the member that it was; a pending id was none."""
    member_id, instance_id = leaver.member_id, leaver.instance_id
    if member_id == "":
        # An administrator names a static member by its instance.
        member_id = draft.static_members.get(instance_id, "") if instance_id is not None else ""
        if member_id == "":
            return ErrorCode.UNKNOWN_MEMBER_ID, None
    elif member_id in draft.pending_members:
        draft.drop_pending(member_id)
        draft.forget_session(member_id)
        return _NONE, None
    else:
        error = check_member(draft, member_id, instance_id)
        if error is ErrorCode.FENCED_INSTANCE_ID:
            fenced(draft, "LeaveGroup", leaver, client_id=request.client_id, client_host=request.client_host)
        if error is not _NONE:
            return error, None
    member = draft.remove_member(member_id)
    draft.forget_session(member_id)
    return _NONE, member


def _go_on_without(draft: Draft, causes: list[Cause], departed: list[tuple[Member, str]]) -> None:
    if draft.state is GroupState.PREPARING_REBALANCE:
        for cause in causes:
            draft.further_cause(cause)
        for member, change in departed:
            draft.departed(member, change)
        maybe_complete(draft)
    elif causes and draft.state is not GroupState.EMPTY:
        prepare(draft, causes[0], further_causes=causes[1:], departed=departed)


def answer(request: Leave, results: list[ErrorCode]) -> LeaveGroupResponse:
    """Below version 3 there is one error: the single member's."""
    if request.version < 3:
        return LeaveGroupResponse(error_code=results[0] if results else _NONE, members=[])
    return LeaveGroupResponse(
        error_code=_NONE,
        members=[
            MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=error)
            for leaver, error in zip(request.members, results, strict=True)
        ],
    )
