"""What happened in a group and why, as values: log lines, metrics and the ledger are made of these (D10).

Nothing else words a reason. A rebalance has one first cause and any number of further ones; the triggers are those of
the ledger's specification, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from coordinator.values import value

if TYPE_CHECKING:
    from coordinator.group import Group, Rebalance

REASON_MAX_CHARS = 255
FURTHER_CAUSES_MAX = 100

TRIGGERS = frozenset(
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


@value
class GroupEvent:
    """One thing that happened. `kind` is snake case and past tense; `facts` are its keys in a log line."""

    kind: str  # rebalance_began, rebalance_ended, member_joined, member_left, session_expired, ...
    group_id: str
    generation: int
    facts: dict[str, Any] = field(default_factory=dict)
    at_ms: int = 0
    # For readers that need every member and every cause; no part of a log line.
    group: Group | None = None  # as it was afterwards
    rebalance: Rebalance | None = None  # that began, or ended
