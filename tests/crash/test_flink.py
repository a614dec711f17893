"""Flink's exactly-once sink, in a cluster of one process that fails and is killed, as is the broker."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients import harness
from tests.clients.transactional import WORKERS
from tests.crash.applications import Application, committed
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, eventually
from tests.support.java import class_path, jars_of

FLINK_VERSION = "2.2.0"
PER_ROUND = 2_000
FAILS_AFTER = 500
PLANTED = "planted"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("crash"),
    pytest.mark.skipif(not os.environ.get("KOHORT_FLINK"), reason="a minute of Flink: make test-all"),
]


@pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])
def test_every_record_is_copied_exactly_once(
    naming: str, start_broker: Callable[..., BrokerProcess], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
):
    """The job fails and starts again by itself; then the process, the broker, and both are killed in the middle."""
    jars = jars_of(WORKERS / "flink-pom.xml", FLINK_VERSION, "flink")
    classes = class_path(WORKERS / "CopyOnFlink.java", tmp_path_factory.mktemp("classes"), FLINK_VERSION, jars)
    broker = start_broker({**QUICK_GROUPS, "transaction.state.log.num.partitions": 3})
    for topic in ("in", "out"):
        harness.create_topic(broker.address, topic, 2)
    words = ["CopyOnFlink", broker.address, str(tmp_path / "checkpoints"), "in", "out", naming, "EXACTLY_ONCE"]
    flink = Application(classes, [*words, str(FAILS_AFTER)], tmp_path / "flink.log")
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0})
    written: list[bytes] = []

    def write() -> None:
        for number in range(len(written), len(written) + PER_ROUND):
            written.append(b"%d" % number)
            producer.produce("in", written[-1], partition=number % 2)
        assert producer.flush(60) == 0

    def copied() -> list[bytes]:
        return [message.value() or b"" for message in committed(broker.address, "out", 2)]

    def wait_for(count: int) -> None:
        eventually(lambda: len(copied()) >= count, deadline_s=180, every_s=0.1, what=f"it goes on: {flink.log}")

    try:
        flink.start()
        for victims in ([flink], [broker], [flink, broker]):
            before = len(written)
            write()
            wait_for(before + 1)
            write()
            for one in victims:
                one.kill()
            for one in reversed(victims):
                one.start()
        wait_for(len(written))
    finally:
        flink.kill()

    assert PLANTED in (tmp_path / "flink.log").read_text()
    found = copied()
    assert len(found) == len(set(found))
    assert set(found) == set(written)
