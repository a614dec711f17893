"""librdkafka, Java and franz-go with `group.protocol=consumer` (KIP-848): the broker deals out partitions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from tests.clients import harness
from tests.support.broker_process import KINDS, QUICK_GROUPS, BrokerProcess, eventually

QUICK_CONSUMERS = {
    **QUICK_GROUPS,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}


@pytest.fixture(scope="module")
def quick(against: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with KINDS[against](tmp_path_factory.mktemp("broker"), QUICK_CONSUMERS) as running:
        yield running


class Member:
    """A consumer that is polled in a thread of its own."""

    def __init__(self, address: str, group: str, topics: list[str], **settings: Any) -> None:
        self.read: dict[int, list[int]] = {}
        self.owned: set[tuple[str, int]] = set()
        self.errors: list[Any] = []
        self._ends = threading.Event()
        self._dies = False
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._consumer.subscribe(topics, on_assign=self._gained, on_revoke=self._lost, on_lost=self._lost)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _gained(self, _: Any, partitions: Any) -> None:
        self.owned |= {(one.topic, one.partition) for one in partitions}

    def _lost(self, _: Any, partitions: Any) -> None:
        self.owned -= {(one.topic, one.partition) for one in partitions}

    def _run(self) -> None:
        while not self._ends.is_set():
            message = self._consumer.poll(0.05)
            if message is None:
                continue
            if message.error():
                self.errors.append(message.error())
                continue
            self.read.setdefault(message.partition(), []).append(message.offset())
            self._consumer.commit(message=message, asynchronous=True)
        self._consumer.close()

    def close(self) -> None:
        self._ends.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture
def start(quick: BrokerProcess, name: str) -> Iterator[Any]:
    members: list[Member] = []

    def begin(topics: list[str] | None = None, **settings: Any) -> Member:
        members.append(Member(quick.address, name, topics or [name], **settings))
        return members[-1]

    harness.create_topic(quick.address, name, 4)
    yield begin
    for member in members:
        if member._thread.is_alive():
            member.close()


def shared(*members: Member, count: int = 4) -> bool:
    """Whether the partitions are dealt out evenly, each to one."""
    owned = [one for member in members for one in member.owned]
    sizes = [len(member.owned) for member in members]
    return len(owned) == len(set(owned)) == count and max(sizes) - min(sizes) <= 1


def produce(address: str, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % 4)
    producer.flush(30)


def test_members_join_share_and_leave(quick: BrokerProcess, name: str, start: Any):
    """K01, K02: nothing is read twice while partitions move with their commits, and nothing is missed."""
    produce(quick.address, name, 400)
    one = start()
    eventually(lambda: len(one.owned) == 4)
    two, three = start(), start()
    eventually(lambda: shared(one, two, three))
    produce(quick.address, name, 400)
    eventually(lambda: sum(len(offsets) for m in (one, two, three) for offsets in m.read.values()) >= 800)
    two.close()
    eventually(lambda: shared(one, three))
    read = {p: sorted({o for m in (one, two, three) for o in m.read.get(p, [])}) for p in range(4)}
    assert read == {partition: list(range(200)) for partition in range(4)}
    assert not one.errors + two.errors + three.errors


def test_new_partitions_are_dealt_out(quick: BrokerProcess, name: str, start: Any):
    """K08."""
    one, two = start(), start()
    eventually(lambda: shared(one, two))
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": quick.address})
    admin.create_partitions([confluent_kafka.admin.NewPartitions(name, 6)])[name].result(30)
    eventually(lambda: shared(one, two, count=6))


def test_a_regular_expression_finds_topics_that_come_later(quick: BrokerProcess, name: str, start: Any):
    """K48, K49: resolved by the broker; a new topic is found ten seconds after the last look."""
    one = start([f"^{name}.*"])
    eventually(lambda: len(one.owned) == 4)
    harness.create_topic(quick.address, f"{name}-more", 2)
    eventually(lambda: len(one.owned) == 6, deadline_s=40)


def test_a_static_member_that_restarts_gets_its_partitions_back(quick: BrokerProcess, name: str, start: Any):
    """K05: nobody else's move."""
    one, two = start(group_instance_id="a"), start(group_instance_id="b")
    eventually(lambda: shared(one, two))
    had, others = set(one.owned), set(two.owned)
    one.close()
    again = start(group_instance_id="a")
    eventually(lambda: again.owned == had)
    assert two.owned == others


def test_such_a_group_is_listed_and_described(quick: BrokerProcess, name: str, start: Any):
    """11.7: with its type, its state and who owns what."""
    one = start(client_id="first")
    eventually(lambda: len(one.owned) == 4)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": quick.address})

    def described() -> Any:
        group = admin.describe_consumer_groups([name])[name].result(30)
        return group if group.state is confluent_kafka.ConsumerGroupState.STABLE else None

    group = eventually(described)
    assert group.type is confluent_kafka.ConsumerGroupType.CONSUMER
    (member,) = group.members
    assert (member.client_id, len(member.assignment.topic_partitions)) == ("first", 4)
    listed = {one.group_id: one.type for one in admin.list_consumer_groups().result(30).valid}
    assert listed[name] is confluent_kafka.ConsumerGroupType.CONSUMER
    one.close()
    assert admin.delete_consumer_groups([name])[name].result(30) is None


