"""Reads, processes, writes: exactly once, in transactions of which some are aborted, over SCRAM and over TLS."""

import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.clients.harness import PARTITIONS
from tests.clients.transactional import committed_values
from tests.support.broker_process import ROOT, eventually

ABORTED = 0.25
"""Of the transactions, on purpose."""
CALL_S = 30
PATIENCE_S = 120
"""A broker that is away comes back."""
STUCK_S = 75
"""So long without a step, and others take its place. A member of a consumer group that was killed keeps its partitions
for 45 s of that, its session. librdkafka was seen to end no transaction after a full disk."""
Config = Mapping[str, Any]


class Transformer:
    """Copies a topic to another of as many partitions, until it is stopped: a process, whose words are in `log`.

    `reading` and `writing` are how its consumer and its producer connect. What goes wrong in a transaction ends both
    clients, and new ones go on where the last committed transaction ended, as an application's restart would. The same
    is done when nothing is heard of them: the process is killed. It has to be one: librdkafka was seen to wait for
    ever in the closing of a consumer, with Python's lock in its hand.
    """

    def __init__(
        self, reading: Config, writing: Config, source: str, sink: str, group: str, seed: int, log: Path
    ) -> None:
        self.source, self.sink, self.group = source, sink, group
        self._log = log
        self._stuck: list[str] = []
        reading = {
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
        writing = {
            **writing,
            # The same in every round: what the broker keeps for an id is not growth.
            "transactional.id": "soak-transformer",
            "transaction.timeout.ms": 20_000,
            "metadata.recovery.strategy": "none",  # else 2.16 waits for ever after a restart (docs/transactions.md)
            "reconnect.backoff.max.ms": 1_000,
            "log_level": 0,
        }
        options = {"reading": reading, "writing": writing, "source": source, "sink": sink, "seed": seed}
        self._command = [sys.executable, "-u", "-m", __name__, json.dumps(options)]
        self._begin()

    def _begin(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)

    def _words(self) -> list[str]:
        return self._log.read_text().splitlines()

    @property
    def committed(self) -> int:
        """Transactions."""
        return self._words().count(_COMMITTED)

    @property
    def aborted(self) -> int:
        """Transactions, on purpose."""
        return self._words().count(_ABORTED)

    @property
    def errors(self) -> list[str]:
        """What ended its clients, or it was killed for."""
        return [*(word for word in self._words() if word not in (_COMMITTED, _ABORTED)), *self._stuck]

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
                self._stuck.append(f"nothing heard for {STUCK_S} s")
                self._process.kill()
                self._process.wait()
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
        """Let go of it: in good order, unless it takes too long."""
        self._process.terminate()
        try:
            self._process.wait(CALL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_COMMITTED, _ABORTED = "committed", "aborted"


class _Copying:
    """The process: it says each transaction that has ended, and each error."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._reading, self._writing = options["reading"], options["writing"]
        self._source, self._sink = options["source"], options["sink"]
        self._random = random.Random(options["seed"])
        self._ends = False

    def end(self, *_: object) -> None:
        """At the next step."""
        self._ends = True

    def run(self) -> None:
        """Until that."""
        while not self._ends:
            try:
                self._live()
            except KafkaException as error:
                print(str(error).replace("\n", " "))
                time.sleep(0.5)

    def _live(self) -> None:
        with contextlib.closing(Consumer(self._reading)) as consumer:
            producer = Producer(self._writing)
            _patiently(producer.init_transactions)
            consumer.subscribe([self._source])
            while not self._ends:
                read = [message for message in consumer.consume(200, 0.2) if message.error() is None]
                if read:
                    self._transact(consumer, producer, read)

    def _transact(self, consumer: Consumer, producer: Producer, read: list[Message]) -> None:
        producer.begin_transaction()
        for message in read:
            producer.produce(self._sink, message.value(), partition=message.partition())
        # Descending, so that each partition's first offset is what stays.
        firsts = {message.partition(): message.offset() for message in reversed(read)}
        lasts = {message.partition(): message.offset() for message in read}
        after = [TopicPartition(self._source, partition, offset + 1) for partition, offset in lasts.items()]
        _patiently(lambda s: producer.send_offsets_to_transaction(after, consumer.consumer_group_metadata(), s))
        if self._random.random() < ABORTED:
            # librdkafka forgets what is on its way when it aborts, and begins the next transaction at a sequence that
            # the broker has to refuse; from Apache Kafka it gets no further either.
            producer.flush(CALL_S)
            _patiently(producer.abort_transaction)
            print(_ABORTED)
            for partition, offset in firsts.items():
                consumer.seek(TopicPartition(self._source, partition, offset))
        else:
            _patiently(producer.commit_transaction)
            print(_COMMITTED)


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


if __name__ == "__main__":
    copying = _Copying(json.loads(sys.argv[1]))
    signal.signal(signal.SIGTERM, copying.end)
    copying.run()
