"""Reads, processes, writes: exactly once, in transactions of which some are aborted, over SCRAM and over TLS."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.clients.harness import PARTITIONS
from tests.clients.transactional import committed_values
from tests.support.broker_process import eventually

ABORTED = 0.25
"""Of the transactions, on purpose."""
CALL_S = 30
PATIENCE_S = 120
"""A broker that is away comes back."""
STUCK_S = 45
"""So long without a step, and others take its place: librdkafka was seen to end no transaction after a full disk."""
Config = Mapping[str, Any]


class Transformer:
    """Copies a topic to another of as many partitions, from a thread, until it is stopped.

    `reading` and `writing` are how its consumer and its producer connect. What goes wrong in a transaction ends both
    clients, and new ones go on where the last committed transaction ended, as an application's restart would. The same
    is done when nothing is heard of them: the new ones shut the old ones out.
    """

    def __init__(self, reading: Config, writing: Config, source: str, sink: str, group: str, seed: int) -> None:
        self.source, self.sink, self.group = source, sink, group
        self.errors: list[str] = []
        self.committed = 0
        self.aborted = 0
        self._random = random.Random(seed)
        self._reading = {
            **reading,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "max.poll.interval.ms": 20_000,  # who is stuck lets go of its partitions
            **({"session.timeout.ms": 10_000} if reading["group.protocol"] == "classic" else {}),
            "reconnect.backoff.max.ms": 1_000,
            "log_level": 0,
        }
        self._writing = {
            **writing,
            # The same in every round: what the broker keeps for an id is not growth.
            "transactional.id": "soak-transformer",
            "transaction.timeout.ms": 20_000,
            "reconnect.backoff.max.ms": 1_000,
            "log_level": 0,
        }
        self._begin()

    def _begin(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stop,), daemon=True)
        self._thread.start()

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._live(stop)
            except KafkaException as error:
                self.errors.append(str(error))
                stop.wait(0.5)

    def _live(self, stop: threading.Event) -> None:
        with contextlib.closing(Consumer(self._reading)) as consumer:
            producer = Producer(self._writing)
            _patiently(producer.init_transactions)
            consumer.subscribe([self.source])
            while not stop.is_set():
                read = [message for message in consumer.consume(200, 0.2) if message.error() is None]
                if read:
                    self._transact(consumer, producer, read)

    def _transact(self, consumer: Consumer, producer: Producer, read: list[Message]) -> None:
        producer.begin_transaction()
        for message in read:
            producer.produce(self.sink, message.value(), partition=message.partition())
        # Descending, so that each partition's first offset is what stays.
        firsts = {message.partition(): message.offset() for message in reversed(read)}
        lasts = {message.partition(): message.offset() for message in read}
        after = [TopicPartition(self.source, partition, offset + 1) for partition, offset in lasts.items()]
        _patiently(lambda s: producer.send_offsets_to_transaction(after, consumer.consumer_group_metadata(), s))
        if self._random.random() < ABORTED:
            # librdkafka forgets what is on its way when it aborts, and begins the next transaction at a sequence that
            # the broker has to refuse; from Apache Kafka it gets no further either.
            producer.flush(CALL_S)
            _patiently(producer.abort_transaction)
            self.aborted += 1
            for partition, offset in firsts.items():
                consumer.seek(TopicPartition(self.source, partition, offset))
        else:
            _patiently(producer.commit_transaction)
            self.committed += 1

    def check(self, address: str, written: Mapping[int, int], *, deadline_s: float) -> None:
        """Wait until all of `written` (by a `harness.Writer`) is copied, stop, and compare: each once, in its order.

        Raises: AssertionError.
        """
        observer = Consumer({"bootstrap.servers": address, "group.id": self.group, "isolation.level": "read_committed"})
        places = [TopicPartition(self.source, partition) for partition in written]
        last: tuple[dict[int, int], float] = ({}, 0)

        def positions() -> dict[int, int]:
            return {one.partition: max(0, one.offset) for one in observer.committed(places, timeout=CALL_S)}

        def is_copied() -> bool:
            nonlocal last
            at, now = positions(), time.monotonic()
            if at == written:
                return True
            if at != last[0]:
                last = (at, now)
            elif now - last[1] > STUCK_S:
                last = (at, now)
                self.errors.append(f"nothing heard for {STUCK_S} s")
                self._stop.set()
                self._begin()
            return False

        try:
            eventually(is_copied, deadline_s=deadline_s, every_s=0.5, what=f"{self.group}: {written}")
        except AssertionError as error:
            raise AssertionError(f"{error}; {positions()}; its errors {self.errors[-3:]}") from None
        finally:
            self.stop()
            observer.close()
        for partition, count in written.items():
            values = committed_values(address, self.sink, 2 * count + 1, partition)
            expected = [b"%d" % (partition + PARTITIONS * at) for at in range(count)]
            assert values == expected, f"{self.sink}-{partition}: {len(values)} of {count} values, or others"

    def stop(self) -> None:
        """Let go of it."""
        self._stop.set()
        self._thread.join(CALL_S)


def _patiently(what: Callable[[float], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            what(CALL_S)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > until:
                raise
        else:
            return
