"""A live broker: format `kohort-kafka`, and Spark's own connector beside it; `--against kafka` runs it on Kafka."""

import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline import decode
from pipeline.decode.batches import Headers, read_headers
from pipeline.errors import DataError, UsageError
from pipeline.sources.access import access
from pipeline.sources.fetch_client import Fetcher, connect, leaders
from pipeline.sources.fetch_read import pack, ranges, read_live, settled
from pipeline.sources.options import KNOWN_TO_KAFKA, parse
from pipeline.sources.transactions import Aborted
from tests.pipeline.logs import Log
from tests.support.broker_process import BrokerProcess, need

Start = Callable[..., BrokerProcess]


def live(address: str, **options: str) -> list[dict[str, Any]]:
    """What `kohort-kafka` reads, without Spark."""
    command = parse({"bootstrap": address, **options}, KNOWN_TO_KAFKA)
    tasks = pack(ranges(command), command.split_offsets)
    return [row for task in tasks for batch in read_live(task, command) for row in batch.to_pylist()]


def busy(address: str) -> dict[int, int]:
    """Write 300 records in transactions, of which one with 60 is aborted.

    Returns the offsets that group `g` committed, by partition.
    """
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(30)
    producer = Producer({"bootstrap.servers": address, "transactional.id": "t"})
    producer.init_transactions(30)
    for round_ in range(5):
        producer.begin_transaction()
        for number in range(60):
            producer.produce("orders", b"v%d" % number, b"k%d" % round_, partition=number % 3)
        producer.flush(30)
        (producer.abort_transaction if round_ == 2 else producer.commit_transaction)(30)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    committed = {0: 10, 1: 20, 2: 30}
    for partition, offset in committed.items():
        consumer.commit(offsets=[TopicPartition("orders", partition, offset)], asynchronous=False)
    consumer.close()
    return committed


def test_a_live_broker_is_read_without_jars(start_broker: Start):
    """PL32: records, batches and group records, by Fetch alone; no group is joined, internal topics are seen."""
    broker = start_broker()
    committed = busy(broker.address)

    everything = live(broker.address, topic="orders")
    assert len(everything) == 300
    kept = live(broker.address, topic="orders", isolationLevel="read_committed")
    assert {row["key"] for row in kept} == {b"k0", b"k1", b"k3", b"k4"}
    assert len(kept) == 240
    assert len(live(broker.address, topic="orders", startingOffsets='{"orders":{"1":5}}', partitions="1",
                    endingOffsets='{"orders":{"1":9}}')) == 4  # fmt: skip
    batches = live(broker.address, topic="orders", records="batch")
    assert sum(row["record_count"] for row in batches if not row["is_control"]) == 300
    assert any(row["is_control"] for row in batches)
    since = str(round(kept[-1]["timestamp"].timestamp() * 1000))
    assert 0 < len(live(broker.address, topic="orders", startingTimestamp=since)) < 300

    commits = [row for row in live(broker.address, records="group") if row["record_type"] == "offset_commit"]
    assert {row["partition"]: row["committed_offset"] for row in commits if row["group_id"] == "g"} == committed
    assert not [row for row in commits if row["problem"]]
    groups = AdminClient({"bootstrap.servers": broker.address}).list_consumer_groups().result(30)
    assert {group.group_id for group in groups.valid} <= {"g"}


@pytest.mark.slow
def test_all_roads_lead_to_the_same_rows(spark: Any, start_broker: Start):
    """PL32: the connector's rows, once it is told how to ask, are those of `kohort-kafka`, and neither is empty.

    TX57, TX58: also of committed records alone, with an aborted transaction among them and an open one behind.
    """
    need("java", "mvn")
    from pipeline import jars
    from pipeline.sources import kafka_source, read_kafka

    broker = start_broker()
    committed = busy(broker.address)
    frame = spark.read.format("kohort-kafka").options(bootstrap=broker.address, records="group").load()
    ours = frame.where("group_id = 'g' AND record_type = 'offset_commit'")
    assert {row.partition: row.committed_offset for row in ours.collect()} == committed

    _load(spark, jars.resolve())
    theirs = read_kafka(spark, broker.address, "orders,__consumer_offsets")
    assert spark.conf.get(kafka_source.OLD_OFFSETS) == "true"
    mine = spark.read.format("kohort-kafka").options(bootstrap=broker.address, topic="orders,__consumer_offsets").load()
    assert mine.schema == theirs.schema
    orders = "topic = 'orders'"
    assert mine.where(orders).exceptAll(theirs.where(orders)).isEmpty()
    assert mine.where(orders).count() == theirs.where(orders).count() == 300
    rows = decode.group_records(theirs.where("topic = '__consumer_offsets'")).where("group_id = 'g'")
    rows = rows.where("record_type = 'offset_commit'")
    assert {row.partition: row.committed_offset for row in rows.collect()} == committed
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("orders", b"undecided", b"k9", partition=partition)
    producer.flush(30)
    theirs = read_kafka(spark, broker.address, "orders", read_committed=True)
    mine = spark.read.format("kohort-kafka").options(bootstrap=broker.address, topic="orders")
    mine = mine.option("isolationLevel", "read_committed").load()
    assert mine.exceptAll(theirs).isEmpty() and theirs.exceptAll(mine).isEmpty()
    assert {row.key[-1:] for row in theirs.collect()} == {b"0", b"1", b"3", b"4"}
    assert theirs.count() == 240
    producer.abort_transaction(30)


