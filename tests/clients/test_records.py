"""Records of every codec, written by one client and read by another."""

import os
from collections.abc import Callable

import pytest

from tests.clients import harness
from tests.clients.harness import Worker
from tests.clients.workers import common
from tests.support.broker_process import BrokerProcess

READER_OF = {
    "aiokafka": "confluent",
    "confluent": "kafka_python",
    "kafka_python": "java",
    "java": "franz",
    "franz": "aiokafka",
}


def check_transfer(
    writer: str, reader: str, count: int, broker: BrokerProcess, spawn: Callable[..., Worker], name: str
) -> None:
    """`writer` writes `count` records with each codec to a topic of its own, `reader` finds the same bytes."""
    topics = {f"{name}-{codec}": codec for codec in harness.CODECS}
    for topic in topics:
        harness.create_topic(broker.address, topic)
    common_options = {"bootstrap": broker.address, "topics": topics, "count": count}
    spawn(writer, mode="produce", **common_options).finish(300)
    reading = spawn(reader, mode="read", **common_options)
    reading.finish(300)

    found = {
        event["topic"]: {int(p): tuple(digest) for p, digest in event["partitions"].items()}
        for event in reading.seen("digest")
    }
    assert found == dict.fromkeys(topics, common.expected(count))


@pytest.mark.parametrize("writer", harness.CLIENTS)
def test_what_one_client_writes_another_reads_byte_for_byte(
    writer: str, broker: BrokerProcess, spawn: Callable[..., Worker], name: str
):
    """CT09 with 5,000 records a codec."""
    check_transfer(writer, READER_OF[writer], 5_000, broker, spawn, name)


@pytest.mark.slow
@pytest.mark.parametrize("writer", harness.CLIENTS)
def test_a_hundred_thousand_records_byte_for_byte(
    writer: str, broker: BrokerProcess, spawn: Callable[..., Worker], name: str
):
    """CT09 in full: 100,000 records with each codec."""
    count = int(os.environ.get("KOHORT_RECORDS", "100000"))
    check_transfer(writer, READER_OF[writer], count, broker, spawn, name)
