"""`lag`: on a grid of moments, or now."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from coordinator.why.terms import plural
from pipeline.errors import UsageError
from pipeline.jobs.inputs import matches
from pipeline.jobs.output import Table
from pipeline.transformations import lag_now, lag_over_time, offset_commits
from pipeline.transformations.keys import latest

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

    from pipeline.jobs.inputs import Inputs

MOST_POINTS = 2_000_000
_MOST_LOOKED_AT = 20_000
"""Moments at which the ends of logs at rest are looked up; for more, all headers are read."""


def tables(inputs: Inputs) -> list[Table]:
    """lag."""
    order = ("at desc", "lag_messages desc", "group_id", "topic", "partition")
    return [Table("lag", found(inputs), order, "at")]


def found(inputs: Inputs) -> DataFrame:
    """The table, of what is asked for."""
    command = inputs.command
    commits = offset_commits(inputs.records())
    if command.topics:
        commits = commits.where(matches("topic", command.topics))
    topics = inputs.committed_topics(commits)
    bounds = inputs.bounds(topics)
    records = inputs.raw(topics) if command.exact else None
    # Records stamped in the future must not stretch the grid to there.
    until = command.requested_at if command.until is None else min(command.until, command.requested_at)
    if command.now:
        # A broker would have to send the whole topics.
        now_ms = [round(command.requested_at.timestamp() * 1000)]
        headers = None if command.broker is not None else inputs.keep(inputs.growth(topics, now_ms))
        return lag_now(commits, bounds, command.requested_at, positions=headers, records=records)
    if command.broker is not None:
        moments = grid_moments(commits, command.since, until, command.step_ms)
    else:
        newest = min(round(until.timestamp() * 1000), max(inputs.newest_ms(topics), 1))
        moments = _moments(commits, command.since, newest, command.step_ms, _MOST_LOOKED_AT)
    positions = inputs.keep(inputs.growth(topics, moments) if moments else inputs.batches(topics))
    _check_grid(commits, positions, inputs, until)
    # Of a broker that was asked now, now is known; what is younger than a step would have no point at all.
    closing = None if command.broker is None or command.until is not None else until
    return lag_over_time(
        commits,
        positions,
        command.step_ms,
        partitions=bounds,
        records=records,
        since=command.since,
        until=until,
        closing=closing,
    )


def grid_moments(commits: DataFrame, since: datetime | None, until: datetime, every_ms: int) -> list[int]:
    """The moments (ms) of a broker's logs that the grid needs, ascending; none where there is nothing to be told.

    Raises: UsageError when they are too many.
    """
    # What is told as of a moment behind `until` would count at none of the grid's points.
    return _moments(commits, since, math.floor(until.timestamp() * 1000), every_ms, None)


def _moments(commits: DataFrame, since: datetime | None, last: int, every_ms: int, most: int | None) -> list[int]:
    """As `grid_moments`; with `most` there are none rather than more."""
    [row] = commits.agg(F.min("logged_at").alias("first")).toArrow().to_pylist()
    if row["first"] is None:
        return []
    start = round(max(row["first"], since or row["first"]).timestamp() * 1000) // every_ms * every_ms
    points = (last - start) / every_ms
    if most is not None and points > most:
        return []
    if points > MOST_POINTS:
        _too_many(points, max(row["first"], since or row["first"]))
    return [*range(start, last, every_ms), last] if start < last else []


def _check_grid(commits: DataFrame, positions: DataFrame, inputs: Inputs, until: datetime) -> None:
    """Raises UsageError when one partition alone would have more points than a task can hold, as a clock that once
    stood at 1970 makes of any grid."""
    ends = latest((commits, "logged_at"), (positions, "max_timestamp"))
    first = commits.agg(F.min("logged_at").alias("first"))
    found = first.crossJoin(ends).toArrow().to_pylist()[0]
    if found["first"] is None:
        return
    start = max(found["first"], inputs.command.since or found["first"])
    points = (min(found["latest"], until) - start).total_seconds() * 1000 / inputs.command.step_ms
    if points > MOST_POINTS:
        _too_many(points, start)


def _too_many(points: float, start: datetime) -> NoReturn:
    raise UsageError(
        f"from {start:%Y-%m-%d %H:%M:%S} on that are {plural(round(points), 'point')} of each partition; "
        f"--every is too fine for it (at most {MOST_POINTS:,}), or --since too early"
    )
