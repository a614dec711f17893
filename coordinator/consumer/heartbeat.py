"""ConsumerGroupHeartbeat: a member joins, says that it is alive, what it wants and what it has given up, or goes.

Source: KIP-848; Kafka's GroupMetadataManager.consumerGroupHeartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.cause import FURTHER_CAUSES_MAX
from coordinator.consumer.answers import Refused, heard, heartbeat_error
from coordinator.consumer.causes import (
    cause_by,
    joined_cause,
    migrated_cause,
    regex_cause,
    replaced_cause,
    subscription_cause,
)
from coordinator.consumer.checks import check_shape, no_such_group
from coordinator.consumer.draft import Draft
from coordinator.consumer.epochs import update_epoch
from coordinator.consumer.group import STABLE, UNRELEASED, UNREVOKED, ConsumerGroup
from coordinator.consumer.leave import leave_by_heartbeat
from coordinator.consumer.members import joining_member, present_member
from coordinator.consumer.rebalance_tracking import who
from coordinator.consumer.reconcile import Owned, Surroundings, UnknownState, reconcile
from coordinator.consumer.records import member_record
from coordinator.consumer.regexes import compiled, drop_unused, maybe_refresh
from coordinator.consumer.settled import settled_heartbeat
from coordinator.consumer.target import ids_of, preferred_assignor, update_target
from coordinator.consumer.upgrade import make_way
from coordinator.events import MemberJoined, MemberReconciled
from coordinator.group import GroupState
from coordinator.offsets.changes import fenced_event
from coordinator.outcome import Outcome, Reply
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.cause import Cause
    from coordinator.consumer.group import ConsumerMember
    from coordinator.consumer.inputs import ConsumerHeartbeat
    from coordinator.view import AnyGroupOutcome, View


_API = "ConsumerGroupHeartbeat"
_TAKEN = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID})


def consumer_heartbeat(view: View, request: ConsumerHeartbeat, now_ms: int) -> AnyGroupOutcome:
    """Let the member go on by one step, and tell it where it is."""
    settled = settled_heartbeat(view, request, now_ms)
    return looked_at(view, request, now_ms) if settled is None else settled


def looked_at(view: View, request: ConsumerHeartbeat, now_ms: int) -> AnyGroupOutcome:
    """What comes of a heartbeat that may change something."""
    try:
        check_shape(request, view.consumer_settings)
        if request.epoch < 0:
            return leave_by_heartbeat(view, request, now_ms)
        return _heartbeat(view, request, now_ms)
    except Refused as refused:
        answer = heartbeat_error(refused.error, refused.message)
        group = view.consumer_group
        events = (fenced_event(group, request, _API, now_ms),) if group and refused.error in _TAKEN else ()
        return Outcome(group or view.group, (), (Reply(request.reply_to, answer),), (), events)


def _heartbeat(view: View, request: ConsumerHeartbeat, now_ms: int) -> AnyGroupOutcome:
    draft = Draft(view, now_ms)
    joins = request.epoch == 0
    if view.consumer_group is None:
        if not joins:
            raise no_such_group(request.group_id)
        make_way(draft)
    member_id = request.member_id or request.new_member_id
    # A stranger hears it whatever its epoch is: one that was expelled need not join to learn that its place is gone.
    check_capacity(draft, member_id, request.instance_id)
    before = joining_member(draft, request, member_id) if joins else present_member(draft.group, request)
    after = before if _says_nothing(before, request) else _with(before, request)
    member = settle(draft, before, after, request.owned, request.on_behalf_of)
    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.names is not None or request.regex is not None)
        and request.owned is not None
    )
    tell = joins or is_full or not same_partitions(before, member)
    interval_ms = view.consumer_settings.heartbeat_interval_ms
    draft.reply(request.reply_to, heard(member.member_id, member.epoch, interval_ms, member.assigned if tell else None))
    return draft.outcome(request.reply_to, heartbeat_error)


def _says_nothing(member: ConsumerMember, request: ConsumerHeartbeat) -> bool:
    """Whether the member is as it was, but for what it owns: as nearly all heartbeats of a rebalance."""
    return (
        request.names is None
        and request.regex is None
        and request.assignor is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == -1
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and member.client_id == request.client_id
        and member.client_host == request.client_host
        and member.classic is None
    )


def _with(before: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member with what its heartbeat says."""
    return altered(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        assignor=before.assignor if request.assignor is None else request.assignor,
        names=before.names if request.names is None else request.names,
        regex=before.regex if request.regex is None else request.regex,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )


def same_partitions(before: ConsumerMember, after: ConsumerMember) -> bool:
    """Whether it may read the same as before."""
    if before.assigned is after.assigned:
        return True
    return {topic_id: held.keys() for topic_id, held in before.assigned.items()} == {
        topic_id: held.keys() for topic_id, held in after.assigned.items()
    }


