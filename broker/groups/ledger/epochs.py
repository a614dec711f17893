"""Records of consumer groups (KIP-848): an epoch takes the place of a generation, a target that of a leader's plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.groups.ledger.group_history import holdings_of
from broker.groups.ledger.shape import Record, nothing_moved, partition_text, phases
from coordinator.classic.ownership import NOTHING, Holding, moves, predecessor
from coordinator.classic.rebalance_tracking import cause_record
from coordinator.consumer.rebalance_tracking import MODE, member_facts
from protocol.records.ledger import MOVES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker.groups.ledger.group_history import GroupHistory
    from coordinator.classic.ownership import Holdings
    from coordinator.consumer.epoch_rebalance import EpochRebalance
    from coordinator.consumer.group import ConsumerGroup, ConsumerMember
    from coordinator.events import GroupEvent, RebalanceEnded
    from coordinator.view import Topics


def began(record: Record, event: GroupEvent, history: GroupHistory) -> None:
    """Fill in a `rebalance_began`."""
    rebalance = event.epochs
    assert rebalance is not None
    record |= {
        "rebalance_id": rebalance.rebalance_id,
        "from_generation": rebalance.from_epoch,
        "state_before": rebalance.state_before,
        "cause": cause_record(rebalance.first_cause),
        "members_before": len(rebalance.members_before),
    }
    if not rebalance.members_before:
        history.holdings, history.generation = {}, rebalance.from_epoch
    history.open = record


def ended(record: Record, event: GroupEvent, what: RebalanceEnded, history: GroupHistory) -> None:
    """Fill in a `rebalance_ended`: moves are told against the last epoch that everybody had reached."""
    rebalance, group, topics = event.epochs, event.consumer_group, event.topics
    assert rebalance is not None
    assert group is not None
    assert topics is not None
    record |= phases(what)
    record["slowest_to_revoke"] = what.slowest_to_revoke
    record["by"] = what.by
    record["first_cause"] = cause_record(rebalance.first_cause)
    record["further_causes"] = [cause_record(cause) for cause in rebalance.further_causes]
    record["further_causes_truncated"] = rebalance.further_causes_cut
    if what.outcome == "superseded":
        record |= nothing_moved(None)
        if history.open is not None and history.open["rebalance_id"] == rebalance.rebalance_id:
            history.open = None
        return
    history.open = None
    now = holdings_of(group, topics)
    record |= _members(group, rebalance, history.holdings, now, what.session_timeout_ms or 0)
    record["stopped_ms"] = what.stopped_ms
    if group.members:
        total = sum(topics.partition_count(name) or 0 for name in group.subscribed_topics)
        record["partitions_total"] = total
        record["partitions_unassigned"] = max(total - sum(len(one.partitions) for one in now.values()), 0)
        record["imbalance"] = _imbalance(group, now)
    history.holdings, history.generation = now, group.epoch


def loaded_members(group: ConsumerGroup, topics: Topics) -> Record:
    """Of a rebalance that a stop of the coordinator cut off, and that everybody had ended by then all the same."""
    now = holdings_of(group, topics)
    members = [
        _member(one, "stayed", None, None, now[id_].partitions, None, None) for id_, one in group.members.items()
    ]
    return {"protocol_type": "consumer", "mode": MODE, "members": members}


def _members(
    group: ConsumerGroup, rebalance: EpochRebalance, before: Holdings | None, now: Holdings, session_timeout_ms: int
) -> Record:
    gone = rebalance.departed
    known = before if before is not None else _only_instances(rebalance.members_before)
    told, successors = [], {}
    for member_id, member in group.members.items():
        old_id = predecessor(member, known, now, gone)
        if old_id is not None and old_id != member_id:
            successors[old_id] = member_id
        change = "joined" if old_id is None else "replaced" if old_id != member_id else "stayed"
        has = now[member_id].partitions
        had = None if before is None else NOTHING if old_id is None else before[old_id].partitions
        gained, lost = (None, None) if had is None else (has - had, had - has)
        told.append(_member(member, change, rebalance, session_timeout_ms, has, gained, lost))
    for member_id, (member, how) in gone.items():
        if member_id not in now:
            lost = None if before is None else before.get(member_id, Holding(None, NOTHING)).partitions
            gained = None if before is None else NOTHING
            told.append(_member(member, how, rebalance, session_timeout_ms, NOTHING, gained, lost))
    if before is None:
        return nothing_moved(None) | {"members": told}
    moved = moves(before, now, successors)
    return nothing_moved(len(moved)) | {
        "members": told,
        "moves": moved[:MOVES_MAX],
        "moves_truncated": max(len(moved) - MOVES_MAX, 0),
    }


def _only_instances(members: Mapping[str, ConsumerMember]) -> Holdings:
    return {member_id: Holding(member.instance_id, NOTHING) for member_id, member in members.items()}


def _member(
    member: ConsumerMember,
    change: str,
    rebalance: EpochRebalance | None,
    session_timeout_ms: int | None,
    has: Iterable[tuple[str, int]] | None,
    gained: Iterable[tuple[str, int]] | None,
    lost: Iterable[tuple[str, int]] | None,
) -> Record:
    at_ms = None if rebalance is None else rebalance.arrived.get(member.member_id)
    classic = member.classic
    return {
        **member_facts(member),
        "session_timeout_ms": session_timeout_ms if classic is None else classic.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "change": change,
        "joined_after_ms": None,
        "synced_after_ms": None if at_ms is None or rebalance is None else max(at_ms - rebalance.began_at_ms, 0),
        "partitions": partition_text(has),
        "gained": partition_text(gained),
        "lost": partition_text(lost),
    }


def _imbalance(group: ConsumerGroup, now: Holdings) -> int:
    counts: dict[Any, list[int]] = {}
    for member_id, member in group.members.items():
        counts.setdefault((member.names, member.regex), []).append(len(now[member_id].partitions))
    return max((max(each) - min(each) for each in counts.values()), default=0)
