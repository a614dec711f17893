"""What the records of groups themselves say: generations of classic groups, the records of KIP-848 groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline import decode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OLD_METADATA = "consumer_group_partition_metadata"
_PARTITION = "array<struct<topic_id:string,topic:string,partition:int,assignment_epoch:int>>"


def group_generations(records: DataFrame) -> DataFrame:
    """One row per group_metadata record: a generation of a classic group as it was once assigned.

    In:  records (group records).
    Out: log_partition, log_offset, logged_at, group_id, tombstone, protocol_type null, generation int null, protocol
         null, leader null, state_changed_at timestamp null, state (Stable, Empty, Removed), member_count int,
         members array<struct<member_id, group_instance_id null, client_id, client_host, rebalance_timeout_ms int,
         session_timeout_ms int, subscribed_topics array<string> null, owned array<struct<topic, partition>> null,
         rack_id null, user_data binary null, assigned array<struct<topic, partition>> null, undecoded null>>.
         Subscriptions and assignments are known of protocol type `consumer` only; else `undecoded` says why not.
    """
    return decode.group_generations(records)


def consumer_group_records(records: DataFrame, topics: DataFrame | None = None) -> DataFrame:
    """One row per record of a KIP-848 group, types 3 to 8 and 16.

    In:  records (group records); topics(topic_id, topic), names from elsewhere, as partition.metadata files.
    Out: log_partition, log_offset, logged_at, group_id, record_type, member_id null, tombstone, group_epoch int null,
         metadata_hash bigint null, target_epoch int null, assigned_at timestamp null, member_epoch int null,
         previous_member_epoch int null, member_state null (Stable, UnrevokedPartitions, UnreleasedPartitions, Unknown),
         instance_id null, rack_id null, client_id null, client_host null, subscribed_topics array<string> null,
         subscribed_topic_regex null, rebalance_timeout_ms int null, server_assignor null, classic_session_timeout_ms
         int null, partitions array<struct<topic_id, topic null, partition int, assignment_epoch int null>> null,
         pending_revocation (the same) null.
         `topic` is null when neither `topics`, nor a commit, nor an old partition metadata record names the id.
    """
    rows = decode.consumer_group_records(records)
    known = topic_names(records, rows)
    # A name from outside counts over one from the log: it is the newest.
    if topics is not None:
        told = topics.select("topic_id", "topic", F.lit(1).alias("rank"))
        known = known.withColumn("rank", F.lit(0)).unionByName(told)
        known = known.groupBy("topic_id").agg(F.max_by("topic", F.struct("rank", "topic")).alias("topic"))
    names = known.agg(F.map_from_entries(F.collect_list(F.struct("topic_id", "topic"))).alias("names"))
    is_old = F.col("record_type") == _OLD_METADATA
    return (
        rows.crossJoin(F.broadcast(names))
        .withColumns(
            {
                "partitions": F.when(~is_old, _named("partitions")),
                "pending_revocation": _named("pending_revocation"),
            }
        )
        .select(*rows.columns)
    )


def topic_names(records: DataFrame, consumer_records: DataFrame) -> DataFrame:
    """(topic_id, topic), one row per id, as commits and old partition metadata records name them."""
    commits = records.where("problem IS NULL AND topic_id IS NOT NULL").select("topic_id", "topic")
    old = consumer_records.where(F.col("record_type") == _OLD_METADATA)
    listed = old.select(F.explode("partitions").alias("p")).select("p.topic_id", "p.topic")
    return commits.unionByName(listed).where("topic IS NOT NULL").groupBy("topic_id").agg(F.max("topic").alias("topic"))


def _named(column: str) -> Column:
    def named(partition: Column) -> Column:
        return F.struct(
            partition["topic_id"].alias("topic_id"),
            F.try_element_at(F.col("names"), partition["topic_id"]).alias("topic"),
            partition["partition"].alias("partition"),
            partition["assignment_epoch"].alias("assignment_epoch"),
        )

    return F.transform(column, named).cast(_PARTITION)
