"""Faults, and what may happen to a broker: as unmodified clients see them."""

import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kohort.testing import Broker, Refused
from tests.kohort.testing.test_page import run_pytest


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as one:
        yield one


def producer(broker: Broker, **settings: object) -> Producer:
    own = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({**broker.config("confluent-kafka"), "linger.ms": 0, "retry.backoff.ms": 10, **own})


def committing(broker: Broker) -> Consumer:
    return Consumer({**broker.config("confluent-kafka"), "group.id": "billing", "enable.auto.commit": False})


def commit(consumer: Consumer, offset: int) -> None:
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)


def test_an_error_is_said_so_many_times_to_those_who_are_meant(broker: Broker):
    fault = broker.faults.on("OffsetCommit", group="billing").times(2).error("GROUP_AUTHORIZATION_FAILED")
    broker.faults.on("OffsetCommit", group="shipping").optional().error("GROUP_AUTHORIZATION_FAILED")
    consumer = committing(broker)
    for _ in range(2):
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            commit(consumer, 3)
    commit(consumer, 4)
    consumer.close()
    assert fault.hits == 2
    assert [one.body["topics"][0]["name"] for one in broker.requests("OffsetCommit")] == ["orders"] * 3


def test_a_topic_s_partition_a_client_and_later_requests_are_meant(broker: Broker):
    on = broker.faults.on
    on("ListOffsets", topic="orders", partition=0, client_id="me").skip(1).error("TOPIC_AUTHORIZATION_FAILED")
    on("ListOffsets", topic="orders", partition=1).optional().error("TOPIC_AUTHORIZATION_FAILED")
    on("ListOffsets", client_id="you").optional().error("TOPIC_AUTHORIZATION_FAILED")
    consumer = Consumer({**broker.config("confluent-kafka"), "group.id": "billing", "client.id": "me"})
    wanted = [TopicPartition("orders", 0, 0)]
    consumer.offsets_for_times(wanted, 10)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        consumer.offsets_for_times(wanted, 10)
    consumer.offsets_for_times(wanted, 10)
    consumer.close()


def test_an_error_is_that_of_the_partitions_that_are_meant(broker: Broker):
    """The rest of their request is done, and answered."""
    on = broker.faults.on
    broker.create_topic("invoices", partitions=2)
    on("OffsetCommit", topic="invoices", partition=1).error("OFFSET_METADATA_TOO_LARGE")
    consumer = committing(broker)
    places = [TopicPartition("orders", 0, 7), TopicPartition("invoices", 0, 7), TopicPartition("invoices", 1, 7)]
    with pytest.raises(KafkaException, match="OFFSET_METADATA_TOO_LARGE"):
        consumer.commit(offsets=places, asynchronous=False)
    assert broker.group("billing").committed() == {("orders", 0): 7, ("invoices", 0): 7}

    on("Produce", topic="invoices", partition=0).error("INVALID_RECORD")
    told: dict[int, str] = {}
    writing = Producer({**broker.config("confluent-kafka"), "linger.ms": 200})
    for index in (0, 1):
        writing.produce(
            "invoices", "x", partition=index, callback=lambda error, one: told.update({one.partition(): str(error)})
        )
    writing.flush()
    assert "INVALID_RECORD" in told[0]
    assert told[1] == "None"
    assert [record.partition for record in broker.records("invoices")] == [1]

    broker.produce("invoices", "y", partition=0)
    fault = on("Fetch", topic="invoices", partition=0).always().error("TOPIC_AUTHORIZATION_FAILED")
    consumer.assign([TopicPartition("invoices", index, 0) for index in (0, 1)])
    read = set()
    while len(read) < 2:
        message = consumer.poll(10)
        assert message is not None
        read.add((message.partition(), message.error() and message.error().name()))
    assert read == {(0, "TOPIC_AUTHORIZATION_FAILED"), (1, None)}
    fault.remove()
    consumer.close()


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_connection_ends_and_an_idempotent_producer_writes_once(broker: Broker, when: str):
    broker.faults.on("Produce").disconnect(when)
    one = producer(broker, **{"enable_idempotence": True})
    one.produce("orders", "a")
    assert one.flush(20) == 0
    one.produce("orders", "b")
    assert one.flush(20) == 0
    broker.assert_produced("orders", "a", "b")


