"""Where nobody wrote the ledger: it was off for a while, or another broker led the group.

What the ledger tells is not all then, and its end not the present: the gap is named, and filled with what
the generations in `__consumer_offsets` tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Record = dict[str, Any]

GAP = "ledger_gap"
"""The kind of what stands for a gap: never written, only told."""
_LEADING = frozenset({"rebalance_began", "rebalance_ended", "coordinator_loaded", "member_replaced", "group_removed"})
_LATER_MS = 5_000  # the times of a rebalance in the ledger and in `__consumer_offsets` differ by less


def has_gap(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether generations are missing between the ledger's records."""
    return any(True for _ in _gaps(records))


def newest_generation(records: Sequence[Mapping[str, Any]]) -> int | None:
    """The generation that the ledger's records lead to.

    Refused commits are counted for a second, and told of the generation in which the first of them came: a rebalance
    may have ended meanwhile.
    """
    told = [one.get("generation") for one in records if one.get("kind") in _LEADING]
    return told[-1] if told and isinstance(told[-1], int) else None


def with_gaps(records: Sequence[Record], inferred: Sequence[Record]) -> list[Record]:
    """The ledger's records of one group, the oldest first, with the gaps between them and behind them.

    `inferred`: what `coordinator.why.inferred` makes of `__consumer_offsets`.
    """
    if not records:
        return list(inferred)
    told: list[Record] = []
    start = 0
    for at, reached, begins in _gaps(records):
        told += records[start:at]
        between = [one for one in inferred if reached < one["generation"] <= begins]
        told += [_gap(records[at - 1], reached, begins, records[at]["at_ms"]), *between]
        start = at
    told += records[start:]
    last = records[-1]
    reached = newest_generation(records) or int(last.get("generation") or 0)
    ended_ms = max(int(record["at_ms"]) for record in records)
    tail = [
        one
        for one in inferred
        if (one["generation"] > reached and one["at_ms"] >= last["at_ms"]) or one["at_ms"] > ended_ms + _LATER_MS
    ]
    if tail:
        told += [_gap(last, reached, int(tail[-1]["generation"]), None), *tail]
    return told


def _gaps(records: Sequence[Mapping[str, Any]]) -> list[tuple[int, int, int]]:
    """(index of the record behind it, the last generation before it, the generation that it leads to)."""
    found = []
    reached: int | None = None
    for at, record in enumerate(records):
        kind, generation = record.get("kind"), record.get("generation")
        begins = record.get("from_generation") if kind == "rebalance_began" else None
        if kind == "coordinator_loaded":
            begins = generation
        if reached is not None and isinstance(begins, int) and begins > reached:
            found.append((at, reached, begins))
        if kind == "group_removed":
            reached = None
        elif isinstance(generation, int):
            reached = generation if reached is None or generation > reached or kind == "rebalance_began" else reached
    return found


def _gap(before: Mapping[str, Any], reached: int, begins: int, until_ms: int | None) -> Record:
    """`until_ms`: None when nobody has written it since."""
    return {
        "kind": GAP,
        "at_ms": before["at_ms"],
        "group_id": before.get("group_id"),
        "group_type": before.get("group_type"),
        "generation": begins,
        "from_generation": reached,
        "to_generation": begins,
        "from_ms": before["at_ms"],
        "until_ms": until_ms,
    }
