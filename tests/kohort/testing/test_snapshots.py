"""Brokers that begin where others are."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kohort.testing import Broker, Refused
from tests.support.broker_process import Kafka, eventually, need


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as one:
        one.produce("orders", "a", "b", partition=1)
        consumer = Consumer({**one.config("confluent-kafka"), "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 1, 1)], asynchronous=False)
        consumer.close()
        yield one


def test_a_fork_goes_on_from_here_by_itself(broker: Broker):
    with broker.fork() as other:
        assert other.topics == {"orders": 2}
        assert other.bootstrap_servers != broker.bootstrap_servers
        other.assert_produced("orders", "a", "b")
        assert other.group("billing").committed() == {("orders", 1): 1}
        producer = Producer(other.config("confluent-kafka"))
        producer.produce("orders", "of the fork", partition=0)
        producer.flush()
        broker.produce("orders", "of the first", partition=0)
        assert [record.text for record in other.records("orders", 0)] == ["of the fork"]
        assert [record.text for record in broker.records("orders", 0)] == ["of the first"]


def test_nothing_lies_outside_of_the_folder_that_is_copied(tmp_path: Path):
    """A test's settings may be those of production."""
    elsewhere = {"metadata.log.dir": str(tmp_path / "metadata"), "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    with Broker(elsewhere, {"orders": 1}) as one:
        one.produce("orders", "a")
        with one.fork() as other:
            assert len(other.records("orders")) == 1
    assert not list(tmp_path.iterdir())


def test_a_snapshot_is_for_many_and_outlives_its_broker():
    with Broker(topics={"t": 1}) as one:
        one.produce("t", "x")
        one.clock.shift("1h")
        snapshot = one.snapshot()
        one.produce("t", "later")
    for _ in range(2):
        with Broker(load=snapshot) as other:
            other.assert_produced("t", "x")
            assert other.clock.now_ms > time.time() * 1_000 + 3_000_000
            other.produce("t", "y")
    path = snapshot.path
    snapshot.remove()
    assert not path.exists()
    with pytest.raises(Refused, match="there is no such directory"), Broker(load=path):
        pass


def test_a_snapshot_is_taken_while_producers_write(broker: Broker):
    producer = Producer(broker.config("confluent-kafka"))
    acknowledged: list[bytes] = []
    for number in range(5_000):
        producer.produce(
            "orders", b"%d" % number, partition=0, callback=lambda error, message: acknowledged.append(message.value())
        )
        producer.poll(0)
    while not acknowledged:
        producer.poll(0.01)
    before = list(acknowledged)
    with broker.fork() as other:
        found = [record.value for record in other.records("orders", 0)]
    producer.flush()
    assert found == [b"%d" % number for number in range(len(found))]
    assert len(found) >= len(before)


def test_closed_segments_are_shared_and_each_has_its_own_fate():
    """By reflinks where there are any, else by hard links; a power cut takes from one alone what was not flushed."""
    with Broker({"log.flush.interval.ms": 3_600_000, "log.segment.bytes": 1_048_576}, {"events": 1}) as broker:
        broker.produce("events", bytes(400_000))
        broker.flush()
        for _ in range(4):
            broker.produce("events", bytes(400_000))
        with broker.snapshot() as snapshot, Broker(load=snapshot) as one:
            segments = sorted((snapshot.path / "events-0").glob("*.log"))
            assert [segment.stat().st_nlink for segment in segments] in ([3, 3, 1], [1, 1, 1])
            broker.power_cut()
            broker.start()
            assert len(broker.records("events")) == 1
            one.kill()
            one.start()
            one.produce("events", "goes on")
            assert len(one.records("events")) == 6
            with Broker(load=snapshot) as other:
                assert len(other.records("events")) == 5


def test_a_directory_is_loaded_and_not_changed(broker: Broker, tmp_path: Path):
    broker.stop()
    with broker.snapshot() as snapshot:
        for place, _, files in os.walk(snapshot.path):
            relative = Path(place).relative_to(snapshot.path)
            (tmp_path / "data" / relative).mkdir(parents=True, exist_ok=True)
            for name in files:
                (tmp_path / "data" / relative / name).write_bytes((Path(place) / name).read_bytes())
    text = (tmp_path / "data" / "meta.properties").read_text()
    before = {file: file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file()}
    assert "node.id=1" in text
    with Broker(load=tmp_path / "data") as other:
        other.assert_produced("orders", "a", "b")
        other.produce("orders", "c")
    assert {file: file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file()} == before
    broker.start()


def committed(consumer: Consumer, offsets: list[TopicPartition]) -> bool:
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException:
        return False
    return True


@pytest.mark.slow
def test_a_directory_of_apache_kafka_is_loaded(tmp_path: Path):
    need("java", "mvn")
    with Kafka(tmp_path / "kafka") as kafka:
        producer = Producer({"bootstrap.servers": kafka.address})
        producer.produce("orders", "a", key="k")
        producer.flush()
        consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "billing"})
        commit = [TopicPartition("orders", 0, 1)]
        eventually(lambda: committed(consumer, commit), what="a commit that Kafka's new coordinator takes")
        consumer.close()
    with Broker(load=kafka.data) as broker:
        broker.assert_produced("orders", ("k", "a"))
        assert broker.group("billing").committed() == {("orders", 0): 1}
        with broker.fork() as other:
            other.produce("orders", "b")
            other.assert_produced("orders", "a", "b")
            assert other.group("billing").lag() == 1
        broker.assert_produced("orders", ("k", "a"))
