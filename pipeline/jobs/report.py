"""`report`: one page about all groups, or those asked for.

What does not fit on a page is left out by Spark, before anything is collected: at most so many groups, points of a
series, strips of a group. Every table is made once; each is a handful of Spark jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from coordinator.why.findings import findings
from coordinator.why.terms import plural
from coordinator.why.timeline import timeline
from coordinator.why.window import JUDGED, of_last_rebalances
from pipeline import transformations as t
from pipeline.jobs.inputs import LEDGER_TOPIC, matches
from pipeline.jobs.lag import grid_moments
from pipeline.jobs.output import put_answer
from pipeline.report import (
    GROUPS_LISTED,
    GROUPS_SHOWN,
    PARTITION_POINTS,
    PARTITIONS_DRAWN,
    POINTS_SHOWN,
    ReportData,
    Row,
    choose_groups,
    render,
)
from pipeline.report.findings import of_rows
from pipeline.transformations.keys import TP, moment
from protocol.records.errors import UnparsableRecord
from protocol.records.ledger import decode_whole

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipeline.jobs.inputs import Inputs

EVENTS_READ = 5_000
"""So many ledger records of a group, the newest, are looked at for findings."""
LINES_SHOWN = 100
"""Of each group's timeline."""
_Events = dict[str, Sequence[dict[str, Any]]]
_DEFAULT_EVERY_MS = 60_000
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
_NAMED = 20
_SEVERITY = {"warning": "warning", "hint": "note"}


def execute(inputs: Inputs) -> int:
    """Write the page; return the number of groups on it."""
    data = collected(inputs)
    put_answer(inputs, render(data))
    return len(data.groups)


def collected(inputs: Inputs) -> ReportData:
    """The rows of every section, as few as the page shows."""
    command = inputs.command
    records = inputs.records()
    commits = t.offset_commits(records)
    if command.topics:
        commits = commits.where(matches("topic", command.topics))
    generations = inputs.keep(t.group_generations(records))
    consumers = inputs.keep(t.consumer_group_records(records, inputs.topic_ids()))
    ledger = inputs.ledger()
    rebalances = inputs.keep(t.rebalances(generations, ledger, consumers))
    membership = inputs.keep(t.membership(generations, consumers))

    topics = inputs.committed_topics(commits.select("topic").unionByName(membership.select("topic")))
    bounds = inputs.keep(inputs.bounds(topics))
    live = command.requested_at if command.broker is not None else None
    until = command.requested_at if command.until is None else min(command.until, command.requested_at)
    every_ms = command.every_ms or _step_ms(commits, command.since, until)
    # A broker would have to send the whole topics for their headers.
    moments = [] if live is None else grid_moments(commits, command.since, until, every_ms)
    positions = inputs.keep(inputs.growth(topics, moments) if moments else inputs.batches(topics))
    ends = bounds if command.until is None else t.ends_at(bounds, positions, command.until)
    now = t.lag_now(commits, ends, command.requested_at)
    as_of, retention = command.until or live, command.retention_ms
    every_group = t.groups(records, generations, consumers, rebalances, now, as_of=as_of, offsets_retention=retention)
    worst = t.worst_lag(commits, positions, partitions=bounds, since=command.since, until=until)
    groups, others = choose_groups(rows_of(every_group.join(worst, "group_id", "left")))
    names = [row["group_id"] for row in groups]

    whole, lasting_ms = inputs.all_records(), command.lasting_ms
    found = t.stuck_partitions(
        commits, positions, membership, lasting_ms, partitions=bounds, records=whole, until=as_of
    )
    stuck = inputs.keep(found)
    resets = inputs.keep(_since(t.offset_resets(commits, membership), "at", inputs))
    counts = inputs.counts()
    told = _since(rebalances, "finished_at", inputs).groupBy("source").count().collect()
    facts = {"records": counts.read if counts is not None else 0, "stuck": stuck.count(), "resets": resets.count()}
    lag, partitions = _lag(inputs, commits.where(F.col("group_id").isin(names)), positions, bounds, (until, every_ms))
    data = ReportData(
        source=command.broker or ", ".join(command.paths),
        made_at=command.requested_at,
        groups=groups,
        others=others[: GROUPS_LISTED - len(groups)],
        lag=lag,
        partitions=partitions,
        rebalances=_newest(_since(rebalances, "finished_at", inputs), "finished_at", names, whole=True),
        membership=_newest(membership, "owned_from", names, whole=False),
        growth=_growth(t.growth(records), inputs),
        stuck=rows_of(stuck.orderBy("stuck_since", "group_id", *TP).limit(POINTS_SHOWN)),
        resets=rows_of(resets.orderBy(F.desc("at"), "group_id", *TP, F.desc("log_offset")).limit(POINTS_SHOWN)),
        unknown=_unknown(inputs, records, commits, rebalances, ledger is not None),
        left_out=max(len(others) - GROUPS_LISTED + len(groups), 0),
        facts=facts | {row["source"]: row["count"] for row in told},
        since=command.since,
        until=command.until,
    )
    events, at_ms = _events(ledger, names, inputs) if ledger is not None else ({}, 0)
    of_ledger = _findings(events, at_ms)
    rows = (data.membership, data.rebalances, data.stuck, data.resets)
    return replace(data, findings=of_ledger + of_rows(groups, *rows, of_ledger), timeline=_timeline(events, at_ms))


