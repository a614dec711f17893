"""Every table of `pipeline.transformations`, row for row against the oracle: on golden directories and on histories."""

import json
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from pipeline import decode
from pipeline import transformations as t
from tests.pipeline import oracle
from tests.pipeline.capture import DIRECTORIES, unpack
from tests.pipeline.histories import Step, histories, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, Any]]
STUCK_AFTER_MS = 4_000
EVERY_MS = 2_000
IN_CI = ("kafka-4.3.1", "kafka-3.9.2-compacted-snappy", "kohort-consumer")
INTERNAL = ("fields", "regex", "size_bytes")


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


class Both:
    """A directory read with Spark and by the oracle, and the tables of both."""

    def __init__(self, spark: "SparkSession", directory: Path) -> None:
        self.spark, self.directory = spark, directory
        self.log = log = oracle.LogDirectory(directory)
        self.rows = rows = oracle.group_records(log.records(committed=True))
        self.generations, names = oracle.group_generations(rows), log.topic_names()
        self.consumer_rows = oracle.consumer_group_records(rows, names)
        by_epoch, owned_by_epoch = oracle.consumer_epochs(self.consumer_rows)
        told = oracle.ledger_rebalances(log.records(oracle.LEDGER))
        self.rebalances = oracle.with_ledger(oracle.rebalances(self.generations) + by_epoch, told)
        self.spans = oracle.membership(self.generations) + owned_by_epoch
        self.commits = oracle.offset_commits(rows)

        records = self._read(topic="__consumer_offsets", records="group")
        self.records = records.cache()
        topics = spark.createDataFrame(list(names.items()) or [("", "")], "topic_id string, topic string")
        self.our_generations = t.group_generations(records).cache()
        self.our_consumer = t.consumer_group_records(records, topics).cache()
        self.our_commits = t.offset_commits(records)
        ledger = decode.ledger_events(self._read(topic=oracle.LEDGER)) if log.of(oracle.LEDGER) else None
        self.our_rebalances = t.rebalances(self.our_generations, ledger, self.our_consumer).cache()
        self.our_spans = t.membership(self.our_generations, self.our_consumer).cache()

    def _read(self, **options: str) -> "DataFrame":
        return self.spark.read.format("kohort-log").options(path=str(self.directory), **options).load()

    def records_and_rebalances(self) -> list[str]:
        """What is wrong with the tables that a group's timeline is made of."""
        expected = [{name: value for name, value in row.items() if name not in INTERNAL} for row in self.rows]
        return [
            *differs("records", self.records, expected),
            *differs("group_generations", self.our_generations, self.generations),
            *differs("rebalances", self.our_rebalances, self.rebalances),
            *differs("membership", self.our_spans, self.spans),
        ]

    def the_others(self) -> list[str]:
        """What is wrong with all other tables."""
        batches = self._read(topicPattern="(?!__).*", records="batch").cache()
        our_lag = t.lag_over_time(self.our_commits, batches, EVERY_MS).cache()
        lag = oracle.lag(self.commits, self.log, EVERY_MS)
        stuck = t.stuck_partitions(self.our_commits, batches, self.our_spans, STUCK_AFTER_MS, records=self.records)
        kinds = {group: {row["key_type"] for row in self.rows if row["group_id"] == group} for group in self._groups()}
        # Share and streams groups are not decoded.
        decoded = sorted(group for group, types in kinds.items() if types <= {0, 1, 2, 3, 4, 5, 6, 7, 8, 16})
        groups = oracle.groups(self.rows, self.generations, self.consumer_rows, self.rebalances, lag)
        ours = t.groups(self.records, self.our_generations, self.our_consumer, self.our_rebalances, our_lag)
        everything = self._read(topic="__consumer_offsets", records="group", isolationLevel="read_uncommitted")
        logs = self.log.of("__consumer_offsets")
        places = [(log.partition, log.first_dirty_offset, log.log_start_offset) for log in logs]
        columns = "log_partition int, first_dirty_offset bigint, log_start_offset bigint"
        cleaning = self.spark.createDataFrame(places, columns)
        group_batches = self._read(topic="__consumer_offsets", records="batch")
        partitions = t.growth_partitions(everything, group_batches, cleaning)
        sourced = {"isolationLevel": "read_uncommitted", "includeSource": "true"}
        in_transactions = self._read(topic="__consumer_offsets", records="group", **sourced)
        all_rows = oracle.group_records(self.log.records())
        return [
            *differs(
                "transactional_commits",
                t.transactional_commits(in_transactions, group_batches),
                oracle.transactional_commits(all_rows, logs),
            ),
            *differs("growth_partitions", partitions, oracle.growth_partitions(logs)),
            *differs("offset_commits", self.our_commits, self.commits),
            *differs("consumer_group_records", self.our_consumer, self.consumer_rows),
            *differs("growth", t.growth(self.records), oracle.growth(self.rows)),
            *differs("lag", our_lag, lag),
            *differs("stuck", stuck, oracle.stuck(self.rows, self.log, self.spans, STUCK_AFTER_MS)),
            *differs(
                "resets",
                t.offset_resets(self.our_commits, self.our_spans),
                oracle.offset_resets(self.commits, self.spans),
            ),
            *differs("worst_lag", t.worst_lag(self.our_commits, batches), oracle.worst_lag(self.commits, self.log)),
            *differs(
                "groups",
                ours.where(ours["group_id"].isin(decoded)),
                [row for row in groups if row["group_id"] in decoded],
            ),
            *self._states(),
        ]

    def _groups(self) -> set[str]:
        return {row["group_id"] for row in self.rows if row["group_id"] is not None}

    def _states(self) -> list[str]:
        first_dirty = {part.partition: part.first_dirty_offset for part in self.log.of("__consumer_offsets")}
        known = [(partition, offset) for partition, offset in first_dirty.items() if offset is not None]
        columns = "log_partition int, first_dirty_offset bigint"
        cleaned = self.spark.createDataFrame(known, columns) if known else None
        times = sorted(row["logged_at"] for row in self.rows)
        wrong = []
        for at_ms in {times[len(times) // 2], times[-1]} if times else ():
            at = datetime.fromtimestamp(at_ms / 1000, UTC)
            expected = oracle.state_at(self.rows, at_ms, first_dirty)
            wrong += differs(f"state_at {at_ms}", t.state_at(self.records, at, cleaned), expected)
        return wrong


@pytest.fixture(autouse=True)
def nothing_stays_cached(spark: "SparkSession") -> Iterator[None]:
    """What was cached is dropped."""
    yield
    spark.catalog.clearCache()


def test_a_groups_history_is_the_oracles(spark: "SparkSession", tmp_path: Path):
    """Records, generations, rebalances (with the ledger) and membership of a directory that Kohort wrote."""
    wrong = Both(spark, unpack("kohort", tmp_path)[0]).records_and_rebalances()
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in IN_CI else pytest.param(name, marks=pytest.mark.long) for name in DIRECTORIES]
)
def test_tables_of_real_directories_equal_the_oracle(name: str, spark: "SparkSession", tmp_path: Path):
    """What Kafka 3.9.2, Kafka 4.3.1 and Kohort wrote under real clients; compressed and compacted ones too."""
    check_all_tables(spark, unpack(name, tmp_path)[0])


def check_all_tables(spark: "SparkSession", directory: Path) -> None:
    both = Both(spark, directory)
    wrong = both.records_and_rebalances() + both.the_others()
    assert not wrong, "\n".join(wrong)


COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),
    "print_blob": True,
    # The same histories in every run; KOHORT_HISTORIES=100 looks for others, with --hypothesis-seed if wanted.
    "derandomize": "KOHORT_HISTORIES" not in os.environ,
    "database": None,
}


@pytest.mark.slow
@settings(max_examples=int(os.environ.get("KOHORT_HISTORIES", "6")), **COMMON)
@given(steps=histories(min_size=60, max_size=250))
def test_tables_of_random_histories_equal_the_oracle(steps: list[Step], spark: "SparkSession", tmp_path_factory):
    """PL08-PL11, PL18-PL22, PL36 and whatever else the steps make of them; a failure prints how to replay it."""
    check_all_tables(spark, write(steps, tmp_path_factory.mktemp("history") / "log"))
