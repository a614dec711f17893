"""The data plane in every version: Produce, Fetch, ListOffsets and their neighbours, with what they refuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records import batch
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.play import Script
from tests.support.broker_process import eventually

V = TypeVar("V")
T0 = 1_700_000_000_000
NONE_SUCH = "judge-none"


def topic(s: Script, suffix: str = "t", partitions: int = 2, **configs: str) -> str:
    """A topic of the scenario's own."""
    name = s.name(suffix)
    wire = s.observer()
    entries = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=entries)
    error = wire.call(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 4).topics[0].error_code
    assert error == 0, f"{name} was not made: {error}"
    eventually(lambda: all(e == 0 for e, _ in wire.end_offsets(name, list(range(partitions))).values()))
    s.topic_id(name)
    return name


def records(*values: bytes | None, timestamps: Iterable[int] = (), **options: Any) -> bytes:
    """One batch of records with keys k0, k1, ... at T0, T0+10, ..."""
    times = list(timestamps) or [i * 10 for i in range(len(values))]
    made = [batch.Record(i, T0 + times[i], b"k%d" % i, value) for i, value in enumerate(values)]
    return bytes(batch.encode_batch(made, **options))


def by_topic(rows: Mapping[tuple[str, int], V]) -> list[tuple[str, list[tuple[int, V]]]]:
    """(topic, [(partition, value)]) as requests have it: every topic once."""
    found: dict[str, list[tuple[int, V]]] = {}
    for (name, index), value in rows.items():
        found.setdefault(name, []).append((index, value))
    return list(found.items())


def produce(
    s: Script,
    version: int,
    data: dict[tuple[str, int], bytes | None],
    *,
    acks: int = -1,
    transactional_id: str | None = None,
    client: str = "c",
    answered: bool = True,
    heard: bool = True,
) -> Any:
    """Produce to (topic, partition)s. Not `answered`: there is no answer; not `heard`: it is heard later."""

    def id_of(name: str) -> bytes:
        return s.topic_id(name) if version >= 13 and name.startswith(s.own) else b"\x07" * 16

    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5_000,
        topic_data=[
            TopicProduceData(
                name=name,
                topic_id=id_of(name),
                partition_data=[PartitionProduceData(index=index, records=value) for index, value in rows],
            )
            for name, rows in by_topic(data)
        ],
    )
    if answered and heard:
        return s.client(client).call(request, version)
    s.client(client).send(request, version)
    if answered:
        return None
    s.client(client)._awaited.pop()
    s.client(client).wire._sent.pop()
    return None


def fetch(
    s: Script,
    version: int,
    asked: dict[tuple[str, int], int],
    *,
    client: str = "c",
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    forgotten: dict[str, list[int]] | None = None,
    heard: bool = True,
    **fields: Any,
) -> Any:
    """Fetch from (topic, partition)s at offsets; not `heard`: the answer is heard later."""

    def id_of(name: str) -> bytes:
        return s.topic_id(name) if version >= 13 and name.startswith(s.own) else b"\x07" * 16

    topics = [
        FetchTopic(
            topic=name,
            topic_id=id_of(name),
            partitions=[
                FetchPartition(
                    partition=index,
                    fetch_offset=offset,
                    partition_max_bytes=partition_max_bytes,
                    current_leader_epoch=leader_epoch,
                )
                for index, offset in rows
            ],
        )
        for name, rows in by_topic(asked)
    ]
    gone = [ForgottenTopic(topic=t, topic_id=id_of(t), partitions=p) for t, p in (forgotten or {}).items()]
    values: dict[str, Any] = {"max_wait_ms": 100, "min_bytes": 0, "max_bytes": max_bytes}
    request = FetchRequest(topics=topics, forgotten_topics_data=gone, **values | fields)
    if heard:
        return s.client(client).call(request, version)
    s.client(client).send(request, version)
    return None


def list_offsets(
    s: Script, version: int, asked: dict[tuple[str, int], int], *, isolation: int = 0, leader_epoch: int = -1
) -> Any:
    """ListOffsets of (topic, partition)s at timestamps."""
    topics = [
        ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=leader_epoch)
                for index, timestamp in rows
            ],
        )
        for name, rows in by_topic(asked)
    ]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics, timeout_ms=5_000)
    return s.client().call(request, version)


@each_version("Produce", range(3, 14))
def produces(s: Script, v: int) -> None:
    t = topic(s)
    for acks in (-1, 1):
        produce(s, v, {(t, 0): records(b"a", b"b")}, acks=acks)
    produce(s, v, {(t, 0): records(b"zero")}, acks=0, answered=False)
    produce(s, v, {(t, 0): records(b"after"), (t, 1): records(b"", None, b"c" * 2000)})
    fetch(s, min(v + 1, 12), {(t, 0): 0})
    fetch(s, min(v + 1, 12), {(t, 1): 0})


