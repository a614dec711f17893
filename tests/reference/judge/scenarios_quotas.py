"""Quotas: what may be set, what is told of it, and how long those wait whom one holds."""

from __future__ import annotations

import time
from typing import Any

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.members import SHORT_MS, stable
from tests.reference.judge.play import ANSWER_WITHIN_S, Script
from tests.support.broker_process import eventually
from tests.support.data_plane import batch
from tests.support.wire import Wire

PRODUCE, CONSUME, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATE, CONNECT = "controller_mutation_rate", "connection_creation_rate"


def entry(*parts: tuple[str, str | None], ops: list[tuple[str, float | None]]) -> EntryData:
    """One entity and what becomes of its quotas; None: removed."""
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def shown(s: Script, kind: str, name: str, quotas: dict[str, float]) -> None:
    """Wait until these are the quotas of an entity of one part: Kafka's broker hears of them a little later."""
    asked = [ComponentData(entity_type=kind, match_type=0, match=name)]

    def are_there() -> bool:
        answer = s.observer().call(DescribeClientQuotasRequest(components=asked, strict=True), 1)
        return {one.key: one.value for entry in answer.entries for one in entry.values} == quotas

    eventually(are_there, what=f"{kind} {name} has {quotas}")


@each_version("Quotas-altered", (0, 1))
def altered(s: Script, v: int) -> None:
    """SE53: set, told of, changed, removed; and what is refused."""
    user, client, address = s.name("ann"), s.name("app"), f"10.77.0.{v + 1}"

    def alter(*entries: EntryData, validate_only: bool = False) -> None:
        s.client().call(AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only), v)

    def told(*components: tuple[str, int, str | None], strict: bool = False) -> None:
        asked = [ComponentData(entity_type=kind, match_type=match, match=name) for kind, match, name in components]
        s.client().call(DescribeClientQuotasRequest(components=asked, strict=strict), v)

    alter(entry(("user", user), ops=[(PRODUCE, 1024.0), (CONSUME, 2048.0), (REQUEST, 12.5), (MUTATE, 0.5)]))
    alter(entry(("user", user), ("client-id", client), ops=[(PRODUCE, 4096.0)]))
    alter(entry(("user", user), ("client-id", None), ops=[(PRODUCE, 5.0)]))
    alter(entry(("client-id", client), ops=[(CONSUME, 7.0)]))
    alter(entry(("ip", address), ops=[(CONNECT, 9.0)]))
    shown(s, "ip", address, {CONNECT: 9.0})
    told(("user", 0, user))
    told(("user", 0, user), strict=True)
    told(("user", 0, user), ("client-id", 2, None))
    told(("user", 0, user), ("client-id", 1, None))
    told(("client-id", 0, client))
    told(("ip", 0, address))
    alter(entry(("user", user), ops=[(PRODUCE, 1.0)]), validate_only=True)
    told(("user", 0, user), strict=True)
    for value in (0.0, -1.0, 1.5, 1e19):
        alter(entry(("user", user), ops=[(PRODUCE, value)]))
    alter(entry(("user", user), ops=[(REQUEST, 0.0)]))
    alter(entry(("ip", address), ops=[(CONNECT, 3e9)]))
    alter(entry(("ip", address), ops=[(CONNECT, 2.5)]))
    alter(entry(("user", user), ops=[("tea_rate", 1.0)]))
    alter(entry(("user", user), ops=[(CONNECT, 1.0)]))
    alter(entry(("ip", address), ops=[(PRODUCE, 1.0)]))
    alter(entry(("ip", "nowhere.invalid"), ops=[(CONNECT, 1.0)]))
    alter(entry(("ip", address), ("user", user), ops=[(PRODUCE, 1.0)]))
    alter(entry(ops=[(PRODUCE, 1.0)]))
    alter(entry(("user", ""), ops=[(PRODUCE, 1.0)]))
    alter(entry(("planet", "earth"), ops=[(PRODUCE, 1.0)]))
    alter(entry(("user", user), ops=[(PRODUCE, 1.0), (PRODUCE, 2.0)]))
    alter(entry(("user", user), ops=[(PRODUCE, 3.0)]), entry(("user", user), ops=[(PRODUCE, 4.0)]))
    shown(s, "user", user, {PRODUCE: 3.0, CONSUME: 2048.0, REQUEST: 12.5, MUTATE: 0.5})
    told(("user", 0, user), strict=True)
    alter(entry(("user", user), ops=[(PRODUCE, 6.0)]), entry(("user", s.name("bob")), ops=[(PRODUCE, 0.0)]))
    alter(entry(("user", user), ops=[("tea_rate", None), (PRODUCE, None)]))
    alter(entry(("user", s.name("nobody")), ops=[(PRODUCE, None)]))
    alter(entry(("user", user), ops=[]))
    alter()
    everything: list[tuple[str, float | None]] = [(key, None) for key in (PRODUCE, CONSUME, REQUEST, MUTATE)]
    alter(entry(("user", user), ops=everything), entry(("client-id", client), ops=everything))
    alter(
        entry(("user", user), ("client-id", client), ops=everything),
        entry(("user", user), ("client-id", None), ops=everything),
    )
    alter(entry(("ip", address), ops=[(CONNECT, None)]))
    shown(s, "ip", address, {})
    told(("user", 0, user))
    told(("ip", 0, address))


