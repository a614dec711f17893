"""Who fills `__consumer_offsets`, and what its partitions look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline.spans import span_ms
from pipeline.transformations.commits import framed_bytes
from pipeline.transformations.keys import PAIR, sound

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HOUR = "1 hour"
_DAY_S = 86_400
OFTEN_PER_SECOND = 5.0
"""More commits of one partition than this a second are taken for one per message."""
LOADED_PER_SECOND = 400_000.0
"""Records that a coordinator takes in a second when it loads a partition (docs/performance.md)."""


def growth(records: DataFrame, every: str | int = HOUR) -> DataFrame:
    """What each group wrote in each hour (or another span: `every`), one row per (group_id, window_start).

    In:  records (group records).
    Out: group_id, window_start timestamp, commits bigint, tombstones bigint, group_records bigint, bytes bigint, share
         double, distinct_keys bigint, commits_per_key double, commits_per_second double, bytes_per_day bigint, verdict
         null.
         commits: offset commits with a value; tombstones: records of any type without one; group_records: the rest.
         bytes: of all three, framed, before compression; share: of all groups' bytes in that hour.
         distinct_keys: pairs of topic and partition that were committed; commits_per_key is 0 when there are none.
         commits_per_second, bytes_per_day: of the hour as a whole, and as if the day were like it.
         verdict `commit_per_message`: more than 5 commits a second and partition, or commits that advance by one
         record as a rule (the median of all advances within the hour; commits that do not advance do not count).
    """
    return growth_of_groups(growth_of_pairs(hourly(records), every), every)


def hourly(records: DataFrame) -> DataFrame:
    """What `growth` needs of each record: its hour, kind, size. Also for streams."""
    commit = F.col("record_type") == "offset_commit"
    return (
        sound(records)
        .where(F.col("group_id").isNotNull())
        .select(
            *PAIR,
            *["logged_at", "log_partition", "log_offset", "committed_offset", "tombstone"],
            (commit & ~F.col("tombstone")).alias("is_commit"),
            framed_bytes().alias("bytes"),
        )
    )


def growth_of_pairs(rows: DataFrame, every: str | int = HOUR) -> DataFrame:
    """One row per (group_id, topic, partition, hour); topic and partition are null for records that are no commits.

    The first of two steps, the one that a stream keeps state for. `offsets` are (log_offset, committed_offset).
    """
    offsets = F.struct("log_partition", "log_offset", "committed_offset")
    return rows.groupBy(F.window("logged_at", f"{span_ms(every)} milliseconds"), *PAIR).agg(
        F.count_if("is_commit").alias("commits"),
        F.count_if("tombstone").alias("tombstones"),
        F.count_if(~F.col("is_commit") & ~F.col("tombstone")).alias("group_records"),
        F.sum("bytes").alias("bytes"),
        F.collect_list(F.when(F.col("is_commit"), offsets)).alias("offsets"),
    )


def growth_of_groups(pairs: DataFrame, every: str | int = HOUR) -> DataFrame:
    """The second step: whole hours of `growth_of_pairs` become the rows of `growth`."""
    span_s = span_ms(every) / 1000
    sums = [F.sum(name).alias(name) for name in ("commits", "tombstones", "group_records", "bytes")]
    hour = pairs.groupBy("group_id", F.col("window.start").alias("window_start"))
    groups = hour.agg(
        *sums,
        F.count_if(F.col("commits") > 0).alias("distinct_keys"),
        F.flatten(F.collect_list(_advances())).alias("advances"),
    )
    per_key = F.when(F.col("distinct_keys") > 0, F.col("commits") / F.col("distinct_keys")).otherwise(0.0)
    often = F.col("commits_per_second") > OFTEN_PER_SECOND * F.col("distinct_keys")
    # The lower of two middle values: with an even count nothing is made up between them.
    median = F.get(F.array_sort("advances"), ((F.size("advances") - 1) / 2).cast("int"))
    each = F.coalesce(median <= 1, F.lit(False))
    return groups.withColumns(
        {
            "share": F.col("bytes") / F.sum("bytes").over(Window.partitionBy("window_start")),
            "commits_per_key": per_key,
            "commits_per_second": F.col("commits") / span_s,
            "bytes_per_day": F.round(F.col("bytes") * (_DAY_S / span_s)).cast("bigint"),
        }
    ).select(
        *["group_id", "window_start", "commits", "tombstones", "group_records", "bytes", "share", "distinct_keys"],
        *["commits_per_key", "commits_per_second", "bytes_per_day"],
        F.when((F.col("commits") > 0) & (often | each), "commit_per_message").alias("verdict"),
    )


def _advances() -> Column:
    """By how much each commit of a pair went on from the one before, where it did."""
    in_order = F.array_sort("offsets")
    numbers = F.transform(in_order, lambda row: row["committed_offset"])
    steps = F.zip_with(
        F.slice(numbers, 2, F.greatest(F.size(numbers) - 1, F.lit(0))),
        F.slice(numbers, 1, F.greatest(F.size(numbers) - 1, F.lit(0))),
        lambda later, earlier: later - earlier,
    )
    return F.filter(steps, lambda step: step > 0)


def growth_partitions(
    records: DataFrame, batches: DataFrame, cleaning: DataFrame | None = None, *, ratio_threshold: float = 0.5
) -> DataFrame:
    """What each partition of `__consumer_offsets` is made of, and why it is not compacted, one row per partition.

    In:  records (group records, read_uncommitted so that open transactions count too); batches (`records=batch` of the
         topic); cleaning(log_partition, first_dirty_offset, log_start_offset), from the checkpoints where they are
         known; ratio_threshold, min.cleanable.dirty.ratio of the topic.
    Out: log_partition int, size_bytes bigint, segments int, log_start_offset bigint, first_dirty_offset bigint null,
         log_end_offset bigint, dirty_bytes bigint, dirty_ratio double, live_keys bigint, tombstones bigint,
         oldest_segment_at timestamp, open_transaction_from bigint null, largest_group string, load_seconds_estimate
         double, blocked_by null.
         dirty_bytes, dirty_ratio: of the closed segments, what was written at or after first_dirty_offset; all of it
         when that is null. live_keys: keys whose newest record is no tombstone. tombstones: records without a value.
         largest_group: by bytes; "" when no record names a group. load_seconds_estimate: at 400,000 records a second.
         blocked_by: `only the active segment`, `no clean checkpoint`, `open transaction since ...`, `ratio below
         threshold`; null when the next run of the cleaner takes it.
    """
    logs = _logs(batches, cleaning).join(_open_transactions(batches), "log_partition", "left")
    counts = records.groupBy("log_partition").agg(
        F.count_if("tombstone").alias("tombstones"), F.count(F.lit(1)).alias("record_count")
    )
    known = logs.join(counts, "log_partition", "left").join(_live_keys(records), "log_partition", "left")
    known = known.join(_largest_groups(records), "log_partition", "left")
    zero = F.lit(0).cast("bigint")
    ratio = F.when(F.col("closed_bytes") > 0, F.col("dirty_bytes") / F.col("closed_bytes")).otherwise(0.0)
    open_since = F.date_format("open_since", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    blocked_by = (
        F.when(F.col("segments") <= 1, "only the active segment")
        .when(F.col("first_dirty_offset").isNull(), "no clean checkpoint")
        .when(
            F.col("open_transaction_from") <= F.col("first_dirty_offset"),
            F.concat(F.lit("open transaction since "), open_since),
        )
        .when(ratio < ratio_threshold, "ratio below threshold")
    )
    return known.select(
        *["log_partition", "size_bytes", "segments", "log_start_offset", "first_dirty_offset", "log_end_offset"],
        "dirty_bytes",
        ratio.alias("dirty_ratio"),
        F.coalesce("live_keys", zero).alias("live_keys"),
        F.coalesce("tombstones", zero).alias("tombstones"),
        *["oldest_segment_at", "open_transaction_from"],
        F.coalesce("largest_group", F.lit("")).alias("largest_group"),
        (F.coalesce("record_count", zero) / LOADED_PER_SECOND).alias("load_seconds_estimate"),
        blocked_by.alias("blocked_by"),
    )


def _logs(batches: DataFrame, cleaning: DataFrame | None) -> DataFrame:
    """Sizes and bounds, one row per partition."""
    rows = batches.withColumnRenamed("partition", "log_partition")
    if cleaning is None:
        unknown = F.lit(None).cast("bigint")
        rows = rows.withColumns({"first_dirty_offset": unknown, "said_start": unknown})
    else:
        checkpoints = cleaning.groupBy("log_partition").agg(
            F.max("first_dirty_offset").alias("first_dirty_offset"), F.max("log_start_offset").alias("said_start")
        )
        rows = rows.join(F.broadcast(checkpoints), "log_partition", "left")
    in_partition = Window.partitionBy("log_partition")
    # The file with the newest batch is the active segment, which is never compacted.
    active = F.max_by("file", "base_offset").over(in_partition)
    rows = rows.withColumn("closed", F.coalesce(F.col("file") != active, F.lit(False)))
    size = F.col("size_bytes").cast("bigint")
    dirty = F.col("last_offset") >= F.coalesce("first_dirty_offset", F.lit(0))
    none = F.lit(0).cast("bigint")
    return rows.groupBy("log_partition").agg(
        F.sum(size).alias("size_bytes"),
        F.greatest(F.count_distinct("file"), F.lit(1)).cast("int").alias("segments"),
        F.coalesce(F.max("said_start"), F.min("base_offset")).alias("log_start_offset"),
        F.max("first_dirty_offset").alias("first_dirty_offset"),
        (F.max("last_offset") + 1).alias("log_end_offset"),
        F.sum(F.when(F.col("closed"), size).otherwise(none)).alias("closed_bytes"),
        F.sum(F.when(F.col("closed") & dirty, size).otherwise(none)).alias("dirty_bytes"),
        F.min_by("base_timestamp", "base_offset").alias("oldest_segment_at"),
    )


def _open_transactions(batches: DataFrame) -> DataFrame:
    """(log_partition, open_transaction_from, open_since) where a producer's transaction has not ended."""
    ours = batches.where("producer_id IS NOT NULL AND (is_transactional OR is_control)")
    by_producer = Window.partitionBy("partition", "producer_id")
    ended = F.max(F.when(F.col("is_control"), F.col("base_offset"))).over(by_producer)
    rows = ours.withColumn("ended", ended).where("NOT is_control AND base_offset > coalesce(ended, -1)")
    first = rows.groupBy(F.col("partition").alias("log_partition"))
    return first.agg(
        F.min("base_offset").alias("open_transaction_from"),
        F.min_by("base_timestamp", "base_offset").alias("open_since"),
    )


def _live_keys(records: DataFrame) -> DataFrame:
    """(log_partition, live_keys)."""
    key = ("log_partition", "record_type", *PAIR, "key")
    newest = records.groupBy(*key).agg(F.max_by("tombstone", "log_offset").alias("gone"))
    return newest.groupBy("log_partition").agg(F.count_if(~F.col("gone")).alias("live_keys"))


def _largest_groups(records: DataFrame) -> DataFrame:
    """(log_partition, largest_group): of equals the first by name."""
    bytes_of = records.where("group_id IS NOT NULL").groupBy("log_partition", "group_id")
    sizes = bytes_of.agg(F.sum(framed_bytes()).alias("bytes"))
    largest_first = Window.partitionBy("log_partition").orderBy(F.desc("bytes"), "group_id")
    ranked = sizes.withColumn("rank", F.row_number().over(largest_first)).where("rank = 1")
    return ranked.select("log_partition", F.col("group_id").alias("largest_group"))