def _load(spark: Any, jars: list[Path]) -> None:
    """Into a session that runs already: Spark's own loader, and the driver's."""
    for jar in jars:
        spark.sql(f"ADD JAR '{jar}'")


@pytest.mark.slow
def test_a_stream_from_a_live_broker(spark: Any, start_broker: Start, tmp_path: Path):
    """Batches within maxOffsetsPerTrigger, each record once; a second run finds nothing new."""
    broker = start_broker()
    busy(broker.address)

    def run() -> list[int]:
        stream = spark.readStream.format("kohort-kafka").options(
            bootstrap=broker.address, topic="orders", maxOffsetsPerTrigger="100"
        )
        query = (
            stream.load().writeStream.format("parquet").option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(120)
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    batches = run()
    assert sum(batches) == 300
    assert len(batches) >= 3
    assert run() == []
    rows = spark.read.parquet(str(tmp_path / "out")).select("partition", "offset")
    assert rows.distinct().count() == rows.count() == 300


def test_a_broker_that_is_not_there_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DataError, match=rf"no broker answers: {address} \(Connection refused\)"):
            connect(access(address, timeout_ms=2000))
    with pytest.raises(UsageError, match="must look like HOST:PORT"):
        connect(access("localhost", timeout_ms=2000))


def test_unknown_topics_are_named(start_broker: Start):
    broker = start_broker()
    with connect(access(broker.address, timeout_ms=5000)) as connection:
        with pytest.raises(DataError, match="'nope': UNKNOWN_TOPIC"):
            leaders(connection, ["nope"])
        with pytest.raises(DataError, match="has no topic __consumer_offsets yet: no consumer group was ever there"):
            leaders(connection, ["__consumer_offsets"])


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x46", b"\0\0\0\x02xx", b""]
)
def test_who_speaks_no_kafka_is_named_at_once(answer: bytes):
    """A web server, a TLS port, noise, silence: one sentence, and no gigabyte is made room for."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1000)
                client.sendall(answer)

        served = threading.Thread(target=serve)
        served.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        said = "does not speak Kafka's protocol" if answer else f"{address} closed the connection"
        with pytest.raises(DataError, match=rf"no broker answers: {address} \(.*{said}"):
            connect(access(address, timeout_ms=60_000))
        served.join()


@pytest.mark.slow
def test_a_broker_that_is_started_again_is_waited_for(start_broker: Start):
    """Its port is the same: what was being read goes on; one that stays away is named when the time is over."""
    broker = start_broker()
    busy(broker.address)
    command = parse({"bootstrap": broker.address, "topic": "orders", "timeoutMs": "120000"}, KNOWN_TO_KAFKA)
    [split, *_] = ranges(command)
    fetcher = Fetcher(split.leader, command.access, read_committed=False)
    first = fetcher.fetch(0)
    broker.kill()
    broker.start()
    assert fetcher.fetch(0) == first

    fetcher.access = replace(fetcher.access, timeout_ms=500)
    broker.kill()
    with pytest.raises(DataError, match=rf"{broker.address} broke off while orders-0 was read: "):
        fetcher.fetch(0)
    fetcher.close()


def test_an_aborted_transaction_ends_at_its_producers_next_marker(tmp_path: Path):
    """A broker says only where it began: what the producer commits afterwards must not be lost with it."""
    log = Log(tmp_path, "orders", 0)
    for aborted in (True, False):
        log.append([(b"k", b"v")] * 3, producer_id=7, transactional=True)
        log.marker(7, aborted=aborted)
    data = log.path.read_bytes()
    headers: Headers = read_headers(data, log.positions)

    assert settled(headers, (Aborted(7, 0, 1 << 62),)) == (Aborted(7, 0, 3),)
    assert settled(headers, (Aborted(8, 0, 1 << 62),)) == (Aborted(8, 0, 1 << 62),)
