"""What several tables share: the keys they are made by, the order of a group's records, spans and moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, WindowSpec

TP = ("topic", "partition")
PAIR = ("group_id", *TP)
"""Whose offset of which partition."""


def sound(records: DataFrame) -> DataFrame:
    """The rows that could be decoded: tables are made of these only."""
    return records.where(F.col("problem").isNull())


def group_history(*key: str) -> WindowSpec:
    """The rows of each group in the order in which they happened; needs the column `era` of `with_era`."""
    return Window.partitionBy("group_id", *key).orderBy("era", "log_partition", "log_offset")


def with_era(frame: DataFrame) -> DataFrame:
    """Adds `era`: when the group's first record came into this log partition.

    A group lives in one log partition, where `log_offset` is the order. Was their number changed, its history
    goes on in another, whose offsets say nothing about before and after.
    """
    return frame.withColumn("era", F.min("logged_at").over(Window.partitionBy("group_id", "log_partition")))


def newest(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """The newest row of each key, tombstones too: by `log_offset`; between log partitions, by `logged_at`."""
    others = [name for name in frame.columns if name not in key]
    in_log = frame.groupBy(*key, "log_partition").agg(F.max_by(F.struct(*others), "log_offset").alias("row"))
    order = F.struct("row.logged_at", "row.log_partition")
    chosen = in_log.groupBy(*key).agg(F.max_by("row", order).alias("row"))
    return chosen.select(*key, *[F.col(f"row.{name}").alias(name) for name in others]).select(*frame.columns)


def micros(column: Column | str) -> Column:
    """A moment as microseconds since 1970."""
    return F.unix_micros(column)


def millis_between(later: Column, earlier: Column) -> Column:
    """Whole milliseconds from one moment to another; null when one is."""
    return F.unix_millis(later) - F.unix_millis(earlier)


def moment(when: datetime) -> Column:
    """A moment that is known beforehand, as a column. `when` has a time zone."""
    return F.timestamp_micros(F.lit(round(when.timestamp() * 1_000_000)).cast("bigint"))


def latest(*moments: tuple[DataFrame, str]) -> DataFrame:
    """One row: `latest`, the newest moment in any of the frames' columns; null when all are empty."""
    found = [frame.agg(F.max(column).alias("latest")) for frame, column in moments]
    together = found[0]
    for other in found[1:]:
        together = together.unionByName(other)
    return together.agg(F.max("latest").alias("latest"))