def check_capacity(draft: Draft, member_id: str, instance_id: str | None) -> None:
    """A group that is full takes nobody in but in a static member's place. Up to Kafka 4.3 not even that."""
    group, limit = draft.group, draft.view.consumer_settings.max_size
    is_there = member_id in group.members or instance_id in group.static_members
    if len(group.members) >= limit and not is_there:
        message = f"The group has {len(group.members)} members, and may have {limit}."
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def settle(
    draft: Draft, before: ConsumerMember, after: ConsumerMember, owned: Owned | None, on_behalf_of: object
) -> ConsumerMember:
    """What the member says now counts: for the epoch, for the target, and for what it may read. Returns it so.

    `after` is `before` with what the request says. Raises: Refused.
    """
    known = before.member_id in draft.group.members
    if after.regex and after.regex != before.regex and after.regex not in draft.group.regex_counts:
        compiled(after.regex)
    if not known or _differ(before, after):
        draft.write(member_record(draft.group_id, after))
    if not known:
        draft.event(MemberJoined(who(after)))
    if after.regex != before.regex:
        drop_unused(draft)
    update_epoch(draft, _causes(draft, before, after, known=known))
    if after.classic is None:  # a JoinGroup does not say on whose behalf: the next heartbeat does
        maybe_refresh(draft, on_behalf_of)
    update_target(draft, after.member_id)
    group = draft.group
    topics = draft.view.topics
    changed = after.names != before.names or after.regex != before.regex
    try:
        member = reconcile(
            after,
            Surroundings(
                group.target_epoch,
                group.targets.get(after.member_id, {}),
                group.owners.get,
                ids_of(group.topics_of(after), topics),
                changed,
                owned,
            ),
        )
    except UnknownState:
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH, "The member's state is of a later version: it must give everything up first."
        ) from None
    if member is not after and member != after:
        draft.write_current(member)
        _tell_of_progress(draft, after, member)
    draft.restart_session(member)
    return member


def _causes(draft: Draft, before: ConsumerMember, after: ConsumerMember, *, known: bool) -> list[Cause]:
    """Why the epoch must rise; nothing when what the member wants has not changed, or cannot be told yet."""
    now_ms = draft.now_ms
    if after.names == before.names and after.regex == before.regex:
        return _unsettled_causes(draft, after) or _assignor_causes(draft, before, after, known=known)
    if not known:
        cause = joined_cause(now_ms, after)
        if draft.migrated_from is not None:
            cause = migrated_cause(cause, draft.migrated_from, "consumer")
    elif draft.successor_of is not None:
        cause = replaced_cause(now_ms, draft.successor_of, after)
    else:
        cause = subscription_cause(now_ms, before, after)
    causes = [] if after.names == before.names else [cause]
    if after.regex == before.regex:
        return causes
    if after.regex == "" or after.regex in draft.group.regexes:
        return [cause]
    # An expression that nobody has looked up yet raises the epoch when somebody has.
    later = regex_cause(now_ms, before, after) if causes else cause
    draft.tracking = altered(draft.tracking, regex_causes=(*draft.tracking.regex_causes, later)[:FURTHER_CAUSES_MAX])
    return causes or _assignor_causes(draft, before, after, known=known)


def _unsettled_causes(draft: Draft, after: ConsumerMember) -> list[Cause]:
    """Why the epoch must rise when a classic group changes its protocol in the middle of a rebalance, or before one:
    its topics have partitions that its leader has not dealt out yet.

    What its members have is of before that, and nobody else asks for a target. Kafka leaves it at that.
    """
    classic = draft.view.group
    if draft.migrated_from is None or classic is None:
        return []
    if classic.state is GroupState.STABLE and _all_is_dealt_out(draft):
        return []
    holder, now_ms = draft.successor_of, draft.now_ms
    cause = joined_cause(now_ms, after) if holder is None else replaced_cause(now_ms, holder, after)
    return [migrated_cause(cause, draft.migrated_from, "consumer")]


def _all_is_dealt_out(draft: Draft) -> bool:
    """Whether every partition of the group's topics is in somebody's target."""
    group, topics = draft.group, draft.view.topics
    dealt = {(topic_id, one) for target in group.targets.values() for topic_id, some in target.items() for one in some}
    counts = ((topics.topic_id(name), topics.partition_count(name) or 0) for name in group.subscribed_topics)
    return all((topic_id, one) in dealt for topic_id, count in counts for one in range(count))


def _assignor_causes(draft: Draft, before: ConsumerMember, after: ConsumerMember, *, known: bool) -> list[Cause]:
    """Why the epoch must rise when what most members prefer is another assignor than it was. Source: Kafka 4.4."""
    if after.classic is not None or after.assignor is None or (known and after.assignor == before.assignor):
        return []
    configured = tuple(draft.view.consumer_settings.assignors)
    group = draft.before
    old = preferred_assignor(group, configured) if isinstance(group, ConsumerGroup) else configured[0]
    new = preferred_assignor(draft.group, configured)
    if new == old:
        return []
    if draft.tracking.assignor is not None:
        draft.tracking = altered(draft.tracking, assignor=new)  # told here, and not once more with the target
    return [cause_by(draft.now_ms, "assignor_changed", after, {"old": old, "new": new})]


def _differ(before: ConsumerMember, after: ConsumerMember) -> bool:
    """Whether the member's own record would say something else."""
    return (
        before.names != after.names
        or before.regex != after.regex
        or before.client_id != after.client_id
        or before.client_host != after.client_host
        or before.rebalance_timeout_ms != after.rebalance_timeout_ms
        or before.instance_id != after.instance_id
        or before.rack_id != after.rack_id
        or before.assignor != after.assignor
        or before.classic != after.classic
    )


def _tell_of_progress(draft: Draft, before: ConsumerMember, after: ConsumerMember) -> None:
    if before.epoch == after.epoch and same_partitions(before, after):
        return
    draft.event(
        MemberReconciled(
            who(after),
            after.epoch,
            STATE_NAMES.get(after.state, str(after.state)),
            sum(map(len, after.assigned.values())),
            sum(map(len, after.pending.values())),
        )
    )


STATE_NAMES = {STABLE: "stable", UNREVOKED: "unrevoked", UNRELEASED: "unreleased"}
