"""Kafka Streams with `exactly_once_v2` counts words while it and the broker are killed: each count once, in order."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients import harness
from tests.clients.transactional import WORKERS
from tests.crash.applications import Application, committed
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, eventually
from tests.support.java import class_path, jars_of

STREAMS_VERSION = "4.3.1"
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
PER_ROUND = 700
ROUNDS = 4


def counted(address: str) -> dict[str, list[int]]:
    """The counts of each word that were committed, in their order."""
    found: dict[str, list[int]] = defaultdict(list)
    for message in committed(address, "counts", 2):
        found[(message.key() or b"").decode()].append(int(message.value() or b"0"))
    return dict(found)


@pytest.mark.slow
@pytest.mark.xdist_group("crash")
def test_every_word_is_counted_exactly_once(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
):
    """Killed in the middle: the application, then the broker, then both."""
    jars = jars_of(WORKERS / "streams-pom.xml", STREAMS_VERSION)
    classes = class_path(WORKERS / "WordCount.java", tmp_path_factory.mktemp("classes"), STREAMS_VERSION, jars)
    broker = start_broker({**QUICK_GROUPS, "transaction.state.log.num.partitions": 3})
    for topic in ("words", "counts"):
        harness.create_topic(broker.address, topic, 2)
    words = ["WordCount", broker.address, "word-count", str(tmp_path / "state"), "words", "counts"]
    counter = Application(classes, words, tmp_path / "streams.log")
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0})
    text = itertools.cycle(WORDS)
    sent = 0

    def counts() -> int:
        return sum(map(len, counted(broker.address).values()))

    try:
        counter.start()
        for number in range(ROUNDS):
            for _ in range(PER_ROUND):
                producer.produce("words", value=next(text), partition=sent % 2)
                sent += 1
                producer.poll(0)
            if number == 0:
                eventually(lambda: counts() > 0, deadline_s=120, every_s=0.5, what=f"it counts: {counter.log}")
            if number in (1, 3):
                counter.kill()
            if number in (2, 3):
                broker.kill()
                broker.start()
            if number in (1, 3):
                counter.start()
            assert producer.flush(60) == 0
            at_least = number * PER_ROUND
            eventually(
                lambda least=at_least: counts() > least, deadline_s=180, every_s=0.5, what=f"it goes on: {counter.log}"
            )
        eventually(lambda: counts() >= sent, deadline_s=180, every_s=0.5, what=f"all is counted: {counter.log}")
    finally:
        counter.kill()

    assert counted(broker.address) == {word: list(range(1, sent // len(WORDS) + 1)) for word in WORDS}
