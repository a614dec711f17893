"""Format `kohort-log` through Spark."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline import decode
from pipeline.decode import schemas
from pipeline.sources import problems
from tests.pipeline.logs import T0, Log, commit
from tests.support.broker_process import ROOT

PySparkException = pytest.importorskip("pyspark.errors").PySparkException

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
    log = Log(tmp_path, "__consumer_offsets", 3)
    log.append([commit("g", "t", 3, 42, version) for version in range(5)] + [(None, b"x"), (b"\x00\x2a", None)])

    inside = read(spark, tmp_path, records="group")
    behind = decode.group_records(read(spark, tmp_path))

    assert inside.columns == schemas.GROUP_RECORDS.names
    assert inside.schema == behind.schema
    assert inside.orderBy("log_offset").collect() == behind.orderBy("log_offset").collect()


def test_filters_spare_reading_and_change_no_row(spark: Any, tmp_path: Path):
    """Pushdown on and off: the same rows; on, the files and ranges that the filters exclude are not read."""
    for partition in range(4):
        log = Log(tmp_path, "orders", partition)
        for _ in range(3):
            log.append([(b"k", b"v")] * 10)
            log.roll()
    where = "partition IN (1, 3) AND offset >= 12 AND offset < 25 AND timestamp > '2023-11-14T22:13:33Z'"
    found = []
    for pushed in ("false", "true"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
        try:
            rows = read(spark, tmp_path).where(where).orderBy("partition", "offset").collect()
        finally:
            spark.conf.unset("spark.sql.python.filterPushdown.enabled")
        found.append([(row.partition, row.offset) for row in rows])

    assert found[0] == found[1] == [(partition, offset) for partition in (1, 3) for offset in range(14, 25)]


def test_filters_narrow_the_plan(tmp_path: Path):
    """What pushdown spares: partitions, offsets, and rounding never loses a row."""
    from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThanOrEqual, StringContains

    from pipeline.sources.plan import NO_END, Narrowing
    from pipeline.sources.pushdown import narrow

    filters = [In(("partition",), (1, 3)), EqualTo(("partition",), 3), GreaterThan(("offset",), 9)]
    filters += [LessThanOrEqual(("offset",), 20), StringContains(("topic",), "x"), EqualTo(("key",), b"k")]
    assert narrow(filters, "raw") == Narrowing(None, frozenset({3}), 10, 21, None)
    moment = datetime(2023, 11, 14, 22, 13, 20, 500, tzinfo=UTC)
    assert narrow([EqualTo(("logged_at",), moment)], "group") == Narrowing(None, None, 0, NO_END, T0 - 1)
    # Of group records these are columns of the commit, not of the log.
    assert narrow([EqualTo(("topic",), "t"), EqualTo(("partition",), 1)], "group") == Narrowing()


def test_corrupt_batches_fail_the_job_or_are_counted(spark: Any, tmp_path: Path):
    """PL13, through Spark: the error names file, position and offset; skipped batches are rows of a second read."""
    log = Log(tmp_path, "orders", 0)
    for _ in range(3):
        log.append([(b"k", b"v")] * 12)
    content = bytearray(log.path.read_bytes())
    content[log.positions[1] + 70] ^= 1
    log.path.write_bytes(content)

    with pytest.raises(PySparkException, match=rf"{log.path}, position {log.positions[1]}, offset 12: CRC mismatch"):
        read(spark, tmp_path).count()
    assert read(spark, tmp_path, onCorrupt="skip").count() == 24
    (lost,) = problems(spark, "kohort-log", path=str(tmp_path), onCorrupt="skip").collect()
    assert (lost.first_offset, lost.last_offset, lost.kind) == (12, 23, "skipped")


def test_copies_are_dropped_and_differences_are_errors(spark: Any, tmp_path: Path):
    """PL35: the same segment in two directories; then one byte of one of them differs."""
    first, second = Log(tmp_path / "one", "orders", 0), Log(tmp_path / "two", "orders", 0)
    for log in (first, second):
        log.append([(b"k%d" % number, b"v") for number in range(5)])
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"

    twice = read(spark, Path(both), includeSource="true")
    assert twice.count() == 10
    assert sorted(row.offset for row in decode.dedupe(twice).collect()) == [0, 1, 2, 3, 4]
    assert decode.dedupe(read(spark, Path(both))).count() == 5
    groups = [Log(tmp_path / name, "__consumer_offsets", 0) for name in ("three", "four")]
    for log in groups:
        log.append([commit("g", "t", part, 5) for part in range(4)])
    copies = read(spark, Path(f"{tmp_path / 'three'},{tmp_path / 'four'}"), records="group", includeSource="true")
    assert copies.columns == [*schemas.GROUP_RECORDS.names, *schemas.GROUP_SOURCE.names]
    assert decode.dedupe(copies).count() == 4
    second.path.write_bytes(b"")
    second.next_offset = 0
    second.append([(b"k%d" % number, b"w" if number == 3 else b"v") for number in range(5)])
    with pytest.raises(PySparkException, match=rf"two copies.*orders-0-3: {first.path} and {second.path}"):
        decode.dedupe(read(spark, Path(both), includeSource="true")).collect()


def test_wrong_options_reach_the_user(spark: Any, tmp_path: Path):
    with pytest.raises(PySparkException, match="unknown option 'topics'; did you mean 'topic'"):
        read(spark, tmp_path, topics="orders")


def test_metadata_records_become_rows(spark: Any, tmp_path: Path):
    """`__cluster_metadata`: known records with their fields, others kept."""
    from protocol.records.metadata_records import TopicRecord, encode_frame

    topic = encode_frame(TopicRecord(name="orders", topic_id=bytes(range(16))))
    Log(tmp_path, "__cluster_metadata", 0).append([(None, topic), (None, b"\x01\x63\x00"), (None, None)])

    rows = decode.metadata_records(read(spark, tmp_path, topic="__cluster_metadata")).orderBy("log_offset").collect()

    assert [row.record_type for row in rows] == ["topic_record", "unknown", "unknown"]
    assert (rows[0].topic, rows[0].topic_id) == ("orders", "AAECAwQFBgcICQoLDA0ODw")
    assert (rows[1].type_key, bytes(rows[1].value)) == (0x63, b"\x01\x63\x00")
    assert "not known" in rows[1].problem


def test_ledger_records_become_rows(spark: Any, tmp_path: Path):
    """Began and ended of a rebalance; unknown kinds and versions, and what is no JSON, are kept with a problem."""
    common = {"version": 1, "at_ms": T0 + 500, "group_id": "g", "group_type": "classic", "generation": 4}
    cause = {"trigger": "member_left", "member_id": "b", "reason": "closing", "client_id": "c", "client_host": "/h"}
    members = [{"member_id": "a", "change": "stayed"}, {"member_id": "b", "change": "left"}]
    ended = {"kind": "rebalance_ended", "from_generation": 4, "to_generation": 5, "outcome": "stable", "mode": "eager"}
    ended |= {"first_cause": cause, "members": members, "members_truncated": 0, "duration_ms": 300, "stopped_ms": 250}
    ended |= {"began_at_ms": T0, "slowest_to_join": {"member_id": "a", "after_ms": 200}, "slowest_to_sync": None}
    events = [common | {"kind": "rebalance_began", "cause": cause}, common | ended]
    events += [common | {"kind": "later"}, common | {"kind": "group_removed", "version": 2}]
    values = [(b"g", json.dumps(event).encode()) for event in events]
    Log(tmp_path, "__kohort_rebalances", 3).append([*values, (b"g", b"{"), (None, None)])

    rows = decode.ledger_events(read(spark, tmp_path)).orderBy("log_offset").collect()

    assert [row.kind for row in rows] == ["rebalance_began", "rebalance_ended", *["unknown"] * 4]
    assert [(row.trigger, row.member_id, row.reason) for row in rows[:2]] == [("member_left", "b", "closing")] * 2
    one = rows[1]
    assert (one.from_generation, one.to_generation, one.duration_ms, one.stopped_ms) == (4, 5, 300, 250)
    assert (one.joined, one.left, one.members_after, one.slowest_member) == ([], ["b"], 1, "a")
    assert one.at.timestamp() == (T0 + 500) / 1000 and one.log_partition == 3
    assert [row.problem for row in rows[2:4]] == ["unknown kind later", "unknown version 2 of group_removed"]
    assert [row.group_id for row in rows] == ["g"] * 5 + [None]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_several_executors_give_the_same_rows(tmp_path: Path):
    """`local-cluster`: workers in processes of their own read byte ranges of the same files."""
    log = Log(tmp_path, "__consumer_offsets", 0)
    for number in range(2000):
        log.append([commit(f"g{number % 7}", "t", part, number) for part in range(5)])
    log.write_index()
    code = (
        "import sys; from pipeline.session import build; spark = build(master=sys.argv[1],"
        "settings={'spark.executor.memory': '512m', 'spark.log.level': 'ERROR'});"
        "rows = spark.read.format('kohort-log').options(path=sys.argv[2], records='group', splitBytes='100k').load();"
        "print(rows.rdd.getNumPartitions(), rows.selectExpr('count(*)', 'bit_xor(xxhash64(*))').collect())"
    )
    answers = []
    for master in ("local[1]", "local-cluster[2,1,700]"):
        command = [sys.executable, "-c", code, master, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=600)
        assert done.returncode == 0, done.stderr[-2000:]
        answers.append(done.stdout.strip().splitlines()[-1])
    assert answers[0] == answers[1]
    assert "=10000," in answers[0]