class Throttled:
    """A client that a quota of its own holds; how long it is told to wait is noted in whole seconds.

    Of a bucket that fills again while requests take their time (`fills`) what it owed altogether is noted, to five
    seconds: the wait and the time since the first request.
    """

    def __init__(self, s: Script, key: str, value: float, *, fills: bool = False, name: str | None = None) -> None:
        self.s = s
        self.name = name or s.name("held")
        self._key = key
        self._fills = fills
        self._began_s: float | None = None
        self.alter(value)

    def alter(self, value: float | None) -> None:
        """Set the quota, or take it away."""
        change = entry(("client-id", self.name), ops=[(self._key, value)])
        self.s.observer().call(AlterClientQuotasRequest(entries=[change]), 1)
        shown(self.s, "client-id", self.name, {} if value is None else {self._key: value})

    def call(self, request: Any, version: int, what: str) -> Any:
        """Ask on a connection of its own, since the last one may not be heard for a while."""
        began_s = time.monotonic()
        with Wire(self.s.address, client_id=self.name, timeout_s=ANSWER_WITHIN_S) as wire:
            answer = wire.call(request, version)
        seconds = answer.throttle_time_ms / 1_000
        self._began_s = began_s if self._began_s is None else self._began_s
        if self._fills and seconds:
            seconds = 5 * round((seconds + began_s - self._began_s) / 5)
        self.s.note(what, {"seconds": round(seconds)})
        return answer


@scenario("SE55-produce")
def produced(s: Script) -> None:
    """1,000 bytes a second, and some 8 kB at once, five times; what is over is appended all the same."""
    name = s.name("t")
    s.observer().call(CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1)], timeout_ms=5_000), 5)
    held = Throttled(s, PRODUCE, 1_000.0)
    data = PartitionProduceData(index=0, records=batch(b"v" * 7_940))
    topic = TopicProduceData(name=name, partition_data=[data])
    for _ in range(5):
        answer = held.call(ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[topic]), 9, "produced")
        s.note("error", answer.responses[0].partition_responses[0].error_code)


@scenario("SE56-fetch")
def fetched(s: Script) -> None:
    """1,000 bytes a second: the answer over it is empty, and does not count."""
    name = s.name("t")
    s.observer().call(CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1)], timeout_ms=5_000), 5)
    data = PartitionProduceData(index=0, records=batch(b"v" * 8_000))
    topic = TopicProduceData(name=name, partition_data=[data])
    s.observer().call(ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[topic]), 9)
    held = Throttled(s, CONSUME, 1_000.0)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    for epoch in (-1, -1, 0):
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            session_epoch=epoch,
            topics=[FetchTopic(topic=name, partitions=[partition])],
        )
        answer = held.call(request, 11, "fetched")
        s.note("answer", {"topics": len(answer.responses), "session": answer.session_id > 0})


@scenario("SE58")
def muted(s: Script) -> None:
    """A member that is not heard for longer than its session is out, and its heartbeat is too late.

    16 kB at 1,000 bytes a second: six seconds more than the ten that are averaged.
    """
    name = s.name("t")
    s.observer().call(CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1)], timeout_ms=5_000), 5)
    held = Throttled(s, PRODUCE, 1_000.0, name="muted")
    (member,) = stable(s, held.name, session=SHORT_MS)
    data = PartitionProduceData(index=0, records=batch(b"v" * 16_000))
    topic = TopicProduceData(name=name, partition_data=[data])
    answer = member.client.wire.call(ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[topic]), 9)
    s.note("produced", {"seconds": round(answer.throttle_time_ms / 1_000)})
    began_s = time.monotonic()
    member.heartbeat()
    s.note("heard", {"late": time.monotonic() - began_s > SHORT_MS / 1_000})
    s.until("Empty", 0)
    held.alter(None)


@scenario("SE57-mutations")
def mutated(s: Script) -> None:
    """Two partitions a second: older versions are done and wait, newer ones are refused while others are owed."""
    held = Throttled(s, MUTATE, 2.0, fills=True)

    def create(name: str, version: int, count: int = 40) -> None:
        topic = CreatableTopic(name=s.name(name), num_partitions=count, replication_factor=1)
        answer = held.call(CreateTopicsRequest(topics=[topic], timeout_ms=15_000), version, f"created {name}")
        s.note("error", answer.topics[0].error_code)

    create("new", 7)
    create("refused", 7)
    create("old", 5, 10)
    answer = held.call(DeleteTopicsRequest(topic_names=[s.name("new")], timeout_ms=15_000), 4, "deleted")
    s.note("error", answer.responses[0].error_code)
    answer = held.call(DeleteTopicsRequest(topic_names=[s.name("old")], timeout_ms=15_000), 5, "not deleted")
    s.note("error", answer.responses[0].error_code)
    held.alter(None)
    answer = held.call(DeleteTopicsRequest(topic_names=[s.name("old")], timeout_ms=15_000), 5, "deleted")
    s.note("error", answer.responses[0].error_code)