def rows_of(frame: DataFrame) -> list[Row]:
    """Its rows as dicts; moments have a zone."""
    rows: list[Row] = frame.toArrow().to_pylist()
    return rows


def _since(frame: DataFrame, column: str, inputs: Inputs) -> DataFrame:
    since = inputs.command.since
    return frame if since is None else frame.where(F.col(column) >= moment(since))


def _newest(frame: DataFrame, column: str, groups: Sequence[str], *, whole: bool) -> list[Row]:
    """The newest rows of these groups: so many of all together (`whole`), or of each."""
    chosen = frame.where(F.col("group_id").isin(list(groups)))
    if whole:
        return rows_of(chosen.orderBy(F.desc(column), "group_id").limit(POINTS_SHOWN))
    order = Window.partitionBy("group_id").orderBy(F.desc(column), *TP, "member_id")
    return rows_of(chosen.withColumn("age", F.row_number().over(order)).where(F.col("age") <= POINTS_SHOWN).drop("age"))


def _lag(
    inputs: Inputs, commits: DataFrame, positions: DataFrame, bounds: DataFrame, grid_to: tuple[datetime, int]
) -> tuple[list[Row], list[Row]]:
    """(the worst lag of each group's partitions, the lag of its worst ones), on a grid fine enough for a page."""
    until, every_ms = grid_to
    command = inputs.command
    closing = None if command.broker is None or command.until is not None else until
    grid = t.lag_over_time(
        commits, positions, every_ms, partitions=bounds, since=command.since, until=until, closing=closing
    )
    grid = inputs.keep(grid.select("group_id", *TP, "at", "lag_messages", "lag_seconds"))
    worst = grid.groupBy("group_id", "at").agg(
        F.max("lag_messages").alias("lag_messages"), F.max("lag_seconds").alias("lag_seconds")
    )
    largest = grid.groupBy("group_id", *TP).agg(F.max("lag_messages").alias("largest"))
    order = Window.partitionBy("group_id").orderBy(F.desc_nulls_last("largest"), *TP)
    drawn = largest.withColumn("place", F.row_number().over(order)).where(F.col("place") <= PARTITIONS_DRAWN)
    of_worst = grid.join(drawn.select("group_id", *TP), ["group_id", *TP])
    return rows_of(_thinned(worst, every_ms)), rows_of(_thinned(of_worst, every_ms, TP, PARTITION_POINTS))


