"""Transactional producers of six client libraries under one roof, for tests that want the same of each."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, Protocol

import kafka
from aiokafka import AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka.errors import KafkaError as KafkaPythonError
from kafka.structs import OffsetAndMetadata as KafkaPythonOffset

from tests.clients.harness import franz, kafkajs
from tests.support.java import class_path

WAIT_S = 30
WORKERS = Path(__file__).parent / "workers"


class Fenced(Exception):
    """Another producer has taken the transactional id over."""


class Transactional(Protocol):
    """One producer with a transactional id."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Write one record, and wait until the broker has it. Raises: Fenced."""

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0 in the transaction."""

    def commit(self) -> None:
        """Raises: Fenced."""

    def abort(self) -> None:
        """Raises: Fenced."""

    def close(self) -> None:
        """Let go of it."""


class Confluent:
    """librdkafka."""

    name = "confluent"

    def __init__(self, bootstrap: str, tid: str, timeout_ms: int = 60_000) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": tid, "transaction.timeout.ms": timeout_ms}
        )
        self._errors: list[Any] = []
        self._call(self._producer.init_transactions, WAIT_S)

    def _call(self, what: Any, *args: Any) -> None:
        try:
            what(*args)
        except KafkaException as error:
            if error.args[0].name() == "_FENCED" or error.args[0].fatal():
                raise Fenced(str(error)) from error
            raise

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._errors.clear()
        self._producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: error and self._errors.append(error)
        )
        self._producer.flush(WAIT_S)
        if self._errors:
            raise Fenced(str(self._errors[0]))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        place = ConfluentPartition(topic, 0, offset)
        metadata = consumer.consumer_group_metadata()
        self._call(self._producer.send_offsets_to_transaction, [place], metadata, WAIT_S)
        consumer.close()

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, WAIT_S)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, WAIT_S)

    def close(self) -> None:
        self._producer.purge()


class KafkaPython:
    """kafka-python."""

    name = "kafka_python"

    def __init__(self, bootstrap: str, tid: str, timeout_ms: int = 60_000) -> None:
        # It may wait for an answer whose connection has ended, or for one to a broker that is there again.
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=tid,
            transaction_timeout_ms=timeout_ms,
            request_timeout_ms=10_000,
            max_block_ms=20_000,
        )
        try:
            self._call(self._producer.init_transactions)
        except BaseException:
            self.close()
            raise

    def _call(self, what: Any, *args: Any) -> Any:
        try:
            return what(*args)
        except KafkaPythonError as error:
            if "Fenced" in type(error).__name__ or "Epoch" in type(error).__name__:
                raise Fenced(repr(error)) from error
            raise

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        future = self._call(self._producer.send, topic, value, None, None, partition)
        self._call(future.get, WAIT_S)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {kafka.TopicPartition(topic, 0): KafkaPythonOffset(offset, "", -1)}
        self._call(self._producer.send_offsets_to_transaction, offsets, group)

    def commit(self) -> None:
        self._call(self._within, self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._within, self._producer.abort_transaction)

    def _within(self, what: Callable[[], None]) -> None:
        """It knows no timeout, and waits for ever where its coordinator's connection was cut at the wrong moment."""
        done: Future[None] = Future()

        def run() -> None:
            try:
                what()
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        done.result(WAIT_S)

    def close(self) -> None:
        self._producer.close(timeout=0)


class Aiokafka:
    """aiokafka, on a loop of its own."""

    name = "aiokafka"

    def __init__(self, bootstrap: str, tid: str, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()

        async def make() -> AIOKafkaProducer:
            return AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=tid, transaction_timeout_ms=timeout_ms
            )

        self._producer = self._run(make())
        try:
            self._run(self._producer.start())
        except BaseException:
            self.close()
            raise

    def _run(self, work: Any) -> Any:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, WAIT_S))
        except ProducerFenced as error:
            raise Fenced(repr(error)) from error

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._run(self._producer.send_offsets_to_transaction({AioPartition(topic, 0): offset}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        # Closing in good order would end the transaction; a process that dies does not.
        self._loop.run_until_complete(self._producer.client.close())
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


class _Process:
    """A client in a process of its own that does a line at a time."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        try:
            self._hear()
        except BaseException:
            self.close()
            raise

    def _hear(self) -> None:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        if answer.startswith("fenced"):
            raise Fenced(answer)
        assert answer == "ok", answer

    def _tell(self, *words: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        self._hear()

    def begin(self) -> None:
        self._tell("begin")

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._tell("send", topic, partition, value.decode())

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._tell("offset", group, topic, offset)

    def commit(self) -> None:
        self._tell("commit")

    def abort(self) -> None:
        self._tell("abort")

    def close(self) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.communicate()


class Java(_Process):
    """The Java client. One that is let go of leaves its JVM to the next, which then need not start one."""

    name = "java"
    classes = Path()  # where the program is compiled to: set it first
    _idle: ClassVar[list[subprocess.Popen[str]]] = []

    def __init__(self, bootstrap: str, tid: str, timeout_ms: int = 60_000) -> None:
        if self._idle:
            self._process = self._idle.pop()
        else:
            jvm = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            program = ["-cp", class_path(WORKERS / "TransactionalWorker.java", self.classes), "TransactionalWorker"]
            super().__init__([*jvm, *program])
        try:
            self._tell("new", bootstrap, tid, timeout_ms)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        try:
            self._tell("drop")
        except (AssertionError, OSError):
            self.kill()
        else:
            self._idle.append(self._process)


class KafkaJs(_Process):
    """kafkajs."""

    name = "kafkajs"

    def __init__(self, bootstrap: str, tid: str, timeout_ms: int = 60_000) -> None:
        command = ["node", str(WORKERS / "transactional_worker.js"), bootstrap, tid, str(timeout_ms)]
        super().__init__(command, {"NODE_PATH": str(kafkajs())})


class Franz(_Process):
    """franz-go."""

    name = "franz"

    def __init__(self, bootstrap: str, tid: str, timeout_ms: int = 60_000) -> None:
        told = {"mode": "transactional", "bootstrap": bootstrap, "transactional_id": tid, "timeout_ms": timeout_ms}
        super().__init__([str(franz()), json.dumps(told)])


LIBRARIES = (Confluent, KafkaPython, Aiokafka, Java, KafkaJs, Franz)


def committed_values(bootstrap: str, topic: str, count: int, partition: int = 0) -> list[bytes]:
    """The first `count` values that a read_committed consumer gets; fewer if none come for a while."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([ConfluentPartition(topic, partition, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(WAIT_S)
        if message is None or message.error():
            break  # the end of what is committed
        values.append(message.value())
    consumer.close()
    return values[:count] if len(values) > count else values


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    """The group's offset of partition 0 as a read_committed consumer sees it; -1001 for none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"})
    (found,) = consumer.committed([ConfluentPartition(topic, 0)], timeout=WAIT_S)
    consumer.close()
    return int(found.offset)
