"""One row for each group: what it is, and how it stands now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline.spans import span_ms
from pipeline.transformations.commits import committed_offsets, offset_commits
from pipeline.transformations.consumer_epochs import FRESH_EPOCH
from pipeline.transformations.keys import PAIR, millis_between, moment, newest

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame


def groups(
    records: DataFrame,
    generations: DataFrame,
    consumer_records: DataFrame,
    rebalances: DataFrame,
    lag: DataFrame | None = None,
    *,
    as_of: datetime | None = None,
    offsets_retention: str | int = "7d",
) -> DataFrame:
    """Newest knowledge of each group, one row per group.

    In:  records (group records); generations (group_generations); consumer_records (consumer_group_records);
         rebalances; lag (lag_now, or lag_over_time of which the newest row of a pair counts). `as_of`: now; without it
         the newest moment in records. offsets_retention: offsets.retention.minutes of the broker.
    Out: group_id, type (classic, consumer, share, streams, offsets_only), state, generation int null (group epoch of a
         consumer group), members int, topics int, partitions int, last_rebalance_at null, last_commit_at null,
         rebalances_24h int, lag_messages bigint null, offsets_expire_at timestamp null.
         state: Stable, Empty; of consumer groups also Assigning and Reconciling; Unknown of share and streams groups;
         Removed when nothing of the group is left.
         topics, partitions: those with a committed offset, or owned now. lag_messages: the sum of what is known.
         offsets_expire_at: when the first of its offsets goes, for groups without members (KIP-211): counted from when
         the last member left, where there was one; else from its commit; unless the client said when.
    """
    key = ["group_id"]
    sound = records.where("problem IS NULL AND group_id IS NOT NULL")
    live = committed_offsets(offset_commits(records))
    classic = _classic(generations)
    consumer = _consumer(consumer_records)
    other = _other(sound)
    commits = live.groupBy(*key).agg(F.count(F.lit(1)).alias("live_pairs"))
    last_commit = sound.where("record_type = 'offset_commit' AND NOT tombstone").groupBy(*key)
    known = (
        sound.groupBy(*key)
        .agg(F.max("log_offset").alias("newest"))
        .join(classic, key, "left")
        .join(consumer, key, "left")
        .join(other, key, "left")
        .join(commits, key, "left")
        .join(last_commit.agg(F.max("logged_at").alias("last_commit_at")), key, "left")
        .join(_touched(live, generations, consumer_records), key, "left")
    )
    known = known.withColumns({"type": _type(), "state": F.lit(None).cast("string")}).withColumn("state", _state())
    end = (
        sound.agg(F.max("logged_at").alias("end"))
        if as_of is None
        else sound.sparkSession.range(1).select(moment(as_of).alias("end"))
    )
    recent = (
        rebalances.crossJoin(F.broadcast(end))
        .groupBy(*key)
        .agg(
            F.max("finished_at").alias("last_rebalance_at"),
            F.count_if(millis_between(F.col("end"), F.col("finished_at")) < 86_400_000)
            .cast("int")
            .alias("rebalances_24h"),
        )
    )
    known = known.join(recent, key, "left")
    if lag is None:
        known = known.withColumn("lag_messages", F.lit(None).cast("bigint"))
    else:
        latest = lag.groupBy(*PAIR).agg(F.max_by("lag_messages", "at").alias("lag_messages"))
        known = known.join(latest.groupBy(*key).agg(F.sum("lag_messages").alias("lag_messages")), key, "left")
    known = known.join(_expiry(live, classic, offsets_retention), key, "left")
    zero = F.lit(0)
    members = F.when(F.col("type") == "classic", F.col("classic_members")).when(
        F.col("type") == "consumer", F.col("consumer_members")
    )
    generation = F.when(F.col("type") == "classic", F.col("generation")).when(
        F.col("type") == "consumer", F.col("group_epoch")
    )
    members = members.when(F.col("type").isin("share", "streams"), F.col("other_members"))
    return known.withColumn("members", F.coalesce(members, zero).cast("int")).select(
        "group_id",
        "type",
        "state",
        generation.alias("generation"),
        "members",
        F.coalesce("topics", zero).cast("int").alias("topics"),
        F.coalesce("partitions", zero).cast("int").alias("partitions"),
        "last_rebalance_at",
        "last_commit_at",
        F.coalesce("rebalances_24h", zero).alias("rebalances_24h"),
        "lag_messages",
        F.when(F.col("members") == 0, F.col("offsets_expire_at")).alias("offsets_expire_at"),
    )


def _classic(generations: DataFrame) -> DataFrame:
    """The newest GroupMetadata of each group."""
    rows = newest(
        generations.select(
            *["group_id", "log_partition", "log_offset", "logged_at", "state", "generation", "member_count"],
            *["state_changed_at", "protocol_type"],
        ),
        ["group_id"],
    )
    return rows.select(
        "group_id",
        F.col("log_offset").alias("classic_at"),
        F.col("state").alias("classic_state"),
        "generation",
        F.col("member_count").alias("classic_members"),
        F.col("state_changed_at").alias("empty_since"),
        F.col("protocol_type").isNotNull().alias("had_members"),
    )


def _consumer(consumer_records: DataFrame) -> DataFrame:
    """Epoch, members and state of each KIP-848 group; epoch null when the group was removed.

    A group whose members subscribe to nothing has no record of its own yet: it is at the epoch that all start with.
    """
    kinds = consumer_records.select(
        *["group_id", "record_type", "member_id", "log_partition", "log_offset", "logged_at", "tombstone"],
        *["group_epoch", "target_epoch", "member_epoch", "member_state"],
    )
    current = newest(kinds, ["group_id", "record_type", "member_id"]).where("NOT tombstone")

    def of(kind: str, column: str) -> Column:
        return F.when(F.col("record_type") == f"consumer_group_{kind}", F.col(column))

    summary = current.groupBy("group_id").agg(
        F.coalesce(F.max(of("metadata", "group_epoch")), F.lit(FRESH_EPOCH)).alias("group_epoch"),
        F.coalesce(F.max(of("target_assignment_metadata", "target_epoch")), F.lit(FRESH_EPOCH)).alias("target_epoch"),
        F.count_distinct(of("member_metadata", "member_id")).alias("consumer_members"),
        F.min(of("current_member_assignment", "member_epoch")).alias("least_epoch"),
        F.count_if(of("current_member_assignment", "member_state") != "Stable").alias("unsettled"),
        F.count(of("current_member_assignment", "member_id")).alias("settled"),
    )
    seen = consumer_records.groupBy("group_id").agg(F.max("log_offset").alias("consumer_at"))
    waiting = (
        (F.col("least_epoch") < F.col("group_epoch"))
        | (F.col("unsettled") > 0)
        | (F.col("settled") < F.col("consumer_members"))
    )
    state = (
        F.when(F.col("consumer_members") == 0, "Empty")
        .when(F.col("target_epoch") < F.col("group_epoch"), "Assigning")
        .when(waiting, "Reconciling")
        .otherwise("Stable")
    )
    found = seen.join(summary, "group_id", "left")
    return found.withColumn("consumer_state", F.when(F.col("group_epoch").isNotNull(), state)).select(
        "group_id", "consumer_at", "group_epoch", "consumer_members", "consumer_state"
    )


def _other(sound: DataFrame) -> DataFrame:
    """Share and streams groups, whose values are not decoded: their kind, and whether something of them is left."""
    rows = sound.where("record_type LIKE 'share_group_%' OR record_type LIKE 'streams_group_%'")
    last = newest(
        rows.select("group_id", "key", "record_type", "log_partition", "log_offset", "logged_at", "tombstone"),
        ["group_id", "key"],
    )
    is_member = F.col("record_type").isin("share_group_member_metadata", "streams_group_member_metadata")
    return last.groupBy("group_id").agg(
        F.max("log_offset").alias("other_at"),
        F.regexp_extract(F.max("record_type"), "^[a-z]+", 0).alias("other_type"),
        F.count_if(~F.col("tombstone")).alias("other_left"),
        F.count_if(~F.col("tombstone") & is_member).alias("other_members"),
    )


def _type() -> Column:
    """What is alive decides; of what is gone, the newest."""
    classic_lives = F.coalesce(F.col("classic_state") != "Removed", F.lit(False))
    newest_at = F.greatest("classic_at", "consumer_at", "other_at")
    return (
        F.when(F.col("group_epoch").isNotNull(), "consumer")
        .when(classic_lives, "classic")
        .when(F.coalesce("other_left", F.lit(0)) > 0, F.col("other_type"))
        .when(F.coalesce("live_pairs", F.lit(0)) > 0, "offsets_only")
        .when(F.col("classic_at") == newest_at, "classic")
        .when(F.col("consumer_at") == newest_at, "consumer")
        .when(F.col("other_at") == newest_at, F.col("other_type"))
        .otherwise("offsets_only")
    )


def _state() -> Column:
    alive = (
        F.when(F.col("type") == "classic", F.col("classic_state"))
        .when(F.col("type") == "consumer", F.col("consumer_state"))
        .when(F.col("type").isin("share", "streams") & (F.col("other_left") > 0), "Unknown")
        .when((F.col("type") == "offsets_only") & (F.col("live_pairs") > 0), "Empty")
    )
    return F.coalesce(alive, F.lit("Removed"))


def _touched(live: DataFrame, generations: DataFrame, consumer_records: DataFrame) -> DataFrame:
    """(group_id, topics, partitions): with a committed offset, or owned by somebody now."""
    last = newest(generations.select("group_id", "log_partition", "log_offset", "logged_at", "members"), ["group_id"])
    by_member = last.select("group_id", F.explode("members").alias("m"))
    assigned = by_member.select("group_id", F.explode("m.assigned").alias("tp")).select(
        "group_id", "tp.topic", "tp.partition"
    )
    kind = "record_type = 'consumer_group_current_member_assignment'"
    columns = ["group_id", "member_id", "log_partition", "log_offset", "logged_at", "partitions", "tombstone"]
    current = newest(consumer_records.where(kind).select(*columns), ["group_id", "member_id"]).where("NOT tombstone")
    owned = current.select("group_id", F.explode("partitions").alias("tp")).select(
        "group_id", F.coalesce("tp.topic", "tp.topic_id").alias("topic"), "tp.partition"
    )
    pairs = live.select(*PAIR).unionByName(assigned).unionByName(owned).distinct()
    return pairs.groupBy("group_id").agg(
        F.count_distinct("topic").alias("topics"), F.count(F.lit(1)).alias("partitions")
    )


def _expiry(live: DataFrame, classic: DataFrame, retention: str | int) -> DataFrame:
    """(group_id, offsets_expire_at): the first, if nobody joins. Source: KIP-211."""
    # Of a group that had members all offsets go together, those committed after the last member left too.
    together = F.when(F.col("had_members") & (F.col("classic_state") == "Empty"), F.col("empty_since"))
    base = F.unix_micros(F.coalesce(together, "committed_at"))
    requested = F.col("expires_at")  # by the client, in OffsetCommit up to version 4
    left = F.coalesce(requested, F.timestamp_micros(base + span_ms(retention) * 1000))
    offsets = live.join(classic, "group_id", "left")
    return offsets.groupBy("group_id").agg(F.min(left).alias("offsets_expire_at"))
