"""`--stream`: tables of some verbs as the log grows, each row once, whatever is killed when.

Every batch goes to its own folder, `PATH/<table>/batch=N`, made aside and renamed: a batch that is run again after a
crash takes the place of what the first run left, so readers of PATH find each row once. Of a Delta table it is one
version, which Delta adds once. Position, state and what is kept between batches lie in the checkpoint.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from coordinator.why.terms import plural
from pipeline import group_commit
from pipeline.errors import DONE, LOSS, UsageError
from pipeline.jobs import stream_tables
from pipeline.jobs.compaction import compact
from pipeline.jobs.hadoop import HadoopTarget
from pipeline.jobs.inputs import Inputs, matches
from pipeline.jobs.output import DATES, DELTA_LOG, append_once, count_saved, put_text, save
from pipeline.jobs.stream_tables import TABLES
from pipeline.sources.log_dir import GROUPS_TOPIC

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pipeline.command import Command

_LINE_EVERY_S = 30.0


class Sink:
    """Where batches are written."""

    def __init__(self, spark: SparkSession, command: Command) -> None:
        self._command = command
        self._place = _Here(command.to / TABLES[command.verb]) if command.to is not None else _there(spark, command)
        self._date = DATES.get(TABLES[command.verb]) if command.by_date else None
        self._before: int | None = None
        self.rows = 0
        self.batches = 0

    def compact(self, spark: SparkSession) -> None:
        """Before a query writes: small batches of earlier runs become one, where that was asked for."""
        if self._command.compact is not None and isinstance(self._place, _Here):
            merged = compact(spark, self._place.folder, self._command.compact, self._date)
            if merged:
                print(
                    f"kohort pipeline {self._command.verb}: {plural(merged, 'batch', 'batches')} made one",
                    file=sys.stderr,
                )

    def write(self, frame: DataFrame, batch: int) -> None:
        """The rows of one batch, in place of those of an earlier attempt at it."""
        command = self._command
        for column, globs in (("group_id", command.groups), ("topic", command.topics)):
            if globs and column in frame.columns:
                frame = frame.where(matches(column, globs))
        self.rows += self._add(frame, batch) if command.format == "delta" else self._replace(frame, batch)
        self.batches += 1

    def _replace(self, frame: DataFrame, batch: int) -> int:
        format_ = self._command.format
        # A name that begins with an underscore is no data to Spark.
        partial, name = f"_batch={batch}.partial", f"batch={batch}"
        save(frame, format_, f"{self._place.uri}/{partial}", self._date)
        written = count_saved(frame, format_, f"{self._place.uri}/{partial}")
        if written:
            self._place.put_in_place(partial, name)
        else:
            self._place.remove(name)
            self._place.remove(partial)
        return written

    def _add(self, frame: DataFrame, batch: int) -> int:
        command, table = self._command, self._place.uri
        assert command.checkpoint is not None
        if self._before is None:
            self._before = count_saved(frame, "delta", table) if self._place.is_folder(DELTA_LOG) else 0
        # Spark gives a checkpoint a name of its own when the query begins, and keeps it.
        writer = json.loads((command.checkpoint / "metadata").read_text())["id"]
        append_once(frame, table, self._date, writer, batch)
        before, self._before = self._before, count_saved(frame, "delta", table)
        return self._before - before


class _Here:
    """A table's folder on this machine; as `HadoopTarget` is elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = str(folder)

    def is_folder(self, inner: str) -> bool:
        return (self.folder / inner).is_dir()

    def put_in_place(self, made: str, name: str) -> None:
        self.remove(name)
        (self.folder / made).rename(self.folder / name)

    def remove(self, inner: str) -> None:
        if (self.folder / inner).exists():
            shutil.rmtree(self.folder / inner)


def _there(spark: SparkSession, command: Command) -> HadoopTarget:
    return HadoopTarget(spark, f"{str(command.to_uri).rstrip('/')}/{TABLES[command.verb]}")


