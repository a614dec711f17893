"""How far groups were behind, in messages and in seconds: on a grid of moments, or now.

The log end at a moment is the greatest end of a batch whose newest record is not younger; no record is decoded for it.
A log that is not there makes its columns null, never 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline.spans import span_ms
from pipeline.transformations.keys import PAIR, TP, group_history, latest, micros, moment, newest, with_era

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

_COLUMNS = (
    *PAIR,
    "at",
    "committed_offset",
    "committed_at",
    "log_start_offset",
    "log_end_offset",
    "lag_messages",
    "lag_seconds",
    "data_lost",
    "idle_seconds",
)
_ORDER = ("era", "log_partition", "log_offset")
_COMMIT = ("committed_offset", "committed_at", "logged_at")


def lag_over_time(
    commits: DataFrame,
    positions: DataFrame,
    every: str | int = "1 minute",
    *,
    partitions: DataFrame | None = None,
    records: DataFrame | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    closing: datetime | None = None,
) -> DataFrame:
    """The lag at every grid point, one row per (group_id, topic, partition, at).

    Grid points are the multiples of `every` since 1970, from the first at or after the pair's first commit to the first
    at or after the newest moment in the data; `since` and `until` cut the grid. `closing`, not before `until`, is a
    point besides: of data that is younger than a step it is the only one.

    In:  commits (offset_commits); positions (`records=batch` of the topics); partitions(topic, partition,
         log_start_offset), where the log start is known better than from the first batch, and for empty logs; records
         (topic, partition, offset, timestamp), raw records for the exact time of the oldest one not consumed.
    Out: group_id, topic, partition, at timestamp, committed_offset bigint null, committed_at timestamp null,
         log_start_offset bigint null, log_end_offset bigint null, lag_messages bigint null, lag_seconds double null,
         data_lost boolean, idle_seconds double.
         committed_offset: of the newest commit at or before `at`; null when that was a tombstone.
         log_end_offset: exclusive; before the first batch that is left it is 0 in a log that begins at 0, else null.
         lag_seconds: how long the oldest record not consumed had waited; at batch grain a linear share of its batch.
         data_lost: the committed offset lies before the log start; lag then counts from the log start.
         idle_seconds: since the newest commit, or tombstone, was written.
    """
    step = span_ms(every) * 1000
    bucketed = with_era(commits).select(*PAIR, *_ORDER, *_COMMIT, _grid_point("logged_at", step).alias("at_us"))
    if since is not None:
        first = -(-round(since.timestamp() * 1_000_000) // step) * step
        bucketed = bucketed.withColumn("at_us", F.greatest("at_us", F.lit(first)))
    closing_us = None if closing is None else round(closing.timestamp() * 1_000_000)
    if closing_us is not None:
        in_time = micros("logged_at") <= closing_us
        bucketed = bucketed.withColumn("at_us", F.when(in_time, F.least("at_us", F.lit(closing_us))).otherwise("at_us"))
    read = positions.join(commits.select(*TP).distinct(), list(TP), "left_semi")
    grid = _grid(bucketed, _end(commits, read, step, until), step, closing_us)

    at_point = bucketed.groupBy(*PAIR, "at_us").agg(F.max(F.struct(*_ORDER, *_COMMIT)).alias("commit"))
    so_far = Window.partitionBy(*PAIR).orderBy("at_us")
    stands = grid.join(at_point, [*PAIR, "at_us"], "left").withColumn("commit", F.max("commit").over(so_far))
    ends = _ends(grid, read)
    known = stands.join(ends, [*TP, "at_us"], "left").join(_starts(read, partitions), list(TP), "left")
    leo = F.coalesce(F.col("end_so_far"), F.when(F.col("log_start_offset") == 0, F.lit(0).cast("bigint")))
    known = known.withColumn("log_end_offset", leo).select("*", *[f"commit.{name}" for name in _COMMIT])
    return _lags(known, read, records)


def lag_now(
    commits: DataFrame,
    partitions: DataFrame,
    at: datetime,
    *,
    positions: DataFrame | None = None,
    records: DataFrame | None = None,
) -> DataFrame:
    """The lag at one moment whose log ends are known, one row per (group_id, topic, partition) with a commit.

    In:  commits; partitions(topic, partition, log_start_offset, log_end_offset), as a broker's ListOffsets tells;
         positions or records as in `lag_over_time`: without them lag_seconds is null unless the lag is 0.
    Out: the columns of `lag_over_time`; a pair whose newest record is a tombstone has no row.
    """
    stands = newest(commits, PAIR).where(F.col("committed_offset").isNotNull())
    facts = partitions.select(*TP, "log_start_offset", "log_end_offset")
    known = stands.select(*PAIR, *_COMMIT).join(facts, list(TP), "left")
    known = known.withColumn("at_us", micros(moment(at)))
    return _lags(known, positions, records)


def worst_lag(
    commits: DataFrame,
    positions: DataFrame,
    *,
    partitions: DataFrame | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """How far each group's worst partition was behind at its worst, one row per group; no grid is made for it.

    A lag grows until somebody commits: it is looked at before each commit and at the end, or `until`.

    In:  as `lag_over_time`.
    Out: group_id, worst_lag_messages bigint null, worst_lag_at timestamp null, worst_lag_seconds double null.
         Null where the log of no partition is known; worst_lag_at is the moment of worst_lag_messages.
    """
    read = positions.join(commits.select(*TP).distinct(), list(TP), "left_semi")
    found = latest((commits, "logged_at"), (read, "max_timestamp")).select(micros("latest").alias("end_us"))
    if until is not None:
        end_us = round(until.timestamp() * 1_000_000)
        found = found.select(F.least("end_us", F.lit(end_us).cast("bigint")).alias("end_us"))
    rows = with_era(commits).select(*PAIR, *_ORDER, *_COMMIT)
    following = F.lead(micros("logged_at")).over(group_history(*TP))
    points = rows.withColumn("next_us", following).crossJoin(F.broadcast(found))
    points = points.withColumn("at_us", F.least(F.coalesce("next_us", "end_us"), F.col("end_us")))
    points = points.where(micros("logged_at") <= F.col("end_us"))
    if since is not None:
        points = points.where(F.col("at_us") >= F.lit(round(since.timestamp() * 1_000_000)))
    known = points.join(_ends(points, read), [*TP, "at_us"], "left").join(_starts(read, partitions), list(TP), "left")
    leo = F.coalesce(F.col("end_so_far"), F.when(F.col("log_start_offset") == 0, F.lit(0).cast("bigint")))
    lags = _lags(known.withColumn("log_end_offset", leo), read, None)
    return lags.groupBy("group_id").agg(
        F.max("lag_messages").alias("worst_lag_messages"),
        F.max_by(F.when(F.col("lag_messages").isNotNull(), F.col("at")), F.struct("lag_messages", "at")).alias(
            "worst_lag_at"
        ),
        F.max("lag_seconds").alias("worst_lag_seconds"),
    )


def ends_at(partitions: DataFrame, positions: DataFrame, until: datetime) -> DataFrame:
    """What `lag_now` needs for an earlier moment: log ends as they were before `until`.

    In:  partitions(topic, partition, log_start_offset, log_end_offset) of this moment; positions (`records=batch`).
    Out: the same columns; log_end_offset is null where all that was written before `until` is gone.
    """
    before = positions.where(F.col("max_timestamp") < moment(until)).groupBy(*TP)
    ends = before.agg((F.max("last_offset") + 1).alias("end"))
    nothing_yet = F.when(F.col("log_start_offset") == 0, F.lit(0).cast("bigint"))
    return partitions.join(ends, list(TP), "left").select(
        *TP, "log_start_offset", F.coalesce("end", nothing_yet).alias("log_end_offset")
    )


def _grid_point(column: str, step: int) -> Column:
    """The first grid point at or after a moment, in microseconds."""
    return F.expr(f"(unix_micros({column}) + {step - 1}) div {step} * {step}")


def _end(commits: DataFrame, positions: DataFrame, step: int, until: datetime | None) -> DataFrame:
    """One row: `end_us`, the last grid point."""
    found = latest((commits, "logged_at"), (positions, "max_timestamp"))
    end = found.select(_grid_point("latest", step).alias("end_us"))
    if until is None:
        return end
    last = round(until.timestamp() * 1_000_000) // step * step
    return end.select(F.least("end_us", F.lit(last)).alias("end_us"))


def _grid(bucketed: DataFrame, end: DataFrame, step: int, closing_us: int | None) -> DataFrame:
    """One row per pair and grid point: (group_id, topic, partition, at_us)."""
    first = bucketed.groupBy(*PAIR).agg(F.min("at_us").alias("first_us"))
    spans = first.crossJoin(F.broadcast(end)).where(F.col("first_us") <= F.col("end_us"))
    grid = spans.select(*PAIR, F.explode(F.sequence("first_us", "end_us", F.lit(step).cast("bigint"))).alias("at_us"))
    if closing_us is None:
        return grid
    last = first.where(F.col("first_us") <= closing_us).select(*PAIR, F.lit(closing_us).cast("bigint").alias("at_us"))
    return grid.unionByName(last).distinct()


def _ends(grid: DataFrame, positions: DataFrame) -> DataFrame:
    """(topic, partition, at_us, end_so_far): the log end at each point at which some group is looked at."""
    points = grid.select(*TP, "at_us").distinct()
    so_far = Window.partitionBy(*TP).orderBy("at_us", "is_point")
    batches = positions.select(
        *TP, micros("max_timestamp").alias("at_us"), F.lit(0).alias("is_point"), (F.col("last_offset") + 1).alias("end")
    )
    marks = points.select(*TP, "at_us", F.lit(1).alias("is_point"), F.lit(None).cast("bigint").alias("end"))
    running = batches.unionByName(marks).withColumn("end_so_far", F.max("end").over(so_far))
    return running.where("is_point = 1").select(*TP, "at_us", "end_so_far")


def _starts(positions: DataFrame, partitions: DataFrame | None) -> DataFrame:
    """(topic, partition, log_start_offset) of every log that is there."""
    found = positions.groupBy(*TP).agg(F.min("base_offset").alias("first_batch"))
    if partitions is None:
        return found.withColumnRenamed("first_batch", "log_start_offset")
    said = partitions.groupBy(*TP).agg(F.max("log_start_offset").alias("said"))
    start = F.coalesce("said", "first_batch").alias("log_start_offset")
    return found.join(said, list(TP), "full").select(*TP, start)


def _lags(known: DataFrame, positions: DataFrame | None, records: DataFrame | None) -> DataFrame:
    """From what was committed and where the log began and ended to the columns of the table."""
    lost = F.coalesce(F.col("committed_offset") < F.col("log_start_offset"), F.lit(False))
    oldest = F.greatest("committed_offset", "log_start_offset")
    lag = F.greatest(F.col("log_end_offset") - F.col("oldest"), F.lit(0).cast("bigint"))
    counted = known.withColumns({"data_lost": lost, "at": F.timestamp_micros("at_us")})
    # greatest() skips nulls: without a committed offset there is nothing to count from.
    counted = counted.withColumn("oldest", F.when(F.col("committed_offset").isNotNull(), oldest))
    complete = F.col("oldest").isNotNull() & F.col("log_end_offset").isNotNull()
    counted = counted.withColumn("lag_messages", F.when(complete, lag))
    marks = _record_marks(positions, records)
    if marks is None:
        timed = counted.withColumn("oldest_us", F.lit(None).cast("double"))
    else:
        behind = counted.where("lag_messages > 0").select(*TP, "oldest").distinct()
        timed = counted.join(_record_times(behind, marks), [*TP, "oldest"], "left")
    waited = F.greatest((F.col("at_us") - F.col("oldest_us")) / 1e6, F.lit(0.0))
    seconds = F.when(F.col("lag_messages") == 0, F.lit(0.0)).when(F.col("oldest_us").isNotNull(), waited)
    idle = (F.col("at_us") - micros("logged_at")) / 1e6
    return timed.withColumns({"lag_seconds": seconds, "idle_seconds": idle}).select(*_COLUMNS)


def _record_marks(positions: DataFrame | None, records: DataFrame | None) -> DataFrame | None:
    """(topic, partition, base, last, base_us, max_us): batches, or each record as a batch of its own."""
    if records is not None:
        offset, at = F.col("offset"), micros("timestamp")
        return records.select(*TP, offset.alias("base"), offset.alias("last"), at.alias("base_us"), at.alias("max_us"))
    if positions is None:
        return None
    return positions.select(
        *TP,
        F.col("base_offset").alias("base"),
        F.col("last_offset").alias("last"),
        micros("base_timestamp").alias("base_us"),
        micros("max_timestamp").alias("max_us"),
    )


def _record_times(wanted: DataFrame, marks: DataFrame) -> DataFrame:
    """(topic, partition, oldest, oldest_us): when the first record at or after the offset `oldest` was written."""
    no_batch = F.lit(None).cast("struct<base:bigint,last:bigint,base_us:bigint,max_us:bigint>")
    batches = marks.select(
        *TP,
        F.col("last").alias("oldest"),
        F.lit(1).alias("rank"),
        F.struct("base", "last", "base_us", "max_us").alias("b"),
    )
    targets = wanted.select(*TP, "oldest", F.lit(0).alias("rank"), no_batch.alias("b"))
    # Downwards by offset the batch last seen is the first one that ends at or after the target.
    downwards = Window.partitionBy(*TP).orderBy(F.desc("oldest"), F.desc("rank"))
    seen = downwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    found = batches.unionByName(targets).withColumn("b", F.last("b", ignorenulls=True).over(seen)).where("rank = 0")
    into = (F.col("oldest") - F.col("b.base")) / (F.col("b.last") - F.col("b.base"))
    linear = F.col("b.base_us") + (F.col("b.max_us") - F.col("b.base_us")) * into
    # In the gap that compaction left before a batch, its first record is the oldest one.
    time = F.when(F.col("oldest") <= F.col("b.base"), F.col("b.base_us").cast("double")).otherwise(linear)
    return found.select(*TP, "oldest", time.alias("oldest_us"))
