"""The tables that can be streamed: what is read, and what is done with each batch of it.

commits need nothing but their record. growth keeps whole hours in Spark's state until the watermark has passed them.
rebalances and lag are seen against what was before: they are made of the rows that `StreamState` kept and the new ones,
by the transformations that make them at rest.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline import decode
from pipeline.decode import schemas
from pipeline.jobs.inputs import LEDGER_TOPIC, OBSERVERS, Inputs, matches
from pipeline.jobs.stream_state import STATE_FOLDER, StreamState
from pipeline.jobs.stream_states import say_denied, tell_groups, tell_stuck
from pipeline.sources.log_dir import GROUPS_TOPIC, METADATA_TOPIC
from pipeline.transformations import consumer_group_records, group_generations, lag_over_time, offset_commits
from pipeline.transformations import rebalances as rebalances_table
from pipeline.transformations.growth import growth_of_groups, growth_of_pairs, hourly
from pipeline.transformations.keys import PAIR, TP, micros, newest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

TABLES = {
    "commits": "offset_commits",
    "rebalances": "rebalances",
    "lag": "lag",
    "growth": "growth",
    "groups": "groups",
    "stuck": "stuck_partitions",
}
KEPT_US = 3_600_000_000
"""Rows of groups are kept whole for an hour after they are done with, then only the newest of each key: a rebalance
that takes longer than that is told as if it had begun later."""

_ALL_TIME = -(2**62)


@dataclass(frozen=True, slots=True)
class Job:
    """A streaming frame, what happens with each batch of it, and how many rows came too late for that."""

    frame: DataFrame
    each: Callable[[DataFrame, int], None]
    late: Callable[[], int] = lambda: 0


def job(inputs: Inputs, write: Callable[[DataFrame, int], None]) -> Job:
    """The job of the verb that is asked for."""
    makers = {
        "commits": _commits,
        "growth": _growth,
        "rebalances": _rebalances,
        "lag": _lag,
        "groups": _groups,
        "stuck": _stuck,
    }
    return makers[inputs.command.verb](inputs, write)


def _commits(inputs: Inputs, write: Callable[[DataFrame, int], None]) -> Job:
    return Job(offset_commits(_records(inputs)), write)


def _groups(inputs: Inputs, write: Callable[[DataFrame, int], None]) -> Job:
    return Job(_records(inputs).select("group_id", "log_offset"), tell_groups(inputs, write))


def _stuck(inputs: Inputs, write: Callable[[DataFrame, int], None]) -> Job:
    assert inputs.command.checkpoint is not None
    records = _records(inputs, limited=False).select(F.col("log_offset").alias("offset"))
    batches = _read(inputs, _others(inputs), "batch", limited=False, option="topicPattern")
    grown = records.unionByName(batches.select(F.col("last_offset").alias("offset")))
    return Job(grown, tell_stuck(inputs, write, inputs.command.checkpoint / STATE_FOLDER))


def _others(inputs: Inputs) -> str:
    """A pattern of the topics that are asked for, whenever they are made; never of Kafka's own log of metadata."""
    topics = inputs.command.topics
    wanted = "|".join(fnmatch.translate(glob) for glob in topics) if topics else ".*"
    return f"(?!{re.escape(METADATA_TOPIC)}$)(?:{wanted})"


def _growth(inputs: Inputs, write: Callable[[DataFrame, int], None]) -> Job:
    # An hour is emitted once, for all groups in the same batch, so that shares can be told.
    rows = hourly(_records(inputs)).withWatermark("logged_at", f"{inputs.command.watermark_ms} milliseconds")
    every = inputs.command.window_ms
    return Job(growth_of_pairs(rows, every), lambda pairs, batch: write(growth_of_groups(pairs, every), batch))


def _records(inputs: Inputs, *, limited: bool = True) -> DataFrame:
    """Records of groups, without those that only look on: Spark's own, and the one that this stream commits to."""
    rows = _read(inputs, GROUPS_TOPIC, "group", limited=limited)
    if inputs.command.include_observers:
        return rows
    rows = rows.where(~F.coalesce(F.col("group_id").rlike(OBSERVERS), F.lit(False)))
    own = inputs.command.as_group
    return rows if own is None else rows.where(~F.col("group_id").eqNullSafe(F.lit(own)))


