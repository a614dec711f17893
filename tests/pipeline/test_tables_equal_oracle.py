"""Every table of `pipeline.transformations`, row for row against the oracle: on golden directories and on histories."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from pipeline import transformations as t
from tests.pipeline import oracle
from tests.pipeline.capture import DIRECTORIES, unpack
from tests.pipeline.histories import Step, histories, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, Any]]
QUICK = ("kafka-4.3.1",)
STUCK_AFTER_MS = 3_000
EVERY_MS = 2_000
INTERNAL = ("fields", "regex", "size_bytes")


def read(spark: "SparkSession", directory: Path, **options: str) -> "DataFrame":
    return spark.read.format("kohort-log").options(path=str(directory), **options).load()


def found(frame: "DataFrame") -> Rows:
    """The rows of a frame as the oracle writes them: moments as milliseconds."""
    rows: Rows = plain(frame.toArrow().to_pylist())
    return rows


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        assert value.tzinfo is not None
        return round(value.timestamp() * 1000)
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def in_order(rows: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(plain(row), sort_keys=True) for row in rows)


def differs(name: str, frame: "DataFrame", expected: Rows) -> list[str]:
    """What is wrong with a table: its name and the first rows that differ; nothing when it equals the oracle's."""
    wanted = list(expected[0]) if expected else []
    ours = in_order({column: row[column] for column in wanted or row} for row in found(frame))
    theirs = in_order(expected)
    if ours == theirs:
        return []
    extra, missing = sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))
    said = f"{name}: {len(ours)} rows, the oracle has {len(theirs)}"
    return ["\n  ".join([said, "only in the table:", *extra[:3], "only in the oracle:", *missing[:3]])]


def check_all_tables(spark: "SparkSession", directory: Path) -> None:
    """Read with Spark and with the oracle; every table is the same."""
    log = oracle.LogDirectory(directory)
    rows = oracle.group_records(log.records(committed=True))
    generations, names = oracle.group_generations(rows), log.topic_names()
    consumer_rows = oracle.consumer_group_records(rows, names)
    by_epoch, owned_by_epoch = oracle.consumer_epochs(consumer_rows)
    rebalances = oracle.rebalances(generations) + by_epoch
    spans = oracle.membership(generations) + owned_by_epoch
    commits = oracle.offset_commits(rows)

    records = read(spark, directory, topic="__consumer_offsets", records="group").cache()
    batches = read(spark, directory, topicPattern="(?!__).*", records="batch").cache()
    topics = spark.createDataFrame(list(names.items()) or [("", "")], "topic_id string, topic string")
    our_generations = t.group_generations(records).cache()
    our_consumer = t.consumer_group_records(records, topics).cache()
    our_commits = t.offset_commits(records)
    our_rebalances = t.rebalances(our_generations, None, our_consumer).cache()
    our_spans = t.membership(our_generations, our_consumer).cache()
    our_lag = t.lag_over_time(our_commits, batches, EVERY_MS).cache()
    lag = oracle.lag(commits, log, EVERY_MS)

    wrong: list[str] = []
    wrong += differs("records", records, [{k: v for k, v in row.items() if k not in INTERNAL} for row in rows])
    wrong += differs("offset_commits", our_commits, commits)
    wrong += differs("group_generations", our_generations, generations)
    wrong += differs("consumer_group_records", our_consumer, consumer_rows)
    wrong += differs("rebalances", our_rebalances, rebalances)
    wrong += differs("membership", our_spans, spans)
    wrong += differs("growth", t.growth(records), oracle.growth(rows))
    wrong += differs("lag", our_lag, lag)
    stuck = t.stuck_partitions(our_commits, batches, our_spans, STUCK_AFTER_MS)
    wrong += differs("stuck_partitions", stuck, oracle.stuck(commits, log, spans, STUCK_AFTER_MS))
    classic = {row["group_id"] for row in rows if row["key_type"] in (0, 1, 2)} - {
        row["group_id"] for row in rows if row["key_type"] not in (0, 1, 2)
    }
    groups = [row for row in oracle.groups(rows, generations, rebalances, lag) if row["group_id"] in classic]
    ours = t.groups(records, our_generations, our_consumer, our_rebalances, our_lag)
    wrong += differs("groups", ours.where(ours["group_id"].isin(sorted(classic))), groups)
    first_dirty = {part.partition: part.first_dirty_offset for part in log.of("__consumer_offsets")}
    known = [(partition, offset) for partition, offset in first_dirty.items() if offset is not None]
    cleaned = spark.createDataFrame(known, "log_partition int, first_dirty_offset bigint") if known else None
    times = sorted(row["logged_at"] for row in rows)
    for at_ms in {times[len(times) // 2], times[-1]} if times else ():
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        wrong += differs(
            f"state_at {at_ms}", t.state_at(records, at, cleaned), oracle.state_at(rows, at_ms, first_dirty)
        )
    for frame in (records, batches, our_generations, our_consumer, our_rebalances, our_spans, our_lag):
        frame.unpersist()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in DIRECTORIES]
)
def test_tables_of_real_directories_equal_the_oracle(name: str, spark: "SparkSession", tmp_path: Path):
    """What Kafka 3.9.2, Kafka 4.3.1 and Kohort wrote under real clients; compressed and compacted ones too."""
    check_all_tables(spark, unpack(name, tmp_path)[0])


COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),
    "print_blob": True,
}


@pytest.mark.slow
@settings(max_examples=8, **COMMON)
@given(steps=histories(min_size=30, max_size=120))
def test_tables_of_random_histories_equal_the_oracle(steps: list[Step], spark: "SparkSession", tmp_path_factory):
    """PL08-PL11, PL18-PL22, PL36 and whatever else the steps make of them; a failure prints how to replay it."""
    check_all_tables(spark, write(steps, tmp_path_factory.mktemp("history") / "log"))
