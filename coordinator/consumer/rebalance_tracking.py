"""The events of a consumer group's rebalance: how it began, who was waited for, how it ended (D10).

A draft that wrote records is followed here once, at its end; a heartbeat that writes nothing never comes by. What one
follows costs as much as the members that the draft touched, and all members only when a target was computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from coordinator.cause import FURTHER_CAUSES_MAX, Cause
from coordinator.consumer.epoch_rebalance import EpochRebalance, Revocation, Unread
from coordinator.consumer.group import STABLE, UNREVOKED, ConsumerGroup
from coordinator.events import (
    GroupEvent,
    Happening,
    LeftBehind,
    PartitionsTaken,
    RebalanceBegan,
    RebalanceEnded,
    Who,
)
from coordinator.layered import changeable
from coordinator.values import altered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from coordinator.consumer.epoch_rebalance import RebalanceTracking
    from coordinator.consumer.group import ConsumerMember
    from coordinator.view import Topics, View

    TopicPartition = tuple[bytes, int]
    Taken = tuple[ConsumerMember, Mapping[TopicPartition, Unread | None]]

MODE = "cooperative"
"""Of every such group: who keeps a partition goes on reading it."""
_WAITED_FOR_MIN_MS = 10


class Change(Protocol):
    """What is looked at of a group's draft."""

    view: View
    now_ms: int
    origin: ConsumerGroup
    tracking: RebalanceTracking
    causes: list[Cause]
    side_causes: list[Cause]
    departed: list[tuple[ConsumerMember, str]]
    touched: list[str]
    events: list[GroupEvent]


def follow(draft: Change, group: ConsumerGroup) -> RebalanceTracking:
    """What the group remembers from now on; events of what began and ended are in the draft.

    `group`: as the draft leaves it.
    """
    origin, tracking = draft.origin, draft.tracking
    rebalance = tracking.rebalance
    if draft.causes:
        rebalance = _caused(draft, origin, group, rebalance)
    if rebalance is None:
        return tracking
    if draft.departed:
        departed = changeable(rebalance.departed)
        departed.update({member.member_id: (member, how) for member, how in draft.departed})
        rebalance = altered(rebalance, departed=departed)
    if draft.side_causes:
        rebalance = _with_causes(rebalance, draft.side_causes)
    rebalance, taken = _gone_on(rebalance, origin, group, dict.fromkeys(draft.touched), draft)
    draft.events += [_taken_event(group, rebalance, draft, who, partitions) for who, partitions in taken]
    outcome = _outcome(rebalance, group)
    if outcome is not None:
        draft.events.append(ended(draft.view, group, rebalance, outcome, draft.now_ms, tracking.assignor))
        rebalance = None
    return altered(tracking, rebalance=rebalance)


def resumed(view: View, group: ConsumerGroup, now_ms: int) -> tuple[EpochRebalance, GroupEvent] | None:
    """The group was loaded on its way to an epoch: the rest of that way is a rebalance of its own."""
    awaited = _awaited(group)
    if not group.members or (group.epoch == group.target_epoch and not awaited):
        return None
    behind = [member.epoch for member in group.members.values() if 0 < member.epoch < group.epoch]
    rebalance = EpochRebalance(
        min(behind, default=group.epoch - 1),
        now_ms,
        group.state.value,
        Cause(now_ms, "coordinator_restarted", detail={"loaded_at_ms": now_ms}),
        group.members,
        assigned_at_ms=now_ms if group.epoch == group.target_epoch else None,
        awaited=awaited,
        revoking={member.member_id: now_ms for member in group.members.values() if member.state == UNREVOKED},
    )
    return rebalance, began_event(group, rebalance, view.topics)


def _caused(
    draft: Change, origin: ConsumerGroup, group: ConsumerGroup, rebalance: EpochRebalance | None
) -> EpochRebalance:
    causes, now_ms = draft.causes, draft.now_ms
    if rebalance is not None and rebalance.assigned_at_ms is None:
        return _with_causes(rebalance, causes)
    new = EpochRebalance(
        origin.epoch,
        now_ms,
        origin.state.value,
        causes[0],
        origin.members,
        departed={} if rebalance is None else rebalance.departed,
        revoking={} if rebalance is None else rebalance.revoking,
        unread={} if rebalance is None else rebalance.unread,
    )
    if rebalance is not None:
        view, assignor = draft.view, draft.tracking.assignor
        draft.events.append(ended(view, group, rebalance, "superseded", now_ms, assignor, by=new.rebalance_id))
    if len(causes) > 1:
        new = _with_causes(new, causes[1:])
    draft.events.append(began_event(group, new, draft.view.topics))
    return new


