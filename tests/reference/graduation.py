"""What the tests that start Apache Kafka on a directory of Kohort's have in common."""

from __future__ import annotations

import logging
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from storage.directory.meta_properties import parse_properties
from tests.support.broker_process import ROOT, BrokerProcess, Kafka, Kohort, eventually

PARTITIONS = 3
TOPIC = "orders"
QUIET = {"log_level": 0}
NOT_YET = (14, 15, 16)
HEAP = {"KAFKA_HEAP": "256m"}
LOST_AFTER_S = 40.0
"""A reader that has got nothing for so long, while there was something to read, is started again, and a writer whose
records are unacknowledged for so long is replaced if it was told of no broker."""
PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


def kohort_on(directory: Path, port: int, data: Path | None = None) -> Kohort:
    """A Kohort in `directory`, or on another's data; the controller's port that `graduate` prints is `port` + 1."""
    settings: dict[str, object] = {
        "group.initial.rebalance.delay.ms": 0,
        "num.partitions": PARTITIONS,
        "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
    }
    if data is not None:
        settings["log.dirs"] = data
    return Kohort(directory, settings, port=port)


def kafka_on(
    directory: Path, data: Path, port: int, *, version: str = "4.3.1", settings: Mapping[str, object] | None = None
) -> Kafka:
    """Apache Kafka on a data directory that is there already."""
    directory.mkdir(exist_ok=True)
    if not (directory / "data").exists():
        (directory / "data").symlink_to(data)
    more = {"log.dirs": data.resolve(), "log.initial.task.delay.ms": 600_000, **(settings or {})}
    return Kafka(directory, more, port=port, environment={"KAFKA_VERSION": version, **HEAP})


def graduate(kohort: Kohort, *words: str) -> subprocess.CompletedProcess[str]:
    """`kohort graduate` with the settings that this broker had."""
    command = kohort.command()
    return subprocess.run(
        [*command[:3], "graduate", *words, *command[4:]], cwd=ROOT, capture_output=True, text=True, check=False
    )


def graduated(kohort: Kohort, *words: str) -> dict[str, str]:
    """The `server.properties` that `kohort graduate` prints. Raises: AssertionError when it refuses."""
    ended = graduate(kohort, *words)
    assert ended.returncode == 0, ended.stderr
    return parse_properties(ended.stdout)


def tool(name: str, *words: object, version: str = "4.3.1") -> str:
    """What one of Kafka's command-line tools prints, on both streams, and the JVM does not. Raises: AssertionError."""
    ended = subprocess.run(
        [str(ROOT / "tools" / "kafka"), "run", name, *map(str, words)],
        env={"KAFKA_VERSION": version, "KAFKA_HEAP": "128m", **_environment()},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, f"{name} {words}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"
    # A JVM says on the second stream which options it has found in the environment.
    return ended.stdout + re.sub(r"^Picked up .*\n", "", ended.stderr, flags=re.MULTILINE)


def _environment() -> dict[str, str]:
    import os

    return {key: value for key, value in os.environ.items() if key not in ("KAFKA_VERSION", "KAFKA_HEAP")}


class _Heard(logging.Handler):
    """What a client of librdkafka was told last of how many brokers there are."""

    brokers = -1

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r": (\d+) brokers, ", record.getMessage())
        if found:
            self.brokers = int(found[1])