def _read(inputs: Inputs, topic: str, records: str, *, limited: bool = True, option: str = "topic") -> DataFrame:
    command = inputs.command
    options = {**inputs.where, option: topic, "records": records, "onCorrupt": command.on_corrupt}
    options["failOnDataLoss"] = str(command.on_loss == "error").lower()
    if command.max_offsets is not None and limited:
        options["maxOffsetsPerTrigger"] = str(command.max_offsets)
    return inputs.spark.readStream.format(inputs.format).options(**options).load()


# Rebalances.


class _Rebalances:
    """Inferred rows are told at once where there is no ledger. Where there is one they wait for its row, which says
    more, for as long as the watermark: of both logs, the slower one counts."""

    def __init__(self, inputs: Inputs, write: Callable[[DataFrame, int], None]) -> None:
        assert inputs.command.checkpoint is not None
        self.inputs = inputs
        self.write = write
        self.state = StreamState(inputs.spark, inputs.command.checkpoint / STATE_FOLDER)
        self.has_ledger = inputs.has_ledger()
        self.late_rows = 0

    def frame(self) -> DataFrame:
        """Records of groups that are no commits, and those of the ledger, in one stream."""
        group, event = _struct_type(schemas.GROUP_RECORDS), _struct_type(schemas.LEDGER_EVENTS)
        records = _records(self.inputs).where("record_type <> 'offset_commit'")
        stream = records.select(F.struct("*").cast(group).alias("g"), F.lit(None).cast(event).alias("l"))
        if not self.has_ledger:
            return stream
        events = decode.ledger_events(_read(self.inputs, LEDGER_TOPIC, "raw"))
        told = events.select(F.lit(None).cast(group).alias("g"), F.struct("*").cast(event).alias("l"))
        return stream.unionByName(told)

    def each(self, fresh: DataFrame, batch: int) -> None:
        """Tell what is new, keep what the next batch needs."""
        fresh = fresh.persist()
        before, facts = self.state.load(batch)
        told_us = facts.get("told_us", _ALL_TIME)
        rows = (fresh if before is None else before.unionByName(fresh)).persist()
        records = rows.where("g IS NOT NULL").select("g.*")
        ledger = rows.where("l IS NOT NULL").select("l.*")
        generations = group_generations(records)
        consumers = consumer_group_records(records, Inputs(self.inputs.spark, self.inputs.command).topic_ids())
        table = rebalances_table(generations, ledger if self.has_ledger else None, consumers)
        mark_us = max(told_us, self._watermark_us(rows)) if self.has_ledger else told_us
        new = fresh.select("g.group_id", "g.log_offset").where("group_id IS NOT NULL").distinct()
        if self.has_ledger:
            new_events = fresh.select("l.group_id", "l.log_offset").where("group_id IS NOT NULL").distinct()
            events = table.where("source = 'ledger'").join(new_events, ["group_id", "log_offset"], "left_semi")
            ended = micros("finished_at")
            self.late_rows += events.where(ended <= told_us).count()
            others = table.where("source <> 'ledger'").where((ended > told_us) & (ended <= mark_us))
            found = events.where(ended > told_us).select(*table.columns).unionByName(others)
        else:
            found = table.join(new, ["group_id", "log_offset"], "left_semi").select(*table.columns)
        self.write(found, batch)
        self.state.keep(self._kept(rows, mark_us), {"told_us": mark_us}, batch)
        rows.unpersist()
        fresh.unpersist()

    def _watermark_us(self, rows: DataFrame) -> int:
        ends = rows.agg(F.max(micros("g.logged_at")).alias("g"), F.max(micros("l.logged_at")).alias("l")).first()
        known = [] if ends is None else [end for end in (ends.g, ends.l) if end is not None]
        return min(known) - self.inputs.command.watermark_ms * 1000 if known else _ALL_TIME

    def _kept(self, rows: DataFrame, mark_us: int) -> DataFrame:
        newest_at = F.max(micros("g.logged_at")).over(Window.partitionBy(F.lit(1)))
        before = F.lit(mark_us) if self.has_ledger else newest_at
        key = Window.partitionBy("g.group_id", "g.record_type", "g.key").orderBy(
            F.desc("g.log_partition"), F.desc("g.log_offset")
        )
        groups = rows.where("g IS NOT NULL").withColumns({"age": F.row_number().over(key), "before": before})
        recent = micros("g.logged_at") > F.col("before") - KEPT_US
        events = rows.where("l IS NOT NULL").where(micros("l.logged_at") > mark_us - KEPT_US)
        return groups.where((F.col("age") == 1) | recent).select("g", "l").unionByName(events)


