"""The classic protocol, spoken to a consumer group: its generation is the member's epoch, its leader is nobody.

A member that has to give partitions up, or may have more, hears REBALANCE_IN_PROGRESS and joins again; the answer to
that tells its epoch, and SyncGroup what it may read. What it says when it joins counts as what a member of the new
protocol says in a heartbeat.

Source: KIP-848; Kafka's GroupMetadataManager.classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup,
classicGroupHeartbeatToConsumerGroup, classicGroupLeaveToConsumerGroup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator.append_errors import error_for_client
from coordinator.classic.answers import join_error, sync_error
from coordinator.classic.checks import check_group_id, check_session_timeout
from coordinator.classic.inputs import short_member_id
from coordinator.classic.join import join as classic_join
from coordinator.classic.leave import answer as leave_answer
from coordinator.classic.leave import refused as leave_refused
from coordinator.classic.protocols import CONSUMER
from coordinator.consumer.answers import Refused
from coordinator.consumer.causes import cause_by, left_cause
from coordinator.consumer.downgrade import downgrade_by_replacement, may_downgrade_by
from coordinator.consumer.draft import Draft
from coordinator.consumer.epochs import nobody_else_finds_the_target
from coordinator.consumer.group import NO_REGEX, UNRELEASED, UNREVOKED, ClassicProtocol, ConsumerGroup, ConsumerMember
from coordinator.consumer.heartbeat import check_capacity, settle
from coordinator.consumer.inputs import ClassicMemberTimedOut
from coordinator.consumer.members import joining_member, named_member
from coordinator.consumer.records import group_tombstones
from coordinator.consumer.removal import remove
from coordinator.events import GroupEvent, JoinRefused
from coordinator.offsets.changes import fenced_event
from coordinator.outcome import AppendFailed, AppendToken, Outcome, Reply
from coordinator.values import altered
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.records.consumer_protocol import MetadataError, encode_assignment, subscription, subscription_version

if TYPE_CHECKING:
    from coordinator.classic.inputs import Heartbeat, Join, Leave, Leaver, Sync
    from coordinator.view import AnyGroupOutcome, View

DISABLED = "disabled"
_ID_REQUIRED_SINCE = 4


@dataclass(slots=True)
class ClassicAgain(AppendToken):
    """An empty consumer group became a classic one. Refused, it is a consumer group again."""

    group_id: str
    before: ConsumerGroup
    inner: AppendToken | None  # of the classic rule


# -- JoinGroup -----------------------------------------------------------------------------------------------------


def join(view: View, request: Join, now_ms: int) -> AnyGroupOutcome:
    """JoinGroup. A group without members becomes a classic one; another takes the member in as it is."""
    group = view.consumer_group
    assert group is not None
    error = check_group_id(request.group_id) or check_session_timeout(request.session_timeout_ms, view.settings)
    if error is not ErrorCode.NONE:
        return Outcome(group, (), (Reply(request.reply_to, join_error(error, request.member_id)),))
    if not group.members:
        return _become_classic(view, group, request, now_ms)
    try:
        return _join(view, group, request, now_ms)
    except Refused as refused:
        events = _fenced(group, request, "JoinGroup", refused, now_ms) + _join_refused(group, request, refused, now_ms)
        return Outcome(group, (), (Reply(request.reply_to, join_error(refused.error)),), (), events)


def _join(view: View, group: ConsumerGroup, request: Join, now_ms: int) -> AnyGroupOutcome:
    if view.consumer_settings.migration_policy == DISABLED:
        raise _inconsistent()
    draft = Draft(view, now_ms)
    member_id, instance_id = request.member_id or short_member_id(request.new_member_id), request.instance_id
    check_capacity(draft, member_id, instance_id)
    _check_protocols(group, request)
    if not request.member_id and instance_id is None and request.version >= _ID_REQUIRED_SINCE:
        # Nothing is remembered of it: whoever comes with an id is taken by it.
        return Outcome(group, (), (Reply(request.reply_to, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id)),))
    if instance_id is not None and request.member_id:
        named_member(group, member_id, instance_id)
    try:
        said = subscription(request.protocols[0][1])
    except MetadataError as error:
        raise _inconsistent() from error
    if instance_id is not None:
        holder = group.members.get(group.static_members.get(instance_id, ""))
        if holder is not None and holder.member_id != member_id and may_downgrade_by(view, group, holder):
            return downgrade_by_replacement(view, holder, request, now_ms)
    before = joining_member(draft, request, member_id)
    after = altered(
        before,
        rack_id=before.rack_id if said.rack_id is None else said.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        names=tuple(sorted(set(said.topics))),
        regex=NO_REGEX,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicProtocol(request.session_timeout_ms, request.protocols),
    )
    owned: dict[bytes, frozenset[int]] = {}
    for name, partition in said.owned or ():
        topic_id = view.topics.topic_id(name)
        if topic_id is not None:
            owned[topic_id] = owned.get(topic_id, frozenset()) | {partition}
    member = settle(draft, before, after, owned, None)
    draft.forget_join_deadline(member_id)
    then = ClassicMemberTimedOut(view.group_id, member_id, "sync")
    draft.set_timer("sync", member_id, request.rebalance_timeout_ms, then)
    answer = JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=member.epoch,
        protocol_type=CONSUMER,
        protocol_name=request.protocols[0][0],
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=[],
    )
    draft.reply(request.reply_to, answer)
    return draft.outcome(request.reply_to, join_error)


def _fenced(
    group: ConsumerGroup, request: Join | Sync | Heartbeat, api: str, refused: Refused, now_ms: int
) -> tuple[GroupEvent, ...]:
    return (fenced_event(group, request, api, now_ms),) if refused.error is ErrorCode.FENCED_INSTANCE_ID else ()


def _join_refused(group: ConsumerGroup, request: Join, refused: Refused, now_ms: int) -> tuple[GroupEvent, ...]:
    if refused.error not in (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED):
        return ()
    offered = tuple([name for name, _ in request.protocols])
    what = JoinRefused(
        request.member_id, request.client_id, request.client_host, refused.error.name, offered, group_protocols=()
    )
    return (GroupEvent(what, group.group_id, group.epoch, now_ms, group_type="consumer"),)


def _check_protocols(group: ConsumerGroup, request: Join) -> None:
    names = {name for name, _ in request.protocols}
    for member in group.members.values():
        if member.classic is not None:
            names &= {name for name, _ in member.classic.protocols}
    if request.protocol_type != CONSUMER or not names:
        raise _inconsistent()


def _inconsistent() -> Refused:
    return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def _become_classic(view: View, group: ConsumerGroup, request: Join, now_ms: int) -> AnyGroupOutcome:
    outcome: AnyGroupOutcome = classic_join(altered(view, consumer_group=None), request, now_ms)
    if outcome.after is None or not outcome.records:
        outcome.after = group  # refused
        return outcome
    outcome.records = (*group_tombstones(group), *outcome.records)
    outcome.token = ClassicAgain(view.group_id, group, outcome.token)
    return outcome


def classic_again_refused(view: View, failure: AppendFailed, now_ms: int) -> AnyGroupOutcome:
    """Everybody who waits in the classic group is told, and the consumer group is there again."""
    token = failure.token
    assert isinstance(token, ClassicAgain)
    assert token.inner is not None
    from coordinator.classic.rules import append_failed  # noqa: PLC0415

    outcome: AnyGroupOutcome = append_failed(view, AppendFailed(failure.key, token.inner, failure.error), now_ms)
    if failure.error is not ErrorCode.REQUEST_TIMED_OUT and not getattr(outcome.after, "members", None):
        outcome.after = token.before
    return outcome


# -- SyncGroup and Heartbeat ---------------------------------------------------------------------------------------


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    member = named_member(group, member_id, instance_id)
    if member.classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, "")
    if generation != member.epoch:
        raise Refused(ErrorCode.ILLEGAL_GENERATION, "")
    return member


def sync(view: View, request: Sync, now_ms: int) -> AnyGroupOutcome:
    """SyncGroup: what the member may read now."""
    group = view.consumer_group
    assert group is not None
    draft = Draft(view, now_ms)
    try:
        member = _classic_member(group, request.member_id, request.instance_id, request.generation)
        assert member.classic is not None
        protocol = member.classic.protocols[0][0]
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, protocol):
            raise _inconsistent()
    except Refused as refused:
        events = _fenced(group, request, "SyncGroup", refused, now_ms)
        return Outcome(group, (), (Reply(request.reply_to, sync_error(refused.error)),), (), events)
    if group.target_epoch > member.epoch and member.state != UNREVOKED:
        draft.expect_join(member)
        draft.reply(request.reply_to, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        return draft.outcome()
    draft.cancel_timer("sync", member.member_id)
    draft.restart_session(member)
    named = {view.topics.topic_name(topic_id): sorted(held) for topic_id, held in member.assigned.items()}
    version = min(subscription_version(member.classic.protocols[0][1]), 3)
    assignment = encode_assignment(version, {name: held for name, held in named.items() if name is not None})
    answer = SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment,
    )
    draft.reply(request.reply_to, answer)
    return draft.outcome()


def heartbeat(view: View, request: Heartbeat, now_ms: int) -> AnyGroupOutcome:
    """Heartbeat: whether the member should join again."""
    group = view.consumer_group
    assert group is not None
    try:
        member = _classic_member(group, request.member_id, request.instance_id, request.generation)
    except Refused as refused:
        events = _fenced(group, request, "Heartbeat", refused, now_ms)
        return Outcome(group, (), (Reply(request.reply_to, HeartbeatResponse(error_code=refused.error)),), (), events)
    draft = Draft(view, now_ms)
    draft.restart_session(member)
    error = ErrorCode.NONE
    if (
        group.target_epoch > member.epoch
        or member.state == UNREVOKED
        or _has_more_to_get(group, member)
        or nobody_else_finds_the_target(draft)
    ):
        draft.expect_join(member)
        error = ErrorCode.REBALANCE_IN_PROGRESS
    draft.reply(request.reply_to, HeartbeatResponse(error_code=error))
    return draft.outcome()


def _has_more_to_get(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether all that it waited for is free."""
    if member.state != UNRELEASED:
        return False
    target, owners, me = group.targets.get(member.member_id, {}), group.owners, member.member_id
    return all(
        owners.get((topic_id, partition), me) == me
        for topic_id, partitions in target.items()
        for partition in partitions
    )