@each_version("Produce-refused", range(3, 14))
def refused_produce(s: Script, v: int) -> None:
    t = topic(s, max_message_bytes="2000", message_timestamp_after_max_ms="1000")
    produce(s, v, {(t, 9): records(b"a")})
    produce(s, v, {(t, -1): records(b"a")})
    produce(s, v, {(NONE_SUCH, 0): records(b"a")})
    produce(s, v, {("no/name", 0): records(b"a")})
    produce(s, v, {(t, 0): records(b"a" * 3000)})
    produce(s, v, {(t, 0): records(b"good"), (t, 9): records(b"bad"), (NONE_SUCH, 0): records(b"bad")})
    produce(s, v, {(t, 0): records(b"a")}, acks=2)
    produce(s, v, {(t, 0): records(b"a")}, acks=-2)
    corrupt = bytearray(records(b"a", b"b"))
    corrupt[-2] ^= 1
    produce(s, v, {(t, 0): bytes(corrupt)})
    produce(s, v, {("__consumer_offsets", 0): records(b"a")})
    produce(s, v, {(t, 0): records(b"late", timestamps=[10**12])})
    produce(s, v, {(t, 0): records(b"ok")})
    fetch(s, 11, {(t, 0): 0})


@each_version("Produce-odd", (3, 7, 8, 9, 11))
def odd_batches(s: Script, v: int) -> None:
    """Batches that are whole but not right."""
    t = topic(s)
    good = records(b"a", b"b")
    produce(s, v, {(t, 0): good + records(b"c")}, client="two batches")
    produce(s, v, {(t, 0): good[:-1]}, client="cut off")
    produce(s, v, {(t, 0): b""}, client="empty")
    produce(s, v, {(t, 0): good[:16] + b"\x01" + good[17:]}, client="magic 1")
    produce(s, v, {(t, 0): good[:16] + b"\x03" + good[17:]}, client="magic 3")
    produce(s, v, {(t, 0): records(b"a", control=True)}, client="control")
    produce(s, v, {(t, 0): records(b"a", base_offset=5)}, client="base offset")
    fetch(s, 11, {(t, 0): 0})


@scenario("Produce-null")
def _(s: Script) -> None:
    """No records at all."""
    produce(s, 9, {(topic(s), 0): None})


@scenario("Produce-codecs")
def _(s: Script) -> None:
    t = topic(s, partitions=5)
    for codec in range(5):
        produce(s, 7 if codec == 4 else 5, {(t, codec): records(b"text" * 50, b"more", compression=codec)})
    produce(s, 5, {(t, 0): records(b"zstd too early", compression=4)})
    for codec in range(5):
        fetch(s, 10, {(t, codec): 0})
    fetch(s, 9, {(t, 4): 0})


@scenario("Produce-recompressed")
def _(s: Script) -> None:
    """A topic with a codec of its own."""
    for codec in ("gzip", "uncompressed"):
        t = topic(s, codec, 1, compression_type=codec)
        produce(s, 9, {(t, 0): records(b"a" * 100, b"b" * 100)})
        produce(s, 9, {(t, 0): records(b"a" * 100, b"b" * 100, compression=1)})
        fetch(s, 11, {(t, 0): 0})


@scenario("Produce-decompressed", since="4.4.0")
def _(s: Script) -> None:
    """Records around `max.decompressed.message.bytes`, compressed and not, alone and behind a short one."""
    t = topic(s, partitions=1, max_decompressed_message_bytes="100")
    for length in range(88, 102):
        produce(s, 11, {(t, 0): records(b"a" * length, compression=2)})
    produce(s, 11, {(t, 0): records(b"a", b"b" * 200, compression=1)})
    produce(s, 11, {(t, 0): records(b"a" * 200)})
    squeezed = topic(s, "squeezed", 1, max_decompressed_message_bytes="100", compression_type="gzip")
    produce(s, 11, {(squeezed, 0): records(b"a" * 200)})
    fetch(s, 12, {(t, 0): 0})


@each_version("Produce-append-time", (3, 8, 11))
def append_time(s: Script, v: int) -> None:
    t = topic(s, message_timestamp_type="LogAppendTime")
    produce(s, v, {(t, 0): records(b"a", b"b")})
    fetch(s, 11, {(t, 0): 0})


