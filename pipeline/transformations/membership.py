"""Who owned what, from when to when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline.transformations.consumer_epochs import ownership
from pipeline.transformations.keys import PAIR, group_history, with_era

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = (
    *PAIR,
    "member_id",
    "group_instance_id",
    "client_id",
    "client_host",
    "from_generation",
    "to_generation",
    "owned_from",
    "owned_to",
    "ended_by",
    "source",
)


def membership(generations: DataFrame, consumer_records: DataFrame | None = None) -> DataFrame:
    """Intervals of ownership, one row per (group_id, topic, partition) and unbroken time with one member.

    In:  generations (group_generations); consumer_records (consumer_group_records) for KIP-848 groups.
    Out: group_id, topic, partition, member_id, group_instance_id null, client_id, client_host, from_generation int,
         to_generation int null, owned_from timestamp, owned_to timestamp null, ended_by string null (reassigned,
         group_empty, group_removed), source (inferred, epoch).
         Time is half-open, [owned_from, owned_to). Generations are the first and the last in which it was owned, both
         inclusive. While it is owned, owned_to, to_generation and ended_by are null. A partition that nobody took over
         also ended by `reassigned`. A topic whose name nobody knows is shown by its id.
    """
    found = _by_generation(generations)
    return found if consumer_records is None else found.unionByName(ownership(consumer_records).select(*_COLUMNS))


def _by_generation(generations: DataFrame) -> DataFrame:
    order = group_history()
    numbered = with_era(generations).select(
        "group_id",
        "generation",
        "logged_at",
        "members",
        F.row_number().over(order).alias("seq"),
        F.lead("logged_at").over(order).alias("next_at"),
        F.lead("state").over(order).alias("next_state"),
    )
    by_member = numbered.select("*", F.explode("members").alias("m")).drop("members")
    owned = by_member.select("*", F.explode("m.assigned").alias("tp")).select(
        "group_id",
        F.col("tp.topic").alias("topic"),
        F.col("tp.partition").alias("partition"),
        F.col("m.member_id").alias("member_id"),
        F.struct("m.group_instance_id", "m.client_id", "m.client_host").alias("client"),
        *["generation", "logged_at", "seq", "next_at", "next_state"],
    )
    owner = (*PAIR, "member_id")
    # Consecutive rows of one owner have the same distance between both counts.
    nth = F.row_number().over(Window.partitionBy(*owner).orderBy("seq"))
    runs = owned.withColumn("run", F.col("seq") - nth).groupBy(*owner, "run")
    spans = runs.agg(
        F.min_by("client", "seq").alias("client"),
        F.min_by("generation", "seq").alias("from_generation"),
        F.max_by("generation", "seq").alias("last_generation"),
        F.min_by("logged_at", "seq").alias("owned_from"),
        F.max_by("next_at", "seq").alias("owned_to"),
        F.max_by("next_state", "seq").alias("next_state"),
    )
    ended_by = (
        F.when(F.col("owned_to").isNull(), F.lit(None).cast("string"))
        .when(F.col("next_state") == "Removed", "group_removed")
        .when(F.col("next_state") == "Empty", "group_empty")
        .otherwise("reassigned")
    )
    return spans.select(
        *owner,
        "client.group_instance_id",
        "client.client_id",
        "client.client_host",
        "from_generation",
        F.when(F.col("owned_to").isNotNull(), F.col("last_generation")).alias("to_generation"),
        "owned_from",
        "owned_to",
        ended_by.alias("ended_by"),
        F.lit("inferred").alias("source"),
    )