# -- the end of a membership ---------------------------------------------------------------------------------------


def leave(view: View, request: Leave, now_ms: int) -> AnyGroupOutcome:
    """LeaveGroup, which may name members of either protocol."""
    group = view.consumer_group
    assert group is not None
    results: list[ErrorCode] = []
    leavers: dict[str, Leaver] = {}
    for leaver in request.members:
        try:
            member_id = leaver.member_id
            if not member_id:
                member_id = group.static_members.get(leaver.instance_id or "", "")
            named_member(group, member_id, leaver.instance_id)
        except Refused as refused:
            results.append(refused.error)
            continue
        leavers.setdefault(member_id, leaver)
        results.append(ErrorCode.NONE)
    reply = Reply(request.reply_to, leave_answer(request, results))
    if not leavers:
        return Outcome(group, (), (reply,))
    return remove(
        view,
        [left_cause(now_ms, group.members[member_id], leaver, request) for member_id, leaver in leavers.items()],
        now_ms,
        reply=reply,
        refusal=lambda error: leave_refused(error_for_client(error)),
    )


def classic_member_timed_out(view: View, timer: ClassicMemberTimedOut, now_ms: int) -> AnyGroupOutcome:
    """A member of the classic protocol did not join again, or did not ask for its assignment, in time."""
    group = view.consumer_group
    member = group.members.get(timer.member_id) if group is not None else None
    if member is None or member.classic is None:
        return Outcome(group or view.group)
    detail: dict[str, Any] = {"last_heard_ms": timer.last_heard_ms, **(timer.edge or {})}
    if timer.waited_for == "join":
        detail["rebalance_timeout_ms"] = member.rebalance_timeout_ms
    else:
        detail["waited_ms"] = member.rebalance_timeout_ms
    return remove(view, [cause_by(now_ms, f"{timer.waited_for}_timeout", member, detail)], now_ms)


def late_tick(view: View, timer: Any, now_ms: int) -> AnyGroupOutcome:
    """A timer of the classic group that this one was."""
    return Outcome(view.consumer_group)