def stream(spark: SparkSession, command: Command, started: float) -> int:
    """Run the query until it ends (`--once`), fails or is asked to stop; return the exit code."""
    assert command.checkpoint is not None
    if command.overwrite:
        for place in (command.to, command.checkpoint):
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)
        if command.to_uri is not None:
            HadoopTarget(spark, command.to_uri).remove()
    sink = Sink(spark, command)
    with Inputs(spark, command) as inputs:
        window_ms = command.window_ms if command.verb == "growth" else None
        claim(command.checkpoint, command.verb, _log_id(inputs), window_ms, command.format, by_date=command.by_date)
        sink.compact(spark)
        job = stream_tables.job(inputs, sink.write)
        for line in inputs.notices():
            print(line, file=sys.stderr)
        if command.as_group is not None:
            assert command.bootstrap is not None
            group_commit.catch_up(
                command.checkpoint,
                bootstrap=command.bootstrap,
                group_id=command.as_group,
                name=command.verb,
                settings=dict(command.client),
            )
        writer = (
            job.frame.writeStream.queryName(f"kohort-{command.verb}")
            .outputMode("append")
            .option("checkpointLocation", str(command.checkpoint))
            .foreachBatch(job.each)
        )
        if command.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{command.trigger_ms} milliseconds")
        query = writer.start()
        attached = None
        if command.as_group is not None:
            attached = group_commit.attach(
                query, bootstrap=command.bootstrap or "", group_id=command.as_group, settings=dict(command.client)
            )
        dropped = _wait(query, sink, command)
        late = dropped + job.late()
        if attached is not None:
            attached.commit_checkpoint()
            attached.detach()
            if attached.last_error is not None:
                print(f"group {command.as_group} was not committed: {attached.last_error}", file=sys.stderr)
    print(
        f"kohort pipeline {command.verb}: {_progress(sink)}, "
        f"{plural(late, 'row was', 'rows were')} later than the watermark, {time.monotonic() - started:.1f} s",
        file=sys.stderr,
    )
    return LOSS if inputs.left_out() else DONE


def claim(
    checkpoint: Path,
    verb: str,
    log_id: str | None,
    every_ms: int | None = None,
    format_: str = "parquet",
    *,
    by_date: bool = False,
) -> None:
    """Write down what a checkpoint is for, or see that it is for this: the positions in it mean nothing elsewhere.

    `every_ms`: of the windows that Spark keeps there, if there are any. `log_id`: the topic id of `__consumer_offsets`,
    the same in a directory and at its broker; None where none is known.
    Raises: UsageError.
    """
    note = checkpoint / "kohort.json"
    told = _note(note) if note.exists() else {}
    if told.get("verb", verb) != verb:
        raise UsageError(f"--checkpoint {checkpoint} is that of {told['verb']}; {verb} needs one of its own")
    if log_id is not None and told.get("log_id") not in (None, log_id):
        raise UsageError(
            f"--checkpoint {checkpoint} was made with the logs of another cluster; name another, with another --to"
        )
    if told.get("every_ms", every_ms) != every_ms:
        raise UsageError(f"--checkpoint {checkpoint} was made with another --every; name another, with another --to")
    if told.get("by_date", by_date) != by_date:
        begun = "without" if by_date else "with"
        raise UsageError(f"--checkpoint {checkpoint} was begun {begun} --by-date; name another, with another --to")
    if told.get("format", format_) != format_:
        raise UsageError(
            f"--checkpoint {checkpoint} was begun with --format {told['format']}; name another, with another --to"
        )
    # Whole or not at all: a kill must not leave half of it.
    facts = {
        "verb": verb,
        "log_id": log_id or told.get("log_id"),
        "every_ms": every_ms,
        "format": format_,
        "by_date": by_date,
    }
    put_text(note, json.dumps(facts))


def _note(note: Path) -> dict[str, Any]:
    try:
        told = json.loads(note.read_text())
    except ValueError:
        told = None
    if isinstance(told, dict):
        return told
    raise UsageError(f"{note} is damaged: what the checkpoint is for stood there; name another, with another --to")


def _log_id(inputs: Inputs) -> str | None:
    return next((row.topic_id for row in inputs.topic_ids().collect() if row.topic == GROUPS_TOPIC), None)


def _wait(query: StreamingQuery, sink: Sink, command: Command) -> int:
    """Until the query ends; returns how many rows Spark dropped for being late. Raises: what the query failed with."""
    stopping: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    dropped: dict[int, int] = {}
    said = time.monotonic()
    try:
        while not query.awaitTermination(1) and not stopping:
            _note_dropped(query, dropped)
            if time.monotonic() - said >= _LINE_EVERY_S:
                said = time.monotonic()
                print(f"kohort pipeline {command.verb}: {_progress(sink)}", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
    _note_dropped(query, dropped)
    query.stop()
    return sum(dropped.values())


def _progress(sink: Sink) -> str:
    return f"{plural(sink.rows, 'row')} in {plural(sink.batches, 'batch', 'batches')}"


def _note_dropped(query: StreamingQuery, dropped: dict[int, int]) -> None:
    for progress in query.recentProgress:
        state: list[Any] = progress["stateOperators"] or []
        dropped[progress["batchId"]] = sum(one["numRowsDroppedByWatermark"] for one in state)
