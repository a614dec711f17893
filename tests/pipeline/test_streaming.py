"""Live tables: each row once whatever is stopped or killed, the same rows as at rest; and Spark as a consumer group."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from pipeline import group_commit
from protocol.records import group_records as g
from protocol.records.group_metadata import GroupMetadataValue, MemberMetadata
from tests.pipeline.logs import T0, Log
from tests.pipeline.logs import commit as commit_pair
from tests.pipeline.test_cli import run
from tests.support.broker_process import ROOT, BrokerProcess, eventually

__all__ = ["run"]
HOUR_MS = 3_600_000


def commits_log(root: Path, count: int, every_ms: int = 1000, log: Log | None = None) -> Log:
    """Commits of a (orders-0 to -2) and of b, ten in a batch, one every so often."""
    log = log or Log(root, "__consumer_offsets", 0)
    for first in range(log.next_offset, log.next_offset + count, 10):
        numbers = range(first, first + 10)
        pairs = [commit_pair("b" if n % 4 == 3 else "a", "orders", n % 3, n * 7) for n in numbers]
        log.append(pairs, timestamps=[T0 + n * every_ms for n in numbers])
    return log


def at_rest(run: Any, verb: str, source: Path, to: Path, *words: str) -> DataFrame:
    code, _, err = run(verb, "--from", source, "--to", to, "--overwrite", *words)
    assert code == 0, err
    return SparkSession.builder.getOrCreate().read.parquet(str(next(to.iterdir())))


def streamed(run: Any, verb: str, source: Path, to: Path, *words: str) -> tuple[DataFrame, str]:
    code, _, err = run(verb, "--from", source, "--to", to, "--stream", "--once", "--checkpoint", f"{to}.cp", *words)
    assert code == 0, err
    return SparkSession.builder.getOrCreate().read.parquet(str(next(to.iterdir()))).drop("batch"), err.splitlines()[-1]


def test_commits_are_streamed_once_each_while_the_log_grows(run: Any, tmp_path: Path) -> None:
    """Stopped after two batches, the log grows and rolls, continued: the union equals the batch read."""
    log = commits_log(tmp_path / "log", 60)
    _, said = streamed(run, "commits", tmp_path / "log", tmp_path / "out", "--max-offsets", "30")
    assert said.startswith("kohort pipeline commits: 60 rows in 2 batches, 0 rows were later than the watermark, ")
    log.roll()
    commits_log(tmp_path / "log", 40, log=log)
    found, said = streamed(run, "commits", tmp_path / "log", tmp_path / "out", "--max-offsets", "100")
    assert said.startswith("kohort pipeline commits: 40 rows in 1 batch")
    assert [place.name for place in sorted((tmp_path / "out" / "offset_commits").glob("batch=*"))] == [
        "batch=0", "batch=1", "batch=2",
    ]  # fmt: skip
    assertDataFrameEqual(found, at_rest(run, "commits", tmp_path / "log", tmp_path / "rest"))


def test_growth_tells_an_hour_when_the_watermark_has_passed_it(run: Any, tmp_path: Path) -> None:
    """Four hours and a bit: the last is not over yet, and one late record is counted."""
    log = commits_log(tmp_path / "log", 100, every_ms=HOUR_MS // 25)
    words = ("--watermark", "1m")
    found, said = streamed(run, "growth", tmp_path / "log", tmp_path / "out", *words)
    assert "0 rows were later" in said
    whole = at_rest(run, "growth", tmp_path / "log", tmp_path / "rest")
    last = whole.agg({"window_start": "max"}).first()
    assert last is not None
    assertDataFrameEqual(found, whole.where(whole["window_start"] < last[0]))
    log.append([commit_pair("a", "orders", 0, 1)], timestamps=[T0])
    _, said = streamed(run, "growth", tmp_path / "log", tmp_path / "out", *words)
    assert "1 row was later than the watermark" in said
    place = ("--to", tmp_path / "out", "--stream", "--once", "--checkpoint", tmp_path / "out.cp", *words)
    code, _, err = run("growth", "--from", tmp_path / "log", *place, "--every", "1m")
    assert (code, "was made with another --every" in err) == (2, True)


def test_a_checkpoint_is_for_one_question_and_one_cluster(run: Any, tmp_path: Path) -> None:
    """Positions of other logs mean nothing here: records would be left out without a word."""
    for name, topic_id in (("one", "AgICAgICAgICAgICAgICAg"), ("two", "AQEBAQEBAQEBAQEBAQEBAQ")):
        log = commits_log(tmp_path / name, 20 if name == "one" else 40)
        (log.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    streamed(run, "commits", tmp_path / "one", tmp_path / "out")
    words = ("--to", tmp_path / "out", "--stream", "--once", "--checkpoint", tmp_path / "out.cp")
    code, _, err = run("growth", "--from", tmp_path / "one", *words)
    assert (code, "is that of commits; growth needs one of its own" in err) == (2, True)
    code, _, err = run("commits", "--from", tmp_path / "two", *words)
    assert (code, "was made with the logs of another cluster" in err) == (2, True)
    code, _, err = run("commits", "--from", tmp_path / "two", *words, "--overwrite")
    assert (code, ": 40 rows in 1 batch" in err) == (0, True)


def test_a_partition_that_is_gone_ends_the_query_until_it_is_told_to_go_on(run: Any, tmp_path: Path) -> None:
    """The sentence names the option; without the partition the others are read on."""
    log = commits_log(tmp_path / "log", 20)
    other = Log(tmp_path / "log", "__consumer_offsets", 1)
    other.append([commit_pair("c", "orders", 0, 1)])
    streamed(run, "commits", tmp_path / "log", tmp_path / "out")
    shutil.rmtree(other.folder)
    commits_log(tmp_path / "log", 10, log=log)
    words = ("--to", tmp_path / "out", "--stream", "--once", "--checkpoint", tmp_path / "out.cp")
    code, _, err = run("commits", "--from", tmp_path / "log", *words)
    assert (code, "__consumer_offsets-1 is gone" in err, "--on-loss continue" in err) == (1, True, True), err
    code, _, err = run("commits", "--from", tmp_path / "log", *words, "--on-loss", "continue")
    assert (code, ": 10 rows in 1 batch" in err) == (0, True), err


def generation(number: int, *members: str) -> tuple[bytes, bytes]:
    """A generation of group a, its members without assignments."""
    listed = [
        MemberMetadata(
            member_id=name, client_id=name, client_host="/h", session_timeout=1, subscription=b"", assignment=b""
        )
        for name in members
    ]
    key = g.GroupMetadataKey("a")
    value = GroupMetadataValue(protocol_type="connect", generation=number, members=listed)
    return g.encode_key(key), g.encode_value(value)


@pytest.mark.slow
def test_rebalances_are_seen_across_batches(run: Any, tmp_path: Path) -> None:
    """A generation in each batch: what came before is remembered, in every run anew."""
    log = Log(tmp_path / "log", "__consumer_offsets", 0)
    for number in range(1, 4):
        log.append([generation(number, "x", *(["y"] if number % 2 else []))])
    words = ("--max-offsets", "1")
    streamed(run, "rebalances", tmp_path / "log", tmp_path / "out", *words)
    log.append([generation(7, "z")])
    found, _ = streamed(run, "rebalances", tmp_path / "log", tmp_path / "out", *words)
    rest = at_rest(run, "rebalances", tmp_path / "log", tmp_path / "rest")
    assert sorted(row.to_generation for row in found.collect()) == [2, 3, 7]
    assertDataFrameEqual(found, rest)


@pytest.mark.slow
def test_lag_is_told_behind_the_watermark_and_once(run: Any, tmp_path: Path) -> None:
    """Two runs while both logs grow: the rows of one table at rest, up to the watermark."""
    orders, log = Log(tmp_path / "log", "orders", 0), Log(tmp_path / "log", "__consumer_offsets", 0)
    for round_ in range(2):
        for n in range(round_ * 300, round_ * 300 + 300):
            orders.append([(None, b"x")], timestamps=[T0 + n * 1000])
            if n % 20 == 19:
                log.append([commit_pair("a", "orders", 0, n // 2)], timestamps=[T0 + n * 1000])
        words = ("--every", "30s", "--watermark", "1m")
        found, said = streamed(run, "lag", tmp_path / "log", tmp_path / "out", *words)
        assert "0 rows were later" in said
    whole = at_rest(run, "lag", tmp_path / "log", tmp_path / "rest", "--every", "30s")
    last = found.agg({"at": "max"}).first()
    assert last is not None
    assertDataFrameEqual(found, whole.where(whole["at"] <= last[0]))
    assert found.count() > 15


@pytest.mark.slow
def test_a_job_killed_in_the_middle_of_a_batch_goes_on_without_loss_or_doubles(
    spark: SparkSession, tmp_path: Path
) -> None:
    """SIGKILL of the driver and its JVM while a batch is being written, twice."""
    commits_log(tmp_path / "log", 1000)
    words = [sys.executable, "-m", "pipeline.cli", "commits", "--from", tmp_path / "log", "--stream", "--once"]
    words += ["--to", tmp_path / "out", "--checkpoint", tmp_path / "cp", "--max-offsets", "200"]
    folder = tmp_path / "out" / "offset_commits"

    def batches() -> int:
        return len(list((tmp_path / "cp" / "commits").glob("[0-9]*")))

    for _ in range(2):
        done = batches()
        with subprocess.Popen(words, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL) as process:
            try:
                eventually(
                    lambda done=done: batches() > done and list(folder.glob("_batch=*.partial")),  # type: ignore[misc]  # the lambda's default
                    deadline_s=240,
                    every_s=0.005,
                    what="a batch being written",
                )
            finally:
                os.killpg(process.pid, signal.SIGKILL)
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    rows = [row.log_offset for row in spark.read.parquet(str(folder)).select("log_offset").collect()]
    assert sorted(rows) == list(range(1000))


def test_positions_are_read_from_every_source_that_has_kafkas_partitions() -> None:
    """Spark's connector, ours, and others, which have none."""
    assert group_commit.positions('{"t":{"0":5,"11":7}}') == {("t", 0): 5, ("t", 11): 7}
    assert group_commit.positions('{"a-b-0":5,"t-11":7}') == {("a-b", 0): 5, ("t", 11): 7}
    for other in (None, "17", '{"logOffset":3}', "[1]", "-"):
        assert group_commit.positions(other) == {}


