"""Which of eight quotas counts, who shares its meter, and how long they wait: Kohort and Apache Kafka say the same."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from protocol.frames import encode_request
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.reference.beside import logged_in
from tests.reference.test_rights_beside_kafka import ALLOW, WRITE, acl, ask, give, there
from tests.support.broker_process import eventually
from tests.support.data_plane import batch
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.schema import Message
    from tests.reference.beside import Side

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

MUCH_BYTES, LITTLE_BYTES = 900_000, 100
CONSUME, REQUEST = "consumer_byte_rate", "request_percentage"
THROTTLING_QUOTA_EXCEEDED = 89
MUTATE, CONNECT = "controller_mutation_rate", "connection_creation_rate"
Entity = tuple[tuple[str, str | None], ...]


def levels(client: str) -> dict[str, tuple[Entity, float]]:
    """In the order in which they count; each with its bytes a second, for a client of alice's.

    Alice's own and the users' default share a meter, so these lie farther from their neighbours than by a factor of 2.
    """
    alice, user, own, default = ("user", "alice"), ("user", None), ("client-id", client), ("client-id", None)
    return {
        "alice with this client": ((alice, own), 500),
        "alice with any client": ((alice, default), 1_000),
        "alice": ((alice,), 2_000),
        "any user with this client": ((user, own), 4_000),
        "any user with any client": ((user, default), 8_000),
        "any user": ((user,), 100),
        "this client": ((own,), 16_000),
        "any client": ((default,), 32_000),
    }


class Quotas:
    """What is set at one broker; on return it holds."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._marks: Iterator[int] = count(1)

    def alter(self, *changes: tuple[Entity, float | None], key: str = "producer_byte_rate") -> None:
        """None: removed."""
        self._alter(*changes, key=key)
        # Kafka's broker takes changes one after the other: when the second of two is seen, the first is done.
        for _ in range(2):
            mark = next(self._marks)
            self._alter(((("ip", "10.9.9.9"),), mark), key=CONNECT)
            eventually(lambda mark=mark: self._marked() == mark, what="a change of quotas is known")

    def _alter(self, *changes: tuple[Entity, float | None], key: str = "producer_byte_rate") -> None:
        entries = [
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[OpData(key=key, value=value or 0.0, remove=value is None)],
            )
            for entity, value in changes
        ]
        assert not any(one.error_code for one in ask(self._side, AlterClientQuotasRequest(entries=entries), 1).entries)

    def _marked(self) -> float:
        asked = [ComponentData(entity_type="ip", match_type=0, match="10.9.9.9")]
        entries = ask(self._side, DescribeClientQuotasRequest(components=asked, strict=True), 1).entries
        return entries[0].values[0].value if entries else 0.0


def metered(side: Side) -> Quotas:
    """Of a side where alice and bob may write to `metered`."""
    there(side, "metered")
    give(side, acl(ALLOW, WRITE, "metered"), acl(ALLOW, WRITE, "metered", principal="User:bob"))
    return Quotas(side)


