"""Tables into files or onto the screen.

Files: `PATH/<table>/`, one folder per table as Spark writes it, made beside as `PATH.partial`, which is renamed when
all of it is there, and removed when something fails. Moments are ISO 8601 with `Z` in JSON and CSV, nested columns JSON
in CSV. On the screen a table is sorted and cut; JSON and CSV go there row by row.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation
from pyspark.sql import types as T  # noqa: N812

from coordinator.why.terms import plural
from pipeline.errors import UsageError
from pipeline.jobs.hadoop import HadoopTarget
from pipeline.jobs.inputs import matches
from pipeline.transformations.keys import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from pipeline.command import Command
    from pipeline.jobs.inputs import Inputs

ROWS_SHOWN = 100
DELTA_LOG = "_delta_log"
"""The folder by which a table of Delta is known."""
DATES = {
    "offset_commits": "logged_at",
    "transactional_commits": "logged_at",
    "rebalances": "finished_at",
    "lag": "at",
    "growth": "window_start",
    "stuck_partitions": "stuck_since",
    "offset_resets": "at",
    "membership": "owned_from",
    "group_records": "logged_at",
    "group_generations": "logged_at",
    "consumer_group_records": "logged_at",
}
"""The moment by whose day a table may be laid out; others say how things are, and have none."""
_CELL = 40
_TO_QUOTE = re.compile(r'[,"\r\n]')
# Spark would cut them off names.
_KEEP_BLANKS: dict[str, Any] = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


@dataclass(frozen=True, slots=True)
class Table:
    """A table under its name. `order`: how it is sorted on the screen. `since`: the moment that --since is compared
    with, a column or an expression; `hidden`: columns that a screen has no room for."""

    name: str
    frame: DataFrame
    order: tuple[str, ...]
    since: str | None = None
    hidden: tuple[str, ...] = ()


def write(tables: Sequence[Table], inputs: Inputs) -> int:
    """Write all of them where it is asked; return the number of rows. Raises: whatever Spark raises."""
    command = inputs.command
    chosen = [_requested_rows(table, command) for table in tables]
    if command.to_uri is not None:
        return _elsewhere(chosen, command, target(inputs.spark, command))
    if command.to is not None:
        return _files(chosen, command, command.to)
    return sum(_show(table, command, titled=len(chosen) > 1) for table in chosen)


def _requested_rows(table: Table, command: Command) -> Table:
    frame = table.frame
    if command.groups and "group_id" in frame.columns:
        frame = frame.where(matches("group_id", command.groups))
    if command.topics and "topic" in frame.columns:
        frame = frame.where(matches("topic", command.topics))
    if command.since is not None and table.since is not None:
        frame = frame.where(F.coalesce(F.expr(table.since) >= moment(command.since), F.lit(True)))
    return Table(table.name, frame, table.order, table.since, table.hidden)


def _files(tables: Sequence[Table], command: Command, to: Path) -> int:
    if command.format == "delta" and all((to / table.name / DELTA_LOG).is_dir() for table in tables):
        return _saved(tables, command, str(to))  # a new version of each, and the older ones stay
    partial = to.with_name(to.name + ".partial")
    if partial.exists():
        shutil.rmtree(partial)  # of a run that was killed
    try:
        rows = _saved(tables, command, str(partial))
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if to.is_file() or to.is_symlink():
        to.unlink()
    elif to.exists():
        shutil.rmtree(to)
    partial.rename(to)
    return rows


def target(spark: SparkSession, command: Command) -> HadoopTarget:
    """The place elsewhere that is written to. Raises: UsageError when it is none, or taken."""
    assert command.to_uri is not None
    place = HadoopTarget(spark, command.to_uri)
    if not command.overwrite and place.is_taken():
        raise UsageError(f"--to {command.to_uri} exists and is not empty; --overwrite replaces it")
    if command.is_one_file and place.is_folder():
        raise UsageError(f"--to {command.to_uri} is a directory; name the file that is to be written")
    return place


def put_answer(inputs: Inputs, text: str) -> None:
    """Write the one file of a verb where it is asked, whole or not at all."""
    command = inputs.command
    if command.to is not None:
        put_text(command.to, text)
    else:
        target(inputs.spark, command).put_text(text)


def _elsewhere(tables: Sequence[Table], command: Command, place: HadoopTarget) -> int:
    if command.format == "delta" and all(place.is_folder(f"{table.name}/{DELTA_LOG}") for table in tables):
        return _saved(tables, command, place.uri)
    place.clear()
    try:
        rows = _saved(tables, command, place.partial)
    except BaseException:
        with contextlib.suppress(Exception):  # what failed is said; that this failed too helps nobody
            place.clear()
        raise
    place.finish()
    return rows


def _saved(tables: Sequence[Table], command: Command, folder: str) -> int:
    rows = 0
    for table in tables:
        date = DATES.get(table.name) if command.by_date else None
        save(table.frame, command.format, f"{folder}/{table.name}", date)
        rows += count_saved(table.frame, command.format, f"{folder}/{table.name}")
    return rows


def put_text(to: Path, text: str) -> None:
    """Write one file, whole or not at all."""
    to.parent.mkdir(parents=True, exist_ok=True)
    partial = to.with_name(to.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(to)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def save(frame: DataFrame, format_: str, path: str, date: str | None = None) -> None:
    """Write a frame as Delta, parquet, JSON lines or CSV with a header; the first two by the day of the moment `date`,
    if given."""
    if format_ in ("parquet", "delta"):
        by_day = frame if date is None else _by_day(frame, date)
        writer = by_day.write.format(format_).mode("overwrite").option("overwriteSchema", "true")
        (writer if date is None else writer.partitionBy("date")).save(path)
    elif format_ == "json":
        frame.select(as_json(frame)).write.mode("overwrite").text(path)
    else:
        flat(frame).write.mode("overwrite").csv(path, header=True, escape='"', emptyValue='""', **_KEEP_BLANKS)


def _by_day(frame: DataFrame, date: str) -> DataFrame:
    # One file a day, not one of each task.
    return frame.withColumn("date", F.to_date(F.expr(date))).repartition("date")


def append_once(frame: DataFrame, path: str, date: str | None, writer: str, batch: int) -> None:
    """Add a batch to a Delta table, as one version; a batch that this writer has added before is left out by Delta."""
    by_day = frame if date is None else _by_day(frame, date)
    to = by_day.write.format("delta").mode("append").option("txnAppId", writer).option("txnVersion", batch)
    (to if date is None else to.partitionBy("date")).save(path)


def count_saved(frame: DataFrame, format_: str, path: str) -> int:
    """How many rows were written: read back, which for parquet looks at footers, for Delta at its log only."""
    spark = frame.sparkSession
    if format_ in ("parquet", "delta"):
        return spark.read.format(format_).load(path).count()
    if format_ == "json":
        return spark.read.text(path).count()
    return spark.read.csv(path, header=True, escape='"', multiLine=True, **_KEEP_BLANKS).count()


def as_json(frame: DataFrame) -> Column:
    """Each row as one JSON object; nulls stay."""
    options = {"timestampFormat": _ISO, "ignoreNullFields": "false", "timeZone": "UTC"}
    return F.to_json(F.struct(*[F.col(f"`{name}`") for name in frame.columns]), options).alias("value")


def flat(frame: DataFrame) -> DataFrame:
    """Every column as text or number: moments ISO, bytes base64, nested ones JSON."""
    return frame.select(*[_flat(field) for field in frame.schema.fields])


def _flat(field: T.StructField) -> Column:
    column = F.col(f"`{field.name}`")
    if isinstance(field.dataType, T.TimestampType):
        return F.date_format(column, _ISO).alias(field.name)
    if isinstance(field.dataType, T.BinaryType):
        # Spark breaks base64 into lines.
        return F.regexp_replace(F.base64(column), r"\s", "").alias(field.name)
    if isinstance(field.dataType, (T.ArrayType, T.StructType, T.MapType)):
        return F.to_json(column, {"timestampFormat": _ISO, "timeZone": "UTC"}).alias(field.name)
    return column


def _show(table: Table, command: Command, *, titled: bool) -> int:
    rows = table.frame.orderBy(*[F.expr(name) if " " not in name else _descending(name) for name in table.order])
    limited = rows.limit(command.limit) if command.limit is not None else rows
    if command.format == "json":
        return _lines(row.value for row in limited.select(as_json(table.frame)).toLocalIterator())
    if command.format == "csv":
        names = table.frame.columns
        return _lines((_csv(row) for row in flat(limited).toLocalIterator()), head=_csv(names))
    return _table(table, rows, command.limit or ROWS_SHOWN, titled=titled)


def _descending(order: str) -> Column:
    return F.expr(order.removesuffix(" desc")).desc_nulls_last()


def _lines(lines: Iterable[str], head: str | None = None) -> int:
    out = sys.stdout
    if head is not None:
        out.write(head + "\n")
    count = 0
    for line in lines:
        out.write(line + "\n")
        count += 1
    out.flush()
    return count


def _csv(values: Iterable[Any]) -> str:
    """A line as Spark writes it into files: null is nothing, an empty text two quotes."""
    return ",".join(map(_csv_cell, values))


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text and not _TO_QUOTE.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _table(table: Table, rows: DataFrame, limit: int, *, titled: bool) -> int:
    shown = [name for name in table.frame.columns if name not in table.hidden]
    found = (
        rows.select(*[_readable(field) for field in rows.schema.fields if field.name in shown])
        .limit(limit + 1)
        .collect()
    )
    # A group may have an empty name; nothing is what other empty cells say.
    named = [name == "group_id" for name in shown]
    cells = [
        ['""' if name and value == "" else _cell(value) for name, value in zip(named, row, strict=True)]
        for row in found[:limit]
    ]
    widths = [max([_width(name), *(_width(row[i]) for row in cells)]) for i, name in enumerate(shown)]
    right = [isinstance(rows.schema[name].dataType, T.NumericType) for name in shown]
    out = sys.stdout
    if titled:
        out.write(f"{table.name}\n")
    for line in (shown, *cells):
        padded = [_padded(*cell) for cell in zip(line, widths, right, strict=True)]
        out.write("  ".join(padded).rstrip() + "\n")
    if len(found) > limit:
        out.write(f"... the first {plural(limit, 'row')}; --limit shows more, --to writes all\n")
    if titled:
        out.write("\n")
    out.flush()
    return len(cells)


def _padded(text: str, width: int, to_the_right: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if to_the_right else text + blanks


def _width(text: str) -> int:
    """Columns of a terminal: Chinese signs and the like take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(sign) else 1 + (east_asian_width(sign) in "WF") for sign in text)


def _readable(field: T.StructField) -> Column:
    # Collected moments would come in the zone of this machine.
    return _flat(field) if isinstance(field.dataType, T.TimestampType) else F.col(f"`{field.name}`")


def _cell(value: Any) -> str:
    if value is None or value in ("", []):
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (bytes, bytearray)):
        text = bytes(value).hex()
    elif isinstance(value, list):
        text = ",".join(
            str(item) if isinstance(item, (str, int)) else json.dumps(item, default=_plain) for item in value
        )
    else:
        text = str(value)
    # A control character of a group's name must not drive the terminal.
    text = "".join(letter if letter.isprintable() else "\\x" + format(ord(letter), "02x") for letter in text)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return value.isoformat() if isinstance(value, datetime) else value