@each_version("Produce-compacted", (3, 8, 11))
def compacted(s: Script, v: int) -> None:
    """A compacted topic wants keys."""
    t = topic(s, cleanup_policy="compact")
    keyless = bytes(batch.encode_batch([batch.Record(0, T0, b"k", b"v"), batch.Record(1, T0, None, b"v")]))
    produce(s, v, {(t, 0): keyless})
    produce(s, v, {(t, 0): records(b"fine", None)})


@each_version("Produce-idempotent", (3, 5, 8, 11))
def idempotent(s: Script, v: int) -> None:
    """Sequences: duplicates, gaps, new epochs, unknown producers."""
    t = topic(s)
    made = s.client().call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 2)

    def send(sequence: int, *values: bytes, epoch: int = 0) -> None:
        data = records(*values, producer_id=made.producer_id, producer_epoch=epoch, base_sequence=sequence)
        produce(s, v, {(t, 0): data})

    send(0, b"a", b"b")
    send(0, b"a", b"b")
    send(2, b"c")
    send(5, b"gap")
    send(3, b"d")
    send(4, b"e")
    send(5, b"f")
    send(6, b"g")
    send(0, b"a", b"b")
    send(2, b"c")
    send(6, b"g", b"longer")
    send(3, b"new epoch, not zero", epoch=1)
    send(0, b"new epoch", epoch=1)
    send(7, b"old epoch", epoch=0)
    produce(s, v, {(t, 1): records(b"x", producer_id=made.producer_id, producer_epoch=0, base_sequence=7)})
    produce(s, v, {(t, 1): records(b"x", producer_id=987_654_321, producer_epoch=0, base_sequence=3)})
    fetch(s, 11, {(t, 0): 0})


@each_version("InitProducerId", range(6))
def producer_ids(s: Script, v: int) -> None:
    c = s.client()
    for _i in range(2):
        c.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), v)
    c.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), v)
    c.call(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000), v)
    if v >= 3:
        c.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, producer_id=5), v)
        c.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, producer_epoch=5), v)
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1, producer_id=5, producer_epoch=5
        )
        c.call(request, v)


@each_version("Fetch", range(4, 18))
def fetches(s: Script, v: int) -> None:
    t = topic(s)
    fetch(s, v, {(t, 0): 0})
    produce(s, 9, {(t, 0): records(b"a", b"b", b"c")})
    produce(s, 9, {(t, 0): records(b"d" * 3000, b"e")})
    produce(s, 9, {(t, 1): records(b"other")})
    for offset in (0, 1, 2, 3, 4, 5):
        fetch(s, v, {(t, 0): offset})
    fetch(s, v, {(t, 0): 3, (t, 1): 0})
    fetch(s, v, {(t, 0): 0}, isolation_level=1)
    fetch(s, v, {(t, 0): 0}, partition_max_bytes=10)
    fetch(s, v, {(t, 0): 0, (t, 1): 0}, max_bytes=10)
    fetch(s, v, {(t, 0): 3, (t, 1): 0}, partition_max_bytes=100)
    fetch(s, v, {(t, 0): 5}, max_wait_ms=300, min_bytes=1)


@each_version("Fetch-refused", range(4, 18))
def refused_fetch(s: Script, v: int) -> None:
    t = topic(s)
    produce(s, 9, {(t, 0): records(b"a")})
    for offset in (2, -1, 1 << 40):
        fetch(s, v, {(t, 0): offset})
    fetch(s, v, {(t, 9): 0})
    fetch(s, v, {(NONE_SUCH, 0): 0})
    fetch(s, v, {(t, 0): 0, (NONE_SUCH, 0): 0, (t, 9): 0})
    if v >= 9:
        for epoch in (0, 1, 99):
            fetch(s, v, {(t, 0): 0}, leader_epoch=epoch)
    if v >= 7:
        fetch(s, v, {(t, 0): 0}, session_id=12_345, session_epoch=1)
        fetch(s, v, {(t, 0): 0}, session_id=12_345, session_epoch=0)
        fetch(s, v, {(t, 0): 0}, session_id=0, session_epoch=3)


@each_version("Fetch-session", (7, 10, 12, 13, 15, 17))
def session(s: Script, v: int) -> None:
    """A fetch session: only news are told, partitions come and go, epochs count."""
    t = topic(s)
    produce(s, 9, {(t, 0): records(b"a")})
    made = fetch(s, v, {(t, 0): 0, (t, 1): 0}, session_epoch=0)
    id_ = made.session_id
    fetch(s, v, {}, session_id=id_, session_epoch=1)
    fetch(s, v, {(t, 0): 1}, session_id=id_, session_epoch=2)
    produce(s, 9, {(t, 1): records(b"b")}, client="p")
    fetch(s, v, {}, session_id=id_, session_epoch=3)
    fetch(s, v, {(t, 1): 1}, session_id=id_, session_epoch=4)
    fetch(s, v, {}, session_id=id_, session_epoch=4)
    fetch(s, v, {}, session_id=id_, session_epoch=5, forgotten={t: [1]})
    produce(s, 9, {(t, 1): records(b"c")}, client="p")
    fetch(s, v, {}, session_id=id_, session_epoch=6)
    fetch(s, v, {(t, 0): 0}, session_id=id_, session_epoch=-1)
    fetch(s, v, {}, session_id=id_, session_epoch=7)


