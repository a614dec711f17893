"""The last member of the new protocol goes, and only members of the classic one are left: the group becomes theirs.

Source: KIP-848; Kafka's GroupMetadataManager.validateOnlineDowngradeWithFencedMembers,
convertToClassicGroup, ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.cause import Cause
from coordinator.classic.answers import joined, member_list
from coordinator.classic.causes import ids_of
from coordinator.classic.draft import Draft as ClassicDraft
from coordinator.classic.group_record import group_record
from coordinator.classic.inputs import short_member_id
from coordinator.classic.protocols import CONSUMER, add_votes, select_protocol, topics_of
from coordinator.classic.rebalance import prepare
from coordinator.consumer.causes import migrated_cause, replaced_event
from coordinator.consumer.draft import TIMERS_OF_A_MEMBER, ConsumerToken, group_event
from coordinator.consumer.group import NOTHING, STABLE
from coordinator.consumer.rebalance_tracking import ended
from coordinator.consumer.records import group_tombstones
from coordinator.events import GroupMigrated
from coordinator.group import Group, GroupState, Member
from coordinator.outcome import CancelTimer, Outcome
from coordinator.values import altered
from protocol.records.consumer_protocol import MetadataError, encode_assignment, subscription, subscription_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from coordinator.classic.inputs import Join
    from coordinator.consumer.assignor import Partitions
    from coordinator.consumer.group import ConsumerGroup, ConsumerMember
    from coordinator.events import GroupEvent
    from coordinator.outcome import ReplyTo
    from coordinator.view import AnyGroupOutcome, Topics, View
    from protocol.errors import ErrorCode

DOWNGRADES = frozenset({"bidirectional", "downgrade"})


def may_downgrade(view: View, group: ConsumerGroup, leaving: Collection[str]) -> bool:
    """Whether the group becomes a classic one when these members go, each named once."""
    members = group.members
    left = len(members) - len(leaving)
    classic = group.classic_count - sum([members[member_id].classic is not None for member_id in leaving])
    return (
        view.consumer_settings.migration_policy in DOWNGRADES and 0 < left <= view.settings.max_size and classic == left
    )


def may_downgrade_by(view: View, group: ConsumerGroup, holder: ConsumerMember) -> bool:
    """Whether the group becomes a classic one when a classic member takes the place of this one."""
    return (
        holder.classic is None
        and view.consumer_settings.migration_policy in DOWNGRADES
        and len(group.members) <= view.settings.max_size
        and group.classic_count == len(group.members) - 1
    )


def downgrade(
    view: View,
    leaving: Collection[str],
    cause: Cause,
    now_ms: int,
    *,
    reply_to: ReplyTo | None = None,
    refusal: Callable[[ErrorCode], Any] | None = None,
) -> AnyGroupOutcome:
    """Those who are left go on as a classic group with what they shall own, and rebalance."""
    group = view.consumer_group
    assert group is not None
    members = {
        member_id: _classic(member, group.targets.get(member_id, NOTHING), view.topics)
        for member_id, member in group.members.items()
        if member_id not in leaving
    }
    draft = _begin(view, group, members, now_ms, rebalances=True)
    prepare(draft, migrated_cause(cause, "consumer", "classic"))
    return _end(view, group, draft, reply_to, refusal)


def downgrade_by_replacement(view: View, holder: ConsumerMember, request: Join, now_ms: int) -> AnyGroupOutcome:
    """A classic static member takes the place of the last one of the new protocol, and what that one should own.

    Nobody need rebalance for it, unless the target is older than the group, somebody has not come to it yet, or the
    newcomer wants other topics. Kafka does not look at the second, and who waited there goes on waiting. It has the id
    of a member of a consumer group, which it would be if it were not the one by which that ends.
    """
    from coordinator.classic.answers import join_error  # noqa: PLC0415

    group = view.consumer_group
    assert group is not None
    member_id = short_member_id(request.new_member_id)
    successor = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        CONSUMER,
        request.protocols,
        _assignment(request.protocols, group.targets.get(holder.member_id, NOTHING), view.topics),
    )
    members = {
        other.member_id: _classic(other, group.targets.get(other.member_id, NOTHING), view.topics)
        for other in group.members.values()
        if other is not holder
    }
    members[member_id] = successor
    rebalances = (
        group.epoch > group.target_epoch or not _is_settled_but_for(group, holder) or _wants_other(request, holder)
    )
    draft = _begin(view, group, members, now_ms, rebalances=rebalances)
    draft.event(replaced_event(holder, request, member_id))
    if rebalances:
        draft.update_member(successor, altered(successor, parked_join=request.reply_to, joined_at_ms=now_ms))
        said = request.instance_id, request.client_id, request.client_host
        prepare(draft, migrated_cause(Cause(now_ms, "static_replaced", member_id, *said), "consumer", "classic"))
    else:
        leads = draft.leader_id == member_id
        everybody = member_list(draft.members.values(), draft.protocol_name) if leads else []
        answer = joined(draft, member_id, draft.leader_id, everybody, skip_assignment=leads)
        draft.reply(request.reply_to, answer)
    if draft.members[member_id].parked_join is not None:
        return _end(view, group, draft, None, None)  # refused, everybody who waits is told
    return _end(view, group, draft, request.reply_to, join_error)


def _is_settled_but_for(group: ConsumerGroup, holder: ConsumerMember) -> bool:
    """Whether all the others have what they shall own."""
    return all(
        member.state == STABLE and member.epoch == group.target_epoch
        for member in group.members.values()
        if member is not holder
    )


def _wants_other(request: Join, holder: ConsumerMember) -> bool:
    """Whether the newcomer reads other topics than the one whose place it takes."""
    said = subscription(request.protocols[0][1])
    return bool(holder.regex) or tuple(sorted(set(said.topics))) != holder.names


def _begin(
    view: View, group: ConsumerGroup, members: dict[str, Member], now_ms: int, *, rebalances: bool
) -> ClassicDraft:
    """The classic group of these members, all of them at the group epoch, with what they shall own.

    Where they do not have it yet, its record is that of a group without members: when a crash cuts the rebalance short,
    all of them must join again. Kafka writes them down there, Stable; nobody reads then what nobody had.
    """
    votes: dict[str, int] = {}
    for member in members.values():
        add_votes(votes, member, 1)
    protocol = select_protocol(members, votes)
    topics = topics_of(CONSUMER, protocol, members)
    classic = Group(
        group.group_id,
        GroupState.STABLE,
        GroupState.STABLE,
        now_ms,
        CONSUMER,
        protocol,
        group.epoch,
        next(iter(members)),
        members,
        {member.instance_id: member.member_id for member in members.values() if member.instance_id is not None},
        protocol_votes=votes,
        subscribed_topics=topics,
        assigned_partition_counts={name: view.topics.partition_count(name) or 0 for name in topics or ()},
        members_at_last_generation=len(members),
        assigned_topic_ids=ids_of(view.topics, topics),
    )
    draft = ClassicDraft(altered(view, group=classic, consumer_group=None), classic, now_ms)
    key, value = group_record(draft)
    if rebalances:
        value.protocol = value.leader = None
        value.members = []
    draft.records.append((key, value))
    for member in members.values():
        draft.restart_session(member.member_id, member.session_timeout_ms)
    return draft


def _end(
    view: View,
    group: ConsumerGroup,
    draft: ClassicDraft,
    reply_to: ReplyTo | None,
    refusal: Callable[[ErrorCode], Any] | None,
) -> AnyGroupOutcome:
    made = draft.outcome()
    cancelled = [
        CancelTimer((name, group.group_id, member_id)) for member_id in group.members for name in TIMERS_OF_A_MEMBER
    ]
    told = group_event(GroupMigrated("classic", len(draft.members)), group, draft.now_ms)
    return Outcome(
        made.after,
        (*group_tombstones(group), *made.records),
        made.replies,
        (*cancelled, *made.timers),
        (told, *_cut_off(view, group, draft.now_ms), *made.events),
        ConsumerToken(view.group_id, group, reply_to, refusal, tuple(group.members)),
    )


def _cut_off(view: View, group: ConsumerGroup, now_ms: int) -> tuple[GroupEvent, ...]:
    """The end of the rebalance that goes on: the classic group's own takes its place."""
    rebalance = group.tracking.rebalance
    if rebalance is None:
        return ()
    by = f"{group.epoch}@{now_ms}"
    return (ended(view, group, rebalance, "superseded", now_ms, group.tracking.assignor, by=by),)


def _classic(member: ConsumerMember, target: Partitions, topics: Topics) -> Member:
    assert member.classic is not None
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        CONSUMER,
        member.classic.protocols,
        _assignment(member.classic.protocols, target, topics),
    )


def _assignment(protocols: tuple[tuple[str, bytes], ...], target: Partitions, topics: Topics) -> bytes:
    """In the version that the member itself speaks."""
    try:
        version = subscription_version(protocols[0][1])
    except (MetadataError, IndexError):
        version = 0
    named = {topics.topic_name(topic_id): partitions for topic_id, partitions in target.items()}
    return encode_assignment(min(version, 3), {name: held for name, held in named.items() if name is not None})
