"""The events of a rebalance: how it began, how long each phase took, who was waited for, how it ended (D10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coordinator import events
from coordinator.cause import FURTHER_CAUSES_MAX, Cause
from coordinator.classic.causes import rebalance_mode
from coordinator.group import GroupState, Member, Rebalance
from coordinator.values import altered

if TYPE_CHECKING:
    from coordinator.classic.draft import Draft

_WAITED_FOR_MIN_MS = 10


def began(
    draft: Draft,
    cause: Cause,
    further_causes: Sequence[Cause] = (),
    departed: Sequence[tuple[Member, str]] = (),
) -> None:
    """A rebalance begins, here and now; one whose last members had not synced yet is superseded."""
    # Who went during a rebalance that is superseded is told with the one that ends: superseded ones tell of no members.
    earlier = draft.rebalance.departed if draft.rebalance is not None else ()
    new = Rebalance(
        from_generation=draft.generation,
        began_at_ms=draft.now_ms,
        state_before=draft.state,
        first_cause=cause,
        members_before=draft.before.members,
        leader_before=draft.before.leader_id,
        initial=draft.state is GroupState.EMPTY,
        further_causes=tuple(further_causes[:FURTHER_CAUSES_MAX]),
        further_causes_cut=max(len(further_causes) - FURTHER_CAUSES_MAX, 0),
        departed=(*earlier, *departed),
    )
    if draft.rebalance is not None:
        ended(draft, "superseded", by=new.rebalance_id)
    draft.rebalance = new
    draft.loaded_at_ms = None
    draft.event(
        events.RebalanceBegan(
            new.rebalance_id, new.from_generation, new.state_before.value, len(new.members_before), cause
        ),
        new,
    )


def join_phase_over(draft: Draft) -> None:
    """Everybody who takes part is known."""
    rebalance = draft.rebalance
    if rebalance is None:
        return
    draft.rebalance = altered(rebalance, joined_at_ms=draft.now_ms)
    draft.event(
        events.GenerationBegan(
            len(draft.members), draft.protocol_name, draft.leader_id, draft.now_ms - rebalance.began_at_ms
        )
    )


def assignment_came(draft: Draft) -> None:
    """The leader has planned."""
    rebalance = draft.rebalance
    assign_ms = None
    if rebalance is not None:
        draft.rebalance = altered(rebalance, assigned_at_ms=draft.now_ms)
        assign_ms = _span(rebalance.joined_at_ms, draft.now_ms)
    draft.event(events.AssignmentReceived(draft.leader_id, len(draft.members), len(draft.static_members), assign_ms))


def ended(draft: Draft, outcome: str, *, by: str | None = None) -> None:
    """`outcome`: `stable`, `empty`, `removed` or `superseded` (by which rebalance)."""
    rebalance = draft.rebalance
    if rebalance is None:
        return
    draft.rebalance = None
    now_ms = draft.now_ms
    if outcome == "stable":
        draft.last_rebalance_id = rebalance.rebalance_id
    joined_at_ms = rebalance.joined_at_ms
    if joined_at_ms is None and outcome == "empty":
        joined_at_ms = now_ms
    join_ms = _span(rebalance.began_at_ms, joined_at_ms)
    draft.event(
        events.RebalanceEnded(
            rebalance_id=rebalance.rebalance_id,
            from_generation=rebalance.from_generation,
            to_generation=draft.generation,
            outcome=outcome,
            began_at_ms=rebalance.began_at_ms,
            joined_at_ms=joined_at_ms,
            assigned_at_ms=rebalance.assigned_at_ms,
            ended_at_ms=now_ms,
            duration_ms=now_ms - rebalance.began_at_ms,
            join_ms=join_ms,
            assign_ms=_span(rebalance.joined_at_ms, rebalance.assigned_at_ms),
            sync_ms=_span(rebalance.assigned_at_ms, now_ms),
            initial_delay_ms=join_ms if rebalance.initial and draft.settings.initial_rebalance_delay_ms else 0,
            protocol_type=draft.protocol_type,
            protocol=draft.protocol_name,
            mode=rebalance_mode(draft.protocol_name),
            leader=draft.leader_id,
            leader_changed=draft.leader_id != rebalance.leader_before,
            members=len(draft.members),
            slowest_to_join=None if rebalance.initial else _slowest_to_join(draft, rebalance),
            slowest_to_sync=_slowest_to_sync(draft, rebalance),
            first_cause=rebalance.first_cause,
            by=by,
        ),
        rebalance,
    )


def cause_record(cause: Cause) -> dict[str, Any]:
    """A cause as the ledger's records hold it."""
    return {
        "at_ms": cause.at_ms,
        "trigger": cause.trigger,
        "member_id": cause.member_id,
        "instance_id": cause.instance_id,
        "client_id": cause.client_id,
        "client_host": cause.client_host,
        "reason": cause.reason,
        "detail": dict(cause.detail),
    }


def who(member: Member) -> events.Who:
    """Who it is, and which process acts."""
    client_id, client_host = member.acting
    return events.Who(member.member_id, member.instance_id, client_id, client_host)


def member_facts(member: Member) -> dict[str, Any]:
    """Who it is, as keys."""
    return who(member).facts()


def _span(begin_ms: int | None, end_ms: int | None) -> int | None:
    return None if begin_ms is None or end_ms is None else end_ms - begin_ms


def _slowest_to_join(draft: Draft, rebalance: Rebalance) -> dict[str, Any] | None:
    """Of those that were there before and came back: nobody waits for a newcomer, or for one that never came."""
    came = [
        (member.joined_at_ms - rebalance.began_at_ms, member)
        for member_id, member in draft.members.items()
        if member_id in rebalance.members_before and member.joined_at_ms is not None
    ]
    slowest = _waited_for(came)
    if slowest is not None:
        told_at_ms = rebalance.told.get(slowest["member_id"])
        slowest["told_after_ms"] = None if told_at_ms is None else told_at_ms - rebalance.began_at_ms
    return slowest


def _slowest_to_sync(draft: Draft, rebalance: Rebalance) -> dict[str, Any] | None:
    """Counted from the assignment's arrival: before it a SyncGroup would only have waited."""
    if rebalance.assigned_at_ms is None:
        return None
    came = [
        (member.synced_at_ms - rebalance.assigned_at_ms, member)
        for member in draft.members.values()
        if member.synced_at_ms is not None
    ]
    return _waited_for(came)


def _waited_for(came: list[tuple[int, Member]]) -> dict[str, Any] | None:
    after_ms, member = max(came, key=lambda pair: pair[0], default=(0, None))
    if member is None or after_ms <= _WAITED_FOR_MIN_MS:
        return None
    return {**member_facts(member), "after_ms": after_ms}
