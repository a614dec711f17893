"""Rebalances as the ledger tells them: a fold over JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.pipeline.oracle.files import Record
from tests.pipeline.oracle.records import Row

LEDGER = "__kohort_rebalances"


def ledger_rebalances(records: Iterable[Record]) -> list[Row]:
    """7.4, the rows whose source is `ledger`: rebalances that ended with an assignment, or with nobody left."""
    out, began_with = [], {}
    for record in records:
        event = json.loads(record.value or b"{}")
        if event.get("kind") == "rebalance_began":
            began_with[event["group_id"], event["rebalance_id"]] = event["members_before"]
        if event.get("kind") == "rebalance_ended" and event["outcome"] in ("stable", "empty"):
            out.append(_row(event, record.offset, began_with.get((event["group_id"], event["rebalance_id"]))))
    return out


def with_ledger(inferred: list[Row], told: list[Row]) -> list[Row]:
    """Where both know a rebalance, what the ledger says counts."""
    known = {(row["group_id"], row["to_generation"]) for row in told}
    return [row for row in inferred if (row["group_id"], row["to_generation"]) not in known] + told


def _row(event: dict[str, Any], offset: int, began_with: int | None) -> Row:
    members = event["members"]
    left = sorted(member["member_id"] for member in members if member["change"] in ("left", "expired", "removed"))
    waited = [one for one in (event["slowest_to_join"], event["slowest_to_sync"]) if one]
    waited = [event["slowest_to_revoke"]] if event.get("slowest_to_revoke") else waited
    cause = event["first_cause"]
    names = ("group_id", "from_generation", "to_generation", "duration_ms", "sync_ms", "leader_changed", "protocol")
    return {
        **{name: event[name] for name in (*names, "partitions_total", "partitions_moved", "stopped_ms")},
        "leader_changed": bool(event["leader_changed"]),  # nobody leads a consumer group
        "source": "ledger",
        "missing_generations": event["to_generation"] - event["from_generation"] - 1,
        "started_at": event["began_at_ms"],
        "finished_at": event["ended_at_ms"],
        "trigger": cause["trigger"],
        "reason": cause["reason"],
        "members_before": began_with,
        "members_after": len(members) - len(left),
        "joined": sorted(member["member_id"] for member in members if member["change"] == "joined"),
        "left": left,
        "slowest_member": max(waited, key=lambda one: int(one["after_ms"]))["member_id"] if waited else None,
        "log_offset": offset,
    }
