"""Kafka Streams with `exactly_once_v2` counts words while it and the broker are killed: each count once, in order."""

from __future__ import annotations

import itertools
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.clients import harness
from tests.clients.transactional import WORKERS
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, eventually
from tests.support.java import class_path, jars_of

STREAMS_VERSION = "4.3.1"
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
PER_ROUND = 700
ROUNDS = 4


class Counter:
    """The application: the same one, state and all, each time it is started."""

    def __init__(self, address: str, directory: Path, classes: str) -> None:
        jvm = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes]
        jvm.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        self._command = [*jvm, "WordCount", address, "word-count", str(directory / "state"), "words", "counts"]
        self._log = directory / "streams.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text()[-3_000:]


def counted(address: str) -> dict[str, list[int]]:
    """The counts of each word that were committed, in their order."""
    settings = {
        "bootstrap.servers": address,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("counts", partition, 0) for partition in (0, 1)])
    found: dict[str, list[int]] = defaultdict(list)
    ended: set[int] = set()
    while len(ended) < 2:
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        if error is None:
            found[(message.key() or b"").decode()].append(int(message.value() or b"0"))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition() or 0)
    consumer.close()
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
    counter = Counter(broker.address, tmp_path, classes)
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0})
    words = itertools.cycle(WORDS)
    sent = 0

    def counts() -> int:
        return sum(map(len, counted(broker.address).values()))

    try:
        counter.start()
        for number in range(ROUNDS):
            for _ in range(PER_ROUND):
                producer.produce("words", value=next(words), partition=sent % 2)
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
