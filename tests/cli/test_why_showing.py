"""What `kohort why` prints of records: pure, in the lines that somebody reads at three in the morning."""

from __future__ import annotations

from typing import Any

import pytest

from cli.tables import plain
from cli.why_reading import Told
from cli.why_showing import lines
from tests.coordinator.why.records import MINUTE, NOW, Record, cause, member, rebalance


def shown(records: list[Record], *, verbose: bool = False, **window: Any) -> list[str]:
    told = Told("g", "Stable", 2, records)
    told.choose(**{"last": 10, "judged": 100, "since_ms": None, "until_ms": None, "triggers": None, **window})
    return list(lines(told, NOW + MINUTE, verbose=verbose))


def refused(at_ms: int, **facts: Any) -> Record:
    return {
        "kind": "commits_refused", "at_ms": at_ms, "group_id": "g", "generation": 6, "member_id": "w", "count": 5,
        "client_id": "w", "client_host": "/10.0.0.1", "error": "ILLEGAL_GENERATION", "request_generation": 5,
        "topics": ["t"], **facts,
    }  # fmt: skip


def test_a_rebalance_that_ended_after_the_time_asked_for_did_end():
    records = rebalance(NOW, cause("member_joined"))
    told = shown(records, until_ms=NOW + 50)
    assert any("ended after that time" in line for line in told), told
    assert not any("has not ended" in line for line in told)


def test_refused_commits_of_one_member_are_one_line():
    told = shown([refused(NOW + at * 1_000) for at in range(3)])
    (line,) = [line for line in told if "commits were refused" in line]
    assert "refused 15 times in 3.0 s: generation 5, the group was at 6" in line
    assert (
        len([line for line in shown([refused(NOW), refused(NOW, error="UNKNOWN_MEMBER_ID")]) if " were " in line]) > 1
    )


def test_what_happened_first_stands_last_within_a_second_too():
    """A count of refused commits is written when its second is over, and began before."""
    began, ended = rebalance(NOW + 300, cause("member_joined"))
    told = shown([began, ended, refused(NOW)])
    where = {
        word: at for at, line in enumerate(told) for word in ("refused", "joined") if word in line and line[0] != " "
    }
    assert where["joined"] < where["refused"]


def test_lines_that_are_no_rebalances_are_bounded_too():
    told = shown([refused(NOW + at, member_id=str(at), client_id=str(at)) for at in range(25)], last=3)
    assert len([line for line in told if "commits were refused" in line and line[0].isdigit()]) == 3
    assert any("and 22 more that were no rebalances" in line for line in told)


def test_verbose_tells_every_move():
    told = shown(rebalance(NOW, cause("member_joined"), moves=[["t", 3, "a", None]], moves_truncated=7), verbose=True)
    assert any(line.strip() == "t-3 moved from a to nobody" for line in told)
    assert any(line.strip() == "and 7 moves more" for line in told)


def test_what_nobody_can_look_at_is_said():
    told = shown(rebalance(NOW, cause("member_joined")))
    assert told[-1].endswith("commit_per_record, offsets_expiring, tight_heartbeat")


@pytest.mark.parametrize(
    "name",
    ["", "a b", "größe-λ-日本", "x\ny", "\x1b[31mred", "a\u202egnp", "\ud800", "🦄" * 40, "{}%s\\", "null", "\x00"],
)
def test_names_of_every_kind_are_told_in_their_own_line(name: str):
    """Of clients, instances, topics, assignors; nothing of them reaches a terminal as a command."""
    there = [member(name, partitions={name: "0-3"}), member("b", "joined", instance_id=name)]
    topics = {"topics": {name: [3, 6]}, "made_anew": [name]}
    records = [
        *rebalance(NOW, cause("partitions_changed", name, **topics), members=there, moves=[[name, 0, name, None]]),
        *rebalance(NOW + 9, cause("member_left", name, name, reason=name, instance_id=name), protocol=name),
        refused(NOW + 10, client_id=name, topics=[name]),
    ]
    told = [plain(line) for line in shown(records, verbose=True)]
    assert len(told) > 10
    assert all(line.isprintable() for line in told), told
