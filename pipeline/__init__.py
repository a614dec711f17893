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
    """Make the formats `kohort-log` and `kohort-kafka` known to a session.

    Nothing else in it changes, but this: workers on this machine find the pipeline, and where nobody has named their
    interpreter (PYSPARK_PYTHON) it is this one, as `python3` may be another that has other packages.
    """
    from pipeline.sources.fetch_source import KohortKafka  # noqa: PLC0415  the decoders are used without Spark
    from pipeline.sources.log_source import KohortLog  # noqa: PLC0415
    from pipeline.workers import let_workers_in  # noqa: PLC0415

    let_workers_in(spark)
    spark.dataSource.register(KohortLog)
    spark.dataSource.register(KohortKafka)
