"""What records of rebalances have in common, of whatever type their group is."""

from __future__ import annotations

from dataclasses import MISSING, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from coordinator.classic.ownership import by_topic
from coordinator.events import RebalanceEnded
from protocol.records.ledger import spans

if TYPE_CHECKING:
    from collections.abc import Iterable

Record = dict[str, Any]

PHASES = tuple(
    [
        one.name
        for one in fields(RebalanceEnded)
        if one.default is MISSING and one.name not in ("members", "first_cause")
    ]
)
"""Fields of the event `RebalanceEnded` that its record takes over as they are."""
_read_phases = attrgetter(*PHASES)


def phases(what: RebalanceEnded) -> Record:
    """These fields, by name."""
    return dict(zip(PHASES, _read_phases(what), strict=True))


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
