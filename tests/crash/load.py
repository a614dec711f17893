"""Clients that commit and produce through crashes of the broker, and what must be true after each restart.

Everything that a client was told is written down with the moment it was told. After a restart the log and the offsets
are compared with that.
"""

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import confluent_kafka as ck

from tests.clients.harness import PARTITIONS, Worker
from tests.support.broker_process import BrokerProcess, eventually
from tests.support.wire import Wire

# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: Apache Kafka says these after its start,
# Kohort loads before it listens.
NOT_YET = (14, 15, 16)

# librdkafka's lines about a broker that is away. (A logger object would do as well, but crashed the process here.)
QUIET = {"log_level": 0}
RETRY = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}


class Producers:
    """One idempotent producer per codec. Each numbers the records of each partition from 0, without gaps."""

    CODECS = ("none", "lz4")

    def __init__(self, address: str, topic: str) -> None:
        self.topic = topic
        # (codec, partition) -> how many have been sent, how many acknowledged (always a prefix of what was sent)
        self.sent: dict[tuple[str, int], int] = defaultdict(int)
        self.acknowledged: dict[tuple[str, int], int] = defaultdict(int)
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=(address, codec), daemon=True) for codec in self.CODECS
        ]
        for thread in self._threads:
            thread.start()

    def _produce(self, address: str, codec: str) -> None:
        producer = ck.Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                **QUIET,
                **RETRY,
            }
        )

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.errors.append(str(error))
                return
            key = codec, message.partition()
            number = int(message.value().split(b" ", 2)[1])
            if number != self.acknowledged[key]:
                self.errors.append(f"{key}: {number} acknowledged after {self.acknowledged[key]}")
            self.acknowledged[key] = number + 1

        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                key = codec, partition
                # No more than a few batches ahead of the acknowledgements, so that an outage does not pile up work.
                if self.sent[key] - self.acknowledged[key] < 500:
                    value = b"%s %d %s" % (codec.encode(), self.sent[key], b"x" * 100)
                    producer.produce(self.topic, value, partition=partition, on_delivery=delivered)
                    self.sent[key] += 1
            producer.poll(0.002)
        producer.flush(60)

    def stop(self) -> None:
        """Stop, and let everything sent be acknowledged."""
        self._stop.set()
        for thread in self._threads:
            thread.join(90)


