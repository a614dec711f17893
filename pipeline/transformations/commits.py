"""Offset commits: every one that was written, and where each group stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline import decode
from pipeline.transformations.keys import PAIR, newest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def offset_commits(records: DataFrame) -> DataFrame:
    """One row per offset_commit record, also those that later commits have superseded.

    In:  records (group records).
    Out: log_partition, log_offset, logged_at, group_id, topic, partition, committed_offset bigint null, leader_epoch
         int null, metadata null, committed_at timestamp null, expires_at timestamp null, topic_id null, value_version
         smallint null, tombstone boolean, record_bytes int.
         In a tombstone all that can be null is: the offset expired or was deleted, the log does not say which.
         record_bytes: key and value, without what frames them in a batch.
    """
    return decode.offset_commits(records)


def committed_offsets(commits: DataFrame) -> DataFrame:
    """The offset each group last committed, one row per (group_id, topic, partition); none for a deleted one.

    In:  commits (offset_commits).
    Out: group_id, topic, partition, committed_offset bigint, leader_epoch int null, metadata, committed_at, logged_at,
         log_offset, expires_at timestamp null.
    """
    facts = ("committed_offset", "leader_epoch", "metadata", "committed_at", "logged_at", "log_offset", "expires_at")
    # Tombstones go last: dropped first, the commit that they delete would come back to life.
    newest_rows = newest(commits.select(*PAIR, "log_partition", *facts), PAIR)
    return newest_rows.where(F.col("committed_offset").isNotNull()).select(*PAIR, *facts)


def transactional_commits(records: DataFrame, batches: DataFrame) -> DataFrame:
    """One row per offset commit that was written in a transaction, with what became of that.

    In:  records (group records, read_uncommitted, with includeSource); batches (`records=batch` of the topic).
    Out: log_partition, log_offset, logged_at, group_id, topic, partition, committed_offset bigint, leader_epoch int
         null, metadata, committed_at, producer_id bigint, outcome string, decided_at timestamp null, marker_offset
         bigint null.
         outcome: `committed`, `aborted`, or `pending`, when there is no marker of its producer behind it (yet). Until
         the marker nobody is told of the offset, and with `aborted` nobody ever is. decided_at and marker_offset are
         the marker's, null while it is pending.
    """
    facts = ("committed_offset", "leader_epoch", "metadata", "committed_at")
    ours = ("log_partition", "log_offset", "logged_at", *PAIR, *facts, "producer_id")
    written = records.where("is_transactional AND record_type = 'offset_commit' AND problem IS NULL AND NOT tombstone")
    markers = batches.where("marker IS NOT NULL").select(
        F.col("partition").alias("log_partition"),
        "producer_id",
        F.col("base_offset").alias("log_offset"),
        F.struct("marker", F.col("base_timestamp").alias("at"), F.col("base_offset").alias("offset")).alias("end"),
    )
    order = Window.partitionBy("log_partition", "producer_id").orderBy("log_offset")
    behind = order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    both = written.select(*ours).unionByName(markers, allowMissingColumns=True)
    ended = both.withColumn("decision", F.first("end", ignorenulls=True).over(behind)).where("end IS NULL")
    words = F.when(F.col("decision.marker") == "commit", "committed").when(
        F.col("decision.marker") == "abort", "aborted"
    )
    return ended.select(
        *ours,
        F.coalesce(words, F.lit("pending")).alias("outcome"),
        F.col("decision.at").alias("decided_at"),
        F.col("decision.offset").alias("marker_offset"),
    )


def framed_bytes() -> Column:
    """The size of a record in a batch before compression, from `key_bytes` and `value_bytes`, as bigint.

    Attributes and the count of headers are a byte each; so are both deltas in all but large batches.
    Source: Kafka's DefaultRecord.
    """
    key, value = F.col("key_bytes"), F.col("value_bytes")
    body = F.lit(4) + _varint(key) + key + _varint(value) + value
    return (_varint(body) + body).cast("bigint")


def _varint(count: Column) -> Column:
    """How many bytes a length takes as a zigzag varint. The -1 of a null takes one, as 0 does."""
    size = F.when(count < 1 << 6, 1).when(count < 1 << 13, 2).when(count < 1 << 20, 3)
    return size.when(count < 1 << 27, 4).otherwise(5)
