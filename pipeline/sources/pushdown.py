"""Which parts of a log a query's filters leave: only by equality, comparison and IN on four columns.

Used to skip files and ranges, never to decide about a row: Spark applies every filter to the rows it gets.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from pipeline.sources.plan import NO_END, Narrowing

_COLUMNS = {
    "raw": {"topic": "topic", "partition": "partition", "offset": "offset", "timestamp": "timestamp"},
    "group": {"log_partition": "partition", "log_offset": "offset", "logged_at": "timestamp"},
    "batch": {"topic": "topic", "partition": "partition"},
    "problems": {"topic": "topic", "partition": "partition"},
}


def narrow(filters: Iterable[Filter], records: str) -> Narrowing:
    """What all filters together leave, for rows of this kind."""
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    low, end = 0, NO_END
    since: int | None = None
    for one in filters:
        column = _COLUMNS[records].get(".".join(getattr(one, "attribute", ())))
        values = _values(one)
        if column in {"topic", "partition"} and values is not None:
            if column == "topic":
                topics = frozenset(values) if topics is None else topics & frozenset(values)
            else:
                partitions = frozenset(values) if partitions is None else partitions & frozenset(values)
        elif column == "offset":
            first, behind = _range(one, values)
            low, end = max(low, first), min(end, behind)
        elif column == "timestamp":
            moment = _earliest(one, values)
            if moment is not None:
                since = moment if since is None else max(since, moment)
    return Narrowing(topics, partitions, low, end, since)


def _values(one: Filter) -> list[Any] | None:
    if isinstance(one, EqualTo):
        return [one.value]
    return list(one.value) if isinstance(one, In) else None


def _range(one: Filter, values: list[Any] | None) -> tuple[int, int]:
    if values:
        return min(values), max(values) + 1
    if isinstance(one, GreaterThan):
        return one.value + 1, NO_END
    if isinstance(one, GreaterThanOrEqual):
        return one.value, NO_END
    if isinstance(one, LessThan):
        return 0, one.value
    if isinstance(one, LessThanOrEqual):
        return 0, one.value + 1
    return 0, NO_END


def _earliest(one: Filter, values: list[Any] | None) -> int | None:
    """The earliest moment (ms) that a filter lets through."""
    chosen = min(values) if values else None
    if isinstance(one, GreaterThan | GreaterThanOrEqual):
        chosen = one.value
    if not isinstance(chosen, datetime) or chosen.tzinfo is None:
        return None
    return int(chosen.timestamp() * 1000) - 1  # rounding must not lose a row