def test_an_answer_is_lost_and_the_record_is_written_once(broker: Broker):
    broker.faults.on("Produce", topic="orders").drop(handled=True)
    one = producer(broker, enable_idempotence=True, request_timeout_ms=300, socket_timeout_ms=600)
    one.produce("orders", "a")
    assert one.flush(20) == 0
    broker.assert_produced("orders", "a")
    assert len(broker.requests("Produce")) >= 2


def test_requests_are_held_and_released(broker: Broker):
    held = broker.faults.on("Produce").hold()
    one = producer(broker)
    one.produce("orders", "a")
    held.wait_hit()
    one.poll(0)
    assert broker.records("orders") == []
    held.release()
    assert one.flush(20) == 0
    broker.assert_produced("orders", "a")


def test_requests_are_delayed_and_clients_throttled(broker: Broker):
    broker.faults.on("Produce").delay("200ms")
    throttled: list[float] = []
    config = {**broker.config("confluent-kafka"), "throttle_cb": lambda event: throttled.append(event.throttle_time)}
    one = Producer(config)
    began = time.monotonic()
    one.produce("orders", "a")
    assert one.flush(20) == 0
    assert time.monotonic() - began >= 0.2
    broker.faults.on("Produce").throttle("100ms")
    one.produce("orders", "b")
    one.flush(20)
    one.poll(0.1)
    assert throttled == [0.1]
    broker.assert_produced("orders", "a", "b")


async def test_metadata_of_a_topic_fails_and_the_brokers_stay(broker: Broker):
    broker.faults.on("Metadata", topic="orders").times(2).error("LEADER_NOT_AVAILABLE")
    one = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10)
    async with one:
        await one.send_and_wait("orders", b"a")
    broker.assert_produced("orders", "a")


def test_what_is_wrong_with_a_fault_is_said(broker: Broker):
    on = broker.faults.on
    for act, said in (
        (lambda: on("OffsetComit").error("NOT_COORDINATOR"), "no API 'OffsetComit': it takes one of OffsetCommit"),
        (lambda: on("Fetch").error("NOT_CORDINATOR"), "no error 'NOT_CORDINATOR': it takes one of NOT_COORDINATOR"),
        (lambda: on("Fetch").disconnect("soon"), "it takes one of before, during, after"),
        (lambda: on("Fetch").times(0), "it takes a number from 1 on"),
        (lambda: on("Fetch").times("two"), "times.'two'.: it takes a number from 1 on"),
        (lambda: on("Fetch").skip(-1), "it takes a number from 0 on"),
        (lambda: on("Fetch").delay("a while"), "no span of time"),
        (lambda: on("Fetch").hits, "does not say what happens to them"),
        (lambda: on(1).drop(), "no API 1: it takes one of"),
        (lambda: on("Fetch").error(None), "no error None: it takes one of"),
        (lambda: on("Fetch", topic=1), "topic=1: it takes text"),
        (lambda: on("Fetch", partition="1"), "partition='1': it takes a whole number from 0 on"),
        (lambda: on("OffsetCommit", group=["billing"]), "group=.'billing'.: it takes text"),
        (lambda: on("Fetch").optional().drop().wait_hit("twice"), "times='twice': it takes a whole number"),
        (lambda: on("Fetch").optional().drop().times(2), "is set already"),
        (lambda: broker.requests("Fetsh"), "it takes one of Fetch"),
    ):
        with pytest.raises(Refused, match=said):
            act()


def test_a_fault_that_nobody_met_fails_when_the_broker_has_been_killed_too():
    with pytest.raises(AssertionError, match=r"never hit, until .*: on\('Fetch'.*\).drop\(False\)"), Broker() as broker:
        broker.faults.on("Fetch").drop()
        broker.faults.on("Metadata").optional().drop()
        broker.kill()


def test_a_fault_without_its_last_word_fails():
    with (
        pytest.raises(AssertionError, match=r"on\('Prodce', times=2\) does not say .*: error, delay"),
        Broker() as broker,
    ):
        broker.faults.on("Prodce").times(2)
    with Broker() as broker, pytest.raises(Refused, match="takes a number from 1"):
        broker.faults.on("Fetch").times(0).drop()


def test_a_fault_that_nobody_met_fails_beside_a_pause():
    with pytest.raises(AssertionError, match=r"never hit: on\('Fetch'\).drop\(False\)"), Broker() as broker:
        broker.faults.on("Fetch").drop()
        broker.pause()


