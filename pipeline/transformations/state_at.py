"""Where groups stood at a moment: what a restore needs, and what someone changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline.transformations.keys import PAIR, moment, newest, sound

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame


def state_at(records: DataFrame, at: datetime | None, first_dirty: DataFrame | None = None) -> DataFrame:
    """The offsets of all groups as of `at`, or with None as of all there is, one row per (group_id, topic, partition).

    In:  records, all of them (group records); first_dirty(log_partition, first_dirty_offset), how far each log
         partition has been compacted (exclusive), where that is known.
    Out: group_id, topic, partition, committed_offset bigint, leader_epoch int null, metadata string, committed_at,
         log_offset bigint, exact boolean null. Not exact: the rows are right, others may be missing, because
         compaction removed a commit that was newest then. Null: nobody knows how far compaction has come.

    The state follows `log_offset`, not clocks: per log partition everything up to the last record that was written
    at or before `at` counts, also what a clock that stepped back stamped later.
    """
    counted = records if at is None else records.where(F.col("logged_at") <= moment(at))
    cuts = counted.groupBy("log_partition").agg(F.max("log_offset").alias("cut"))
    if first_dirty is None:
        cuts = cuts.withColumn("exact", F.lit(None).cast("boolean"))
    else:
        # One row a partition, so that a doubled line could not double offsets.
        cleaned = first_dirty.groupBy("log_partition").agg(F.max("first_dirty_offset").alias("first_dirty_offset"))
        cuts = cuts.join(cleaned, "log_partition", "left").withColumn(
            "exact", F.col("first_dirty_offset") <= F.col("cut") + 1
        )
    commits = sound(records).where(F.col("record_type") == "offset_commit")
    known = commits.join(F.broadcast(cuts), "log_partition").where(F.col("log_offset") <= F.col("cut"))
    facts = ("committed_offset", "leader_epoch", "metadata", "committed_at", "log_offset", "exact")
    narrow = known.select(*PAIR, "log_partition", "logged_at", *facts)
    # Tombstones go last: dropped first, the commit that they delete would come back to life.
    return newest(narrow, PAIR).where(F.col("committed_offset").isNotNull()).select(*PAIR, *facts)
