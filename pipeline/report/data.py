"""What a report is made of: rows of the tables, already few enough for one page.

Nothing here or in the other modules of this room imports Spark: a job collects the rows, a page is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Row = dict[str, Any]
GROUPS_SHOWN = 40
"""More groups than this are only named."""
POINTS_SHOWN = 2_000
"""At most as many points of one series."""

NAME_SHOWN = 120
"""So much of a name; Kafka allows 32,767 bytes."""


@dataclass(frozen=True, slots=True)
class ReportData:
    """All that a page shows. Rows have the columns of their tables (docs/pipeline-verbs.md); moments have a time zone.

    `lag`: (group_id, at, lag_messages null, lag_seconds null), the worst of a group's partitions at each moment.
    `findings`: (group_id, rule, weight, text); a weight of `warning` is shown before `note`. None: nobody looked, for
    there is no ledger.
    `growth`: a group_id of None stands for all groups that are not listed.
    `facts`: counts of all there are, where rows are fewer: `records`, `stuck`, and rebalances by `source`.
    `unknown`: sentences about what could not be known. `left_out`: the groups that are only named.
    """

    source: str
    made_at: datetime
    groups: Sequence[Row]
    lag: Sequence[Row] = ()
    rebalances: Sequence[Row] = ()
    membership: Sequence[Row] = ()
    growth: Sequence[Row] = ()
    stuck: Sequence[Row] = ()
    findings: Sequence[Row] | None = ()
    unknown: Sequence[str] = ()
    left_out: Sequence[str] = ()
    facts: dict[str, int] = field(default_factory=dict)


def shown_name(name: object) -> str:
    """A name of the data as a person can read it: not endless, not empty, control characters written out."""
    text = "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in str(name)[:NAME_SHOWN])
    return (text + "…" if len(str(name)) > NAME_SHOWN else text) or '""'


def shortened(text: str, length: int) -> str:
    """Both ends of a text that is too long: names often differ at their end."""
    return text if len(text) <= length else f"{text[: length // 2]}…{text[-(length - length // 2 - 1) :]}"


def choose_groups(groups: Iterable[Row], limit: int = GROUPS_SHOWN) -> tuple[list[Row], list[str]]:
    """(the groups to show, the names of the others): those that lag most first, then those that rebalance most."""
    order = sorted(
        groups,
        key=lambda row: (
            -(row["lag_messages"] or 0),
            -(row["rebalances_24h"] or 0),
            -row["partitions"],
            row["group_id"],
        ),
    )
    return order[:limit], [row["group_id"] for row in order[limit:]]


def thin(rows: Sequence[Row], value: str, limit: int = POINTS_SHOWN) -> list[Row]:
    """At most `limit` of the rows, in order: the lowest and the highest `value` of each bucket, nulls last to go.

    What stood out still does; the first and the last row stay.
    """
    if len(rows) <= limit:
        return list(rows)
    buckets = max((limit - 2) // 2, 1)
    kept = {0, len(rows) - 1}
    inner = len(rows) - 2
    for bucket in range(buckets):
        indexes = range(1 + bucket * inner // buckets, 1 + (bucket + 1) * inner // buckets)
        known = [index for index in indexes if rows[index][value] is not None]
        if known:
            weight: Callable[[int], Any] = lambda index: rows[index][value]  # noqa: E731  as min and max want it
            kept |= {min(known, key=weight), max(known, key=weight)}
        elif indexes:
            kept.add(indexes[0])  # A gap stays a gap.
    return [rows[index] for index in sorted(kept)]