def _rebalances(inputs: Inputs, write: Callable[[DataFrame, int], None]) -> Job:
    work = _Rebalances(inputs, write)
    return Job(work.frame(), work.each, lambda: work.late_rows)


def _struct_type(schema: object) -> str:
    return f"struct<{schemas.ddl(schema).replace('` ', '`: ')}>"


# Lag.


class _Lag:
    """A grid point is told when the newest commit is a watermark younger than it. What is kept: the newest commit of
    each pair, and the batches that it has not passed."""

    def __init__(self, inputs: Inputs, write: Callable[[DataFrame, int], None]) -> None:
        assert inputs.command.checkpoint is not None
        self.inputs = inputs
        self.write = write
        self.state = StreamState(inputs.spark, inputs.command.checkpoint / STATE_FOLDER)
        self.late_rows = 0

    def frame(self) -> DataFrame:
        """Commits, and batch headers of all topics that are asked for, whenever they are made, in one stream.

        A limit would let one of the two run ahead of the other, and lag would be told of ends not yet seen. For the
        same reason commits come first: where a batch ends is asked in this order.
        """
        command = self.inputs.command
        commits = offset_commits(_records(self.inputs, limited=False))
        if command.topics:
            commits = commits.where(matches("topic", command.topics))
        commits = commits.select(*PAIR, "log_partition", "log_offset", "logged_at", "committed_offset", "committed_at")
        batches = _read(self.inputs, _others(self.inputs), "batch", limited=False, option="topicPattern").select(
            *TP, *_BATCH
        )
        return commits.unionByName(batches, allowMissingColumns=True)

    def each(self, fresh: DataFrame, batch: int) -> None:
        """Tell the grid points that have come, keep what later ones need."""
        before, facts = self.state.load(batch)
        told_us = facts.get("told_us", _ALL_TIME)
        rows = (fresh if before is None else before.unionByName(fresh)).persist()
        commits = rows.where("group_id IS NOT NULL").drop(*_BATCH)
        positions = rows.where("group_id IS NULL").select(*TP, *_BATCH)
        end = commits.agg(F.max(micros("logged_at")).alias("end")).first()
        command = self.inputs.command
        mark_us = told_us
        if end is not None and end.end is not None:
            mark_us = max(told_us, end.end - command.watermark_ms * 1000)
        self.late_rows += fresh.where("group_id IS NOT NULL").where(micros("logged_at") <= told_us).count()
        if mark_us > told_us:
            now = Inputs(self.inputs.spark, command)
            # What a pattern does not find at a broker has no batches here: its ends are not known.
            hidden = {LEDGER_TOPIC} if command.broker is not None else set()
            bounds = now.bounds(set(now.committed_topics(commits)) - hidden)
            say_denied(self.inputs, now)
            since = command.since if told_us == _ALL_TIME else _moment(told_us + 1)
            until = _moment(mark_us)
            table = lag_over_time(commits, positions, command.step_ms, partitions=bounds, since=since, until=until)
            self.write(table, batch)
        self.state.keep(self._kept(rows, commits, positions, mark_us), {"told_us": mark_us}, batch)
        rows.unpersist()

    def _kept(self, rows: DataFrame, commits: DataFrame, positions: DataFrame, mark_us: int) -> DataFrame:
        done = micros("logged_at") <= mark_us
        kept = newest(commits.where(done), PAIR).unionByName(commits.where(~done))
        # Batches that some group has not passed; and the one that holds the log end.
        passed = kept.groupBy(*TP).agg(F.min("committed_offset").alias("passed"))
        old = micros("max_timestamp") <= mark_us
        last = F.max(F.when(old, F.col("last_offset"))).over(Window.partitionBy(*TP))
        marked = positions.join(passed, list(TP), "left").withColumn("last", last)
        wanted = marked.where(
            ~old
            | (F.col("last_offset") == F.col("last"))
            | (F.col("last_offset") >= F.col("passed"))
            | (F.col("passed").isNull() & (micros("max_timestamp") > mark_us - KEPT_US))
        )
        batches = wanted.select(*TP, *_BATCH)
        return kept.unionByName(batches, allowMissingColumns=True).select(*rows.columns)


_BATCH = {
    "base_offset": "bigint",
    "last_offset": "bigint",
    "base_timestamp": "timestamp",
    "max_timestamp": "timestamp",
}


def _lag(inputs: Inputs, write: Callable[[DataFrame, int], None]) -> Job:
    work = _Lag(inputs, write)
    return Job(work.frame(), work.each, lambda: work.late_rows)


def _moment(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC)