def waits_ms(side: Side, user: str, client: str, size: int) -> int:
    """How long a client is told to wait for a request of about so many bytes, on a connection of its own."""
    topic = TopicProduceData(name="metered", partition_data=[PartitionProduceData(index=0, records=batch(b"v" * size))])
    with logged_in(side.sasl, user, client_id=client, timeout_s=300) as wire:
        answer: Any = wire.call(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


def counting(told_ms: int, quotas: dict[str, float]) -> str:
    """The quota by which these bytes take so long, ten seconds of which are free; none: nobody waits."""
    if not told_ms:
        return "none"
    rate = MUCH_BYTES / (told_ms / 1_000 + 10)
    return min(quotas, key=lambda name: max(quotas[name] / rate, rate / quotas[name]))


def test_of_eight_quotas_the_same_one_counts_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """SE54: all eight are set and taken away one by one, each time for a new client of the same user."""
    told = []
    for side in sides:
        quotas = metered(side)
        found = []
        for number in range(9):
            before, after = (list(levels(f"level-{each}").values()) for each in (number - 1, number))
            gone: dict[Entity, float | None] = {entity: None for entity, _ in before} if number else {}
            quotas.alter(*(gone | dict(after[number:])).items())
            waited_ms = waits_ms(side, "alice", f"level-{number}", MUCH_BYTES)
            found.append(counting(waited_ms, {name: rate for name, (_, rate) in levels("").items()}))
        told.append(found)
    assert told[0] == told[1] == [*levels(""), "none"]


def test_a_meter_is_shared_by_the_same_clients_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """SE54: who waits for what another client, or another user's client of the same name, has sent."""
    told = []
    for side in sides:
        quotas = metered(side)
        found = {}
        for number, (name, (entity, _)) in enumerate(levels("shared-a").items()):
            if ("client-id", "shared-a") in entity:
                continue
            quotas.alter((entity, 1_000))
            one, other = f"one-{number}", f"other-{number}"
            assert waits_ms(side, "alice", one, MUCH_BYTES) > 0
            small = [("alice", one), ("alice", other), ("bob", one)]
            found[name] = [waits_ms(side, user, client, LITTLE_BYTES) > 0 for user, client in small]
            quotas.alter((entity, None))
        told.append(found)
    assert told[0] == told[1]
    assert told[0] == {
        "alice with any client": [True, False, False],
        "alice": [True, True, False],
        "any user with any client": [True, False, False],
        "any user": [True, True, False],
        "any client": [True, False, True],
    }


# --- how long


class Waited(NamedTuple):
    """What a client was told to wait, and how long ago its first request was sent when it was told, in ms.

    A meter gives back with time: of two that come to the same neither is less than the other by more than has passed.
    """

    told_ms: int
    passed_ms: float

    def agrees(self, other: Waited) -> bool:
        """Whether both may be of one meter, to the millisecond by which they are rounded."""
        return (
            self.told_ms <= other.told_ms + other.passed_ms + 1 and other.told_ms <= self.told_ms + self.passed_ms + 1
        )


def waits(side: Side, client: str, *requests: tuple[Message, int]) -> list[tuple[Waited, Any]]:
    """What the super user's client is told, each time on a connection of its own, since the last is not heard."""
    found = []
    began_s = time.monotonic()
    for request, version in requests:
        with Wire(side.broker.address, client_id=client) as wire:
            answer = wire.call(request, version)
        found.append((Waited(answer.throttle_time_ms, (time.monotonic() - began_s) * 1_000), answer))
    return found


def compared(sides: tuple[Side, Side], key: str, rate: float, *requests: tuple[Message, int]) -> list[list[Any]]:
    """The answers of both, who tell a client that is held to this rate the same. Of each the wait comes first."""
    told = []
    client = f"waits-{key}"
    for side in sides:
        there(side, "waited")
        quotas = Quotas(side)
        quotas.alter(((("client-id", client),), rate), key=key)
        try:
            told.append(waits(side, client, *requests))
        finally:
            quotas.alter(((("client-id", client),), None), key=key)
    for (ours, _), (theirs, _) in zip(*told, strict=True):
        assert ours.agrees(theirs), told
    return told


def produce(size: int) -> tuple[ProduceRequest, int]:
    """Of about so many bytes."""
    partition = PartitionProduceData(index=0, records=batch(b"v" * size))
    topics = [TopicProduceData(name="waited", partition_data=[partition])]
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 9


def test_a_producer_is_told_to_wait_as_many_milliseconds_as_by_kafka(sides: tuple[Side, Side]) -> None:
    """SE55: 8,000 bytes at 2,000 a second, six times: ten seconds are free, then each costs four."""
    request, version = produce(8_000)
    for told in compared(sides, "producer_byte_rate", 2_000, *[(request, version)] * 6):
        size = len(encode_request(request, version, 1, "waits-producer_byte_rate")) - 4  # without its length
        for number, (waited, _) in enumerate(told, 1):
            whole_ms = max(0, number * size / 2 - 10_000)
            assert whole_ms - waited.passed_ms - 1 <= waited.told_ms <= whole_ms + 1
        assert told[-1][0].told_ms > 13_000 - told[-1][0].passed_ms


def test_a_consumer_is_told_to_wait_as_many_milliseconds_as_by_kafka(sides: tuple[Side, Side]) -> None:
    """SE56: the answer over the quota is empty and not counted, so the next is told the same."""
    for side in sides:
        there(side, "waited")
        with Wire(side.broker.address) as wire:
            for _ in range(4):
                wire.call(*produce(8_000))
    starts = []
    for side in sides:
        with Wire(side.broker.address) as wire:
            starts.append(wire.end_offsets("waited", [0])[0][1] - 4)
    assert starts[0] == starts[1], "both hold the same records"
    partition = FetchPartition(partition=0, fetch_offset=starts[0], partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="waited", partitions=[partition])]
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1, topics=topics)
    for told in compared(sides, CONSUME, 4_000, *[(fetch, 11)] * 4):
        assert [bool(answer.responses) for _, answer in told] == [True, False, False, False]
        assert told[1][0].told_ms > 0


def test_who_makes_partitions_is_told_to_wait_as_many_milliseconds_as_by_kafka(sides: tuple[Side, Side]) -> None:
    """SE57: two a second, and a burst of 22; older versions are done and wait, newer ones refused while one owes."""

    def create(name: str, count: int) -> CreateTopicsRequest:
        topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        return CreateTopicsRequest(topics=[topic], timeout_ms=15_000)

    asked = [(create("waited-old", 40), 5), (create("waited-older", 10), 5), (create("waited-new", 1), 7)]
    for told in compared(sides, MUTATE, 2, *asked):
        assert [answer.topics[0].error_code for _, answer in told] == [0, 0, THROTTLING_QUOTA_EXCEEDED]
        assert told[0][0].told_ms > 0
    for side in sides:
        ask(side, DeleteTopicsRequest(topic_names=["waited-old", "waited-older"], timeout_ms=15_000), 4)


def test_who_takes_too_much_time_waits_for_a_window_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """SE54: a request percentage that nobody keeps costs a second each time; of two quotas the longer wait counts."""
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name="waited")])
    told = compared(sides, REQUEST, 0.000_01, (metadata, 9), (metadata, 9), produce(100))
    assert [[waited.told_ms for waited, _ in one] for one in told] == [[1_000] * 3] * 2
    assert [waited.told_ms for waited, _ in compared(sides, REQUEST, 10_000, (metadata, 9), (metadata, 9))[0]] == [0, 0]
    for side in sides:
        quotas, client = Quotas(side), (("client-id", "waits-both"),)
        quotas.alter((client, 0.000_01), key=REQUEST)
        quotas.alter((client, 2_000))
        try:
            ((much, _),) = waits(side, "waits-both", produce(40_000))
            assert much.told_ms > 9_000
            began_s = time.monotonic()
            with Wire(side.broker.address, client_id="waits-request") as wire:
                quotas.alter(((("client-id", "waits-request"),), 0.000_01), key=REQUEST)
                assert wire.call(metadata, 9).throttle_time_ms == 1_000
                wire.call(metadata, 9)
            assert time.monotonic() - began_s > 0.9, "who waits is not heard before"
        finally:
            quotas.alter((client, None), ((("client-id", "waits-request"),), None), key=REQUEST)
            quotas.alter((client, None))
