"""Kafka's logs in a Spark session of yours: needs `kohort[spark]` and Java 17 or newer.

    from kohort.spark import decode, register, transformations as t

    register(spark)
    rows = spark.read.format("kohort-log").options(path="/var/lib/kafka/data", records="group").load()
    committed = t.offset_commits(rows)

The formats are `kohort-log` (files at rest, of Kohort or of Apache Kafka) and `kohort-kafka` (any live broker); their
columns are those of Spark's own Kafka source. `decode` makes columns of bytes, `transformations` are functions of
frames, `group_commit` lets a query commit as a group. docs/pipeline.md has their options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort._checkout import open_rooms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

open_rooms()

from pipeline import decode, group_commit, transformations  # noqa: E402  importable from here on
from pipeline import register as _register  # noqa: E402

__all__ = ["decode", "group_commit", "register", "transformations"]


def register(spark: SparkSession) -> None:
    """Make the formats `kohort-log` and `kohort-kafka` known to a session; nothing else in it changes."""
    _register(spark)
