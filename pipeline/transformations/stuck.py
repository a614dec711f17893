"""Partitions whose group does not get on, though there is something to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline.spans import span_ms
from pipeline.transformations.keys import PAIR, TP, group_history, latest, micros, moment, with_era

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame


def stuck_partitions(
    commits: DataFrame,
    positions: DataFrame,
    membership: DataFrame,
    lasting: str | int = "10 minutes",
    *,
    partitions: DataFrame | None = None,
    records: DataFrame | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Pairs that stood still for at least `lasting` while records waited, one row per (group_id, topic, partition).

    In:  commits (offset_commits); positions (`records=batch` of the topics); membership; partitions(topic, partition,
         log_start_offset) where the log start is known better than from the first batch; records(logged_at), of all
         groups and types: what shows how late it was when no commit does. Looked at as of the newest moment in any of
         them, or `until`.
    Out: group_id, topic, partition, stuck_since timestamp, committed_offset bigint null, commits_since int,
         log_end_offset bigint, lag_messages bigint, owner_member_id null, owner_client_host null, verdict (no_owner,
         no_commits, no_progress).
         stuck_since: since when records waited and the committed offset did not move: a group at the log end is not
         stuck, however long it had nothing to do. committed_offset: null when an owner never committed.
         commits_since: commits written after stuck_since, all of the same offset.
         verdict: no_owner, nobody owns it; no_progress, commits arrive with the same offset; no_commits, its owner
         commits other partitions or nothing.
    """
    if until is not None:
        commits = commits.where(F.col("logged_at") <= moment(until))
        positions = positions.where(F.col("max_timestamp") <= moment(until))
        membership = membership.where(F.col("owned_from") <= moment(until)).withColumn(
            "owned_to", F.when(F.col("owned_to") <= moment(until), F.col("owned_to"))
        )
    seen = commits if records is None else records
    end = latest((commits, "logged_at"), (positions, "max_timestamp"), (seen, "logged_at"))
    if until is not None:
        end = end.select(moment(until).alias("latest"))
    owners = membership.where(F.col("owned_to").isNull()).groupBy(*PAIR)
    owned = owners.agg(F.max_by(F.struct("member_id", "client_host", "owned_from"), "owned_from").alias("owner"))
    pairs = _last_runs(commits).join(owned, list(PAIR), "full")
    # A deleted offset without an owner is nobody's: there is nothing to wait for.
    pairs = pairs.where("committed_offset IS NOT NULL OR owner IS NOT NULL")
    logs = positions.groupBy(*TP).agg(F.max("last_offset").alias("last"), F.min("base_offset").alias("first_batch"))
    if partitions is not None:
        said = partitions.groupBy(*TP).agg(F.max("log_start_offset").alias("said_start"))
        logs = logs.join(said, list(TP), "left")
    else:
        logs = logs.withColumn("said_start", F.lit(None).cast("bigint"))
    known = pairs.join(logs, list(TP)).withColumns(
        {
            "log_end_offset": F.col("last") + 1,
            "from_offset": F.greatest("committed_offset", F.coalesce("said_start", "first_batch")),
            "still_us": micros(F.coalesce("run_from", "owner.owned_from")),
        }
    )
    behind = known.where("log_end_offset > from_offset")
    timed = behind.join(_arrivals(behind, positions), [*TP, "from_offset", "still_us"], "left")
    since = F.greatest("still_us", "arrived_us")
    stuck = timed.withColumn("since_us", since).crossJoin(F.broadcast(end))
    stuck = stuck.where(micros("latest") - F.col("since_us") >= span_ms(lasting) * 1000).where("arrived_us IS NOT NULL")
    commits_since = F.coalesce(F.size(F.filter("run", lambda at: F.unix_micros(at) > F.col("since_us"))), F.lit(0))
    verdict = F.when(F.col("owner").isNull(), "no_owner").when(F.col("commits_since") > 0, "no_progress")
    return stuck.withColumn("commits_since", F.when(F.col("run").isNull(), F.lit(0)).otherwise(commits_since)).select(
        *PAIR,
        F.timestamp_micros("since_us").alias("stuck_since"),
        "committed_offset",
        "commits_since",
        "log_end_offset",
        (F.col("log_end_offset") - F.col("from_offset")).alias("lag_messages"),
        F.col("owner.member_id").alias("owner_member_id"),
        F.col("owner.client_host").alias("owner_client_host"),
        verdict.otherwise("no_commits").alias("verdict"),
    )


def _last_runs(commits: DataFrame) -> DataFrame:
    """Of each pair: the newest committed offset (null: a tombstone), since when it is that, and the commits of it."""
    order = group_history(*TP)
    rows = with_era(commits.select(*PAIR, "log_partition", "log_offset", "logged_at", "committed_offset"))
    before = F.lag(F.struct("committed_offset")).over(order)
    # A first row differs from nothing; a tombstone's null is a value like any other.
    changed = before.isNull() | ~F.col("committed_offset").eqNullSafe(before["committed_offset"])
    runs = rows.withColumn("run_number", F.sum(changed.cast("int")).over(order))
    last = F.max("run_number").over(Window.partitionBy(*PAIR))
    return (
        runs.withColumn("last_run", last)
        .where("run_number = last_run")
        .groupBy(*PAIR)
        .agg(
            F.first("committed_offset").alias("committed_offset"),
            F.min_by("logged_at", F.struct("era", "log_partition", "log_offset")).alias("run_from"),
            F.collect_list("logged_at").alias("run"),
        )
    )


def _arrivals(behind: DataFrame, positions: DataFrame) -> DataFrame:
    """(topic, partition, from_offset, still_us, arrived_us): when the log first went past the offset.

    Where nothing was ever committed (`committed_offset` null), only what came after the owner did counts.
    """
    wanted = behind.select(*TP, "from_offset", "still_us", F.col("committed_offset").isNull().alias("never")).distinct()
    batches = positions.select(*TP, "last_offset", micros("max_timestamp").alias("max_us"))
    nothing = F.lit(None).cast("bigint")
    targets = wanted.select(
        *TP,
        F.col("from_offset").alias("last_offset"),
        nothing.alias("max_us"),
        "still_us",
        "never",
        F.lit(0).alias("rank"),
    )
    marks = batches.select(
        "*", nothing.alias("still_us"), F.lit(None).cast("boolean").alias("never"), F.lit(1).alias("rank")
    )
    # Downwards by offset, the least time so far is the first moment at which the log end lay behind the target.
    downwards = Window.partitionBy(*TP).orderBy(F.desc("last_offset"), F.desc("rank"))
    seen = downwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    rows = marks.unionByName(targets).withColumns(
        {
            "first_us": F.min("max_us").over(seen),
            # Also the newest, for owners that never committed: did anything come after them?
            "last_us": F.max("max_us").over(seen),
        }
    )
    arrived = F.when(~F.col("never") | (F.col("first_us") > F.col("still_us")), F.col("first_us")).when(
        F.col("last_us") > F.col("still_us"), F.col("still_us")
    )
    return (
        rows.where("rank = 0")
        .select(*TP, F.col("last_offset").alias("from_offset"), "still_us", arrived.alias("arrived_us"))
        .distinct()
    )
