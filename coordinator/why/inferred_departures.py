"""What commits tell of a member that was in one generation and is not in the next, where nobody kept a ledger.

Who dies or hangs stops to commit, and is taken out when its session is over; who leaves has committed until then.
Members that stay stop to commit when they hear of the rebalance: that is the moment to reckon from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from coordinator.why.terms import duration

TopicPartition = tuple[str, int]
Facts = Mapping[str, Any]

_EXPIRED_SHARE = 0.75
_TOO_LONG_SHARE = 1.75
_SOON_SHARE = 0.5
_INTERVALS = 3  # so many usual intervals between commits say nothing yet


class LastCommits(NamedTuple):
    """Of some partitions in one generation."""

    last_ms: int | None  # the newest; None: there was none
    usual_ms: float | None  # between two commits of a partition; None when that is not known


def departure(
    member: Facts, mine: LastCommits, others: LastCommits, ended_at_ms: int | None, *, emptied: bool
) -> dict[str, Any]:
    """What `verdict` looks at. `member`: with its timeouts; `ended_at_ms`: when the next generation had its assignment,
    or, with `emptied`, when the group had lost its last member.
    """
    until_ms = ended_at_ms if emptied else others.last_ms
    silent_ms = None if until_ms is None or mine.last_ms is None else max(until_ms - mine.last_ms, 0)
    waited_ms = None if until_ms is None or ended_at_ms is None else max(ended_at_ms - until_ms, 0)
    return {
        **member,
        "silent_ms": silent_ms,
        "waited_ms": waited_ms,
        "usual_ms": None if mine.usual_ms is None else int(mine.usual_ms),
    }


def verdict(one: Facts) -> tuple[str, str]:
    """`left`, `silent` (it died, hung or was cut off), `too_slow` or `untold`, and what says so."""
    silent_ms, session_ms, usual_ms = one.get("silent_ms"), one.get("session_timeout_ms"), one.get("usual_ms")
    if one.get("away_ms") is not None:
        return (
            "left",
            f"it closed {duration(one['away_ms'])} before, as a static member does, and did not come back (inferred)",
        )
    if silent_ms is None or not session_ms or usual_ms is None:
        return "untold", "whether it left, died or hung cannot be told: it committed too little (inferred)"
    session = duration(session_ms) + (", which is the default" if one.get("session_assumed") else "")
    silence = duration(silent_ms)
    waited_ms, slack_ms = one.get("waited_ms") or 0, _INTERVALS * usual_ms
    timeout_ms = min(session_ms, one.get("rebalance_timeout_ms") or session_ms)
    if silent_ms > _TOO_LONG_SHARE * session_ms + slack_ms:
        return (
            "too_slow",
            f"it was too slow, or had nothing to read: it committed nothing for {silence}, and stayed for longer than "
            f"its session timeout of {session} (inferred)",
        )
    if silent_ms >= max(_EXPIRED_SHARE * session_ms, slack_ms):
        return (
            "silent",
            f"it died, hung or was cut off: it had committed nothing for {silence}, about its session timeout of "
            f"{session} (inferred)",
        )
    if waited_ms >= _EXPIRED_SHARE * timeout_ms:
        return (
            "untold",
            f"whether it left, died, hung or was too slow to rejoin cannot be told: all stood still for "
            f"{duration(waited_ms)} (inferred)",
        )
    soon_ms = slack_ms if one.get("session_assumed") else _SOON_SHARE * session_ms
    if silent_ms <= soon_ms and slack_ms < session_ms:
        return (
            "left",
            f"it left: it had committed {silence} before, and its session timeout is {session} (inferred)",
        )
    return (
        "untold",
        f"whether it left, died or hung cannot be told: it had committed {silence} before, and its session timeout is "
        f"{session} (inferred)",
    )


def last_commits(
    partitions: Iterable[TopicPartition],
    last_ms: Mapping[TopicPartition, int],
    usual_ms: Mapping[TopicPartition, float],
    since_ms: int,
) -> LastCommits:
    """Those of these partitions that were made since the generation began."""
    since = {tp: last_ms[tp] for tp in partitions if last_ms.get(tp, 0) >= since_ms}
    usual = [usual_ms[tp] for tp in since if tp in usual_ms]
    return LastCommits(max(since.values(), default=None), min(usual, default=None))
