"""Why a rebalance began or went on. One has one first cause, and any number of further ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from coordinator.values import value

REASON_MAX_CHARS = 255
FURTHER_CAUSES_MAX = 100

CLASSIC_TRIGGERS = frozenset(
    {
        "member_joined",
        "member_left",
        "member_removed",
        "session_expired",
        "join_timeout",
        "sync_timeout",
        "poll_timeout",
        "subscription_changed",
        "partitions_changed",
        "leader_rejoined",
        "static_replaced",
        "cooperative_followup",
        "append_failed",
        "over_capacity",
        "coordinator_restarted",
    }
)

CONSUMER_TRIGGERS = frozenset({"rebalance_timeout", "regex_changed", "assignor_changed", "migrated"})
"""Those that only groups of KIP-848 have, and groups that come from it or go to it."""

TRIGGERS = CLASSIC_TRIGGERS | CONSUMER_TRIGGERS


@value
class Cause:
    """Why a rebalance began, or went on: who did what."""

    at_ms: int
    trigger: str  # one of `TRIGGERS`
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    reason: str | None = None  # the client's own text (KIP-800)
    detail: Mapping[str, Any] = field(default_factory=dict)