class Load:
    """An idempotent producer and a group of one, both alive until they are stopped, whatever the broker becomes.

    A Kafka that stops fences itself before it closes its listeners, and until then its metadata name no broker. Of
    librdkafka (2.16.0) a client that asks just then may let go of the only one it knew, and connects to nobody again
    (docs/graduate.md). Either of the two is replaced then, the writer only if that is the last thing it was told.
    """

    def __init__(self, address: str, topic: str = TOPIC, *, per_turn: int = 20, pause_s: float = 0.02) -> None:
        self.written = 0
        self.failed: list[str] = []
        self.read: dict[int, int] = {}
        self.told: list[str] = []
        """What the reader met, in its order: joins, errors, refused commits."""
        self.rewritten: set[int] = set()
        """What a second producer has written because the first was lost: these the topic may have twice."""
        self._unacknowledged: set[int] = set()
        self._address, self._topic = address, topic
        self._per_turn, self._pause_s = per_turn, pause_s
        self._stop = threading.Event()
        self._settled = threading.Event()
        self._reading = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        heard = _Heard()
        producer = self._producer(heard)
        while not self._stop.is_set():
            for _ in range(self._per_turn):
                self._produce(producer, self.written)
                self.written += 1
            producer.poll(0)
            self._stop.wait(self._pause_s)
        if producer.flush(LOST_AFTER_S) and heard.brokers == 0:
            self.rewritten = set(self._unacknowledged)
            producer.purge()
            producer.flush(LOST_AFTER_S)
            producer = self._producer(heard)
            for number in sorted(self.rewritten):
                self._produce(producer, number)
        producer.flush(300)
        if not self._unacknowledged:
            self._settled.set()

    def _producer(self, heard: _Heard) -> Producer:
        log = logging.Logger("writer")
        log.addHandler(heard)
        return Producer(
            {
                "bootstrap.servers": self._address,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 600_000,
                "reconnect.backoff.max.ms": 200,
                "debug": "metadata",
            },
            logger=log,
        )

    def _produce(self, producer: Producer, number: int) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None and error.code() in PURGED:
                return  # to be written by the other producer
            self._unacknowledged.discard(number)
            if error is not None:
                self.failed.append(str(error))

        self._unacknowledged.add(number)
        producer.produce(self._topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered)

    def _read(self) -> None:
        while not self._reading.is_set():
            self._read_until_lost()

    def _read_until_lost(self) -> None:
        """Until the end, or until this consumer is of no more use; whoever runs it starts it again.

        It may be told that another one has its instance id. That is itself: where the answer to its join is lost with
        the broker it joins again, and librdkafka goes on with the member id from before, to its death.

        Or it stays silent for ever, having been told of no broker. Even its end may take minutes.

        One commit is on its way at a time: those that a broker has left unanswered are sent to the next one after newer
        ones, even after the last that was waited for, and what is acknowledged last is the group's offset.
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": "readers",
                "group.instance.id": "one",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 45_000,
                "reconnect.backoff.max.ms": 200,
                "on_commit": lambda error, _: answered(error),
                **QUIET,
            }
        )
        began = time.monotonic()
        unanswered = threading.Event()

        def told(what: object) -> None:
            self.told.append(f"{time.monotonic() - began:.1f} s: {what}")

        def answered(error: KafkaError | None) -> None:
            unanswered.clear()
            if error is not None:
                told(error)

        consumer.subscribe([self._topic], on_assign=lambda _, them: told([(p.partition, p.offset) for p in them]))
        heard_at = began
        while not self._reading.is_set():
            try:
                messages = consumer.consume(200, 0.2)
            except KafkaException as error:
                told(error)
                break
            for message in messages:
                error = message.error()
                if error is not None:
                    told(error)
                    if error.fatal():
                        consumer.close()
                        return
                if error is None:
                    self._count(message)
            if messages:
                heard_at = time.monotonic()
                if not unanswered.is_set():
                    unanswered.set()
                    consumer.commit()
            elif len(self.read) < self.written and time.monotonic() - heard_at > LOST_AFTER_S:
                told("is lost")
                threading.Thread(target=consumer.close, daemon=True).start()
                return
        else:
            self._commit_all(consumer, told, unanswered)
        consumer.close()

    def _commit_all(self, consumer: Consumer, told: Callable[[object], None], unanswered: threading.Event) -> None:
        """Of what was read; a commit may be refused while the group rebalances, or its broker have gone."""
        until = time.monotonic() + LOST_AFTER_S
        while time.monotonic() < until:
            if unanswered.is_set():
                self._count_some(consumer.poll(0.5))
                continue
            try:
                consumer.commit(asynchronous=False)
                return
            except KafkaException as error:
                if error.args[0].code() == KafkaError._NO_OFFSET:  # all is committed
                    return
                told(error)
                self._count_some(consumer.poll(0.5))
        told("not all is committed")

    def _count_some(self, message: Message | None) -> None:
        if message is not None and message.error() is None:
            self._count(message)

    def _count(self, message: Message) -> None:
        number = int(message.value().rstrip(b"x"))
        self.read[number] = self.read.get(number, 0) + 1

    def wait_until_written(self, count: int) -> None:
        """Until so many records are on their way and a part of them has been read."""
        eventually(lambda: self.written >= count and len(self.read) >= count // 2, deadline_s=180)

    def finish_writing(self) -> None:
        """Write no more, and leave the group; everything is acknowledged."""
        self._stop.set()
        assert self._settled.wait(300), f"{len(self._unacknowledged)} records are unacknowledged"
        assert not self.failed, self.failed[:3]
        self._reading.set()
        self._threads[1].join(20)

    def finish(self) -> None:
        """Write no more; wait until everything is acknowledged, read and committed."""
        self._stop.set()
        assert self._settled.wait(300), f"{len(self._unacknowledged)} records are unacknowledged"
        assert not self.failed, self.failed[:3]
        try:
            eventually(lambda: len(self.read) == self.written, deadline_s=180)
        except AssertionError as error:
            unread = sorted(set(range(self.written)) - self.read.keys())
            raise AssertionError(
                f"{error}: {len(unread)} of {self.written} are unread, {unread[:3]} the first; {self.told[-20:]}"
            ) from None
        finally:
            self._reading.set()
            self._threads[1].join(2 * LOST_AFTER_S)

    def check(self, broker: BrokerProcess) -> None:
        """`check_at` this broker."""
        self.check_at(broker.address)

    def check_at(self, address: str) -> None:
        """In the topic is each record once, in order; the group has read each, and committed the end.

        What had to be written by another producer than at first may be there twice.
        """
        ends = {}
        for partition in range(PARTITIONS):
            values = [int(value) for _, value in records(address, self._topic, partition)]
            once = list(dict.fromkeys(values))
            assert once == list(range(partition, self.written, PARTITIONS)), f"partition {partition}"
            assert not Counter(values) - Counter(once) - Counter(self.rewritten), (
                f"partition {partition}: more than once"
            )
            ends[partition] = len(values)
        found = committed(address, "readers", self._topic)
        assert found == ends, f"committed {found}, of {ends}; {self.told[-20:]}"


def records(address: str, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """(offset, value) of every record in a partition."""
    reader = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "nobody",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    try:
        reader.assign([TopicPartition(topic, partition, 0)])
        found: list[tuple[int, bytes]] = []
        for _ in range(600):
            for message in reader.consume(500, 0.1):
                if message.error() is None:
                    found.append((message.offset(), message.value() or b""))
                elif message.error().code() == -191:  # the end
                    return found
                else:
                    raise AssertionError(str(message.error()))
        raise AssertionError(f"the end of {topic}-{partition} did not come")
    finally:
        reader.close()


def committed(address: str, group: str, topic: str, partitions: int = PARTITIONS) -> dict[int, int]:
    """The group's committed offsets."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number) for number in range(partitions)])]
    answer = next(iter(admin.list_consumer_group_offsets(asked).values())).result(120)
    return {one.partition: one.offset for one in answer.topic_partitions}


