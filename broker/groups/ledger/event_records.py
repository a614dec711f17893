"""Events become records: nothing is decided or worded here, facts are put in the shape that the topic has."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from broker.groups.ledger import epochs
from broker.groups.ledger.group_history import GroupHistory
from broker.groups.ledger.shape import PHASES, Record, nothing_moved, partition_text, phases
from coordinator import events
from coordinator.classic.causes import rebalance_mode
from coordinator.classic.ownership import NOTHING, Holding, holdings, imbalance, moves, predecessor
from coordinator.classic.rebalance_tracking import cause_record, member_facts
from coordinator.consumer.group import ConsumerGroup, ConsumerState
from coordinator.group import GroupState
from protocol.records.ledger import KINDS, MOVES_MAX, VERSION, LedgerRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from coordinator.classic.ownership import Holdings
    from coordinator.events import GroupEvent, RebalanceEnded
    from coordinator.group import Group, Member, Rebalance
    from coordinator.view import AnyGroup, Topics


def _own(kind: str) -> Callable[[Any], tuple[Any, ...]]:
    """Reads of an event the fields that its record has beside those of every record."""
    return attrgetter(*_NAMES[kind])


_NAMES = {
    kind: tuple(name for name in declared.__annotations__ if name not in LedgerRecord.__annotations__)
    for kind, declared in KINDS.items()
}
_PLAIN = {
    kind: _own(kind)
    for kind in (
        "member_replaced",
        "member_fenced",
        "departure_traced",
        "partitions_read",
        "commits_refused",
        "joins_refused",
        "coordinator_loaded",
        "group_removed",
    )
}


_LATER = (events.DepartureTraced, events.PartitionsRead)


def record_of(event: GroupEvent, common: Mapping[str, Any], history: GroupHistory) -> Record:
    """The record of one event. `history` is what was told of the group so far, and is brought up to date."""
    what = event.what
    # What is seen later of a member that went, or of a partition that moved, is told of the group as it is then.
    is_late = isinstance(what, _LATER)
    group_type = (history.group_type if is_late else None) or event.group_type
    if not is_late:
        history.group_type = group_type
    record: Record = {
        "version": VERSION,
        "kind": event.kind,
        "at_ms": event.at_ms,
        "group_id": event.group_id,
        "group_type": group_type,
        "generation": max(event.generation, history.generation) if is_late else event.generation,
        **common,
    }
    plain = _PLAIN.get(event.kind)
    if plain is not None:
        record.update(zip(_NAMES[event.kind], plain(what), strict=True))
        if isinstance(what, events.MemberReplaced) and history.holdings is not None:
            # What it owned is its own under the new id too: nothing has moved.
            renamed = {what.old_member_id: what.new_member_id}
            history.holdings = {renamed.get(key, key): held for key, held in history.holdings.items()}
    elif isinstance(what, events.OffsetsChanged):
        record |= {"by": what.by, "client_id": what.client_id, "client_host": what.client_host}
        record["offsets"] = [
            {"topic": topic, "partition": partition, "from": before, "to": after}
            for topic, partition, before, after in what.offsets
        ]
        record["truncated"] = what.offset_count - len(what.offsets)
    elif isinstance(what, events.RebalanceBegan):
        (_began if event.epochs is None else epochs.began)(record, event, history)
    elif isinstance(what, events.RebalanceEnded):
        (_ended if event.epochs is None else epochs.ended)(record, event, what, history)
    return record


def interrupted(
    began: Mapping[str, Any], group: AnyGroup | None, topics: Topics, common: Mapping[str, Any], now_ms: int
) -> Record:
    """The end of a rebalance that a stop of the coordinator cut off, as it is found when the group is loaded.

    The leader's assignment may have been written all the same: then the members are told as they were loaded.
    """
    from_generation = int(began.get("from_generation", -1))
    generation = reached(group, from_generation)
    record: Record = {
        "version": VERSION,
        "kind": "rebalance_ended",
        "at_ms": now_ms,
        "group_id": began["group_id"],
        "group_type": began.get("group_type") or "classic",
        "generation": generation,
        **common,
        **dict.fromkeys(PHASES),
        "slowest_to_revoke": None,
        "rebalance_id": began.get("rebalance_id"),
        "from_generation": from_generation,
        "to_generation": generation,
        "outcome": "interrupted",
        "by": None,
        "first_cause": began.get("cause"),
        "further_causes": [],
        "further_causes_truncated": 0,
        "began_at_ms": began.get("at_ms"),
        "mode": "unknown",
        **nothing_moved(None),
    }
    if isinstance(group, ConsumerGroup):
        if generation > from_generation:
            record |= epochs.loaded_members(group, topics)
    elif group is not None and generation > from_generation:
        now = holdings(group)
        record |= {
            "protocol_type": group.protocol_type,
            "protocol": group.protocol_name,
            "mode": rebalance_mode(group.protocol_name),
            "leader": group.leader_id,
            "members": [
                _member(member, "stayed", None, now[member_id].partitions if now else None, None, None)
                for member_id, member in group.members.items()
            ],
        }
    return record


def reached(group: AnyGroup | None, from_generation: int) -> int:
    """The generation that a loaded group is at, or the epoch that all its members have reached."""
    if group is None:
        return from_generation
    if isinstance(group, ConsumerGroup):
        return group.epoch if group.state in (ConsumerState.STABLE, ConsumerState.EMPTY) else from_generation
    return group.generation


def _began(record: Record, event: GroupEvent, history: GroupHistory) -> None:
    rebalance = event.rebalance
    assert rebalance is not None
    record |= {
        "rebalance_id": rebalance.rebalance_id,
        "from_generation": rebalance.from_generation,
        "state_before": rebalance.state_before.value,
        "cause": cause_record(rebalance.first_cause),
        "members_before": len(rebalance.members_before),
    }
    if rebalance.state_before is GroupState.EMPTY:
        history.holdings, history.generation = (
            {},
            rebalance.from_generation,
        )  # nobody owned anything, whatever was before
    history.open = record


def _ended(record: Record, event: GroupEvent, what: RebalanceEnded, history: GroupHistory) -> None:
    rebalance, group = event.rebalance, event.group
    assert rebalance is not None
    record |= phases(what)
    record["slowest_to_revoke"] = None
    record["by"] = what.by
    record["first_cause"] = cause_record(rebalance.first_cause)
    record["further_causes"] = [cause_record(cause) for cause in rebalance.further_causes]
    record["further_causes_truncated"] = rebalance.further_causes_cut
    outcome = what.outcome
    if group is None or outcome not in ("stable", "empty"):
        record |= nothing_moved(None)
        if history.open is not None and history.open["rebalance_id"] == rebalance.rebalance_id:
            history.open = None
        return
    history.open = None
    before = history.holdings
    now: Holdings | None = {} if outcome == "empty" else holdings(group)
    if before is not None and now is not None:
        record |= _moved(group, rebalance, before, now)
    else:
        record |= _members_alone(group, rebalance, now)
    counts = group.assigned_partition_counts
    if outcome == "stable" and now is not None and counts is not None and group.subscribed_topics is not None:
        total = sum(counts.values())
        assigned = sum(1 for holding in now.values() for topic, _ in holding.partitions if topic in counts)
        record["partitions_total"] = total
        record["partitions_unassigned"] = max(total - assigned, 0)
        record["imbalance"] = imbalance(group, now)
    record["stopped_ms"] = _stopped_ms(record, group)
    history.holdings, history.generation = now, group.generation


def _moved(group: Group, rebalance: Rebalance, before: Holdings, now: Holdings) -> Record:
    """Members with what each gained and lost, and the moves."""
    gone = {member.member_id: (member, how) for member, how in rebalance.departed}
    instances = {member.instance_id for member in rebalance.members_before.values()} - {None}
    members, successors = [], {}
    for member_id, member in group.members.items():
        old_id = predecessor(member, before, now, gone)
        had = before[old_id].partitions if old_id is not None else NOTHING
        has = now[member_id].partitions
        if old_id is not None and old_id != member_id:
            successors[old_id] = member_id
        replaced = member.instance_id in instances and member_id not in rebalance.members_before
        change = "joined" if old_id is None else "replaced" if replaced or old_id != member_id else "stayed"
        members.append(_member(member, change, rebalance, has, has - had, had - has))
    missing = {member_id for member_id in before if member_id not in now and member_id not in successors}
    for member_id, (member, how) in gone.items():
        if member_id not in now:
            had = before.get(member_id, Holding(None, NOTHING)).partitions
            members.append(_member(member, how, rebalance, NOTHING, NOTHING, had))
            missing.discard(member_id)
    for member_id in missing:
        known = rebalance.members_before.get(member_id)
        if known is not None:
            members.append(_member(known, "removed", rebalance, NOTHING, NOTHING, before[member_id].partitions))
    moved = moves(before, now, successors)
    return nothing_moved(len(moved)) | {
        "members": members,
        "moves": moved[:MOVES_MAX],
        "moves_truncated": max(len(moved) - MOVES_MAX, 0),
    }


def _members_alone(group: Group, rebalance: Rebalance, now: Holdings | None) -> Record:
    """Members of a group whose assignments are not to be read, or of which the last generation is not known."""
    gone = {member.member_id: (member, how) for member, how in rebalance.departed}
    instances = {member.instance_id for member in rebalance.members_before.values()}
    members = []
    for member_id, member in group.members.items():
        replaced = member.instance_id is not None and member.instance_id in instances
        known = member_id in rebalance.members_before
        change = "stayed" if known else "replaced" if replaced else "joined"
        members.append(_member(member, change, rebalance, now[member_id].partitions if now else None, None, None))
    members += [
        _member(member, how, rebalance, NOTHING if now is not None else None, None, None)
        for member_id, (member, how) in gone.items()
        if member_id not in group.members
    ]
    return nothing_moved(None) | {"members": members}


def _member(
    member: Member,
    change: str,
    rebalance: Rebalance | None,
    has: Iterable[tuple[str, int]] | None,
    gained: Iterable[tuple[str, int]] | None,
    lost: Iterable[tuple[str, int]] | None,
) -> Record:
    took_part = rebalance is not None and change in ("joined", "stayed", "replaced")
    return {
        **member_facts(member),
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "change": change,
        "joined_after_ms": _after(member.joined_at_ms, rebalance) if took_part else None,
        "synced_after_ms": _after(member.synced_at_ms, rebalance) if took_part else None,
        "partitions": partition_text(has),
        "gained": partition_text(gained),
        "lost": partition_text(lost),
    }


def _after(at_ms: int | None, rebalance: Rebalance | None) -> int | None:
    if at_ms is None or rebalance is None:
        return None
    return max(at_ms - rebalance.began_at_ms, 0)


def _stopped_ms(record: Record, group: Group) -> int | None:
    """The longest from a member's JoinGroup to the answer of its SyncGroup.

    With a cooperative protocol whoever kept what it had went on reading all the while.
    """
    if group.state is not GroupState.STABLE or group.state_timestamp_ms is None:
        return None
    longest = 0
    cooperative = record["mode"] == "cooperative"
    for told in record["members"]:
        member = group.members.get(told["member_id"])
        if member is None or member.joined_at_ms is None or member.synced_at_ms is None:
            continue
        if cooperative and told["gained"] == {} and told["lost"] == {}:
            continue
        longest = max(longest, max(member.synced_at_ms, group.state_timestamp_ms) - member.joined_at_ms)
    return longest
