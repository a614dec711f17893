"""Where records come from: segment files, a live broker, Spark's own connector.

`import pipeline.sources` does not import pyspark: a function does, when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.why.terms import plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["notices", "problems", "read_kafka"]


def read_kafka(spark: SparkSession, bootstrap: str, topics: str, **options: Any) -> DataFrame:
    """Records by Spark's own connector; see `kafka_source.read_kafka`."""
    from pipeline.sources import kafka_source  # noqa: PLC0415

    return kafka_source.read_kafka(spark, bootstrap, topics, **options)


def problems(spark: SparkSession, source: str, **options: str) -> DataFrame:
    """What a read with these options and `onCorrupt=skip` leaves out (`schemas.PROBLEMS`).

    A second pass over the same files, so that the count is right however often Spark ran a task of the first. `source`
    is `kohort-log` or `kohort-kafka`.
    """
    given = {name: value for name, value in options.items() if name not in {"records", "latestOnly", "includeSource"}}
    if options.get("records") == "group":
        given.setdefault("topic", "__consumer_offsets")
        given.setdefault("isolationLevel", "read_committed")
    return spark.read.format(source).options(**given, records="problems").load()


def notices(**options: str) -> list[str]:
    """One sentence for each half-written batch at the end of a log, which is normal. Raises: UsageError, DataError."""
    from pipeline.sources import plan  # noqa: PLC0415
    from pipeline.sources.options import parse  # noqa: PLC0415

    sentences = []
    for partition in plan.choose(parse(options)):
        end = plan.end_of(partition)
        if end.torn_bytes:
            file = partition.segments[-1].path
            sentences.append(
                f"{file} ends in a batch that is not whole ({plural(end.torn_bytes, 'byte')}), left out as unwritten"
            )
    return sentences
