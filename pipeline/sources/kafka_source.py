"""Spark's own Kafka connector, with the options that make it answer, and a check that it did.

For those who need it: security settings that only the Java client has, or a stream that other tools must recognise. It
needs jars (`session.build(connector=True)`). `kohort-kafka` needs none, and is the default for a live broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.errors import DataError
from pipeline.sources.access import access
from pipeline.sources.fetch_client import connect, leaders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OLD_OFFSETS = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
OBSERVERS = ("spark-kafka-source-", "spark-kafka-relation-")
"""How the groups begin that the connector's offset reader makes for itself: three records for every query."""


def read_kafka(
    spark: SparkSession,
    bootstrap: str,
    topics: str,
    *,
    starting_offsets: str = "earliest",
    ending_offsets: str = "latest",
    read_committed: bool = False,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records of some topics (comma separated), by `format("kafka")`; the columns of `schemas.RAW`.

    The connector's own way to ask for offsets leaves internal topics out without a word, so for those the older way is
    turned on. It belongs to the session and stays on: a frame is planned anew with every action, and with the setting
    gone it would come back empty. Raises: DataError when a topic has partitions but the frame would not.
    """
    settings = {key[6:]: value for key, value in (options or {}).items() if key.startswith("kafka.")}
    names = [topic.strip() for topic in topics.split(",")]
    with connect(access(bootstrap, settings)) as connection:
        found = leaders(connection, names)
    internal = sorted({one.topic for one in found if one.is_internal})
    if internal:
        spark.conf.set(OLD_OFFSETS, "true")
    reader = (
        spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", ",".join(names))
    )
    reader = reader.options(startingOffsets=starting_offsets, endingOffsets=ending_offsets, includeHeaders="false")
    reader = reader.option("kafka.isolation.level", "read_committed" if read_committed else "read_uncommitted")
    frame = reader.options(**(options or {})).load()
    if internal and not frame.rdd.getNumPartitions():
        raise DataError(f"Spark's connector sees no partition of {', '.join(internal)}, the broker has {len(found)}")
    return frame
