"""`kohort transactions`: what is open, who writes, and ending what hangs."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable

from confluent_kafka import Producer

from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.cli.conftest import Run, fill, kohort
from tests.clients.harness import create_topic
from tests.support.broker_process import BrokerProcess
from tests.support.data_plane import batch
from tests.support.wire import Wire


def opened(broker: BrokerProcess, name: str) -> Producer:
    """A producer with a transaction open in partition 0 of the topic."""
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"x", partition=0)
    producer.flush(30)
    return producer


def test_a_transaction_is_listed_and_described(run: Run, broker: BrokerProcess, name: str):
    """KIP-664: columns of kafka-transactions.sh."""
    fill(broker.address, name, 1, 1)
    producer = opened(broker, name)

    (listed,) = run("transactions", "list", "--transactional-id-pattern", name).rows("TransactionalId")
    assert (listed["TransactionalId"], listed["TransactionState"]) == (name, "Ongoing")
    (row,) = run("transactions", "describe", name).rows("CoordinatorId")
    assert (row["TransactionState"], row["TopicPartitions"]) == ("Ongoing", f"{name}-0")
    (spelt_as_in_kafkas_tool,) = run("transactions", "describe", "--transactional-id", name).rows("CoordinatorId")
    assert spelt_as_in_kafkas_tool["TransactionalId"] == row["TransactionalId"] == name
    (writes,) = run("transactions", "describe-producers", "--topic", name, "--partition", "0", "--json").json
    assert (writes["ProducerId"], writes["CurrentTransactionStartOffset"]) == (int(row["ProducerId"]), 1)
    assert run("transactions", "find-hanging", "--topic", name).rows("Topic") == []
    assert name in run("transactions", "list", "--running-longer-than-ms", "0").out
    assert name not in run("transactions", "list", "--running-longer-than-ms", "3600000").out
    producer.commit_transaction(30)


def test_what_is_open_can_be_ended_by_its_offset(run: Run, broker: BrokerProcess, name: str):
    """TX67: an operator's abort."""
    fill(broker.address, name, 1, 1)
    opened(broker, name)
    where = ["--topic", name, "--partition", "0"]

    ended = run("transactions", "abort", *where, "--start-offset", "1")

    assert ended.code == 0, ended
    (row,) = run("transactions", "describe-producers", *where).rows("ProducerId")
    assert row["CurrentTransactionStartOffset"] == "-"


def test_what_is_not_there_is_said_in_one_sentence(run: Run, broker: BrokerProcess, name: str):
    """Exit code 1."""
    fill(broker.address, name, 1, 1)
    where = ["--topic", name, "--partition", "0", "--start-offset", "7"]

    assert run("transactions", "describe", "--transactional-id", name).code == 1
    ended = run("transactions", "abort", *where)
    assert (ended.code, ended.err.strip()) == (
        1,
        f"kohort: no transaction is open in {name}-0 that begins at offset 7",
    )
    assert run("transactions", "describe-producers", "--topic", name, "--partition", "9").code == 1
    assert run("transactions", "find-hanging", "--partition", "9").code == 2


def test_why_says_who_took_an_id_over(run: Run, broker: BrokerProcess, name: str):
    """Two instances with one transactional id."""
    fill(broker.address, name, 1, 1)
    first = opened(broker, name)
    where = ["--http", broker.http]
    assert "Ongoing" in run("why", "--transaction", name, *where).out
    second = opened(broker, name)
    second.commit_transaction(30)

    told = run("why", "--transaction", name, *where)

    assert told.code == 0, told
    assert "took the id over while one was still open" in told.out
    assert "held readers back for" in told.out and f"in {name}-0" in told.out
    (entry,) = run("why", "--transaction", name, "--json", *where).json["history"]
    assert (entry["cause"], entry["committed"]) == ("fenced", False)
    del first


def test_why_asks_the_coordinator_where_nobody_speaks_http(run: Run, broker: BrokerProcess, name: str):
    """As of Apache Kafka: the present only."""
    fill(broker.address, name, 1, 1)
    opened(broker, name)
    told = run("why", "--transaction", name, "--http", "127.0.0.1:1")
    assert told.code == 0, told
    assert "Ongoing" in told.out and "Only a Kohort tells" in told.out
    assert run("why", "--transaction", f"{name}-x", "--http", "127.0.0.1:1").code == 1
    assert run("why", "g", "--transaction", name).code == 2


def test_what_hangs_is_found_and_ended_and_metrics_count_what_is_open(
    start_broker: Callable[..., BrokerProcess],
):
    """TX67: written without verification an hour ago; no coordinator knows of it, as it does of the other one."""
    broker = start_broker({"transaction.partition.verification.enable": "false"})
    create_topic(broker.address, "t", 1)
    long_ago = int(time.time() * 1000) - 3_600_000
    data = batch(b"x", timestamp=long_ago, producer_id=77_777, producer_epoch=0, base_sequence=0, transactional=True)
    topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=data)])]
    with Wire(broker.address) as wire:
        request = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=5_000, topic_data=topics)
        assert wire.call(request, 11).responses[0].partition_responses[0].error_code == 0
    producer = opened(broker, "t")

    def hanging() -> list[tuple[str, str]]:
        found = kohort("transactions", "find-hanging", "--bootstrap-server", broker.address)
        return [(row["ProducerId"], row["StartOffset"]) for row in found.rows("Topic")]

    assert hanging() == [("77777", "0")]
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=120) as answer:
        assert "\nkohort_transactions_open 1\n" in answer.read().decode()
    where = ("--topic", "t", "--partition", "0", "--start-offset", "0", "--bootstrap-server", broker.address)
    assert kohort("transactions", "abort", *where).code == 0
    assert hanging() == []
    producer.commit_transaction(30)


def test_describe_takes_one_id():
    """A usage error, before anybody is asked."""
    for words in ((), ("a", "--transactional-id", "b"), ("a", "b")):
        ended = kohort("transactions", "describe", *words)
        assert ended.code == 2
        assert ended.err.endswith("\nkohort transactions describe --help tells how\n")