def _with_causes(rebalance: EpochRebalance, causes: Sequence[Cause]) -> EpochRebalance:
    room = FURTHER_CAUSES_MAX - len(rebalance.further_causes)
    return altered(
        rebalance,
        further_causes=(*rebalance.further_causes, *causes[:room]),
        further_causes_cut=rebalance.further_causes_cut + max(len(causes) - room, 0),
    )


def _gone_on(
    rebalance: EpochRebalance, origin: ConsumerGroup, group: ConsumerGroup, touched: Iterable[str], draft: Change
) -> tuple[EpochRebalance, Sequence[Taken]]:
    """The rebalance after these members changed, or went; and who was given what."""
    now_ms = draft.now_ms
    awaited, assigned_at_ms = rebalance.awaited, rebalance.assigned_at_ms
    arrived, revoking, unread = rebalance.arrived, rebalance.revoking, rebalance.unread
    slowest, stopped_ms = rebalance.slowest_to_revoke, rebalance.stopped_ms
    came: list[str] = []
    told: list[str] = []
    given_up: list[str] = []
    freed: dict[TopicPartition, Unread] = {}
    given: list[tuple[ConsumerMember, set[TopicPartition]]] = []
    taken: list[Taken] = []
    for member_id in touched:
        before, after = origin.members.get(member_id), group.members.get(member_id)
        was_there, is_there = _is_there(before, origin), _is_there(after, group)
        awaited += (after is not None and not is_there) - (before is not None and not was_there)
        if is_there:
            came.append(member_id)
        if after is not None and after.state == UNREVOKED:
            if member_id not in revoking:
                told.append(member_id)
        elif member_id in revoking:
            given_up.append(member_id)
            took_ms = now_ms - revoking[member_id]
            if after is not None and (slowest is None or took_ms > slowest.after_ms):
                slowest = Revocation(after, took_ms)
        if before is not None and after is not None and before.assigned is after.assigned:
            continue
        had, has = _read_by(before), _read_by(after)
        if had - has:
            freed.update(dict.fromkeys(had - has, Unread(now_ms, now_ms - _silent_ms(draft, member_id))))
        if after is not None and has - had:
            given.append((after, has - had))
    if came:
        arrived = there = changeable(arrived)
        there.update(dict.fromkeys(came, now_ms))
    if told or given_up:
        revoking = to_wait_for = changeable(revoking)
        to_wait_for.update(dict.fromkeys(told, now_ms))
        for member_id in given_up:
            del to_wait_for[member_id]
    if freed or given:
        unread = left_alone = changeable(unread)
        left_alone.update(freed)
        for after, partitions in given:
            taken.append((after, {tp: left_alone.pop(tp, None) for tp in partitions}))
    for _, found in taken:
        stopped_ms = max([stopped_ms, *(now_ms - left.since_ms for left in found.values() if left is not None)])
    if group.target_epoch != origin.target_epoch or (assigned_at_ms is None and group.target_epoch == group.epoch):
        assigned_at_ms, awaited = now_ms, _awaited(group)
        arrived = {member_id: now_ms for member_id in arrived if _is_there(group.members.get(member_id), group)}
    gone_on = altered(
        rebalance,
        assigned_at_ms=assigned_at_ms,
        awaited=awaited,
        arrived=arrived,
        revoking=revoking,
        slowest_to_revoke=slowest,
        unread=unread,
        stopped_ms=stopped_ms,
    )
    return gone_on, taken


def _silent_ms(draft: Change, member_id: str) -> int:
    """For how long nothing had been heard of a member that went."""
    of_it = (one for one in (*draft.causes, *draft.side_causes) if one.member_id == member_id)
    return max([int(one.detail.get("last_heard_ms") or 0) for one in of_it], default=0)


def _outcome(rebalance: EpochRebalance, group: ConsumerGroup) -> str | None:
    if not group.members:
        return "empty"
    return "stable" if group.epoch == group.target_epoch and not rebalance.awaited else None


def _is_there(member: ConsumerMember | None, group: ConsumerGroup) -> bool:
    return member is not None and member.state == STABLE and member.epoch == group.target_epoch


def _awaited(group: ConsumerGroup) -> int:
    epoch = group.target_epoch
    return sum([member.state != STABLE or member.epoch != epoch for member in group.members.values()])


def _read_by(member: ConsumerMember | None) -> set[TopicPartition]:
    if member is None:
        return set()
    return {(topic_id, partition) for topic_id, held in member.assigned.items() for partition in held}