class Committers:
    """Threads that commit rising offsets for groups of their own, in nobody's name."""

    def __init__(self, address: str, topic: str, groups: int = 12) -> None:
        self.topic = topic
        run = uuid.uuid4().hex[:6]
        self.tried = {f"commits-{run}-{n}": 0 for n in range(groups)}
        self.acknowledged = dict.fromkeys(self.tried, 0)
        self.errors: list[str] = []
        self._stop = threading.Event()
        names = list(self.tried)
        self._threads = [
            threading.Thread(target=self._commit, args=(address, names[n::3]), daemon=True) for n in range(3)
        ]
        for thread in self._threads:
            thread.start()

    def _commit(self, address: str, groups: list[str]) -> None:
        consumers = {
            group: ck.Consumer(
                {
                    "bootstrap.servers": address,
                    "group.id": group,
                    "enable.auto.commit": False,
                    "socket.timeout.ms": 5000,
                    **QUIET,
                    **RETRY,
                }
            )
            for group in groups
        }
        while not self._stop.is_set():
            for group, consumer in consumers.items():
                self.tried[group] += 1
                offsets = [ck.TopicPartition(self.topic, p, self.tried[group]) for p in range(PARTITIONS)]
                try:
                    answer = consumer.commit(offsets=offsets, asynchronous=False)
                except ck.KafkaException:
                    time.sleep(0.02)  # the broker is away; whether the commit was stored stays unknown
                    continue
                errors = {tp.error.name() for tp in answer if tp.error}
                if errors:
                    self.errors.append(f"{group}: {errors}")
                else:
                    self.acknowledged[group] = self.tried[group]
        for consumer in consumers.values():
            consumer.close()

    def stop(self) -> None:
        """Stop."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)


def stored(wire: Wire, group: str, topic: str, partitions: Sequence[int] = range(PARTITIONS)) -> dict[int, int]:
    """The committed offsets of a group, -1 where there is none.

    Over a connection of our own: librdkafka 2.16 crashes when its admin client is told that a coordinator is loading.
    """

    def told() -> list[dict[int, int]]:
        error, offsets = wire.committed(group, topic, list(partitions))
        assert error in (0, *NOT_YET), f"{group}: error {error}"
        return [] if error else [offsets]

    return eventually(told, deadline_s=60, what=f"the coordinator of {group}")[0]


def check_commits(broker: BrokerProcess, committers: Committers, acknowledged: dict[str, int]) -> None:
    """Every commit acknowledged before the crash is there, or a later one; nothing that nobody tried; whole."""
    with Wire(broker.address) as wire:
        for group, least in acknowledged.items():
            offsets = stored(wire, group, committers.topic)
            assert len(set(offsets.values())) == 1, f"{group}: half a commit is there: {offsets}"
            assert (least or -1) <= offsets[0] <= committers.tried[group], (
                f"{group}: {offsets[0]} is stored, {least} had been acknowledged"
            )


def check_group(broker: BrokerProcess, group: str, topic: str, committed: dict[int, int]) -> None:
    """The same for positions that members of a real group committed."""
    with Wire(broker.address) as wire:
        offsets = stored(wire, group, topic)
    for partition, offset in committed.items():
        assert offsets[partition] >= offset, f"{group}: {offset} of {partition} was acknowledged: {offsets}"


def committed_by(workers: list[Worker]) -> dict[int, int]:
    """The highest position that was acknowledged, by partition."""
    highest: dict[int, int] = defaultdict(int)
    for worker in workers:
        for event in worker.seen("committed"):
            for partition, offset in event["offsets"].items():
                highest[int(partition)] = max(highest[int(partition)], offset)
    return dict(highest)


def check_records(broker: BrokerProcess, producers: Producers, acknowledged: dict[tuple[str, int], int]) -> None:
    """Read the topic from its start: offsets without gaps; each producer's records in order, none lost, none twice."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "check",
            "enable.auto.commit": False,
            "check.crcs": True,
            **QUIET,
        }
    )
    ends = {}
    for partition in range(PARTITIONS):
        ends[partition] = consumer.get_watermark_offsets(ck.TopicPartition(producers.topic, partition), timeout=300)[1]
    consumer.assign([ck.TopicPartition(producers.topic, partition, 0) for partition in range(PARTITIONS)])
    position = dict.fromkeys(range(PARTITIONS), 0)
    found: dict[tuple[str, int], int] = defaultdict(int)
    deadline = time.monotonic() + 120
    while any(position[partition] < end for partition, end in ends.items()):
        assert time.monotonic() < deadline, f"read to {position} of {ends} in two minutes"
        for message in consumer.consume(5000, timeout=1):
            assert message.error() is None, message.error()
            partition = message.partition()
            assert message.offset() == position[partition], f"a gap before {message.offset()} of {partition}"
            position[partition] += 1
            codec, number, filling = message.value().split(b" ", 2)
            assert filling == b"x" * 100
            key = codec.decode(), partition
            assert int(number) == found[key], f"{key}: record {int(number)} stands where {found[key]} should"
            found[key] += 1
    consumer.close()
    for key, count in acknowledged.items():
        assert found[key] >= count, f"{key}: {count} acknowledged, {found[key]} there"


def until_resumed(report: Callable[[], int], *, deadline_s: float = 90, what: str) -> None:
    """Wait until a count of acknowledgements grows."""
    before = report()
    eventually(lambda: report() > before, deadline_s=deadline_s, what=what)
