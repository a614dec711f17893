"""Transactions of real clients while they and the broker are killed, over a network that delays and cuts.

Nothing that Jepsen's workload looks for is to be found.

KOHORT_CRASH_ROUNDS rounds (6) of KOHORT_CRASH_CLIENTS (by name, all six). KOHORT_CRASH_SEED repeats its choices, not
its moments. At length: `make crash ROUNDS=1000 ARGS="-k transactions"`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.anomalies.finding import anomalies
from tests.anomalies.history import Fate, Operation, Partition, Polled, Sent
from tests.clients import harness
from tests.clients.transactional import LIBRARIES, Java
from tests.support.broker_process import BrokerProcess, eventually, free_port
from tests.support.unsteady_proxy import UnsteadyProxy
from tests.support.wire import Wire

ROUNDS = int(os.environ.get("KOHORT_CRASH_ROUNDS", "6"))
CLIENTS = os.environ.get("KOHORT_CRASH_CLIENTS", " ".join(one.name for one in LIBRARIES)).split()
TOPIC = "ledger"
PARTITIONS = (0, 1)

_clock = itertools.count(1)


def now() -> int:
    """A moment of the history: later than all before."""
    return next(_clock)


class Writer(threading.Thread):
    """One transactional id, whose producer is let go of in the middle now and then, and made anew after any error."""

    def __init__(self, library: Any, address: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.library, self.address = library, address
        self.tid = f"writer-{library.name}"
        self.random = random.Random(f"{seed} {self.tid}")
        self.operations: list[Operation] = []
        self.stopping = False
        self.trouble = ""  # what it met last
        self._numbers = itertools.count()
        self._process = itertools.count()

    @property
    def committed(self) -> int:
        return sum(operation.fate is Fate.COMMITTED for operation in list(self.operations))

    def run(self) -> None:
        producer = None
        process = ""
        while not self.stopping:
            try:
                if producer is None:
                    process = f"{self.tid}-{next(self._process)}"
                    producer = self.library(self.address, self.tid, timeout_ms=10_000)
                gone = self._transact(producer, process)
            except Exception as error:  # whatever a library raises while its broker is away
                gone = True
                self.trouble = f"{now()}: {error!r}"
            if gone and producer is not None:
                let_go = getattr(producer, "kill", producer.close) if self.random.random() < 0.1 else producer.close
                with contextlib.suppress(Exception):
                    let_go()
                producer = None
            if gone:
                time.sleep(0.1)  # a broker that is down says so at once
        if producer is not None:
            with contextlib.suppress(Exception):
                producer.close()

    def _transact(self, producer: Any, process: str) -> bool:
        """One transaction; whether the producer is of no more use."""
        begun_at, sent = now(), []
        fate, asked_at = Fate.ABORTED, None  # nobody else can commit it
        try:
            producer.begin()
            for _ in range(self.random.randint(1, 4)):
                partition = self.random.choice(PARTITIONS)
                value = f"{self.tid}-{next(self._numbers)}".encode()
                sent.append(Sent((TOPIC, partition), value))
                producer.send(TOPIC, value, partition)
            chance = self.random.random()
            if chance < 0.1:
                return True
            if chance < 0.3:
                producer.abort()
            else:
                asked_at, fate = now(), Fate.UNKNOWN
                producer.commit()
                fate = Fate.COMMITTED
            return False
        finally:
            self.operations.append(Operation(process, begun_at, fate, tuple(sent), commit_asked_at=asked_at))


class Reader(threading.Thread):
    """Reads what is committed from the beginning on, over one consumer all the time."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.begun_at = now()
        self.polled: list[Polled] = []
        self.ends: dict[int, int] = {}  # where it last came to the end of what is decided: behind markers, too
        self.stopping = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in PARTITIONS])

    def run(self) -> None:
        while not self.stopping:
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            partition, offset, error = message.partition() or 0, message.offset() or 0, message.error()
            if error is None:
                self.polled.append(Polled((TOPIC, partition), offset, message.value() or b"", now()))
            elif error.code() == KafkaError._PARTITION_EOF:
                self.ends[partition] = offset
        self._consumer.close()


def ends(broker: BrokerProcess) -> dict[int, int]:
    with Wire(broker.address) as wire:
        return {partition: end for partition, (_, end) in wire.end_offsets(TOPIC, list(PARTITIONS)).items()}


@pytest.mark.slow
@pytest.mark.xdist_group("crash")
def test_transactions_hold_under_sigkill(
    start_broker: Callable[..., BrokerProcess], tmp_path_factory: pytest.TempPathFactory
):
    """TX81 to TX86 by chance: six libraries write, abort, die and come back, while the broker is killed.

    Requests and answers are late, torn or lost on their way.
    """
    seed = int(os.environ.get("KOHORT_CRASH_SEED", random.randrange(1 << 32)))
    print(f"KOHORT_CRASH_SEED={seed}, {ROUNDS} rounds")
    chance = random.Random(seed)
    base = tmp_path_factory.getbasetemp()
    Java.classes = base.parent if "popen" in base.name else base
    port = free_port()
    with UnsteadyProxy(port, seed) as network:
        broker = start_broker(
            {
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "advertised.listeners": f"PLAINTEXT://{network.address}",
                "transaction.state.log.num.partitions": 3,
            }
        )
        harness.create_topic(broker.address, TOPIC, len(PARTITIONS))
        network.disturb()
        reader = Reader(network.address)
        reader.start()
        writers = [Writer(library, network.address, seed) for library in LIBRARIES if library.name in CLIENTS]
        for writer in writers:
            writer.start()

        for _ in range(ROUNDS):
            goals = {writer: writer.committed + 3 for writer in writers}
            try:
                eventually(
                    lambda goals=goals: all(writer.committed >= goal for writer, goal in goals.items()), deadline_s=180
                )
            except AssertionError:
                behind = {one.tid: (goal - one.committed, one.trouble) for one, goal in goals.items()}
                raise AssertionError(f"at {now()} every library was to commit: {behind}") from None
            time.sleep(chance.uniform(0, 0.3))  # the moment of the blow, not a wait for anything
            broker.kill()
            broker.start()

        network.calm()
        for writer in writers:
            writer.stopping = True
        for writer in writers:
            writer.join(180)
            assert not writer.is_alive(), writer.tid
        # What was left open times out; then readers get to the end.
        eventually(lambda: reader.ends == ends(broker), deadline_s=120, what="all is decided and read")
        reader.stopping = True
        reader.join(60)

    operations = [operation for writer in writers for operation in writer.operations]
    operations.append(Operation("reader", reader.begun_at, Fate.COMMITTED, polled=tuple(reader.polled)))
    read_to: dict[Partition, int] = {(TOPIC, partition): end for partition, end in ends(broker).items()}
    fates = {fate.name: sum(one.fate is fate for one in operations) for fate in Fate}
    print(f"{len(operations)} transactions: {fates}; {len(reader.polled)} records read")
    print(f"{network.delays} delays, {network.cuts} cuts")
    assert anomalies(operations, read_to=read_to) == []
