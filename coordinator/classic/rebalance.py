"""The join phase: how it begins, when it is over, and what everybody is told.

    Empty ──initial delay──┐
    Stable ────────────────┼─► PreparingRebalance ──complete──► CompletingRebalance, generation + 1
    CompletingRebalance ───┘                     └─(nobody left)─► Empty, generation + 1

Source: Kafka's GroupMetadataManager.prepareRebalance, tryCompleteInitialRebalanceElseSchedule,
completeClassicGroupJoin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coordinator import events
from coordinator.classic import rebalance_tracking as tracking
from coordinator.classic.answers import joined, member_list, sync_error
from coordinator.classic.causes import cause_by
from coordinator.classic.draft import Draft
from coordinator.classic.group_record import group_record
from coordinator.classic.inputs import InitialDelayPassed, JoinTimedOut, SyncTimedOut
from coordinator.classic.protocols import select_protocol, topics_of
from coordinator.classic.tokens import EmptyGroupToken
from coordinator.group import GroupState, Member, longest_rebalance_timeout_ms
from coordinator.outcome import Outcome
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.cause import Cause
    from coordinator.view import GroupOutcome, View

_STALLED_MIN_MS = 1_000  # a rebalance timeout of 0 would have the timer fire in every turn of the loop


def rebalance_or_complete(draft: Draft, cause: Cause, *, departed: Sequence[tuple[Member, str]] = ()) -> None:
    """After a member came, changed or went: begin to rebalance, or see whether that was what all waited for."""
    if draft.state is GroupState.PREPARING_REBALANCE:
        draft.further_cause(cause)
        for member, change in departed:
            draft.departed(member, change)
        maybe_complete(draft)
    elif draft.state is not GroupState.DEAD:
        prepare(draft, cause, departed=departed)


def prepare(
    draft: Draft,
    cause: Cause,
    *,
    further_causes: Sequence[Cause] = (),
    departed: Sequence[tuple[Member, str]] = (),
) -> None:
    """Begin to collect JoinGroups. `departed`: who went and how, if that is why."""
    if draft.state is GroupState.COMPLETING_REBALANCE:
        refuse_parked_syncs(draft, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.pending_sync_count = 0
    draft.assignment_in_flight = False
    draft.cancel_timer("sync")
    tracking.began(draft, cause, further_causes, departed)
    initial = draft.state is GroupState.EMPTY
    draft.enter(GroupState.PREPARING_REBALANCE)
    if initial:
        # Give others the time to come too: a group that starts would rebalance for each of them.
        delay_ms = draft.settings.initial_rebalance_delay_ms
        remaining_ms = max(longest_rebalance_timeout_ms(draft.members) - delay_ms, 0)
        draft.set_timer("join", delay_ms, InitialDelayPassed(draft.group_id, delay_ms, remaining_ms))
    elif all_joined(draft):
        complete(draft)
    else:
        draft.set_timer("join", longest_rebalance_timeout_ms(draft.members), JoinTimedOut(draft.group_id))


def all_joined(draft: Draft) -> bool:
    """Every member has its JoinGroup parked, and nobody who got an id is still expected."""
    return draft.parked_join_count == len(draft.members) and not draft.pending_members


def maybe_complete(draft: Draft) -> None:
    """End the join phase if all have joined. The initial delay is not cut short, not even by a departure."""
    if (
        draft.state is GroupState.PREPARING_REBALANCE
        and draft.previous_state is not GroupState.EMPTY
        and all_joined(draft)
    ):
        complete(draft)


def complete(
    draft: Draft,
    last_heard_ms: Mapping[str, int] | None = None,
    edge: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """End the join phase: who has not joined is out, unless it is static; the others are told the generation.

    `last_heard_ms`: how long ago each of those that have not joined was heard of, as far as the edge knows.
    `edge`: what else it sees of each.
    """
    draft.cancel_timer("join")
    _drop_silent_members(draft, last_heard_ms or {}, edge or {})
    if draft.members and not _elect_joined_leader(draft):
        # Only static members, and none came back: their sessions decide, so the phase goes on.
        after_ms = max(longest_rebalance_timeout_ms(draft.members), _STALLED_MIN_MS)
        draft.set_timer("join", after_ms, JoinTimedOut(draft.group_id))
        draft.event(events.RebalanceStalled(len(draft.members)))
        return
    draft.generation += 1
    draft.new_member_added = False
    if draft.members:
        _begin_generation(draft)
    else:
        _become_empty(draft)


def refuse_parked_syncs(draft: Draft, error: ErrorCode) -> None:
    """In CompletingRebalance: the assignment is not coming. Nobody owns anything, and parked syncs get `error`."""
    members = {}
    for member_id, member in draft.members.items():
        if member.parked_sync is not None:
            draft.reply(member.parked_sync, sync_error(error))
            # Its timer was ignored while it waited, so it must be set again.
            draft.restart_session(member_id, member.session_timeout_ms)
        members[member_id] = altered(member, parked_sync=None, assignment=b"")
    draft.replace_members(members)


def initial_delay_passed(view: View, timer: InitialDelayPassed, now_ms: int) -> GroupOutcome:
    """Wait once more if somebody came meanwhile, but no longer in all than the rebalance timeout."""
    group = view.group
    if group is None or group.state is not GroupState.PREPARING_REBALANCE:
        return Outcome(group)
    draft = Draft(view, group, now_ms)
    if draft.new_member_added and timer.remaining_ms:
        draft.new_member_added = False
        delay_ms = min(draft.settings.initial_rebalance_delay_ms, timer.remaining_ms)
        remaining_ms = max(timer.remaining_ms - timer.delay_ms, 0)
        draft.set_timer("join", delay_ms, InitialDelayPassed(draft.group_id, delay_ms, remaining_ms))
    else:
        complete(draft)
    return draft.outcome()


def join_timed_out(view: View, timer: JoinTimedOut, now_ms: int) -> GroupOutcome:
    """The rebalance timeout is over: go on with those who came."""
    group = view.group
    if group is None or group.state is not GroupState.PREPARING_REBALANCE:
        return Outcome(group)
    draft = Draft(view, group, now_ms)
    complete(draft, timer.last_heard_ms, timer.edge)
    return draft.outcome()


def _drop_silent_members(draft: Draft, last_heard_ms: Mapping[str, int], edge: Mapping[str, Mapping[str, Any]]) -> None:
    if draft.parked_join_count == len(draft.members):
        return
    silent = [member for member in draft.members.values() if member.parked_join is None and member.instance_id is None]
    for member in silent:
        draft.remove_member(member.member_id)
        draft.forget_session(member.member_id)
        draft.departed(member, "expired")
        waited = {
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "last_heard_ms": last_heard_ms.get(member.member_id),
            **edge.get(member.member_id, {}),
        }
        cause = cause_by(draft.now_ms, "join_timeout", member, detail=waited)
        draft.further_cause(cause)
        draft.event(events.MemberLeft(cause))


def _elect_joined_leader(draft: Draft) -> bool:
    """Whether somebody joined who can lead: the leader if it did, else the oldest that did."""
    leader = draft.members.get(draft.leader_id or "")
    if leader is not None and leader.parked_join is not None:
        return True
    for member in draft.members.values():
        if member.parked_join is not None:
            draft.leader_id = member.member_id
            return True
    return False


def _begin_generation(draft: Draft) -> None:
    draft.protocol_name = select_protocol(draft.members, draft.protocol_votes)
    draft.subscribed_topics = topics_of(draft.protocol_type, draft.protocol_name, draft.members)
    draft.enter(GroupState.COMPLETING_REBALANCE)
    leader_id = draft.leader_id
    everybody = member_list(draft.members.values(), draft.protocol_name)
    members = {}
    for member_id, member in draft.members.items():
        if member.parked_join is not None:
            answer = joined(draft, member_id, leader_id, everybody if member_id == leader_id else [])
            draft.reply(member.parked_join, answer)
        draft.restart_session(member_id, member.session_timeout_ms)
        members[member_id] = altered(member, parked_join=None, is_new=False, synced_at_ms=None)
    draft.replace_members(members)
    draft.parked_join_count = 0
    draft.pending_sync_count = len(members)
    draft.members_at_last_generation = len(members)
    draft.set_timer("sync", longest_rebalance_timeout_ms(draft.members), SyncTimedOut(draft.group_id, draft.generation))
    tracking.join_phase_over(draft)


def _become_empty(draft: Draft) -> None:
    """The generation rises with nobody left, so that a late commit of the old one is refused."""
    draft.protocol_name = None
    draft.subscribed_topics = topics_of(draft.protocol_type, None, {})
    draft.assigned_partition_counts = draft.assigned_topic_ids = None
    draft.enter(GroupState.EMPTY)
    draft.records.append(group_record(draft))
    draft.token = EmptyGroupToken(draft.group_id)
    tracking.ended(draft, "empty")