def test_a_fault_that_nobody_met_fails():
    with pytest.raises(AssertionError, match=r"never hit: on\('Fetch', topic='a'\).drop\(False\)"), Broker() as broker:
        broker.faults.on("Fetch", topic="a").drop()
    with pytest.raises(ZeroDivisionError), Broker() as broker:
        broker.faults.on("Fetch").drop()
        raise ZeroDivisionError


@pytest.mark.slow
def test_the_plugin_fails_the_test_of_such_a_fault(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent("""
            def test_missed(kohort_proc):
                kohort_proc.faults.on("Fetch").drop()

            def test_after(kohort_proc):
                pass

            def test_failed(kohort):
                kohort.faults.on("Fetch").drop()
                assert not kohort
        """)
    )
    done = run_pytest(tmp_path)
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert done.stdout.count("never hit: on('Fetch').drop(False)") >= 1


def test_a_broker_is_killed_and_its_clients_go_on(broker: Broker):
    one = producer(broker, enable_idempotence=True, reconnect_backoff_ms=10, reconnect_backoff_max_ms=100)
    one.produce("orders", "a")
    assert one.flush(20) == 0
    address, pid = broker.bootstrap_servers, broker.pid
    fault = broker.faults.on("Produce").skip(1).times(2).error("NOT_LEADER_OR_FOLLOWER")
    broker.kill()
    assert broker.bootstrap_servers == address
    with pytest.raises(Refused, match="has been killed: `start` it"):
        broker.records("orders")
    one.produce("orders", "b")
    broker.start()
    assert broker.pid != pid
    assert one.flush(20) == 0
    one.produce("orders", "c")
    assert one.flush(20) == 0
    broker.assert_produced("orders", "a", "b", "c")
    assert fault.hits == 2
    assert [one.api for one in broker.requests("Produce")][:1] == ["Produce"]
    broker.restart()
    broker.assert_produced("orders", "a", "b", "c")
    assert len(broker.requests("Produce")) >= 5


def test_a_broker_is_paused(broker: Broker):
    one = producer(broker)
    one.produce("orders", "a")
    one.flush(20)
    broker.pause()
    one.produce("orders", "b")
    assert one.flush(0.2) == 1
    with pytest.raises(Refused, match="is paused: `resume` it"):
        broker.records("orders")
    broker.resume()
    assert one.flush(20) == 0
    broker.assert_produced("orders", "a", "b")
    broker.pause()  # and closed so


def test_a_port_is_kept_while_nobody_listens(broker: Broker):
    broker.kill()
    others = [Broker().open() for _ in range(2)]
    assert broker.bootstrap_servers not in {other.bootstrap_servers for other in others}
    for other in others:
        other.close()
    broker.start()


def test_a_disk_is_full_and_has_room_again(broker: Broker):
    told: list[KafkaError | None] = []
    one = producer(broker, enable_idempotence=True)
    one.produce("orders", "a")
    assert one.flush(20) == 0
    broker.disk_full()
    with pytest.raises(Refused, match="KAFKA_STORAGE_ERROR"):
        broker.produce("orders", "lost")
    one.produce("orders", "b", callback=lambda error, _: told.append(error))
    one.flush(0.3)
    broker.disk_freed()
    assert one.flush(30) == 0
    assert told == [None]
    broker.assert_produced("orders", "a", "b")
    broker.disk_full()
    broker.restart()
    broker.produce("orders", "c")


def test_a_power_cut_takes_what_was_not_flushed():
    for durability, kept in (("os", ["a"]), ("always", ["a", "b", "c"])):
        with Broker({"kohort.durability": durability}, {"orders": 1}) as broker:
            one = producer(broker, reconnect_backoff_ms=10)
            broker.produce("orders", "a")
            broker.flush()
            broker.clock.freeze()
            broker.produce("orders", "b")
            one.produce("orders", "c")
            assert one.flush(20) == 0
            broker.power_cut()
            with pytest.raises(Refused, match="has lost its power: `start` it"):
                broker.records("orders")
            broker.start()
            assert broker.topics == {"orders": 1}
            broker.assert_produced("orders", *kept)
            broker.produce("orders", "later")
            broker.kill()
            broker.start()
            broker.assert_produced("orders", *kept, "later")
