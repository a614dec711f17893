"""A group's timeline line by line, as the pipeline's report tells it."""

from __future__ import annotations

import pytest

from coordinator.why.timeline import Line, generations, timeline
from tests.coordinator.why.records import MINUTE, NOW, cause, rebalance


def told(line: Line) -> tuple[int, str, str, tuple[str, ...], tuple[tuple[str, str], ...]]:
    return line.at_ms, line.generations, line.says, line.below, line.verdicts


def test_the_newest_comes_first_with_what_followed_and_what_became_of_who_went():
    died = cause("session_expired", session_timeout_ms=10_000, last_heard_ms=10_000)
    died["detail"]["connection"] = {"state": "closed", "how": "reset", "closed_ms": 9_000}
    records = rebalance(NOW, died)
    read = {"kind": "partitions_read", "rebalance_id": records[0]["rebalance_id"], "at_ms": NOW + 1, "group_id": "g"}
    read |= {"partitions": 1, "still_unread": 0, "unread_ms": 9_500, "topic": "t", "partition": 3}
    loaded = {"kind": "coordinator_loaded", "at_ms": NOW + MINUTE, "group_id": "g", "unclean": True, "members": 2}
    began, _ = rebalance(NOW + 2 * MINUTE, cause("member_joined"))

    lines = timeline([*records, read, loaded, began], now_ms=NOW + 3 * MINUTE)

    assert [told(line)[2] for line in lines] == [
        "worker-1 (10.0.0.1) joined",
        "the broker started after a crash and read the group: 2 members",
        "worker-1 (10.0.0.1) was silent for 10.0 s, its session timeout",
    ]
    assert lines[0].below == ("has not ended after 60.0 s",)
    assert lines[2].below[1:] == (
        "t-3 went unread for 9.5 s",
        "worker-1: it died: its connection was reset 9.0 s before, and it had not left",
    )
    assert lines[2].verdicts == (("died", "worker-1 (10.0.0.1)"),)


@pytest.mark.parametrize(
    ("outcome", "before", "after", "said"),
    [
        ("stable", 5, 6, "5 -> 6"),
        ("stable", None, 6, "? -> 6"),
        ("superseded", 5, 5, "5 -> "),
        ("interrupted", 5, 5, "5 -> "),
        ("superseded", 5, 6, "5 -> 6"),
        ("empty", 5, 5, "5 -> 5"),
    ],
)
def test_a_rebalance_that_came_to_nothing_has_no_end(outcome: str, before: int | None, after: int, said: str):
    assert generations({"outcome": outcome, "from_generation": before, "to_generation": after}) == said
