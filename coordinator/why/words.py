"""Sentences out of the ledger's records: what `kohort why` prints, and whoever else wants words.

Pure: a record in, text out. Records hold facts only, so that sentences can improve without touching data; a field that
an older record lacks, or a trigger that is new, still gives a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from protocol.records.ledger import numbers

Facts = Mapping[str, Any]


def duration(ms: float | None) -> str:
    """As people say it: `0.3 s`, `61.0 s`, `3 min 20 s`, `2 h 5 min`, `3 days`."""
    if ms is None:
        return "-"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(round(ms / 1_000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def plural(count: int, noun: str) -> str:
    """`1 commit`, `3 commits`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def host(text: str | None) -> str:
    """A client's host without the slash that Java prints before it."""
    return (text or "").removeprefix("/")


Namesakes = Mapping[str, bool]
"""Client ids that several members of one generation have; True where host and client id together are not one's own."""

_BEFORE = frozenset({"stayed", "left", "expired", "removed"})
_AFTER = frozenset({"stayed", "joined", "replaced"})
_TOLD_OF_ID = 9
"""Of what follows the client id in a member id, a hyphen and a uuid: enough to know it by, and to search for."""


def namesakes(record: Facts) -> Namesakes:
    """Who has another's name in a `rebalance_ended`: clients that were given no name all have the library's."""
    shared: dict[str, bool] = {}
    for there in (_BEFORE, _AFTER):
        hosts: dict[str, list[str]] = {}
        for member in record.get("members") or ():
            if member.get("change") in there and member.get("client_id") and not member.get("instance_id"):
                hosts.setdefault(str(member["client_id"]), []).append(host(member.get("client_host")))
        for name, where in hosts.items():
            if len(where) > 1:
                shared[name] = shared.get(name, False) or len(set(where)) < len(where)
    return shared


def who(facts: Facts, *, with_host: bool = True, shared: Namesakes | None = None) -> str:
    """A member as people know it: its client id, or instance id, and its host.

    Where its name is `shared` the host is told, and where that is not enough the beginning of the member id.
    """
    client_id, member_id = facts.get("client_id"), facts.get("member_id")
    name = facts.get("instance_id") or client_id or member_id or "somebody"
    where = host(facts.get("client_host"))
    if shared and client_id and not facts.get("instance_id") and client_id in shared:
        if shared[client_id] and member_id and str(member_id).startswith(f"{client_id}-"):
            name = str(member_id)[: len(client_id) + _TOLD_OF_ID]
        else:
            with_host = True
    return f"{name} ({where})" if with_host and where else str(name)


def quoted(text: str | None) -> str:
    """A client's own words, without their full stop."""
    return f'"{(text or "").rstrip(".")}"'


def cause(facts: Facts | None, *, with_host: bool = True, shared: Namesakes | None = None) -> str:
    """What somebody did, or what befell it."""
    if not facts:
        return "the cause is not known"
    name = who(facts, with_host=with_host, shared=shared)
    detail: Facts = facts.get("detail") or {}
    reason = facts.get("reason")
    tell = _CAUSES.get(str(facts.get("trigger")))
    if tell is None:
        return f"{name}: {facts.get('trigger')}" + (f": {quoted(reason)}" if reason else "")
    return tell(name, detail, reason)


def _joined(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} joined" + (f": {quoted(reason)}" if reason and reason != "not provided" else "")


def _left(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} left" + (f": {quoted(reason)}" if reason else "")


def _removed(name: str, detail: Facts, reason: str | None) -> str:
    by = who({"client_id": detail.get("by_client_id"), "client_host": detail.get("by_client_host")})
    return f"{name} was removed by {by}" + (f": {quoted(reason)}" if reason else "")


def _session(name: str, detail: Facts, reason: str | None) -> str:
    timeout_ms, silent_ms = detail.get("session_timeout_ms"), detail.get("last_heard_ms")
    if silent_ms is None:
        return f"{name} was silent for its session timeout of {duration(timeout_ms)}"
    last = f" since its {detail['last_api']}" if detail.get("last_api") else ""
    if timeout_ms is not None and abs(silent_ms - timeout_ms) < 1_000:
        return f"{name} was silent for {duration(silent_ms)}{last}, its session timeout"
    return f"{name} was silent for {duration(silent_ms)}{last}; its session timeout is {duration(timeout_ms)}"


def _join_timeout(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} did not rejoin within its rebalance timeout of {duration(detail.get('rebalance_timeout_ms'))}"


def _sync_timeout(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} joined and did not ask for its assignment for {duration(detail.get('waited_ms'))}"