def _step_ms(commits: DataFrame, since: datetime | None, until: datetime) -> int:
    """The distance of grid points that makes at most about a thousand of them."""
    ends = commits.agg(F.min("logged_at").alias("first"), F.max("logged_at").alias("last"))
    first, last = next(iter(ends.toArrow().to_pylist())).values()
    if first is None:
        return _DEFAULT_EVERY_MS
    span_s = (min(last, until) - max(first, since or first)).total_seconds()
    return 1000 * next((step for step in _STEPS_S if span_s / step <= POINTS_SHOWN / 2), _STEPS_S[-1])


def _thinned(worst: DataFrame, every_ms: int, more: Sequence[str] = (), limit: int = POINTS_SHOWN) -> DataFrame:
    """Where a series has more points than are shown: of each stretch the lowest and the highest.

    A series is a group's, or that of a partition with `more`.
    """
    # Two series share the points: each of them keeps two of a stretch.
    key = ["group_id", *more]
    counted = Window.partitionBy(*key)
    at_ms = F.unix_millis("at")
    points = (F.max(at_ms).over(counted) - F.min(at_ms).over(counted)) / every_ms
    stretch = F.greatest(F.ceil(points / (limit / 4)), F.lit(1)) * every_ms
    rows = worst.withColumn("stretch", F.floor(at_ms / stretch))
    row = F.struct("at", "lag_messages", "lag_seconds")
    kept = rows.groupBy(*key, "stretch").agg(
        F.array_distinct(
            F.filter(
                F.array(
                    F.min_by(row, "lag_messages"),
                    F.max_by(row, "lag_messages"),
                    F.min_by(row, "lag_seconds"),
                    F.max_by(row, "lag_seconds"),
                    # All nulls have no lowest: a gap stays a gap.
                    F.when(F.count("lag_messages") == 0, F.min_by(row, "at")),
                ),
                lambda one: one.isNotNull(),
            )
        ).alias("rows")
    )
    return kept.select(*key, F.inline("rows")).orderBy(*key, "at")


def _growth(growth: DataFrame, inputs: Inputs) -> list[Row]:
    """By group and hour; those who write least are one row an hour, without a name."""
    rows = _since(growth, "window_start", inputs)
    by_size = rows.groupBy("group_id").agg(F.sum("bytes").alias("bytes")).orderBy(F.desc("bytes"), "group_id")
    largest = [row.group_id for row in by_size.limit(GROUPS_SHOWN).collect()]
    shown: Column = F.col("group_id").isin(largest)
    others = (
        rows.where(~shown)
        .groupBy("window_start")
        .agg(
            *[F.sum(name).alias(name) for name in ("commits", "tombstones", "group_records", "bytes", "share")],
            F.sum("commits_per_second").alias("commits_per_second"),
        )
    )
    small = others.select(
        F.lit(None).cast("string").alias("group_id"), "*", F.lit(None).cast("string").alias("verdict")
    )
    return rows_of(rows.where(shown).select(*small.columns)) + rows_of(small)


def _events(ledger: DataFrame, groups: Sequence[str], inputs: Inputs) -> tuple[_Events, int]:
    """The ledger's newest records of each group, the oldest first, and when they are looked at, ms since 1970."""
    command = inputs.command
    sound = ledger.where(F.col("problem").isNull() & F.col("group_id").isin(list(groups)))
    sound = _since(sound, "at", inputs)
    if command.until is not None:
        sound = sound.where(F.col("at") < moment(command.until))
    order = Window.partitionBy("group_id").orderBy(F.desc("log_offset"))
    newest = sound.withColumn("age", F.row_number().over(order)).where(F.col("age") <= EVENTS_READ)
    rows = newest.select("group_id", "log_offset", "event").orderBy("group_id", "log_offset").toLocalIterator()
    events = events_of((row.group_id, row.event) for row in rows)
    now_ms = round((command.until or command.requested_at).timestamp() * 1000)
    if command.broker is None:
        # A directory is looked at as it was when its last record was written.
        now_ms = max((int(one.get("at_ms") or 0) for records in events.values() for one in records), default=now_ms)
    return {name: of_last_rebalances(records, JUDGED) for name, records in events.items()}, now_ms