@scenario("Fetch-waits")
def _(s: Script) -> None:
    """A fetch that waits is answered when something comes."""
    t = topic(s)
    request = FetchRequest(
        max_wait_ms=8_000,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[
            FetchTopic(topic=t, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)])
        ],
    )
    s.client("waits").send(request, 11)
    s.client("waits").parked(0.3)
    produce(s, 9, {(t, 0): records(b"a")})
    s.client("waits").answer()


@each_version("ListOffsets", range(1, 11))
def offsets(s: Script, v: int) -> None:
    t = topic(s)
    for timestamp in (-1, -2):
        list_offsets(s, v, {(t, 0): timestamp})
    list_offsets(s, v, {(t, 0): T0})
    produce(s, 9, {(t, 0): records(b"a", b"b", b"c")})
    produce(s, 9, {(t, 0): records(b"d", b"e", timestamps=[500, 400])})
    produce(s, 9, {(t, 0): records(b"f", timestamps=[450])})
    for timestamp in (-1, -2, 0, T0, T0 + 5, T0 + 10, T0 + 21, T0 + 450, T0 + 500, T0 + 501):
        list_offsets(s, v, {(t, 0): timestamp})
    if v >= 2:
        list_offsets(s, v, {(t, 0): -1, (t, 1): -1}, isolation=1)
    if v >= 7:
        list_offsets(s, v, {(t, 0): -3, (t, 1): -3})


@each_version("ListOffsets-refused", range(1, 11))
def refused_offsets(s: Script, v: int) -> None:
    t = topic(s)
    list_offsets(s, v, {(t, 9): -1})
    list_offsets(s, v, {(NONE_SUCH, 0): -1})
    list_offsets(s, v, {(t, 0): -1, (NONE_SUCH, 0): -1})
    for timestamp in (-3, -4, -5, -6, -7, -100):
        list_offsets(s, v, {(t, 0): timestamp})
    if v >= 4:
        for epoch in (0, 1, 7):
            list_offsets(s, v, {(t, 0): -1}, leader_epoch=epoch)


@each_version("DeleteRecords", range(3))
def delete_records(s: Script, v: int) -> None:
    t = topic(s)
    for _i in range(3):
        produce(s, 9, {(t, 0): records(b"a", b"b")})

    def delete(*rows: tuple[str, int, int]) -> None:
        topics = [
            DeleteRecordsTopic(name=n, partitions=[DeleteRecordsPartition(partition_index=p, offset=o)])
            for n, p, o in rows
        ]
        s.client().call(DeleteRecordsRequest(topics=topics, timeout_ms=5_000), v)

    delete((t, 0, 1))
    fetch(s, 11, {(t, 0): 0})
    fetch(s, 11, {(t, 0): 1})
    list_offsets(s, 7, {(t, 0): -2})
    delete((t, 0, 0))
    delete((t, 0, 7))
    delete((t, 0, -2))
    delete((t, 9, 0))
    delete((NONE_SUCH, 0, 0))
    delete((t, 0, 4), (NONE_SUCH, 0, 0))
    delete((t, 0, -1))
    list_offsets(s, 7, {(t, 0): -2})
    fetch(s, 11, {(t, 0): 6})
    compact = topic(s, "compact", cleanup_policy="compact")
    produce(s, 9, {(compact, 0): records(b"a")})
    delete((compact, 0, 1))
    delete(("__consumer_offsets", 0, 0))


@each_version("OffsetForLeaderEpoch", range(2, 5))
def epochs(s: Script, v: int) -> None:
    t = topic(s)

    def ask(name: str, partition: int, epoch: int, current: int = -1) -> None:
        row = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=name, partitions=[row])]
        s.client().call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), v)

    ask(t, 0, 0)
    produce(s, 9, {(t, 0): records(b"a", b"b")})
    for epoch in (0, 1, 99, -1):
        ask(t, 0, epoch)
    for current in (0, 1, 99):
        ask(t, 0, 0, current)
    ask(t, 9, 0)
    ask(NONE_SUCH, 0, 0)