def _poll_timeout(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} left: {quoted(reason or detail.get('text'))}"


def _subscription(name: str, detail: Facts, reason: str | None) -> str:
    parts = []
    if detail.get("topics_added"):
        parts.append("subscribed to " + _names(detail["topics_added"]))
    if detail.get("topics_removed"):
        parts.append("unsubscribed from " + _names(detail["topics_removed"]))
    if detail.get("protocols_changed"):
        before, after = detail["protocols_changed"]
        parts.append(f"offers other protocols: {', '.join(after)} instead of {', '.join(before)}")
    return f"{name} " + (" and ".join(parts) or "joined again with other metadata" + _because(reason))


def _partitions(name: str, detail: Facts, reason: str | None) -> str:
    topics = detail.get("topics") or {}
    told = [f"{topic} has {now} partitions instead of {before}" for topic, (before, now) in topics.items()]
    return ", ".join(told) + f", which {name} saw" if told else f"{name} saw other partitions"


def _leader(name: str, detail: Facts, reason: str | None) -> str:
    return f"the leader {name} joined again" + _because(reason)


def _static(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} came back under a new member id and the group had to rebalance"


def _followup(name: str, detail: Facts, reason: str | None) -> str:
    return f"the second round of {detail.get('follows')}: {name} had given up what it had to"


def _append_failed(name: str, detail: Facts, reason: str | None) -> str:
    return f"the assignment could not be written ({detail.get('error')}), so all had to join again"


def _over_capacity(name: str, detail: Facts, reason: str | None) -> str:
    return f"the group has {detail.get('size')} members and may have {detail.get('limit')}"


def _restarted(name: str, detail: Facts, reason: str | None) -> str:
    return f"the broker had stopped in the middle of a rebalance, and {name} joined again"


_CAUSES: Mapping[str, Callable[[str, Facts, str | None], str]] = {
    "member_joined": _joined,
    "member_left": _left,
    "member_removed": _removed,
    "session_expired": _session,
    "join_timeout": _join_timeout,
    "sync_timeout": _sync_timeout,
    "poll_timeout": _poll_timeout,
    "subscription_changed": _subscription,
    "partitions_changed": _partitions,
    "leader_rejoined": _leader,
    "static_replaced": _static,
    "cooperative_followup": _followup,
    "append_failed": _append_failed,
    "over_capacity": _over_capacity,
    "coordinator_restarted": _restarted,
}


def _because(reason: str | None) -> str:
    return f": {quoted(reason)}" if reason and reason != "not provided" else ""


def _names(topics: Sequence[str]) -> str:
    return ", ".join(f'"{topic}"' for topic in topics)


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
        everybody = "those who gained or lost" if record.get("mode") == "cooperative" else "all"
        parts.append(f"{everybody} stood still for {duration(stopped_ms)}")
    return "; ".join(parts)


def _waits(record: Facts) -> list[str]:
    parts = []
    shared = namesakes(record)
    delay_ms = record.get("initial_delay_ms") or 0
    if delay_ms >= 50:
        parts.append(f"waited {duration(delay_ms)} for more members, as group.initial.rebalance.delay.ms says")
    slowest = record.get("slowest_to_join")
    if slowest:
        name = who(slowest, with_host=False, shared=shared)
        parts.append(f"waited {duration(slowest['after_ms'])} for {name} to rejoin")
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


def event(record: Facts) -> str | None:
    """One line for a record that is no rebalance; None for those that need none."""
    tell = _EVENTS.get(str(record.get("kind")))
    return None if tell is None else tell(record)


def _refused(record: Facts) -> str:
    count, error = record.get("count") or 1, record.get("error")
    times = f"{count:,} times" if count > 1 else "once"
    name = who(record, with_host=False)
    if error == "ILLEGAL_GENERATION":
        why = f"generation {record.get('request_generation')}, the group was at {record.get('generation')}"
    elif error == "UNKNOWN_MEMBER_ID":
        why = "it is no member"
    elif error == "FENCED_INSTANCE_ID":
        why = "another holds its instance id"
    else:
        why = str(error)
    return f"{name}'s commits were refused {times}: {why}"


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
    if record.get("by") == "expired":
        return "the group expired with its last offset"
    return f"the group was deleted by {who(record)}"


_EVENTS: Mapping[str, Callable[[Facts], str]] = {
    "commits_refused": _refused,
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
    if phase == "assign":
        return text + ": the leader plans" + (f", {names}" if names else "")
    if names:
        return text + f": it waits for {names} to {'rejoin' if phase == 'join' else 'fetch its assignment'}"
    return text
