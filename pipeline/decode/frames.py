"""The decoders as functions of Spark frames. Those with a kernel run it in `mapInArrow`, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  as all of Spark's documentation has it

from pipeline.decode import schemas
from pipeline.decode.fields import Field
from pipeline.decode.group_rows import RecordLocation, group_batch
from pipeline.decode.group_values import consumer_group_batch, generation_batch
from pipeline.decode.ledger import ledger_batch
from pipeline.decode.metadata import metadata_batch

Kernel = Callable[[pa.RecordBatch], pa.RecordBatch]
_CONSUMER_GROUPS = "consumer_group_%"
_RAW = ("key", "value", "partition", "offset", "timestamp")


def _mapped(frame: DataFrame, kernel: Kernel, schema: pa.Schema) -> DataFrame:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield kernel(batch)

    return frame.mapInArrow(run, schemas.ddl(schema))


def _decode_group(batch: pa.RecordBatch) -> pa.RecordBatch:
    return group_batch(
        Field.of(batch.column("key")),
        Field.of(batch.column("value")),
        RecordLocation(
            batch.column("partition").cast(pa.int32()),
            np.asarray(batch.column("offset"), np.int64),
            batch.column("timestamp").cast(schemas.TIMESTAMP),
        ),
    )


def group_records(raw: DataFrame) -> DataFrame:
    """See `pipeline.decode`."""
    return _mapped(raw.select(*_RAW), _decode_group, schemas.GROUP_RECORDS)


def ledger_events(raw: DataFrame) -> DataFrame:
    """See `pipeline.decode`."""
    return _mapped(raw.select(*_RAW), ledger_batch, schemas.LEDGER_EVENTS)


def metadata_records(raw: DataFrame) -> DataFrame:
    """See `pipeline.decode`."""
    return _mapped(raw.select(*_RAW), metadata_batch, schemas.METADATA_RECORDS)


def offset_commits(rows: DataFrame) -> DataFrame:
    """See `pipeline.decode`."""
    commits = rows.where((F.col("record_type") == "offset_commit") & F.col("problem").isNull())
    return commits.withColumn("record_bytes", F.col("key_bytes") + F.col("value_bytes")).select(
        *schemas.OFFSET_COMMITS.names
    )


def group_generations(rows: DataFrame) -> DataFrame:
    """See `pipeline.decode`."""
    chosen = rows.where((F.col("record_type") == "group_metadata") & F.col("problem").isNull())
    columns = ("log_partition", "log_offset", "logged_at", "group_id", "value")
    return _mapped(chosen.select(*columns), generation_batch, schemas.GROUP_GENERATIONS)


def consumer_group_records(rows: DataFrame) -> DataFrame:
    """See `pipeline.decode`."""
    chosen = rows.where(F.col("record_type").like(_CONSUMER_GROUPS) & F.col("problem").isNull())
    columns = ("log_partition", "log_offset", "logged_at", "group_id", "record_type", "member_id", "key", "value")
    return _mapped(chosen.select(*columns), consumer_group_batch, schemas.CONSUMER_GROUP_RECORDS)


def dedupe(rows: DataFrame) -> DataFrame:
    """See `pipeline.decode`."""
    identity = ["log_partition", "log_offset"] if "log_offset" in rows.columns else ["topic", "partition", "offset"]
    source = schemas.GROUP_SOURCE if "log_offset" in rows.columns else schemas.SOURCE
    content = [name for name in rows.columns if name not in {*identity, *source.names}]
    same = Window.partitionBy(*identity).orderBy(*(["file"] if "file" in rows.columns else identity))
    whole = same.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # A digest, not a 64-bit hash: two copies that differ must not pass for one.
    digest = F.sha2(F.concat_ws("|", *[_as_text(rows, name) for name in content]), 256)
    marked = rows.withColumn("_digest", digest)
    marked = marked.withColumn("_age", F.row_number().over(same)).withColumn("_first", F.first("_digest").over(whole))
    where: list[Any] = [F.concat_ws("-", *[F.col(name).cast("string") for name in identity])]
    if "file" in rows.columns:
        marked = marked.withColumn("_first_file", F.first("file").over(whole))
        where += [F.lit(": "), F.col("_first_file"), F.lit(" and "), F.col("file")]
    error = F.raise_error(F.concat(F.lit("two copies of a record differ, "), *where))
    kept = marked.where(
        F.when(F.col("_digest") != F.col("_first"), error.cast("boolean")).otherwise(F.col("_age") == 1)
    )
    return kept.select(*rows.columns)


def _as_text(rows: DataFrame, name: str) -> Column:
    kind = rows.schema[name].dataType.simpleString()
    column = F.base64(F.col(name)) if kind == "binary" else F.col(name)
    if kind.startswith(("array", "struct")):
        column = F.to_json(F.struct(F.col(name)))
    return F.coalesce(column.cast("string"), F.lit("\0null"))
