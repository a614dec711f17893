"""Died, closed, too slow, hung, paused, cut off, the broker itself, or nobody can tell: each with what says so."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.why.verdicts import traces_of, verdict, verdicts
from coordinator.why.window import TRACED_AFTER_MS
from tests.coordinator.why.records import NOW, cause, rebalance

SILENT = {"session_timeout_ms": 10_000, "last_heard_ms": 10_000}
OPEN = {"state": "open", "open": 2, "own_quiet_ms": 10_000, "quiet_ms": 10_000}
GONE = {"state": "closed", "how": "reset", "closed_ms": 9_900}


def traced(saw: str, **facts: Any) -> dict[str, Any]:
    return {
        "kind": "departure_traced", "at_ms": NOW + 3_000, "member_id": "b-id", "saw": saw, "after_ms": 4_000,
        "how": None, "same_connection": None, **facts,
    }  # fmt: skip


CASES: list[tuple[str, dict[str, Any], list[dict[str, Any]], str, str]] = [
    ("session_expired", {**SILENT, "connection": GONE}, [], "died", "was reset 9.9 s before"),
    ("session_expired", {**SILENT, "connection": {**GONE, "how": "broker"}}, [], "untold", "the broker had closed"),
    ("session_expired", {**SILENT, "connection": OPEN}, [traced("returned", same_connection=True)], "paused", "14.0 s"),
    (
        "session_expired",
        {**SILENT, "connection": OPEN},
        [traced("returned", same_connection=False)],
        "cut_off",
        "new one",
    ),
    ("session_expired", {**SILENT, "connection": OPEN}, [traced("open")], "hung", "cannot be told"),
    ("session_expired", {**SILENT, "connection": {**OPEN, "quiet_ms": 200}}, [], "hung", "other requests"),
    ("session_expired", {**SILENT, "connection": OPEN, "broker_held_ms": 4_000}, [], "broker_slow", "4.0 s"),
    # Of the other requests of a client that nobody ever heard nothing can be said.
    ("session_expired", {"connection": {"state": "open"}}, [], "hung", "which of these cannot be told"),
    ("session_expired", SILENT, [], "untold", "cannot be told"),
    ("session_expired", {**SILENT, "connection": {**OPEN, "joined_again": True}}, [], "rejoined", "the old one"),
    (
        "session_expired",
        {**SILENT, "connection": {**OPEN, "joined_again": True}, "broker_held_before_ms": 8_000},
        [],
        "broker_slow",
        "stood still for 8.0 s shortly before",
    ),
    (
        "session_expired",
        {**SILENT, "connection": GONE, "broker_held_before_ms": 8_000},
        [],
        "broker_slow",
        "stood still for 8.0 s shortly before its connection was closed",
    ),
    ("member_left", {}, [traced("closed", after_ms=3)], "closed", "at once"),
    ("member_left", {"reason": "the consumer is being closed"}, [], "closed", "it says so"),
    ("member_left", {}, [traced("open"), traced("returned", same_connection=True)], "too_slow", "max.poll.interval.ms"),
    ("member_left", {}, [], "untold", "cannot be told"),
    ("poll_timeout", {}, [], "too_slow", "says itself"),
    ("join_timeout", {"last_heard_ms": 900}, [], "too_slow", "its heartbeats went on"),
    ("join_timeout", {"last_heard_ms": 30_000, "connection": GONE}, [], "died", "reset"),
    ("rebalance_timeout", {"last_heard_ms": 30_000}, [], "untold", "cannot be told"),
]


@pytest.mark.parametrize(("trigger", "detail", "traces", "kind", "words"), CASES)
def test_each_verdict_has_what_says_so(
    trigger: str, detail: dict[str, Any], traces: list[dict[str, Any]], kind: str, words: str
):
    found, says = verdict(cause(trigger, "b", **detail), traces_of(traces), now_ms=NOW + 60_000)
    assert found == kind
    assert words in says


def test_every_departure_is_judged_once_and_arrivals_are_not():
    left = cause("member_left", "b")
    records = [*rebalance(NOW, cause("member_joined")), *rebalance(NOW + 1, left), traced("closed")]
    (one,) = verdicts(records, now_ms=NOW)
    assert (one["member_id"], one["verdict"], one["trigger"]) == ("b-id", "closed", "member_left")


@pytest.mark.parametrize(
    ("trigger", "detail"),
    [("member_left", {}), ("session_expired", {**SILENT, "connection": OPEN}), ("join_timeout", {"connection": OPEN})],
)
def test_who_asks_before_the_connection_was_looked_at_hears_that_it_is_not_known_yet(
    trigger: str, detail: dict[str, Any]
):
    why = cause(trigger, "b", **detail)
    (early,) = verdicts(rebalance(NOW, why), now_ms=NOW + TRACED_AFTER_MS - 1)
    assert (early["verdict"], "not known yet" in early["says"]) == ("not_yet", True)
    (late,) = verdicts(rebalance(NOW, why), now_ms=NOW + 2 * TRACED_AFTER_MS)
    assert late["verdict"] in ("untold", "hung")
    (seen,) = verdicts([*rebalance(NOW, why), traced("closed")], now_ms=NOW + TRACED_AFTER_MS - 1)
    assert seen["verdict"] != "not_yet"


def test_what_no_later_look_can_change_is_said_at_once():
    why = cause("session_expired", "b", **SILENT, connection=GONE)
    assert [one["verdict"] for one in verdicts(rebalance(NOW, why), now_ms=NOW)] == ["died"]
    why = cause("session_expired", "b", **SILENT)
    assert [one["verdict"] for one in verdicts(rebalance(NOW, why), now_ms=NOW)] == ["untold"]