# -- events --------------------------------------------------------------------------------------------------------


def began_event(group: ConsumerGroup, rebalance: EpochRebalance, topics: Topics) -> GroupEvent:
    """A rebalance begins, here and now."""
    what = RebalanceBegan(
        rebalance.rebalance_id,
        rebalance.from_epoch,
        rebalance.state_before,
        len(rebalance.members_before),
        rebalance.first_cause,
    )
    return _event(what, group, rebalance, rebalance.began_at_ms, topics)


def _taken_event(
    group: ConsumerGroup,
    rebalance: EpochRebalance,
    draft: Change,
    member: ConsumerMember,
    partitions: Mapping[TopicPartition, Unread | None],
) -> GroupEvent:
    topics = draft.view.topics
    left = [
        LeftBehind(name, partition, had.sign_ms if had is not None else None)
        for (topic_id, partition), had in partitions.items()
        if (name := topics.topic_name(topic_id)) is not None
    ]
    what = PartitionsTaken(rebalance.rebalance_id, member.member_id, member.instance_id, *member.acting, tuple(left))
    return _event(what, group, rebalance, draft.now_ms, topics)


def ended(
    view: View,
    group: ConsumerGroup,
    rebalance: EpochRebalance,
    outcome: str,
    now_ms: int,
    assignor: str | None,
    *,
    by: str | None = None,
) -> GroupEvent:
    """`outcome`: `stable`, `empty` or `superseded` (by which rebalance)."""
    assigned_at_ms = rebalance.assigned_at_ms
    what = RebalanceEnded(
        rebalance_id=rebalance.rebalance_id,
        from_generation=rebalance.from_epoch,
        to_generation=rebalance.from_epoch if outcome == "superseded" else group.epoch,
        outcome=outcome,
        began_at_ms=rebalance.began_at_ms,
        joined_at_ms=None,
        assigned_at_ms=assigned_at_ms,
        ended_at_ms=now_ms,
        duration_ms=now_ms - rebalance.began_at_ms,
        join_ms=None,
        assign_ms=None if assigned_at_ms is None else assigned_at_ms - rebalance.began_at_ms,
        sync_ms=None if assigned_at_ms is None else now_ms - assigned_at_ms,
        initial_delay_ms=0,
        protocol_type="consumer",
        protocol=assignor,
        mode=MODE,
        leader=None,
        leader_changed=None,
        members=len(group.members),
        slowest_to_join=None,
        slowest_to_sync=_slowest_to_sync(rebalance, group.members),
        first_cause=rebalance.first_cause,
        by=by,
        slowest_to_revoke=_slowest_to_revoke(rebalance),
        stopped_ms=rebalance.stopped_ms,
        session_timeout_ms=view.consumer_settings.session_timeout_ms,
    )
    return _event(what, group, rebalance, now_ms, view.topics)


def _event(what: Happening, group: ConsumerGroup, rebalance: EpochRebalance, now_ms: int, topics: Topics) -> GroupEvent:
    return GroupEvent(
        what,
        group.group_id,
        group.epoch,
        now_ms,
        group_type="consumer",
        consumer_group=group,
        epochs=rebalance,
        topics=topics,
    )


def who(member: ConsumerMember) -> Who:
    """The member as events and the ledger name it."""
    return Who(member.member_id, member.instance_id, member.client_id, member.client_host)


def member_facts(member: ConsumerMember) -> dict[str, Any]:
    """Who it is, as keys."""
    return who(member).facts()


def _slowest_to_revoke(rebalance: EpochRebalance) -> dict[str, Any] | None:
    slowest = rebalance.slowest_to_revoke
    if slowest is None or slowest.after_ms <= _WAITED_FOR_MIN_MS:
        return None
    return {**member_facts(slowest.member), "after_ms": slowest.after_ms}


def _slowest_to_sync(rebalance: EpochRebalance, members: Mapping[str, ConsumerMember]) -> dict[str, Any] | None:
    """The last one to come to the epoch, counted from when its target was computed."""
    if rebalance.assigned_at_ms is None:
        return None
    came = [(at_ms, member_id) for member_id, at_ms in rebalance.arrived.items() if member_id in members]
    at_ms, member_id = max(came, key=lambda pair: pair[0], default=(0, ""))
    after_ms = at_ms - rebalance.assigned_at_ms
    return {**member_facts(members[member_id]), "after_ms": after_ms} if after_ms > _WAITED_FOR_MIN_MS else None
