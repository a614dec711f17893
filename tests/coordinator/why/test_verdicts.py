"""Died, closed, too slow, hung, paused, cut off, the broker itself, or nobody can tell: each with what says so."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.why.verdicts import traces_of, verdict, verdicts
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
    ("session_expired", SILENT, [], "untold", "cannot be told"),
    ("session_expired", {**SILENT, "connection": {**OPEN, "joined_again": True}}, [], "rejoined", "the old one"),
    (
        "session_expired",
        {**SILENT, "connection": {**OPEN, "joined_again": True}, "broker_held_before_ms": 8_000},
        [],
        "broker_slow",
        "stood still for 8.0 s shortly before",
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
    found, says = verdict(cause(trigger, "b", **detail), traces_of(traces))
    assert found == kind
    assert words in says


def test_every_departure_is_judged_once_and_arrivals_are_not():
    left = cause("member_left", "b")
    records = [*rebalance(NOW, cause("member_joined")), *rebalance(NOW + 1, left), traced("closed")]
    (one,) = verdicts(records)
    assert (one["member_id"], one["verdict"], one["trigger"]) == ("b-id", "closed", "member_left")
