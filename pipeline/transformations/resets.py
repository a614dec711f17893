"""Committed offsets that went another way than reading takes them: back, away, or forth while nobody read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline.transformations.keys import PAIR, TP, group_history, micros, with_era

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHO = ("member_id", "client_id", "client_host")
_SPAN = "struct<to_us:bigint,member_id:string,client_id:string,client_host:string>"
_OPEN = 1 << 62


def offset_resets(commits: DataFrame, membership: DataFrame) -> DataFrame:
    """Each commit that set an offset back, or forth while nobody read, or removed it: one row per such record.

    In:  commits (offset_commits); membership.
    Out: group_id, topic, partition, at timestamp, kind (back, forth, removed), from_offset bigint, to_offset bigint
         null, distance bigint null, set_by string null (owner, outsider), member_id null, client_id null,
         client_host null, log_partition int, log_offset bigint.
         back: to less than was committed before. forth: to more, by an outsider; what an owner commits is what it read.
         removed: deleted or expired; whoever comes begins where `auto.offset.reset` says.
         set_by: owner, who had the partition then (a seek of its own, or `auto.offset.reset`); outsider: the group had
         members before, and none of them had the partition (a tool). null: the group has never had members that the log
         knows of, as those that assign themselves have none; its steps forth are not told.
         member_id, client_id, client_host: the owner.
    """
    order = group_history(*TP)
    rows = with_era(commits.select(*PAIR, "log_partition", "log_offset", "logged_at", "committed_offset"))
    stepped = rows.withColumn("from_offset", F.lag("committed_offset").over(order)).where("from_offset IS NOT NULL")
    changed = stepped.where("committed_offset IS NULL OR committed_offset <> from_offset")
    known = _with_owner(changed, membership)
    kind = (
        F.when(F.col("committed_offset").isNull(), "removed")
        .when(F.col("committed_offset") < F.col("from_offset"), "back")
        .when(F.col("set_by") == "outsider", "forth")
    )
    return (
        known.withColumn("kind", kind)
        .where("kind IS NOT NULL")
        .select(
            *PAIR,
            F.col("logged_at").alias("at"),
            "kind",
            "from_offset",
            F.col("committed_offset").alias("to_offset"),
            (F.col("committed_offset") - F.col("from_offset")).alias("distance"),
            "set_by",
            *[F.col(f"owner.{name}").alias(name) for name in _WHO],
            "log_partition",
            "log_offset",
        )
    )


def _with_owner(changed: DataFrame, membership: DataFrame) -> DataFrame:
    """Adds `owner`, null when nobody had the partition then, and `set_by`: of the spans that had begun, the newest."""
    kept = [name for name in changed.columns if name not in PAIR]
    spans = membership.select(
        *PAIR,
        micros("owned_from").alias("at_us"),
        # A commit in the millisecond in which an ownership begins is its owner's.
        F.lit(0).alias("is_commit"),
        F.struct(F.coalesce(micros("owned_to"), F.lit(_OPEN)).alias("to_us"), *_WHO).cast(_SPAN).alias("span"),
    )
    commits = changed.select(
        *PAIR,
        micros("logged_at").alias("at_us"),
        F.lit(1).alias("is_commit"),
        F.lit(None).cast(_SPAN).alias("span"),
        F.struct(*kept).alias("row"),
    )
    nothing = F.lit(None).cast(commits.schema["row"].dataType).alias("row")
    order = Window.partitionBy(*PAIR).orderBy("at_us", "is_commit", "span")
    together = commits.unionByName(spans.select("*", nothing)).withColumn("span", F.last("span", True).over(order))
    by = F.when(F.col("span.to_us") >= F.col("at_us"), "owner").when(F.col("span").isNotNull(), "outsider")
    return (
        together.where("is_commit = 1")
        .withColumn("set_by", by)
        .select(
            *PAIR,
            *[F.col(f"row.{name}").alias(name) for name in kept],
            "set_by",
            F.when(F.col("set_by") == "owner", F.col("span")).alias("owner"),
        )
    )