def topics(address: str) -> dict[str, tuple[str, int]]:
    """name -> (topic id, partitions)."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    names = [name for name in admin.list_topics(timeout=400).topics if not name.startswith("__")]
    from confluent_kafka import TopicCollection

    described = admin.describe_topics(TopicCollection(names))
    return {name: (str(one.result(120).topic_id), len(one.result(120).partitions)) for name, one in described.items()}


def leaders(address: str) -> set[int]:
    """The nodes that lead any partition, as this broker tells; -1 where there is none."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    told = admin.list_topics(timeout=300).topics.values()
    return {partition.leader for topic in told for partition in topic.partitions.values()}


def overrides(address: str, topic: str) -> dict[str, str]:
    """The configs that were set at the topic itself."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    (answer,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in answer.result(120).items() if entry.source == 1}


def create(address: str, name: str, partitions: int = PARTITIONS, **config: str) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    wish = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
    admin.create_topics([wish])[name].result(120)
    eventually(lambda: name in admin.list_topics(timeout=120).topics, deadline_s=120)


def delete(address: str, name: str) -> None:
    """Delete a topic."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})  # kept: its end would take back what it was asked
    admin.delete_topics([name])[name].result(120)


def write(address: str, topic: str, *values: bytes, partition: int = 0) -> None:
    """Produce, acknowledged."""
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, **QUIET})
    for value in values:
        producer.produce(
            topic, value, b"k" + value, partition=partition, on_delivery=lambda e, _: e and failed.append(str(e))
        )
    assert producer.flush(120) == 0 and not failed, failed


def commit(address: str, group: str, topic: str, offset: int, partition: int = 0) -> None:
    """Commit an offset as a simple consumer."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False, **QUIET})

    def done() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        except KafkaException as error:
            # A new Kafka makes its offsets topic first, and then loads it.
            if error.args[0].retriable() or error.args[0].code() in NOT_YET:
                return False
            raise
        return True

    eventually(done, deadline_s=120, every_s=0.2)
    consumer.close()


def strays(data: Path) -> list[str]:
    """Folders that were set aside."""
    return [path.name for path in data.iterdir() if path.name.endswith("-stray")]


def ending(brokers: list[BrokerProcess]) -> Iterator[Callable[[BrokerProcess], BrokerProcess]]:
    """For a fixture: remembers brokers, and kills those that are left."""

    def remember(broker: BrokerProcess) -> BrokerProcess:
        brokers.append(broker)
        return broker

    yield remember
    for broker in brokers:
        if broker.pid:
            broker.kill()
