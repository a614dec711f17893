"""Committed offsets that went another way than reading takes them: back, away, or forth while nobody read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline.transformations.keys import PAIR, TP, group_history, micros, with_era

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHO = ("member_id", "client_id", "client_host")
_SPAN = "struct<to_us:bigint,peopled_us:bigint,member_id:string,client_id:string,client_host:string>"
_OPEN = 1 << 62


def offset_resets(commits: DataFrame, membership: DataFrame) -> DataFrame:
    """Each commit that set an offset back, or forth while nobody read, or removed it: one row per such record.

    In:  commits (offset_commits); membership.
    Out: group_id, topic, partition, at timestamp, kind (back, forth, removed), from_offset bigint, to_offset bigint
         null, distance bigint null, set_by string null (owner, outsider), member_id null, client_id null,
         client_host null, log_partition int, log_offset bigint.
         back: to less than was committed before. forth: to more, by an outsider; what an owner commits is what it read.
         removed: deleted or expired; whoever comes begins where `auto.offset.reset` says.
         set_by: owner, who had the partition then (a seek of its own, or `auto.offset.reset`); or who had it last,
         while somebody has been in the group ever since: a coordinator takes commits of nobody else then, and who
         gives a partition up commits before the next has it. outsider: members had the partition before, and have all
         gone (a tool); of a removal, nobody had it. null: no member has had it that the log knows of, as in groups
         that assign themselves; steps forth are not told.
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


def _peopled(membership: DataFrame) -> DataFrame:
    """The spans as (`PAIR`, at_us, to_us, peopled_us, who): until when somebody was in the group without a break.

    Between two spans of any partitions the group has members all the while if the first ended by `reassigned`: in the
    first round of a cooperative protocol what moves is nobody's, and that may be all there is.
    """
    goes_on = F.coalesce(F.col("ended_by"), F.lit("reassigned")) == "reassigned"
    spans = membership.select(
        *PAIR,
        micros("owned_from").alias("at_us"),
        F.coalesce(micros("owned_to"), F.lit(_OPEN)).alias("to_us"),
        goes_on.alias("goes_on"),
        *_WHO,
    )
    of_group = Window.partitionBy("group_id").orderBy("at_us", "to_us", *TP, "member_id")
    # The span that lasts longest says whether the group went on after all that came before.
    before = F.max(F.struct("to_us", "goes_on")).over(of_group.rowsBetween(Window.unboundedPreceding, -1))
    breaks = before.isNotNull() & (before["to_us"] < F.col("at_us")) & ~before["goes_on"]
    numbered = spans.withColumn("stay", F.sum(breaks.cast("int")).over(of_group))
    of_stay = Window.partitionBy("group_id", "stay")
    return numbered.select(*PAIR, "at_us", "to_us", F.max("to_us").over(of_stay).alias("peopled_us"), *_WHO)


def _with_owner(changed: DataFrame, membership: DataFrame) -> DataFrame:
    """Adds `owner`, null when a tool set it, and `set_by`: of the spans that had begun, the newest."""
    kept = [name for name in changed.columns if name not in PAIR]
    spans = _peopled(membership).select(
        *PAIR,
        "at_us",
        # A commit in the millisecond in which an ownership begins is its owner's.
        F.lit(0).alias("is_commit"),
        F.struct("to_us", "peopled_us", *_WHO).cast(_SPAN).alias("span"),
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
    removes = F.col("row.committed_offset").isNull()
    until = F.when(removes, F.col("span.to_us")).otherwise(F.col("span.peopled_us"))
    by = F.when(until >= F.col("at_us"), "owner").when(F.col("span").isNotNull(), "outsider")
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
