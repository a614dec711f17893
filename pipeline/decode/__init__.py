"""Bytes of group logs into columns. Kernels need numpy and pyarrow; the functions here take and give Spark frames.

`import pipeline.decode` does not import pyspark: a function of frames does, when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "consumer_group_records",
    "dedupe",
    "group_generations",
    "group_records",
    "ledger_events",
    "metadata_records",
    "offset_commits",
]


def group_records(raw: DataFrame) -> DataFrame:
    """Records of `__consumer_offsets` with their columns (`schemas.GROUP_RECORDS`), one row per record, none dropped.

    In: any frame with the columns key, value, partition, offset, timestamp, of Spark's Kafka source or `kohort-log`.
    Equal to reading with `records=group`, which costs half as much.
    """
    from pipeline.decode import frames  # noqa: PLC0415

    return frames.group_records(raw)


def offset_commits(group_records: DataFrame) -> DataFrame:
    """Offset commits and their tombstones (`schemas.OFFSET_COMMITS`), without those that have a problem."""
    from pipeline.decode import frames  # noqa: PLC0415

    return frames.offset_commits(group_records)


def group_generations(group_records: DataFrame) -> DataFrame:
    """Records of classic groups with their members (`schemas.GROUP_GENERATIONS`), without those that have a problem."""
    from pipeline.decode import frames  # noqa: PLC0415

    return frames.group_generations(group_records)


def consumer_group_records(group_records: DataFrame) -> DataFrame:
    """Records of KIP-848 groups (`schemas.CONSUMER_GROUP_RECORDS`), without those that have a problem.

    Topics in `partitions` are known by id only; `topic` is null until somebody joins the names.
    """
    from pipeline.decode import frames  # noqa: PLC0415

    return frames.consumer_group_records(group_records)


def ledger_events(raw: DataFrame) -> DataFrame:
    """Records of the rebalance ledger (`schemas.LEDGER_EVENTS`), one row per record, none dropped."""
    from pipeline.decode import frames  # noqa: PLC0415

    return frames.ledger_events(raw)


def metadata_records(raw: DataFrame) -> DataFrame:
    """Records of `__cluster_metadata` (`schemas.METADATA_RECORDS`), one row per record, none dropped."""
    from pipeline.decode import frames  # noqa: PLC0415

    return frames.metadata_records(raw)


def dedupe(rows: DataFrame) -> DataFrame:
    """Each record once, where overlapping inputs (a copied segment, two replicas) brought it twice.

    In: raw rows or `group_records`; with `includeSource` the columns of `SOURCE` do not count, and an error names the
    files. The frame fails, when it is run, if two copies of a record differ. Costs a shuffle of everything.
    """
    from pipeline.decode import frames  # noqa: PLC0415

    return frames.dedupe(rows)
