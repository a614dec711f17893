"""Hand-written rows of the pipeline's tables, as DataFrames: only what a test is about need be said."""

import base64
import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ORDERS = base64.urlsafe_b64encode(b"orders-topic-id!").decode().rstrip("=")


def at(seconds: float) -> datetime:
    """A moment, in seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def frame(spark: SparkSession, schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """A DataFrame with these columns; what a row leaves out is null."""
    table = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)
    assert all(row.keys() <= set(schema.names) for row in rows), "a row names an unknown column"
    return spark.createDataFrame(table)


def table(spark: SparkSession, columns: str, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    """What a table should be: columns in Spark's words, rows as tuples."""
    return spark.createDataFrame(list(rows), columns)


def shuffled(df: DataFrame, partitions: int, seed: int = 7) -> DataFrame:
    """The same rows in another order, in so many partitions."""
    rows = df.collect()
    random.Random(seed).shuffle(rows)
    return df.sparkSession.createDataFrame(rows, df.schema).repartition(partitions)


def commit(offset: int, logged: float, committed: int | None, **more: Any) -> dict[str, Any]:
    """A record of group g's offset of orders-0; None is a tombstone."""
    row = {
        "log_partition": 7,
        "log_offset": offset,
        "logged_at": at(logged),
        "record_type": "offset_commit",
        "key_type": 1,
        "group_id": "g",
        "topic": "orders",
        "partition": 0,
        "tombstone": committed is None,
        "key_bytes": 17,
        "value_bytes": 0 if committed is None else 24,
    }
    if committed is not None:
        row |= {"committed_offset": committed, "committed_at": at(logged), "metadata": "", "value_version": 3}
    return row | more


def member(member_id: str, partitions: Iterable[int] | None = (), **more: Any) -> dict[str, Any]:
    """A member of a generation that owns these partitions of orders."""
    row = {"member_id": member_id, "client_id": f"client-{member_id}", "client_host": f"/10.0.0.{len(member_id)}"}
    row |= {"rebalance_timeout_ms": 60_000, "session_timeout_ms": 45_000, "subscribed_topics": ["orders"]}
    owned = None if partitions is None else [{"topic": "orders", "partition": partition} for partition in partitions]
    return row | {"assigned": owned} | more


def generation(offset: int, logged: float, number: int | None, *members: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A GroupMetadata record of group g; no number is a tombstone."""
    row = {"log_partition": 7, "log_offset": offset, "logged_at": at(logged), "group_id": "g"}
    row |= {"tombstone": number is None, "member_count": len(members), "members": list(members)}
    row["state"] = "Removed" if number is None else "Stable" if members else "Empty"
    if number is not None:
        row |= {"protocol_type": "consumer", "generation": number, "state_changed_at": at(logged - 1)}
        row |= {"protocol": "range", "leader": members[0]["member_id"]} if members else {}
    return row | more


def batch(base: int, last: int, first: float, newest: float | None = None, **more: Any) -> dict[str, Any]:
    """A batch header of orders-0."""
    row = {"topic": "orders", "partition": 0, "base_offset": base, "last_offset": last, "record_count": last - base + 1}
    row |= {"base_timestamp": at(first), "max_timestamp": at(first if newest is None else newest), "size_bytes": 100}
    return row | {"compression": "none", "is_transactional": False, "is_control": False, "file": "0.log"} | more


def consumer(offset: int, logged: float, kind: str, member_id: str | None = None, **more: Any) -> dict[str, Any]:
    """A record of the KIP-848 group k; `kind` without its beginning, `gone=True` for a tombstone."""
    row = {"log_partition": 3, "log_offset": offset, "logged_at": at(logged), "group_id": "k", "member_id": member_id}
    gone = bool(more.pop("gone", False))
    return row | {"record_type": f"consumer_group_{kind}", "tombstone": gone} | more


def parts(*numbers: int, epoch: int | None = None) -> list[dict[str, Any]]:
    """Partitions of orders, as KIP-848 records hold them."""
    return [{"topic_id": ORDERS, "topic": "orders", "partition": n, "assignment_epoch": epoch} for n in numbers]
