"""Every completed rebalance: from the ledger where there is one, else inferred from generations and epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline.transformations.consumer_epochs import epochs
from pipeline.transformations.keys import group_history, millis_between, with_era

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = (
    "group_id",
    "source",
    "from_generation",
    "to_generation",
    "missing_generations",
    "started_at",
    "finished_at",
    "duration_ms",
    "sync_ms",
    "trigger",
    "reason",
    "members_before",
    "members_after",
    "joined",
    "left",
    "leader_changed",
    "protocol",
    "partitions_total",
    "partitions_moved",
    "stopped_ms",
    "slowest_member",
    "log_offset",
)
_OWNERS = "array<struct<topic:string,partition:int,owner:string>>"


def rebalances(
    generations: DataFrame, ledger: DataFrame | None = None, consumer_records: DataFrame | None = None
) -> DataFrame:
    """One row per completed rebalance.

    In:  generations (group_generations); ledger (events of the rebalance ledger); consumer_records
         (consumer_group_records) for KIP-848 groups.
    Out: group_id, source (ledger, inferred, epoch), from_generation int null, to_generation int, missing_generations
         int, started_at timestamp null, finished_at timestamp, duration_ms bigint null, sync_ms bigint null, trigger
         null, reason null, members_before int null, members_after int, joined array<string>, left array<string>,
         leader_changed boolean, protocol null, partitions_total int null, partitions_moved int null, stopped_ms bigint
         null, slowest_member null, log_offset bigint (of the record that tells: in the ledger for source ledger).

    Where a ledger event and an inferred row have the same group and to_generation, the ledger's is kept.
    """
    found = inferred(generations)
    if consumer_records is not None:
        found = found.unionByName(epochs(consumer_records).select(*COLUMNS))
    if ledger is None:
        return found
    told = of_ledger(ledger)
    return (
        found.join(told.select("group_id", "to_generation").distinct(), ["group_id", "to_generation"], "left_anti")
        .select(*COLUMNS)
        .unionByName(told)
    )


def inferred(generations: DataFrame) -> DataFrame:
    """The rebalances that two consecutive records of a group with different generations tell of.

    A first record that has none before it tells nothing. After a tombstone, and where the generation fell, a new life
    of the group begins: from_generation and members_before are null, and everybody joined. A static member that came
    back under another id neither joined nor left, and its partitions did not move.
    """
    order = group_history()
    rows = with_era(generations).select(
        *["group_id", "log_offset", "logged_at", "tombstone", "generation", "state_changed_at", "protocol_type"],
        *["protocol", "leader", "member_count", "members"],
        F.transform(
            "members", lambda m: F.struct(m["member_id"].alias("id"), m["group_instance_id"].alias("instance"))
        ).alias("who"),
        F.lag(F.struct("tombstone", "generation", "leader", "member_count", "members", "protocol_type"))
        .over(order)
        .alias("p"),
    )
    before = rows.where(~F.col("tombstone") & F.col("p").isNotNull()).withColumns(
        {
            "new_life": F.col("p.tombstone") | (F.col("generation") < F.col("p.generation")),
            "before": F.when(~F.col("p.tombstone"), F.col("p.members")),
        }
    )
    changed = before.where(F.col("new_life") | (F.col("generation") != F.col("p.generation")))
    old = F.when(F.col("new_life"), F.array().cast("array<struct<id:string,instance:string>>")).otherwise(
        F.transform(
            "p.members", lambda m: F.struct(m["member_id"].alias("id"), m["group_instance_id"].alias("instance"))
        )
    )
    changed = changed.withColumns(
        {
            "was": old,
        }
    )
    changed = changed.withColumns(
        {
            "owners": _owners("members", "member_count", "was"),
            "owned": F.when(F.col("new_life"), F.array().cast(_OWNERS)).otherwise(
                _owners("p.members", "p.member_count", "who")
            ),
        }
    )
    none = F.lit(None)
    from_generation = F.when(~F.col("new_life"), F.col("p.generation"))
    # Nobody knows how a new life began.
    missing = F.coalesce(F.col("generation") - from_generation - 1, F.lit(0))
    return changed.select(
        "group_id",
        F.lit("inferred").alias("source"),
        from_generation.alias("from_generation"),
        F.col("generation").alias("to_generation"),
        missing.alias("missing_generations"),
        none.cast("timestamp").alias("started_at"),
        F.col("logged_at").alias("finished_at"),
        none.cast("bigint").alias("duration_ms"),
        millis_between(F.col("logged_at"), F.col("state_changed_at")).alias("sync_ms"),
        none.cast("string").alias("trigger"),
        none.cast("string").alias("reason"),
        F.when(~F.col("new_life"), F.col("p.member_count")).alias("members_before"),
        F.col("member_count").alias("members_after"),
        _only("who", "was").alias("joined"),
        _only("was", "who").alias("left"),
        (~F.col("leader").eqNullSafe(F.when(~F.col("new_life"), F.col("p.leader")))).alias("leader_changed"),
        "protocol",
        _total().alias("partitions_total"),
        _moved().alias("partitions_moved"),
        none.cast("bigint").alias("stopped_ms"),
        none.cast("string").alias("slowest_member"),
        "log_offset",
    )


def of_ledger(ledger: DataFrame) -> DataFrame:
    """The rebalances that ended with an assignment, or with nobody left, as the coordinator wrote them down."""
    known = ledger.where(F.col("problem").isNull())
    began = known.where("kind = 'rebalance_began'").groupBy("group_id", "rebalance_id")
    before = began.agg(F.min("members_before").alias("began_with"))
    ended = known.where("kind = 'rebalance_ended' AND outcome IN ('stable', 'empty') AND to_generation IS NOT NULL")
    missing = F.greatest(F.coalesce(F.col("to_generation") - F.col("from_generation") - 1, F.lit(0)), F.lit(0))
    nobody = F.array().cast("array<string>")
    told = ended.join(before, ["group_id", "rebalance_id"], "left").withColumns(
        {
            "source": F.lit("ledger"),
            "missing_generations": missing,
            "started_at": F.col("began_at"),
            "finished_at": F.coalesce("ended_at", "at", "logged_at"),
            "members_before": F.coalesce("members_before", "began_with"),
            "members_after": F.coalesce("members_after", F.lit(0)),
            "joined": F.array_sort(F.coalesce("joined", nobody)),
            "left": F.array_sort(F.coalesce("left", nobody)),
            "leader_changed": F.coalesce("leader_changed", F.lit(False)),
        }
    )
    return told.select(*COLUMNS)


def _owners(members: str, count: str, others: str) -> Column:
    """Every assigned partition with who has it, by instance id if any; null when some are unknown.

    Records before version 3 have no instance ids: what the other of both generations says of the same member counts.
    """

    def of_member(m: Column) -> Column:
        same = F.get(F.filter(others, lambda o: o["id"] == m["member_id"]), F.lit(0))
        who = F.coalesce(m["group_instance_id"], same["instance"], m["member_id"])
        return F.transform(m["assigned"], lambda tp: F.struct(tp["topic"], tp["partition"], who.alias("owner")))

    # flatten() gives null when one of the arrays is null.
    return F.when(F.col(count) == 0, F.array().cast(_OWNERS)).otherwise(
        F.flatten(F.transform(members, of_member)).cast(_OWNERS)
    )


def _only(these: str, those: str) -> Column:
    """The member ids of `these` that `those` do not know, by member id or by instance id; in order."""
    fresh = F.filter(
        these,
        lambda a: (
            ~F.exists(
                those,
                lambda b: (b["id"] == a["id"]) | F.coalesce(b["instance"] == a["instance"], F.lit(False)),
            )
        ),
    )
    return F.array_sort(F.transform(fresh, lambda a: a["id"]))


def _is_consumer() -> Column:
    return F.coalesce(F.col("protocol_type") == "consumer", F.lit(False)) & F.col("owners").isNotNull()


def _total() -> Column:
    return F.when(_is_consumer(), F.size("owners"))


def _moved() -> Column:
    """How many partitions have another owner than before; also those that got one, or have none any more."""

    def partitions(name: str) -> Column:
        return F.transform(name, lambda o: F.struct(o["topic"].alias("topic"), o["partition"].alias("partition")))

    taken = F.size(F.array_except("owners", "owned"))
    orphaned = F.size(F.array_except(partitions("owned"), partitions("owners")))
    return F.when(_is_consumer() & F.col("owned").isNotNull(), taken + orphaned)
