"""The broker's clock, as clients notice it."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from kohort.testing import Broker, Refused
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.broker_process import eventually
from tests.support.wire import Wire


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as one:
        yield one


def member(broker: Broker, **settings: object) -> Consumer:
    own = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer(
        {
            **broker.config("confluent-kafka"),
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 45_000,
            "max.poll.interval.ms": 45_000,
            **own,
        }
    )
    consumer.subscribe(["orders"])
    return consumer


def wait_for(consumer: Consumer, value: bytes) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        message = consumer.poll(0.05)
        if message is not None and not message.error():
            assert message.value() == value
            return
    raise AssertionError("no record")


def assigned(consumer: Consumer) -> bool:
    consumer.poll(0.05)
    return bool(consumer.assignment())


def members(broker: Broker) -> int:
    admin = AdminClient(broker.config("confluent-kafka"))
    return len(admin.describe_consumer_groups(["billing"])["billing"].result(10).members)


def test_a_session_of_45_seconds_expires_in_milliseconds(broker: Broker):
    broker.produce("orders", "a")
    consumer = member(broker, heartbeat_interval_ms=30_000)
    wait_for(consumer, b"a")
    broker.clock.shift("44s")
    assert members(broker) == 1
    began = time.monotonic()
    broker.clock.shift("2s")
    assert members(broker) == 0
    assert time.monotonic() - began < 5
    consumer.close()


def test_a_frozen_clock_expires_nobody_and_fetches_go_on(broker: Broker):
    """The member does not ask its own clock, as a client's library would."""
    broker.produce("orders", "a")
    consumer = member(broker)
    wait_for(consumer, b"a")
    with Wire(broker.bootstrap_servers) as wire:
        eventually(lambda: wire.coordinator_error("patient") == 0)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        wanted = {"session_timeout_ms": 500, "rebalance_timeout_ms": 500, "protocol_type": "consumer"}
        mine = wire.call(JoinGroupRequest(group_id="patient", member_id="", protocols=protocols, **wanted), 1)
        me = {"group_id": "patient", "generation_id": mine.generation_id, "member_id": mine.member_id}
        alone = [SyncGroupRequestAssignment(member_id=mine.member_id, assignment=b"")]
        broker.clock.freeze()
        frozen_ms = broker.clock.now_ms
        assert wire.call(SyncGroupRequest(assignments=alone, **me), 1).error_code == 0
        broker.pause()
        time.sleep(0.7)  # its session is over, by any other clock
        broker.resume()
        assert broker.clock.now_ms == frozen_ms
        assert broker.clock.is_frozen
        broker.produce("orders", "b")
        wait_for(consumer, b"b")
        assert wire.call(HeartbeatRequest(**me), 1).error_code == 0
    assert "session" not in broker.log().lower().replace("session.timeout", "")
    broker.clock.shift("1h")
    assert broker.clock.now_ms == frozen_ms + 3_600_000
    broker.clock.unfreeze()
    assert frozen_ms + 3_600_000 <= broker.clock.now_ms < frozen_ms + 3_660_000
    consumer.close()


def in_a_transaction(broker: Broker) -> Producer:
    """It has begun one, and written a record."""
    producer = Producer({**broker.config("confluent-kafka"), "transactional.id": "t"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", "a")
    return producer


def test_a_transaction_times_out(broker: Broker):
    producer = in_a_transaction(broker)
    producer.flush()
    broker.assert_produced("orders", committed=True)
    broker.produce("orders", "b")
    broker.clock.shift("5 min")
    broker.assert_produced("orders", "b", committed=True)


def test_a_rebalance_goes_on_without_who_does_not_rejoin(broker: Broker):
    """`max.poll.interval.ms` of the first is over, while it sends its heartbeats."""
    first = member(broker, client_id="first", session_timeout_ms=30_000, heartbeat_interval_ms=50)
    group = broker.group("billing")
    eventually(lambda: assigned(first), what="an assignment")
    second = member(broker, client_id="second", heartbeat_interval_ms=50)
    eventually(lambda: group.state == "PreparingRebalance", what="a rebalance")
    for _ in range(2):
        before = len(broker.requests("Heartbeat", client_id="first"))
        eventually(
            lambda before=before: len(broker.requests("Heartbeat", client_id="first")) > before, what="a heartbeat"
        )
        broker.clock.shift("25s")
    eventually(lambda: assigned(second), deadline_s=30, what="its assignment, before 45 s are over")
    assert [one.client_id for one in group.members] == ["second"]
    first.close()
    second.close()


def test_producers_and_transactional_ids_expire(broker: Broker):
    producer = in_a_transaction(broker)
    producer.commit_transaction()
    asked = DescribeProducersTopicRequest(name="orders", partition_indexes=[0])
    with Wire(broker.bootstrap_servers) as wire:

        def known() -> tuple[int, list[str]]:
            (topic,) = wire.call(DescribeProducersRequest(topics=[asked]), 0).topics
            ids = wire.call(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0).transaction_states
            return len(topic.partitions[0].active_producers), [one.transactional_id for one in ids]

        assert known() == (1, ["t"])
        broker.clock.shift("2d")
        assert known() == (0, ["t"])
        broker.clock.shift("6d")
        assert known() == (0, [])


def test_retention_takes_old_records(broker: Broker):
    broker.create_topic("short", configs={"retention.ms": 60_000})
    broker.produce("short", "a")
    broker.clock.shift("10 min")
    broker.assert_produced("short")


def test_the_clock_goes_on_after_a_crash(broker: Broker):
    broker.clock.shift("2h")
    before_ms = broker.clock.now_ms
    broker.kill()
    broker.start()
    assert before_ms <= broker.clock.now_ms < before_ms + 60_000
    broker.clock.freeze()
    frozen_ms = broker.clock.now_ms
    broker.restart()
    assert broker.clock.now_ms == frozen_ms


def test_what_is_no_span_is_refused(broker: Broker):
    with pytest.raises(Refused, match="no span of time"):
        broker.clock.shift("-1s")
    with pytest.raises(Refused, match="no span of time"):
        broker.clock.shift(-1)