def test_a_killed_broker_comes_back_and_members_go_on(against: str, tmp_path: Any, name: str):
    """K58: epochs, assignments and offsets are as before."""
    with KINDS[against](tmp_path / "broker", QUICK_CONSUMERS) as broker:
        harness.create_topic(broker.address, name, 4)
        one, two = Member(broker.address, name, [name]), Member(broker.address, name, [name])
        try:
            eventually(lambda: shared(one, two))
            had = set(one.owned), set(two.owned)
            broker.kill()
            broker.start()
            produce(broker.address, name, 100)
            eventually(lambda: sum(map(len, [*one.read.values(), *two.read.values()])) >= 100, deadline_s=60)
            assert (one.owned, two.owned) == had
        finally:
            began = time.monotonic()
            one.close()
            two.close()
            assert time.monotonic() - began < 30


@pytest.mark.parametrize("client", ["confluent", "java", "franz"])
def test_a_group_is_rolled_from_the_classic_protocol_to_the_new_one_and_back(
    client: str, quick: BrokerProcess, spawn: Any, name: str
):
    """K09, K10: member after member restarts with the other protocol, and every record is read once."""
    harness.create_topic(quick.address, name)
    options = {
        "mode": "group",
        "bootstrap": quick.address,
        "topic": name,
        "group": name,
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 10_000,
        "commit_every_ms": 100,
    }

    def start(number: int, assignor: str) -> Any:
        return spawn(client, **options, assignor=assignor, client_id=f"{client}-{number}-{assignor}")

    # librdkafka puts user data into the assignments of its cooperative assignor, and Kafka refuses such groups (K66).
    classic = "range" if client == "confluent" else "cooperative-sticky"
    members = [start(0, classic), start(1, classic)]
    everybody = list(members)
    writer = harness.Writer(quick.address, name)
    harness.wait_until_shared(members)
    for number, assignor in enumerate(["consumer", "consumer", classic, classic], start=2):
        members.pop(0).leave()
        members.append(start(number, assignor))
        everybody.append(members[-1])
        harness.wait_until_shared(members)
    written = writer.stop()
    assert not writer.errors
    harness.wait_until_read(everybody, written)
    for member in members:
        member.leave()
    harness.check_reads(everybody, written)


def test_a_group_has_settings_of_its_own(quick: BrokerProcess, name: str):
    """11.12: resource type 32; the group need not exist, and the next heartbeat tells the interval."""
    from protocol.errors import ErrorCode
    from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
    from protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )
    from tests.support.wire import Wire

    with Wire(quick.address) as wire:

        def alter(group: str, key: str, value: str | None) -> ErrorCode:
            change = AlterableConfig(name=key, config_operation=0 if value is not None else 1, value=value)
            resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=[change])
            answer = wire.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            return ErrorCode(answer.responses[0].error_code)

        def described() -> dict[str, tuple[str | None, int]]:
            asked = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=32, resource_name=name)])
            result = wire.call(asked, 4).results[0]
            return {c.name: (c.value, c.config_source) for c in result.configs if c.name.startswith("consumer.")}

        def interval() -> int:
            request = ConsumerGroupHeartbeatRequest(
                group_id=name,
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=1_000,
                subscribed_topic_names=[],
                topic_partitions=[],
            )
            eventually(lambda: wire.coordinator_error(name) == 0, deadline_s=30)
            return wire.call(request, 1).heartbeat_interval_ms

        interval_key = "consumer.heartbeat.interval.ms"
        assert described()[interval_key] == ("200", 5)
        assert interval() == 200
        assert alter(name, interval_key, "400") is ErrorCode.NONE
        assert described()[interval_key] == ("400", 8)
        assert interval() == 400
        assert alter(name, interval_key, "1") is ErrorCode.INVALID_CONFIG
        assert alter(name, interval_key, "x") is ErrorCode.INVALID_CONFIG
        assert alter(name, "consumer.session.timeout.ms", "61000") is ErrorCode.INVALID_CONFIG
        assert alter(name, "no.such", "1") is ErrorCode.INVALID_CONFIG
        assert alter("", interval_key, "400") is ErrorCode.INVALID_REQUEST
        assert alter(name, interval_key, None) is ErrorCode.NONE
        assert interval() == 200


def test_the_first_group_of_the_protocol_makes_its_feature_final(quick: BrokerProcess, name: str, start: Any):
    """KIP-584: group.version 1, as a Kafka that starts on this directory wants it."""
    from protocol.messages.api_versions import ApiVersionsRequest
    from tests.support.wire import Wire

    one = start()
    eventually(lambda: len(one.owned) == 4)

    def level() -> int:
        with Wire(quick.address) as wire:
            answer = wire.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
        return {one.name: one.max_version_level for one in answer.finalized_features}.get("group.version", 0)

    eventually(lambda: level() == 1)
