"""What records of rebalances have in common, of whatever type their group is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.classic.ownership import by_topic
from protocol.records.ledger import spans

if TYPE_CHECKING:
    from collections.abc import Iterable

Record = dict[str, Any]

PHASES = (
    "rebalance_id",
    "from_generation",
    "to_generation",
    "outcome",
    "began_at_ms",
    "joined_at_ms",
    "assigned_at_ms",
    "ended_at_ms",
    "duration_ms",
    "join_ms",
    "assign_ms",
    "sync_ms",
    "initial_delay_ms",
    "slowest_to_join",
    "slowest_to_sync",
    "protocol_type",
    "protocol",
    "mode",
    "leader",
    "leader_changed",
)
"""Facts of the event `rebalance_ended` that its record takes over as they are."""


def nothing_moved(moved: int | None) -> Record:
    """The fields about members and partitions of a rebalance that changed none, or of which that is not known."""
    return {
        "stopped_ms": None,
        "members": [],
        "members_truncated": 0,
        "partitions_total": None,
        "partitions_moved": moved,
        "partitions_unassigned": None,
        "moves": [],
        "moves_truncated": 0,
        "imbalance": None,
    }


def partition_text(partitions: Iterable[tuple[str, int]] | None) -> dict[str, str] | None:
    """Partitions as records hold them; None: not known."""
    if partitions is None:
        return None
    return {topic: spans(found) for topic, found in by_topic(partitions).items()} if partitions else {}
