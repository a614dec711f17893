"""`lag`: on a grid of moments, or now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

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


def tables(inputs: Inputs) -> list[Table]:
    """lag."""
    order = ("at desc", "lag_messages desc", "group_id", "topic", "partition")
    return [Table("lag", found(inputs), order, "at")]


def found(inputs: Inputs) -> DataFrame:
    """The table, of what is asked for."""
    asked = inputs.asked
    commits = offset_commits(inputs.records())
    if asked.topics:
        commits = commits.where(matches("topic", asked.topics))
    topics = inputs.committed_topics(commits)
    bounds = inputs.bounds(topics)
    # Batch headers of a directory cost little; a broker would have to send the whole topics.
    positions = None if asked.now and asked.broker is not None else inputs.keep(inputs.batches(topics))
    records = inputs.raw(topics) if asked.exact else None
    if asked.now:
        return lag_now(commits, bounds, asked.asked_at, positions=positions, records=records)
    assert positions is not None
    # Records stamped in the future must not stretch the grid to there.
    until = asked.asked_at if asked.until is None else min(asked.until, asked.asked_at)
    _check_grid(commits, positions, inputs, until)
    return lag_over_time(
        commits, positions, asked.every_ms, partitions=bounds, records=records, since=asked.since, until=until
    )


def _check_grid(commits: DataFrame, positions: DataFrame, inputs: Inputs, until: datetime) -> None:
    """Raises UsageError when one partition alone would have more points than a task can hold, as a clock that once
    stood at 1970 makes of any grid."""
    ends = latest((commits, "logged_at"), (positions, "max_timestamp"))
    first = commits.agg(F.min("logged_at").alias("first"))
    found = first.crossJoin(ends).toArrow().to_pylist()[0]
    if found["first"] is None:
        return
    start = max(found["first"], inputs.asked.since or found["first"])
    points = (min(found["latest"], until) - start).total_seconds() * 1000 / inputs.asked.every_ms
    if points > MOST_POINTS:
        raise UsageError(
            f"from {start:%Y-%m-%d %H:%M:%S} on that are {points:,.0f} points of each partition; "
            f"--every is too fine for it (at most {MOST_POINTS:,}), or --since too early"
        )
