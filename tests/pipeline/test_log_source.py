"""Format `kohort-log` through Spark."""

from pathlib import Path
from typing import Any

from pipeline.decode import schemas
from tests.pipeline.logs import Log, commit

KAFKA_COLUMNS = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]


def read(spark: Any, path: Path, **options: Any) -> Any:
    return spark.read.format("kohort-log").options(path=str(path), **options).load()


def test_raw_rows_have_the_columns_of_sparks_kafka_source(spark: Any, tmp_path: Path):
    """PL01: every record once, in order, bytes untouched; columns as Spark's own source has them."""
    log = Log(tmp_path, "orders", 0)
    for count in (1, 12, 60):
        log.append([(b"k%d" % index, b"v%d" % index) for index in range(count)])

    frame = read(spark, tmp_path)

    assert frame.dtypes == KAFKA_COLUMNS
    assert all(field.nullable for field in frame.schema.fields)
    rows = frame.collect()
    assert [row.offset for row in rows] == list(range(73))
    assert [(bytes(row.key), bytes(row.value)) for row in rows] == log.pairs


def test_both_roads_to_group_records_give_the_same_rows(spark: Any, tmp_path: Path):
    """The kernel inside the reader, and the same kernel behind raw columns."""
    from pipeline import decode

    log = Log(tmp_path, "__consumer_offsets", 3)
    log.append([commit("g", "t", 3, 42, version) for version in range(5)] + [(None, b"x"), (b"\x00\x2a", None)])

    inside = read(spark, tmp_path, records="group")
    behind = decode.group_records(read(spark, tmp_path))

    assert inside.columns == schemas.GROUP_RECORDS.names
    assert inside.schema == behind.schema
    assert inside.orderBy("log_offset").collect() == behind.orderBy("log_offset").collect()
