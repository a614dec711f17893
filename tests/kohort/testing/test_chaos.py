"""Seeded chaos: what auditors see, what a seed does again, and bugs of a program that it brings to light."""

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.testbed.auditing.exchange import Exchange
from broker.testbed.auditing.owners import Owners
from kohort.testing import Broker, Refused
from kohort.testing.chaos import KINDS, chaos, faults_of
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.kohort.testing.test_page import run_pytest

TOPIC = b"t" * 16


def test_a_seed_is_always_the_same_and_kinds_are_parts_of_it():
    for seed in range(100):
        everything = faults_of(seed)
        assert faults_of(seed) == everything
        assert len(everything) >= 8
        parts = [fault for kind in KINDS for fault in faults_of(seed, [kind])]
        assert sorted(map(str, parts)) == sorted(map(str, everything))
    told = " ".join(fault["told"] for seed in range(100) for fault in faults_of(seed))
    for said in (
        "was killed",
        "lost its power",
        "stood still",
        "expire happened to",
        "disk was full",
        "went by",
        "answered N",
    ):
        assert said in told
    for seeds in ("17", 0.5, [None]):
        with pytest.raises(Refused, match=r"it takes whole numbers, such as range\(50\)"):
            chaos(seeds)
    for act in (lambda: faults_of(1, ["weather"]), lambda: chaos(kinds="weather")):
        with pytest.raises(Refused, match="no kind of fault 'weather': it takes some of errors, wire, death"):
            act()


def test_an_acknowledged_record_that_is_lost_is_seen():
    """Without `kohort.durability=always` a power cut takes what was acknowledged a moment ago, and seeds have none."""
    broker = Broker(topics={"orders": 1}).open()
    try:
        assert "lost its power" not in str(broker.chaos(3, ["power"])._faults)
        broker.clock.freeze()
        words = {"act": "disrupt", "with": {"what": "power_cut"}, "skip": 2, "told": "Produce number 3: no power"}
        planned = broker.chaos(1)
        planned._faults, planned._before = [{"api": "Produce", "times": 1, **words}], [[]]
        planned.begin()
        producer = Producer({**broker.config("librdkafka"), "client.id": "till", "reconnect.backoff.ms": 10})
        for value in ("a", "b", "c"):
            producer.produce("orders", value)
            assert producer.flush(20) == 0
        broker.assert_produced("orders", "c")
        with pytest.raises(AssertionError) as told:
            broker.verify()
        for said in (
            "b'a' has become b'c'",
            r"chaos, seed 1, has done:\n  \+0.00 s  Produce number 3: no power .of till",
        ):
            assert re.search(said, str(told.value)), told.value
    finally:
        broker.close()


def test_a_broker_that_its_test_kills_goes_on_under_chaos():
    with Broker({"kohort.durability": "always"}, {"orders": 1}) as broker, broker.chaos(1) as seed:
        planned = [{"api": "Produce", "skip": 1, "times": 1, "act": "error", "with": "NOT_LEADER_OR_FOLLOWER"}]
        seed.stop()
        seed._faults, seed._before = [{**planned[0], "told": "Produce number 2: refused"}], [[]]
        seed.begin()
        producer = Producer({**broker.config("librdkafka"), "reconnect.backoff.ms": 10, "retry.backoff.ms": 10})
        producer.produce("orders", "a")
        assert producer.flush(20) == 0
        assert "nothing" in seed.told()
        broker.kill()
        broker.start()
        producer.produce("orders", "b")
        assert producer.flush(20) == 0
        broker.assert_produced("orders", "a", "b")
        assert "Produce number 2: refused" in seed.told()


def heartbeat(
    owners: Owners, member: str, epoch: int, tick: int, given: Iterable[int] | None, owned: Iterable[int] | None = None
) -> None:
    def of(indexes: Iterable[int]) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=TOPIC, partitions=list(indexes))]

    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=epoch, topic_partitions=None if owned is None else of(owned)
    )
    exchange = Exchange(member, request, 1, arrived=tick)
    owners.arrived(exchange)
    exchange.answered = tick + 1
    exchange.response = ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=member,
        member_epoch=max(epoch, 1),
        heartbeat_interval_ms=100,
        assignment=None if given is None else Assignment(topic_partitions=of(given)),
    )
    owners.answered(exchange)


def test_a_partition_that_is_owned_twice_is_seen():
    owners = Owners()
    heartbeat(owners, "a", 0, 1, given=[0, 1])
    heartbeat(owners, "a", 1, 3, given=[0])  # it is to give up one
    heartbeat(owners, "a", 1, 5, given=None, owned=[0])  # and has
    heartbeat(owners, "b", 0, 7, given=[1])
    heartbeat(owners, "a", 1, 9, given=None)
    heartbeat(owners, "b", 1, 11, given=[0, 1])
    with pytest.raises(AssertionError, match="after somebody else was given partition 0"):
        heartbeat(owners, "a", 1, 13, given=None)
    heartbeat(owners, "a", 0, 15, given=[])  # begins anew


