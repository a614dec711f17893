"""Group logs, ledgers and topics on Spark: sources, decoders, tables and jobs. Never writes a log.

from pipeline import register
register(spark)
raw = spark.read.format("kohort-log").option("path", "/var/lib/kafka/data").option("topic", "orders").load()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the formats `kohort-log` and `kohort-kafka` known to a session; nothing else in it changes."""
    from pipeline.sources.fetch_source import KohortKafka  # noqa: PLC0415  the decoders are used without Spark
    from pipeline.sources.log_source import KohortLog  # noqa: PLC0415

    spark.dataSource.register(KohortLog)
    spark.dataSource.register(KohortKafka)
