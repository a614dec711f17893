"""Real clients at work on a broker, and what they say they did: the numbers that the pipeline must find.

`at_work` has kafka-python, confluent-kafka (cooperative, and KIP-848 where the broker has it) and aiokafka form groups,
rebalance, read and commit; a transaction commits offsets and another aborts
(where the broker has them); an administrator sets offsets and
deletes a group. What comes back is made of the clients' own words only: callbacks, acknowledgements, answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients import harness
from tests.clients.harness import Worker
from tests.support.broker_process import eventually

TOPIC = "orders"
GROUPS = {
    "aio": ("aiokafka", "roundrobin"),
    "librd": ("confluent", "cooperative-sticky"),
    "kp": ("kafka_python", "range"),
}
Said = dict[str, Any]


def at_work(address: str, spawn: Callable[..., Worker], *, next_generation: bool = False) -> Said:
    """Work for about twenty seconds.

    Returns: `written` (partition -> records acknowledged, of `orders`), `committed` (group -> topic -> partition ->
    offset, as OffsetFetch answers at the end), `acknowledged` (group -> [[partition, offset]], every commit that a
    member was told is kept), `owners` (group -> [[generation, member id, partitions]], every assignment that a member
    was told), `deleted` (groups), `aborted` (offsets that must not be seen).
    """
    harness.create_topic(address, TOPIC, **{"compression.type": "lz4"})
    harness.create_topic(address, "payments")
    writer = harness.Writer(address, TOPIC, per_second=60)
    crews = {group: _first(address, spawn, group) for group in GROUPS}
    for crew in crews.values():
        harness.wait_until_shared(crew)
    for group, crew in crews.items():
        crew.append(spawn(GROUPS[group][0], **_options(address, group), client_id=f"{group}-b"))
    for crew in crews.values():
        harness.wait_until_shared(crew)
    if next_generation:
        _next_generation(address)
    crews["kp"][0].leave()
    harness.wait_until_shared(crews["kp"][1:])
    _transactions(address)
    _administrator(address)
    written = writer.stop()
    for crew in crews.values():
        harness.wait_until_read(crew, written)
        for worker in crew:
            if worker.alive():
                worker.leave()
    groups = [*GROUPS, "simple", "transactional", *["next"] * next_generation]
    return {
        "written": {str(partition): count for partition, count in written.items()},
        "committed": {group: committed(address, group) for group in groups},
        "acknowledged": {group: _acknowledged(crew) for group, crew in crews.items()},
        "owners": {group: _owners(crew) for group, crew in crews.items()},
        "deleted": ["gone"],
        "aborted": [666],
    }


def _options(address: str, group: str) -> dict[str, Any]:
    return {
        "mode": "group",
        "bootstrap": address,
        "group": group,
        "topic": TOPIC,
        "assignor": GROUPS[group][1],
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 20_000,
        "commit_every_ms": 1_000,
    }


def _first(address: str, spawn: Callable[..., Worker], group: str) -> list[Worker]:
    return [spawn(GROUPS[group][0], **_options(address, group), client_id=f"{group}-a")]


def _next_generation(address: str) -> None:
    """KIP-848: two members come, read, commit; one leaves, then the other."""
    consumers = []
    for name in ("next-a", "next-b"):
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "next",
                "client.id": name,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        consumers.append(consumer)

        def shared() -> bool:
            for one in consumers:
                one.poll(0.05)
            counts = [len(one.assignment()) for one in consumers]
            return sum(counts) == harness.PARTITIONS and all(counts)

        eventually(shared, deadline_s=60)
    for consumer in consumers:
        consumer.commit(
            offsets=[TopicPartition(TOPIC, tp.partition, 5) for tp in consumer.assignment()], asynchronous=False
        )
        consumer.close()


def _transactions(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": "tx", "log_level": 0})
    producer.init_transactions(30)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "transactional", "log_level": 0})
    for offset, end in ((3, producer.commit_transaction), (666, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("payments", b"payment", partition=1)
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, offset)], consumer.consumer_group_metadata(), 30)
        end(30)
    consumer.close()


def _administrator(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    for group in ("simple", "gone"):
        wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(TOPIC, 2, 7, metadata="über ✓")])]
        for future in admin.alter_consumer_group_offsets(wanted).values():
            future.result(20)
    for future in admin.delete_consumer_groups(["gone"]).values():
        future.result(20)


def committed(address: str, group: str) -> dict[str, dict[str, int]]:
    """What OffsetFetch answers for all of a group's partitions."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    end = time.monotonic() + 20
    while True:
        try:
            answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
            break
        except KafkaException:
            if time.monotonic() > end:
                raise
    offsets: dict[str, dict[str, int]] = {}
    for tp in answer.topic_partitions:
        offsets.setdefault(tp.topic, {})[str(tp.partition)] = tp.offset
    return offsets


def _acknowledged(crew: list[Worker]) -> list[list[int]]:
    return [
        [int(partition), offset]
        for worker in crew
        for event in worker.seen("committed")
        for partition, offset in event["offsets"].items()
    ]


def _owners(crew: list[Worker]) -> list[list[Any]]:
    """Every assignment: generation, member id, and all partitions owned from then on."""
    return [
        [event["generation"], event["member_id"], sorted(owned)]
        for worker in crew
        for event, owned in harness.assignments(worker)
    ]
