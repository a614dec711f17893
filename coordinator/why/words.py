"""Sentences out of the ledger's records: what `kohort why` prints, and whoever else wants words.

Pure: a record in, text out. Records hold facts only, so that sentences can improve without touching data; a field that
an older record lacks, or a trigger that is new, still gives a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from coordinator.why.cause_words import cause
from coordinator.why.terms import Facts, duration, host, namesakes, plural, who
from protocol.records.ledger import numbers


def causes(record: Facts) -> str:
    """First cause, and the further ones in short."""
    shared = namesakes(record)
    text = cause(record.get("first_cause"), shared=shared)
    further = list(record.get("further_causes") or ())
    if further:
        told = [cause(one, with_host=False, shared=shared) for one in further[:3]]
        more = len(further) - len(told) + int(record.get("further_causes_truncated") or 0)
        text += "; also: " + ", ".join(told) + (f" and {more:,} more" if more else "")
    return text


def consequences(record: Facts) -> str:
    """Whom they waited for, what moved, who stood still; empty when there is nothing to say."""
    outcome = record.get("outcome")
    if outcome == "superseded":
        return "began again before everybody had its assignment"
    if outcome == "interrupted":
        return "cut off: the broker stopped in the middle"
    if outcome == "empty":
        return "nobody was left"
    if outcome == "removed":
        return "the group was removed"
    parts = [*_waits(record)]
    moved, total = record.get("partitions_moved"), record.get("partitions_total")
    if moved is not None and total:
        parts.append(f"{moved:,} of {plural(total, 'partition')} moved" if moved else "nothing moved")
    unassigned = record.get("partitions_unassigned")
    if unassigned:
        parts.append(f"{plural(unassigned, 'partition')} without an owner")
    stopped_ms = record.get("stopped_ms")
    if stopped_ms is not None and stopped_ms >= 50:
        if record.get("group_type") == "consumer":
            parts.append(f"what moved stood still for {duration(stopped_ms)} at most")
        else:
            everybody = "those who gained or lost" if record.get("mode") == "cooperative" else "all"
            parts.append(f"{everybody} stood still for {duration(stopped_ms)}")
    return "; ".join(parts)


def unread(read: Facts | None) -> str:
    """How long what moved was read by nobody; empty when that is not known."""
    if not read or int(read.get("unread_ms") or 0) < 50:
        return ""
    worst = f"{read.get('topic')}-{read.get('partition')}"
    late, count = int(read.get("still_unread") or 0), int(read.get("partitions") or 0)
    if late:
        others, were = (f" and {late - 1} more", "were") if late > 1 else ("", "was")
        took = duration(read.get("unread_ms"))
        return f"{worst}{others} went unread for {took} and {were} not read again in that time"
    if count == 1:
        return f"{worst} went unread for {duration(read.get('unread_ms'))}"
    return f"{count:,} partitions went unread, {worst} longest: {duration(read.get('unread_ms'))}"


def _epoch_waits(record: Facts) -> list[str]:
    """Consumer groups: members learn of a target, and go on, with their own heartbeats; nobody is slow for that."""
    parts = []
    shared = namesakes(record)
    assign_ms, sync_ms = record.get("assign_ms") or 0, record.get("sync_ms") or 0
    if assign_ms >= 2_000:
        parts.append(f"the assignment was computed after {duration(assign_ms)}")
    revoker, last = record.get("slowest_to_revoke"), record.get("slowest_to_sync")
    if revoker and revoker["after_ms"] >= 50:
        name = who(revoker, with_host=False, shared=shared)
        parts.append(f"waited {duration(revoker['after_ms'])} for {name} to give up what moved")
    if last and sync_ms >= 1_000 and sync_ms > 2 * (revoker["after_ms"] if revoker else 0):
        name = who(last, with_host=False, shared=shared)
        parts.append(f"the last heartbeat that took it up was {name}'s, after {duration(last['after_ms'])}")
    return parts


def _waits(record: Facts) -> list[str]:
    if record.get("group_type") == "consumer":
        return _epoch_waits(record)
    parts = []
    shared = namesakes(record)
    delay_ms = record.get("initial_delay_ms") or 0
    if delay_ms >= 50:
        parts.append(f"waited {duration(delay_ms)} for more members, as group.initial.rebalance.delay.ms says")
    slowest = record.get("slowest_to_join")
    if slowest and slowest["after_ms"] >= 50:
        name = who(slowest, with_host=False, shared=shared)
        told_ms = slowest.get("told_after_ms") or 0
        until = f", {duration(told_ms)} of it for its next heartbeat" if told_ms >= 500 else ""
        parts.append(f"waited {duration(slowest['after_ms'])} for {name} to rejoin{until}")
    gone = [one for one in record.get("further_causes") or () if one.get("trigger") == "join_timeout"]
    if gone:
        waited_ms = max((one.get("detail") or {}).get("rebalance_timeout_ms") or 0 for one in gone)
        names = ", ".join(who(one, with_host=False, shared=shared) for one in gone)
        parts.append(f"waited {duration(waited_ms)} for {names} in vain")
    assign_ms = record.get("assign_ms") or 0
    if assign_ms >= 1_000:
        parts.append(f"the leader planned for {duration(assign_ms)}")
    slowest = record.get("slowest_to_sync")
    if slowest and slowest["after_ms"] >= 1_000:
        name = who(slowest, with_host=False, shared=shared)
        parts.append(f"{name} fetched its assignment after {duration(slowest['after_ms'])}")
    return parts


def folded(records: Iterable[Facts]) -> list[Facts]:
    """Refused commits or joins of one client for one reason, told in one line until something else happens."""
    found: list[Facts] = []
    names = ("kind", "client_id", "client_host", "error", "protocols")
    at = None  # of the last that is told
    for record in records:
        last: Facts = found[at] if at is not None else {}
        same = record.get("kind") in ("commits_refused", "joins_refused")
        if record.get("error") in _OF_GENERATIONS:
            same = same and record.get("request_generation") == last.get("request_generation")
        if same and all(record.get(name) == last.get(name) for name in names):
            count = int(last.get("count") or 1) + int(record.get("count") or 1)
            for_ms = int(record["at_ms"]) - int(last["at_ms"]) + _REFUSALS_TOGETHER_MS
            found[at or 0] = {**last, "count": count, "for_ms": for_ms}
        else:
            found.append(record)
            at = len(found) - 1 if record.get("kind") not in _NO_LINE else at
    return found


_OF_GENERATIONS = frozenset({"ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"})
_NO_LINE = frozenset({"departure_traced", "partitions_read"})
_REFUSALS_TOGETHER_MS = 1_000  # a record counts those of a second


def event(record: Facts) -> str | None:
    """One line for a record that is no rebalance; None for those that need none."""
    tell = _EVENTS.get(str(record.get("kind")))
    return None if tell is None else tell(record)


def _refused(record: Facts) -> str:
    count, error = record.get("count") or 1, record.get("error")
    times = f"{count:,} times" if count > 1 else "once"
    if record.get("for_ms"):
        times += f" in {duration(record['for_ms'])}"
    name = who(record, with_host=False)
    if error in ("ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH") and record.get("group_type") == "consumer":
        why = f"epoch {record.get('request_generation')}, the group was at {record.get('generation')}"
    elif error == "ILLEGAL_GENERATION":
        why = f"generation {record.get('request_generation')}, the group was at {record.get('generation')}"
    elif error == "UNKNOWN_MEMBER_ID":
        why = "it is no member"
    elif error == "FENCED_INSTANCE_ID":
        why = "another holds its instance id"
    else:
        why = str(error)
    return f"{name}'s commits were refused {times}: {why}"


def join_refusal(record: Facts) -> str:
    """Why a client may not be in the group."""
    error = record.get("error")
    offers, needs = record.get("protocols") or (), record.get("group_protocols") or ()
    if error == "GROUP_MAX_SIZE_REACHED":
        return "the group is full (group.max.size)"
    if error == "INCONSISTENT_GROUP_PROTOCOL" and needs:
        offered = f"it offers {', '.join(offers)}, and all" if offers else "it offers no assignor, and all"
        return f"{offered} members have only {', '.join(needs)} in common"
    if error == "INCONSISTENT_GROUP_PROTOCOL":
        return f"what it offers ({', '.join(offers) or 'nothing'}) does not go with the group's protocol"
    return str(error)


def _join_refused(record: Facts) -> str:
    count = record.get("count") or 1
    times = f"{count:,} times" if count > 1 else "once"
    if record.get("for_ms"):
        times += f" in {duration(record['for_ms'])}"
    return f"{who(record)} was refused to join {times}: {join_refusal(record)}"


def _fenced(record: Facts) -> str:
    refused = host(record.get("client_host"))
    holder = host(record.get("holder_client_host"))
    return (
        f"{record.get('client_id')} ({refused}) was refused a {record.get('api')}: instance id "
        f'"{record.get("instance_id")}" is held by {record.get("holder_client_id") or record.get("holder_member_id")}'
        + (f" ({holder})" if holder else "")
    )


def _replaced(record: Facts) -> str:
    away = f" after {duration(record['away_ms'])}" if record.get("away_ms") is not None else ""
    return f"{who(record)} came back{away} under a new member id, without a rebalance"


def _offsets(record: Facts) -> str:
    offsets = record.get("offsets") or ()
    count = len(offsets) + int(record.get("truncated") or 0)
    what = f"the offsets of {plural(count, 'partition')}"
    by = record.get("by")
    if by == "expiry":
        return f"{what} expired"
    if by == "topic_deleted":
        return f"{what} went with their topic"
    if by == "removed":
        return f"{what} expired or were deleted"
    if by == "group_deleted":
        return f"{what} were deleted with the group by {who(record)}"
    gone = all(one.get("to") is None for one in offsets)
    shown = ", ".join(
        f"{one['topic']}-{one['partition']} {_offset(one['from'])} -> {_offset(one['to'])}" for one in offsets[:3]
    )
    return f"{who(record)} {'deleted' if gone else 'set'} {what}: {shown}" + (", ..." if count > 3 else "")


def _offset(value: int | None) -> str:
    return "none" if value is None else str(value)


def _loaded(record: Facts) -> str:
    how = "after a crash" if record.get("unclean") else "after a stop"
    return f"the broker started {how} and read the group: {plural(int(record.get('members') or 0), 'member')}"


def _group_removed(record: Facts) -> str:
    if record.get("by") == "removed":
        return "the group expired or was deleted"
    if record.get("by") == "expired":
        return "the group expired with its last offset"
    return f"the group was deleted by {who(record)}"


_EVENTS: Mapping[str, Callable[[Facts], str]] = {
    "commits_refused": _refused,
    "joins_refused": _join_refused,
    "member_fenced": _fenced,
    "member_replaced": _replaced,
    "offsets_changed": _offsets,
    "coordinator_loaded": _loaded,
    "group_removed": _group_removed,
}


def partition_count(partitions: Mapping[str, str] | None) -> int:
    """How many partitions `{"t": "0-3,7"}` are."""
    return sum(len(numbers(text)) for text in (partitions or {}).values())


def in_progress(facts: Facts) -> str:
    """The rebalance that goes on: since when, and for whom it waits. Takes `coordinator.why.live`'s facts."""
    text = f"a rebalance has been going on for {duration(facts.get('for_ms'))}"
    missing = facts.get("missing") or ()
    names = ", ".join(who(member) for member in list(missing)[:3]) + (", ..." if len(missing) > 3 else "")
    phase = facts.get("phase")
    if facts.get("initial_delay"):
        return text + ": it waits for more members, as group.initial.rebalance.delay.ms says"
    if facts.get("group_type") == "consumer":
        if phase == "assign":
            return text + ": its assignment has not been computed yet"
        what = "to give up what it must" if phase == "revoke" else "to take it up with a heartbeat"
        return text + f": it waits for {names} {what}"
    if phase == "assign":
        return text + ": the leader plans" + (f", {names}" if names else "")
    if names:
        return text + f": it waits for {names} to {'rejoin' if phase == 'join' else 'fetch its assignment'}"
    return text
