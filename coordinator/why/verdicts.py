"""Whether a member that is gone died, closed in good order, was too slow, hung, was paused or cut off; or that nobody
can tell. Each with what says so: its connections, what came over them, and whether the broker itself stood still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from coordinator.why import inferred_departures
from coordinator.why.terms import Facts, duration, who
from coordinator.why.window import TRACED_AFTER_MS

DEPARTURES = frozenset(
    {"session_expired", "member_left", "join_timeout", "sync_timeout", "poll_timeout", "rebalance_timeout"}
)
_WRITTEN_MS = 1_000  # what was seen then is in the topic
_HELD_SHARE = 0.3
_HELD_MS = 1_000
_GIVEN_UP_MS = 3_000  # a broker that stands still for so long may find connections closed, by clients that live
_ALIVE_MS = 10_000  # who was heard of so short ago sends heartbeats: no client's interval is longer by default


_LEFT_UNSEEN = "untold", "whether it ended or was too slow cannot be told: nothing is known of its connection"
_SILENT_UNSEEN = (
    "hung",
    "it hung, was paused or was cut off, and which of these cannot be told: its connection was open then, and nothing "
    "came over it",
)
_LATE_UNSEEN = "untold", "whether it was too slow, hung or was cut off cannot be told"
_OPEN = frozenset({_LEFT_UNSEEN, _SILENT_UNSEEN, _LATE_UNSEEN})
"""What is seen later may say more."""


class Verdict(TypedDict):
    """`verdict` is `died`, `closed`, `too_slow`, `hung`, `paused`, `cut_off`, `rejoined`, `broker_slow`, `untold` or
    `not_yet`: what is seen of it is not known yet. Inferred ones are `left`, `silent`, `too_slow` or `untold`."""

    rebalance_id: str | None
    at_ms: int | None
    member_id: str | None
    who: str
    trigger: str
    verdict: str
    says: str


def verdicts(records: Sequence[Facts], *, now_ms: int, traced: Sequence[Facts] | None = None) -> list[Verdict]:
    """One for each departure that these records of a group tell of, in their order.

    `traced`: records among which traces are looked for, when that is more than these.
    """
    traces = traces_of(records if traced is None else traced)
    now_ms = max([now_ms, *(int(one.get("at_ms") or 0) for one in records)])  # clocks of two machines differ
    found: list[Verdict] = []
    seen: set[tuple[object, object]] = set()
    for record in records:
        firsts = [record.get("cause"), record.get("first_cause")]
        for one in (*firsts, *(record.get("further_causes") or ())):
            if not one or one.get("trigger") not in DEPARTURES:
                continue
            key = one.get("member_id"), one.get("at_ms")
            if key not in seen:
                seen.add(key)
                kind, says = verdict(one, traces, now_ms=now_ms)
                found.append(
                    {
                        "rebalance_id": record.get("rebalance_id"),
                        "at_ms": one.get("at_ms"),
                        "member_id": one.get("member_id"),
                        "who": who(one),
                        "trigger": str(one.get("trigger")),
                        "verdict": kind,
                        "says": says,
                    }
                )
        found += [_inferred(record, one) for one in record.get("departures") or ()]
    return found


def _inferred(record: Facts, gone: Facts) -> Verdict:
    """Where nobody kept a ledger."""
    kind, says = inferred_departures.verdict(gone)
    return {
        "rebalance_id": None,
        "at_ms": record.get("at_ms"),
        "member_id": gone.get("member_id"),
        "who": who(gone),
        "trigger": "gone",
        "verdict": kind,
        "says": says,
    }


def traces_of(records: Iterable[Facts]) -> Mapping[str, list[Facts]]:
    """What was seen of members after they had gone, by member id."""
    traces: dict[str, list[Facts]] = {}
    for record in records:
        if record.get("kind") == "departure_traced":
            traces.setdefault(str(record.get("member_id")), []).append(record)
    return traces


def verdict(cause: Facts, traces: Mapping[str, list[Facts]], *, now_ms: int) -> tuple[str, str]:
    """What became of the member, and what says so; `not_yet` where that may still be seen."""
    kind, says = _seen(cause, traces)
    ago_ms = now_ms - int(cause.get("at_ms") or 0)
    if (kind, says) in _OPEN and ago_ms < TRACED_AFTER_MS + _WRITTEN_MS and str(cause.get("member_id")) not in traces:
        after = duration(TRACED_AFTER_MS)
        return "not_yet", f"what became of it is not known yet: its connection is looked at {after} after it went"
    return kind, says


def _seen(cause: Facts, traces: Mapping[str, list[Facts]]) -> tuple[str, str]:
    seen = {str(one.get("saw")): one for one in traces.get(str(cause.get("member_id")), ())}
    detail: Facts = cause.get("detail") or {}
    trigger = cause.get("trigger")
    if trigger == "poll_timeout":
        return "too_slow", "it was too slow: it says itself that its poll loop did not come round in time"
    if trigger == "member_left":
        return _left(cause, seen)
    if trigger == "session_expired":
        return _silent(cause, detail, seen)
    return _late(detail, seen)


def _left(cause: Facts, seen: Mapping[str, Facts]) -> tuple[str, str]:
    reason = str(cause.get("reason") or "")
    if "closed" in reason:
        return "closed", "it was closed in good order: it says so"
    if "closed" in seen:
        after_ms = seen["closed"].get("after_ms") or 0
        after = f"{duration(after_ms)} later" if after_ms >= 50 else "at once"
        return "closed", f"it ended in good order: it left, and closed its connection {after}"
    if "returned" in seen or "open" in seen:
        back = seen.get("returned")
        came = f", and joined again {duration(back.get('after_ms'))} later" if back is not None else ""
        if "unsubscribed" in reason:
            return "untold", f"it unsubscribed and kept its connection{came}"
        return (
            "too_slow",
            f"it was too slow: it left and kept its connection{came}, as librdkafka and others do when "
            "max.poll.interval.ms has passed (or somebody called unsubscribe)",
        )
    return _LEFT_UNSEEN


def _silent(cause: Facts, detail: Facts, seen: Mapping[str, Facts]) -> tuple[str, str]:
    held_ms, silent_ms = detail.get("broker_held_ms") or 0, detail.get("last_heard_ms") or 0
    if held_ms >= max(_HELD_MS, _HELD_SHARE * silent_ms):
        return (
            "broker_slow",
            f"the broker itself stood still for {duration(held_ms)} of that time, and may not have heard it",
        )
    if detail.get("away"):
        return "closed", "it had said that it would be away for a while, and did not come back"
    connection: Facts | None = detail.get("connection")
    if connection is None:
        return "untold", "whether it died or hung cannot be told: nothing is known of its connection"
    before_ms = detail.get("broker_held_before_ms") or 0
    if connection.get("state") == "closed":
        if before_ms >= _GIVEN_UP_MS and connection.get("how") != "broker":
            return (
                "broker_slow",
                f"the broker itself stood still for {duration(before_ms)} shortly before its connection was closed: "
                "its client gave that up, or died meanwhile",
            )
        return _closed(cause, connection)
    if connection.get("joined_again"):
        old = "its client had joined again under another member id, and this is the old one"
        if before_ms >= _HELD_MS:
            return "broker_slow", f"the broker itself stood still for {duration(before_ms)} shortly before: {old}"
        return "rejoined", old
    back, quiet_ms = seen.get("returned"), connection.get("quiet_ms") or 0
    if quiet_ms * 2 < silent_ms and not connection.get("again"):
        last = f", the last {duration(quiet_ms)} before" if quiet_ms else ""
        return "hung", f"its heartbeats hung: other requests of it came all the while{last}"
    if back is not None and back.get("same_connection"):
        gone = duration(silent_ms + int(back.get("after_ms") or 0))
        over, same = (
            ("its connection", "the same") if connection.get("shared") else ("any of its connections", "the same ones")
        )
        return (
            "paused",
            f"it was paused as a whole: nothing came over {over} for {gone}, then it came back over {same} "
            "(a garbage collection, a suspended or starved machine)",
        )
    if back is not None and back.get("same_connection") is None:
        return (
            "hung",
            f"it was paused or cut off, and came back over a new connection {duration(back.get('after_ms'))} later; "
            "which of these cannot be told, since others have its client id and host",
        )
    if back is not None:
        return (
            "cut_off",
            f"it was cut off: its old connection was never closed, and it came back over a new one "
            f"{duration(back.get('after_ms'))} later",
        )
    if "closed" in seen:
        return (
            "died",
            f"it hung or was paused, and its connection was closed {duration(seen['closed'].get('after_ms'))} later",
        )
    return _SILENT_UNSEEN


def _closed(cause: Facts, connection: Facts) -> tuple[str, str]:
    ago, how = duration(connection.get("closed_ms")), connection.get("how")
    if how == "broker":
        return "untold", f"the broker had closed its connection {ago} before; whether it lives cannot be told"
    way = "reset" if how == "reset" else "closed"
    if cause.get("instance_id"):
        return (
            "died",
            f"its process ended without leaving, as a static member does: its connection was {way} {ago} before",
        )
    return "died", f"it died: its connection was {way} {ago} before, and it had not left"


def _late(detail: Facts, seen: Mapping[str, Facts]) -> tuple[str, str]:
    """It did not rejoin, fetch its assignment, or give up what it had to."""
    heard_ms = detail.get("last_heard_ms")
    connection: Facts = detail.get("connection") or {}
    if connection.get("state") == "closed":
        return _closed({}, connection)
    if heard_ms is not None and heard_ms <= _ALIVE_MS:
        return (
            "too_slow",
            f"it was too slow: its heartbeats went on, the last {duration(heard_ms)} before, and its poll loop did not "
            "come round",
        )
    back = seen.get("returned")
    if back is not None and back.get("same_connection"):
        return (
            "too_slow",
            "it was too slow, or paused: it joined again over the same connection "
            f"{duration(back.get('after_ms'))} later",
        )
    return _LATE_UNSEEN