def _timeline(events: _Events, now_ms: int) -> list[Row]:
    """What happened to each group, in the words of `kohort why`."""
    return [
        {
            "group_id": group_id,
            "at": _of_ms(line.at_ms),
            "generations": line.generations,
            "took_ms": line.took_ms,
            "text": line.says,
            "below": line.below,
            "record": line.record,
            "verdicts": line.verdicts,
        }
        for group_id, records in events.items()
        for line in timeline(records, now_ms=now_ms)[:LINES_SHOWN]
    ]


def _findings(events: _Events, now_ms: int) -> list[Row]:
    """What the ledger's records of each group say is wrong with it."""
    return [
        {
            "group_id": group_id,
            "rule": found["rule"],
            "weight": _SEVERITY.get(found["severity"], "note"),
            "text": found["says"],
            "first_at": _of_ms(found["first_at_ms"]),
            "last_at": _of_ms(found["last_at_ms"]),
        }
        for group_id, records in events.items()
        for found in findings(records, now_ms=now_ms)
    ]


def events_of(rows: Iterable[tuple[str, str]]) -> dict[str, list[dict[str, Any]]]:
    """The ledger's records of each group, from (group id, JSON); what is no record of ours is passed over."""
    events: dict[str, list[dict[str, Any]]] = {}
    for group_id, text in rows:
        try:
            record = decode_whole(text.encode("utf-8", "replace"))
        except UnparsableRecord:
            continue  # a client may write into the topic as well
        events.setdefault(group_id, []).append(record)
    return events


def _of_ms(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)


def _unknown(
    inputs: Inputs, records: DataFrame, commits: DataFrame, rebalances: DataFrame, has_ledger: bool
) -> list[str]:
    """What the page cannot know, in sentences."""
    lines = (*inputs.undecoded_lines(), *inputs.skipped(), *inputs.left_out(), *inputs.notices())
    said = [line.strip() for line in lines]
    names = {row.topic for row in commits.select("topic").distinct().collect()}
    there = inputs.topics(names)
    gone = sorted(names - there.seen - there.denied)
    if gone:
        more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
        said.append(f"The lag of topics whose logs are not here: {', '.join(gone[:_NAMED])}{more}")
    said += _horizon(inputs, records)
    missing = rebalances.agg(F.sum("missing_generations").alias("n")).first()
    if missing is not None and missing.n:
        said.append(f"{plural(missing.n, 'generation')} that left no record, or whose record compaction removed")
    if not has_ledger and LEDGER_TOPIC not in there.denied:
        said.append("Why groups rebalanced, and for how long: there is no rebalance ledger here, only generations")
    return said


def _horizon(inputs: Inputs, records: DataFrame) -> list[str]:
    cleaning = inputs.cleaning()
    if cleaning is None:
        return ["How far compaction has come: a broker does not tell. Counts of commits are lower bounds"]
    cleaned = cleaning.where("first_dirty_offset > 0").groupBy("log_partition")
    first = cleaned.agg(F.max("first_dirty_offset").alias("first_dirty_offset"))
    dirty = records.join(F.broadcast(first), "log_partition", "right")
    kept = F.when(F.col("log_offset") >= F.col("first_dirty_offset"), F.col("logged_at"))
    by_log = dirty.groupBy("log_partition").agg(F.min(kept).alias("since"))
    row = by_log.agg(F.count(F.lit(1)).alias("logs"), F.max("since").alias("since")).toArrow().to_pylist()[0]
    if not row["logs"]:
        return []
    when = "" if row["since"] is None else f" before {row['since']:%Y-%m-%d %H:%M:%S}"
    where = f"{plural(row['logs'], 'partition')} of __consumer_offsets"
    return [
        f"Commits and generations{when} that later ones superseded: compaction removed them from {where}, "
        "so earlier counts are lower bounds"
    ]
