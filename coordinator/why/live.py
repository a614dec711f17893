"""What can be said of a group at this moment: its members, and the rebalance that goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.classic.causes import rebalance_mode
from coordinator.classic.ownership import by_topic, holdings
from coordinator.classic.rebalance_tracking import cause_record, member_facts
from coordinator.group import GroupState
from protocol.records.ledger import spans

if TYPE_CHECKING:
    from coordinator.group import Group, Member, Rebalance


def in_progress(group: Group | None, now_ms: int) -> dict[str, Any] | None:
    """The rebalance that goes on, and who is missing and for how long; None when there is none.

    `phase`: `join` (JoinGroups are awaited), `assign` (the leader's plan is), `sync` (SyncGroups are). `missing` are
    the members that the phase waits for, each with `for_ms` since the phase began.
    """
    if group is None or group.rebalance is None:
        return None
    rebalance = group.rebalance
    phase, since_ms, missing = _phase(group, rebalance)
    return {
        "rebalance_id": rebalance.rebalance_id,
        "from_generation": rebalance.from_generation,
        "generation": group.generation,
        "state": group.state.value,
        "state_before": rebalance.state_before.value,
        "phase": phase,
        "began_at_ms": rebalance.began_at_ms,
        "for_ms": max(now_ms - rebalance.began_at_ms, 0),
        "first_cause": cause_record(rebalance.first_cause),
        "further_causes": [cause_record(cause) for cause in rebalance.further_causes],
        "initial_delay": rebalance.initial and phase == "join",
        "missing": [{**member_facts(member), "for_ms": max(now_ms - since_ms, 0)} for member in missing],
        "missing_member_ids": list(group.pending_members) if phase == "join" else [],
    }


def live_state(group: Group) -> dict[str, Any]:
    """State, generation, protocol and members with what they own, as JSON values."""
    owned = holdings(group) if group.state is GroupState.STABLE else None
    counts = group.assigned_partition_counts
    return {
        "group_id": group.group_id,
        "group_type": "classic",
        "state": group.state.value,
        "state_at_ms": group.state_timestamp_ms,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_name,
        "mode": rebalance_mode(group.protocol_name),
        "leader": group.leader_id,
        "partitions_total": sum(counts.values()) if counts is not None else None,
        "members": [
            {
                **member_facts(member),
                "session_timeout_ms": member.session_timeout_ms,
                "rebalance_timeout_ms": member.rebalance_timeout_ms,
                "partitions": None
                if owned is None
                else {topic: spans(found) for topic, found in by_topic(owned[member_id].partitions).items()},
            }
            for member_id, member in group.members.items()
        ],
    }


def _phase(group: Group, rebalance: Rebalance) -> tuple[str, int, list[Member]]:
    if group.state is GroupState.PREPARING_REBALANCE:
        missing = [member for member in group.members.values() if member.parked_join is None]
        return "join", rebalance.began_at_ms, missing
    late = group.pending_sync()
    if rebalance.assigned_at_ms is not None:
        return "sync", rebalance.assigned_at_ms, late
    since_ms = rebalance.joined_at_ms if rebalance.joined_at_ms is not None else rebalance.began_at_ms
    return "assign", since_ms, [member for member in late if member.member_id == group.leader_id]