def test_the_newest_finished_batch_is_read_from_the_checkpoint(tmp_path: Path) -> None:
    """A batch that is planned and not done does not count."""
    assert group_commit.last_batch(tmp_path) is None
    for folder in ("commits", "offsets"):
        (tmp_path / folder).mkdir()
    for batch, offset in ((9, 90), (10, 100), (11, 110)):
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"t-0":{offset}}}\n-')
        if batch < 11:
            (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
    assert group_commit.last_batch(tmp_path) == (10, {("t", 0): 100})


@pytest.mark.slow
def test_pl30_a_group_that_was_left_behind_is_caught_up_before_the_next_batch(
    run: Any, tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    """PL30: killed between the sink's commit and the group's; and a group with members is not touched."""
    from confluent_kafka import Consumer

    broker = start_broker({"num.partitions": 1})
    log = commits_log(tmp_path / "log", 30)
    streamed(run, "commits", tmp_path / "log", tmp_path / "out")  # nothing is committed to a group
    last = group_commit.last_batch(tmp_path / "out.cp")
    assert last == (0, {("__consumer_offsets", 0): 30})
    assert group_commit.offsets_of(broker.address, "spark") == "{}"
    assert list(broker.data.glob("__consumer_offsets-*")) == []  # asking makes nothing
    group_commit.catch_up(tmp_path / "out.cp", bootstrap=broker.address, group_id="spark")
    assert json.loads(group_commit.offsets_of(broker.address, "spark")) == {"__consumer_offsets": {"0": 30}}

    commits_log(tmp_path / "log", 20, log=log)
    streamed(run, "commits", tmp_path / "log", tmp_path / "out", "--as-group", "spark", "--bootstrap", broker.address)
    assert json.loads(group_commit.offsets_of(broker.address, "spark")) == {"__consumer_offsets": {"0": 50}}

    member = Consumer({"bootstrap.servers": broker.address, "group.id": "busy", "auto.offset.reset": "earliest"})
    member.subscribe(["__consumer_offsets"])
    eventually(lambda: member.poll(0.2) or member.assignment(), deadline_s=120, what="an assignment")
    with pytest.raises(group_commit.GroupRefused, match="group busy has active members; choose another group id"):
        group_commit.catch_up(tmp_path / "out.cp", bootstrap=broker.address, group_id="busy")
    member.close()


@pytest.mark.slow
def test_pl31_a_query_is_seen_as_a_group_without_lag(
    spark: SparkSession, tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    """PL31: 40,000 records in six partitions, seven batches, `spark-orders`."""
    from confluent_kafka import Producer

    broker = start_broker({"num.partitions": 6})
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5, "batch.num.messages": 500})
    for n in range(40_000):
        producer.produce("orders", b"value %d" % n, partition=n % 6)
        if n % 5000 == 0:
            producer.flush()
    producer.flush()
    source = spark.readStream.format("kohort-log").option("path", str(broker.data)).option("topic", "orders")
    frame = source.option("maxOffsetsPerTrigger", 6000).load()
    seen: list[int] = []
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "cp")).queryName("orders")
    query = (
        writer.foreachBatch(lambda rows, _: seen.append(rows.count()))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    attached = group_commit.attach(query, bootstrap=broker.address, group_id="spark-orders")
    try:
        eventually(lambda: sum(seen) >= 40_000 or query.exception(), deadline_s=240, what="all records")
        assert query.exception() is None
        ends = eventually(lambda: json.loads(group_commit.offsets_of(broker.address, "spark-orders")), deadline_s=120)
        eventually(
            lambda: (
                sum(json.loads(group_commit.offsets_of(broker.address, "spark-orders"))["orders"].values()) == 40_000
            ),
            deadline_s=120,
            what="the last commit",
        )
    finally:
        query.stop()
        attached.detach()
    assert sum(seen) == 40_000
    assert 6 <= len([count for count in seen if count]) <= 8
    assert attached.failures == 0
    assert set(ends) == {"orders"}
    words = [sys.executable, "-m", "kohort", "groups", "describe", "spark-orders", "-b", broker.address]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in told.splitlines() if "orders" in line and line.split()[-1] != "PARTITION"]
    rows = [line for line in lines if "orders" in line[:3]]
    assert len(rows) == 6, told
    assert all("0" in line[4:] for line in rows), told