def commit(owners: Owners, member: str, epoch: int, tick: int, partition: int, *, meanwhile: int | None = None) -> None:
    """One that is taken; `meanwhile` the member hears of that epoch."""
    asked = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1, committed_metadata=None)
    request = OffsetCommitRequest(
        group_id="g",
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[asked])],
    )
    exchange = Exchange(member, request, 9, arrived=tick)
    owners.arrived(exchange)
    if meanwhile is not None:
        heartbeat(owners, member, meanwhile, tick + 1, given=[])
        heartbeat(owners, member, meanwhile, tick + 3, given=None, owned=[])
    exchange.answered = tick + 5
    result = OffsetCommitResponsePartition(partition_index=partition, error_code=ErrorCode.NONE)
    exchange.response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[result])])
    owners.answered(exchange)


def test_a_stale_commit_of_a_consumer_group_that_counts_is_seen():
    """KIP-1251: an epoch that has passed counts for what its member holds since then, and for nothing else."""
    owners = Owners({"t": TOPIC}.get)
    heartbeat(owners, "a", 0, 1, given=[0, 1])  # at epoch 1
    commit(owners, "a", 1, 3, 0)
    heartbeat(owners, "a", 2, 9, given=[0, 2])
    heartbeat(owners, "a", 2, 11, given=None, owned=[0])  # it has not begun with 2
    commit(owners, "a", 1, 13, 0)
    commit(owners, "a", 2, 19, 2)
    for partition in (1, 2):
        with pytest.raises(AssertionError, match=f"which is at epoch 2, commits partition {partition} at epoch 1"):
            commit(owners, "a", 1, 25, partition)
    commit(owners, "a", 2, 31, 0, meanwhile=3)  # it was on its way
    heartbeat(owners, "a", -1, 41, given=None)
    with pytest.raises(AssertionError, match="which has gone, commits partition 0 at epoch 3"):
        commit(owners, "a", 3, 43, 0)
    heartbeat(owners, "a", 0, 49, given=[0])
    commit(owners, "a", 1, 51, 0)


SHOP = """
    import time
    import pytest
    from confluent_kafka import Consumer, KafkaException, Producer
    from kohort.testing import chaos

    FAST = {{"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 10, "client.id": "shop"}}

    def ship(kohort, count):
        consumer = Consumer({{
            **kohort.config("librdkafka"), **FAST, "group.id": "shipping", "auto.offset.reset": "earliest",
            "enable.auto.commit": False, **{protocol},
        }})
        producer = Producer({{**kohort.config("librdkafka"), **FAST, **{producer}}})
        consumer.subscribe(["orders"])
        shipped, until = set(), time.monotonic() + 40
        while len(shipped) < count and time.monotonic() < until:
            order = consumer.poll(0.1)
            if order is None or order.error() or order.value() in shipped:
                continue
            producer.produce("shipments", order.value())
            producer.flush()
            shipped.add(order.value())
            try:
                consumer.commit(order, asynchronous=False)
            except KafkaException:
                pass  # it comes again, and is known
        consumer.close()

    @chaos(seeds={seeds}, kinds=["errors", "wire", "death"])
    def test_every_order_is_shipped_once(kohort):
        kohort.create_topic("orders", partitions=2)
        kohort.create_topic("shipments")
        for number in range(12):
            kohort.produce("orders", str(number), key=str(number))
        ship(kohort, 12)
        assert sorted(int(one.text) for one in kohort.records("shipments")) == list(range(12))
"""
BUGS = {
    "what could not be written is forgotten": '{"retries": 0}',
    "what was not acknowledged is written again": '{"enable.idempotence": False}',
}


PROTOCOLS = {
    "classic": '{"heartbeat.interval.ms": 200, "session.timeout.ms": 6000}',
    "consumer": '{"group.protocol": "consumer"}',
}


def shop(folder: Path, producer: str, seeds: str, protocol: str = "classic") -> None:
    code = SHOP.format(producer=producer, seeds=seeds, protocol=PROTOCOLS[protocol])
    (folder / "test_shop.py").write_text(textwrap.dedent(code))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_program_without_bugs_passes_whatever_happens(tmp_path: Path, protocol: str):
    shop(tmp_path, '{"enable.idempotence": True}', "range(3)", protocol)
    done = run_pytest(tmp_path, "-n", "2")
    assert "3 passed" in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_and_its_seed_fails_again(tmp_path: Path, bug: str):
    shop(tmp_path, BUGS[bug], "range(50)")
    done = run_pytest(tmp_path, "-x")
    seed = re.search(r"chaos, seed (\d+), has done:\n  \+", done.stdout)
    assert "1 failed" in done.stdout and seed is not None, done.stdout
    again = run_pytest(tmp_path, "--kohort-seed", seed[1])
    assert "1 failed" in again.stdout, again.stdout
    assert f"test_every_order_is_shipped_once[seed{seed[1]}]" in again.stdout


@pytest.mark.slow
def test_chaos_needs_a_broker(tmp_path: Path):
    (tmp_path / "test_it.py").write_text("from kohort.testing import chaos\n@chaos(3)\ndef test_it(): ...\n")
    assert "chaos needs a broker of its own, the fixture kohort" in run_pytest(tmp_path).stdout
