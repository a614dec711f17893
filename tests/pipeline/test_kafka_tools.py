"""What Kafka's own tools make of what the pipeline wrote: offsets to be reset, and a group that Spark commits to."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import group_commit
from tests.pipeline.test_cli import run
from tests.support.broker_process import ROOT, BrokerProcess, eventually, need

__all__ = ["run"]
pytestmark = pytest.mark.slow
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def kafkas_groups(address: str, *words: str) -> list[dict[str, str]]:
    """The rows that kafka-consumer-groups prints, by its heads."""
    need("java", "mvn")
    command = [str(ROOT / "tools" / "kafka"), "run", GROUPS, "--bootstrap-server", address, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    head = next(line for line in lines if line[0] == "GROUP")
    return [dict(zip(head, line, strict=False)) for line in lines[lines.index(head) + 1 :]]


def test_pl27_kafkas_tool_takes_the_file_of_one_group_and_of_two(
    run: Any, tmp_path: Path, start_broker: Callable[..., BrokerProcess], request: pytest.FixtureRequest
) -> None:
    """PL27: --from-file with one --group and with several; then both groups stand where they stood."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    broker = start_broker({"num.partitions": 2})
    producer = Producer({"bootstrap.servers": broker.address})
    for n in range(200):
        producer.produce("orders", b"%d" % n, partition=n % 2)
    assert producer.flush(60) == 0
    clients = {}
    for group in ("g", "h"):
        settings = {"bootstrap.servers": broker.address, "group.id": group, "enable.auto.commit": False}
        clients[group] = Consumer(settings)
        request.addfinalizer(clients[group].close)

    def commit(**offsets: int) -> None:
        for group, offset in offsets.items():
            pairs = [TopicPartition("orders", n, offset + n) for n in range(2)]
            clients[group].commit(offsets=pairs, asynchronous=False)

    def stand(group: str) -> list[int]:
        requested = [TopicPartition("orders", n) for n in range(2)]
        return [tp.offset for tp in clients[group].committed(requested, timeout=300)]

    commit(g=12, h=30)
    then = round(time.time() * 1000)
    eventually(lambda: time.time() * 1000 > then + 5)
    for groups in (["g"], ["g", "h"]):
        commit(g=70, h=80)
        named = [word for group in groups for word in ("--group", group)]
        file = tmp_path / f"{len(groups)}.csv"
        code, _, err = run("restore", "--from", broker.data, *named, "--at", then, "--to", file)
        assert code == 0, err
        rows = kafkas_groups(broker.address, "--reset-offsets", *named, "--from-file", str(file), "--execute")
        assert {row["GROUP"] for row in rows} == set(groups)
        assert stand("g") == [12, 13]
        assert stand("h") == ([30, 31] if "h" in groups else [80, 81])


def test_pl31_kafkas_tool_shows_a_query_as_a_group_without_lag(
    spark: SparkSession, tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    """PL31: what has been read is committed, so the group stands at the ends of all six partitions."""
    from confluent_kafka import Producer

    broker = start_broker({"num.partitions": 6})
    producer = Producer({"bootstrap.servers": broker.address})
    for n in range(6000):
        producer.produce("orders", b"value %d" % n, partition=n % 6)
    assert producer.flush(60) == 0
    source = spark.readStream.format("kohort-kafka").options(bootstrap=broker.address, topic="orders")
    writer = source.load().writeStream.option("checkpointLocation", str(tmp_path / "cp"))
    query = writer.format("noop").trigger(processingTime="100 milliseconds").start()
    attached = group_commit.attach(query, bootstrap=broker.address, group_id="spark-orders")
    try:
        eventually(
            lambda: "1000" in group_commit.offsets_of(broker.address, "spark-orders") or query.exception(),
            deadline_s=240,
            what="the commit of the batch",
        )
    finally:
        query.stop()
        attached.detach()
    assert query.exception() is None
    rows = kafkas_groups(broker.address, "--describe", "--group", "spark-orders")
    assert [row["LAG"] for row in rows if row["TOPIC"] == "orders"] == ["0"] * 6
