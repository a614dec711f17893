"""What a report is made of: rows of the tables, already few enough for one page.

Nothing here or in the other modules of this room imports Spark: a job collects the rows, a page is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from typing import Any

Row = dict[str, Any]
GROUPS_SHOWN = 40
"""More groups than this have no figures."""
GROUPS_LISTED = 5_000
"""More groups than this have no row."""
PARTITIONS_DRAWN = 8
"""Lines of a group's worst partitions."""
PARTITION_POINTS = 300
"""At most as many points of one partition."""
POINTS_SHOWN = 2_000
"""At most as many points of one series."""
POINTS_GREY = 300
"""At most as many of one that has no colour of its own among others: all of them together were most of a page."""

NAME_SHOWN = 120
"""So much of a name; Kafka allows 32,767 bytes."""


@dataclass(frozen=True, slots=True)
class ReportData:
    """All that a page shows. Rows have the columns of their tables (docs/pipeline-verbs.md); moments have a time zone.

    `groups` and `others` also have the columns of `worst_lag`; of the others there are rows, and no figures.
    `lag`: (group_id, at, lag_messages null, lag_seconds null), the worst of a group's partitions at each moment.
    `partitions`: the same for each of a group's worst partitions, with (topic, partition).
    `findings`: (group_id, rule, weight, text, first_at null, last_at null); `warning` is shown before `note`.
    `since`, `until`: what all time axes show at first; as far as the rows reach without them.
    `growth`: a group_id of None stands for all groups that are not listed.
    `facts`: counts of all there are, where rows are fewer: `records`, `stuck`, and rebalances by `source`.
    `timeline`: (group_id, at, generations, took_ms null, text, below, record, verdicts), a line of the ledger's each,
    the newest first: what is told, and the record and the verdicts that it is made of.
    `unknown`: sentences about what could not be known. `left_out`: how many groups are not even in the table.
    """

    source: str
    made_at: datetime
    groups: Sequence[Row]
    others: Sequence[Row] = ()
    lag: Sequence[Row] = ()
    partitions: Sequence[Row] = ()
    rebalances: Sequence[Row] = ()
    membership: Sequence[Row] = ()
    growth: Sequence[Row] = ()
    stuck: Sequence[Row] = ()
    resets: Sequence[Row] = ()
    findings: Sequence[Row] = ()
    timeline: Sequence[Row] = ()
    unknown: Sequence[str] = ()
    left_out: int = 0
    since: datetime | None = None
    until: datetime | None = None
    facts: dict[str, int] = field(default_factory=dict)


def shown_name(name: object) -> str:
    """A name of the data as a person can read it: not endless, not empty, control characters written out."""
    text = "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in str(name)[:NAME_SHOWN])
    return (text + "…" if len(str(name)) > NAME_SHOWN else text) or '""'


def shortened(text: str, length: int) -> str:
    """Both ends of a text that is too long: names often differ at their end."""
    return text if len(text) <= length else f"{text[: length // 2]}…{text[-(length - length // 2 - 1) :]}"


def choose_groups(groups: Iterable[Row], limit: int = GROUPS_SHOWN) -> tuple[list[Row], list[Row]]:
    """(the groups to show, the others): those that were furthest behind at their worst moment, in messages and in
    seconds, and those that rebalance most, in turn. One rebalance in a day is no reason."""
    rows = list(groups)

    def worst(row: Row, value: str) -> float:
        most = max(row.get(f"worst_{value}") or 0, row.get(value) or 0)
        return 0 if value == "rebalances_24h" and most == 1 else most

    orders = [
        sorted(
            (row for row in rows if worst(row, value)),
            key=lambda row: (-worst(row, value), -worst(row, "lag_messages"), row["group_id"]),
        )
        for value in ("lag_messages", "lag_seconds", "rebalances_24h")
    ]
    quiet = sorted(rows, key=lambda row: (-row["partitions"], row["group_id"]))
    first = [row for each in zip_longest(*orders) for row in each if row is not None]
    order = list({row["group_id"]: row for row in [*first, *quiet]}.values())
    return order[:limit], order[limit:]


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
