"""Ledger records made in a line, as the ledger would write them."""

from __future__ import annotations

import itertools
from typing import Any

MINUTE = 60_000
NOW = 1_700_000_000_000

Record = dict[str, Any]
_ids = itertools.count()


def cause(trigger: str, client: str = "worker-1", host: str = "10.0.0.1", **facts: Any) -> Record:
    return {
        "at_ms": facts.pop("at_ms", NOW),
        "trigger": trigger,
        "member_id": f"{client}-id",
        "instance_id": facts.pop("instance_id", None),
        "client_id": client,
        "client_host": f"/{host}",
        "reason": facts.pop("reason", None),
        "detail": facts,
    }


def member(client: str, change: str = "stayed", *, host: str = "10.0.0.1", **facts: Any) -> Record:
    return {
        "member_id": f"{client}-id",
        "instance_id": None,
        "client_id": client,
        "client_host": f"/{host}",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "change": change,
        "joined_after_ms": 0,
        "synced_after_ms": 0,
        "partitions": {},
        "gained": {},
        "lost": {},
        **facts,
    }


def rebalance(at_ms: int, why: Record, **facts: Any) -> list[Record]:
    """`rebalance_began` and `rebalance_ended`; `facts` are fields of the second."""
    number = next(_ids)
    began = {
        "kind": "rebalance_began", "at_ms": at_ms, "group_id": "g", "generation": 1,
        "rebalance_id": f"{number}@{at_ms}",
        "from_generation": number, "state_before": "Stable", "cause": {**why, "at_ms": at_ms}, "members_before": 2,
    }  # fmt: skip
    ended = {
        "kind": "rebalance_ended", "at_ms": at_ms + 100, "group_id": "g", "generation": number + 1,
        "rebalance_id": began["rebalance_id"], "from_generation": number, "to_generation": number + 1,
        "outcome": "stable", "by": None, "first_cause": began["cause"], "further_causes": [],
        "further_causes_truncated": 0, "began_at_ms": at_ms, "ended_at_ms": at_ms + 100, "duration_ms": 100,
        "join_ms": 100, "assign_ms": 0, "sync_ms": 0, "initial_delay_ms": 0, "slowest_to_join": None,
        "slowest_to_sync": None, "stopped_ms": 100, "protocol_type": "consumer", "protocol": "cooperative-sticky",
        "mode": "cooperative", "leader": "worker-1-id", "leader_changed": False,
        "members": [member("worker-1"), member("worker-2", host="10.0.0.2")], "members_truncated": 0,
        "partitions_total": 12, "partitions_moved": 2, "partitions_unassigned": 0, "moves": [], "moves_truncated": 0,
        "imbalance": 0, **facts,
    }  # fmt: skip
    return [began, ended]


def healthy() -> list[Record]:
    """A day of a group that has nothing wrong with it: it starts, grows, a topic grows, one dies and is replaced."""
    hour = 60 * MINUTE
    start = NOW - 24 * hour
    return [
        *rebalance(start, cause("member_joined"), initial_delay_ms=3_000, stopped_ms=3_000, partitions_moved=12),
        *rebalance(start + MINUTE, cause("member_joined", "worker-2", "10.0.0.2")),
        *rebalance(start + 5 * hour, cause("partitions_changed", topics={"t": [6, 12]})),
        *rebalance(start + 9 * hour, cause("session_expired", "worker-2", "10.0.0.2"), slowest_to_join=None),
        *rebalance(start + 10 * hour, cause("member_joined", "worker-3", "10.0.0.3")),
        {
            "kind": "coordinator_loaded", "at_ms": start + 11 * hour, "group_id": "g", "generation": 9, "members": 2,
            "load_ms": 3, "unclean": False,
        },
    ]  # fmt: skip
