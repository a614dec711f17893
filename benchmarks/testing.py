"""What a Kafka broker costs a test suite: until a first record is read, and each test after it.

Beside testcontainers' Kafka image where testcontainers and a Docker engine are that has it or can pull it, else beside
Apache Kafka of tools/kafka, which starts faster than a container of it. A test makes a topic, writes a record and reads
it back, with confluent-kafka. Apache Kafka is shared by all tests, as in suites that cannot wait for it each time;
Kohort is a fresh one for each.

make bench ARGS="testing --tests 20"     or     python -m benchmarks.testing
"""

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.testbed import FIRST
from kohort.testing import Broker
from tests.support.broker_process import Kafka


def ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1_000


def a_test(address: str, number: int) -> None:
    """A topic, a record written, the record read."""
    config, topic = {"bootstrap.servers": address}, f"orders-{number}"
    admin = AdminClient(config)
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    producer = Producer(config)
    producer.produce(topic, b"a book")
    producer.flush()
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while (found := consumer.poll(0.05)) is None or found.error():
        pass
    consumer.close()


@contextmanager
def fresh_kohort() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@contextmanager
def maven() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, Kafka(Path(folder) / "kafka") as kafka:
        yield kafka.address


@contextmanager
def testcontainers() -> Iterator[str]:
    from testcontainers.kafka import KafkaContainer  # noqa: PLC0415  where it is

    with KafkaContainer() as container:
        yield container.get_bootstrap_server()


def no_containers() -> str | None:
    """Why testcontainers' image cannot be had here; None where it can."""
    if importlib.util.find_spec("testcontainers") is None:
        return "testcontainers is not installed"
    if shutil.which("docker") is None or docker("version").returncode:
        return "no Docker engine answers (tools/docker starts one)"
    from testcontainers.kafka import KafkaContainer  # noqa: PLC0415  where it is

    image = str(KafkaContainer().image)
    if docker("image", "inspect", image).returncode == 0:
        return None
    pulled = docker("pull", "-q", image)
    return f"{image} cannot be pulled: {pulled.stderr.strip().rpartition(chr(10))[2]}" if pulled.returncode else None


def docker(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *words], capture_output=True, text=True, timeout=600, check=False)


def of_kohort(count: int) -> tuple[float, list[float]]:
    began = time.perf_counter()
    with fresh_kohort() as address:
        a_test(address, 0)
    first = ms_since(began)
    later = []
    for number in range(1, count + 1):
        began = time.perf_counter()
        with fresh_kohort() as address:
            a_test(address, number)
        later.append(ms_since(began))
    return first, later


def of_kafka(start: Callable[[], AbstractContextManager[str]], count: int) -> tuple[float, list[float]]:
    began = time.perf_counter()
    with start() as address:
        a_test(address, 0)
        first = ms_since(began)
        later = []
        for number in range(1, count + 1):
            began = time.perf_counter()
            a_test(address, number)
            later.append(ms_since(began))
    return first, later


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=10)
    count = parser.parse_args().tests
    imports = float(subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True).stdout)
    print(f"Kohort: a first broker with Python's imports {imports:.0f} ms (load average {os.getloadavg()[0]:.1f})")
    name, start, missing = "testcontainers' image", testcontainers, no_containers()
    if missing is not None:
        print(f"beside Apache Kafka of Maven, since {missing}")
        name, start = "Apache Kafka of Maven", maven
    for who, (first, later) in (("Kohort, fresh each", of_kohort(count)), (f"{name}, shared", of_kafka(start, count))):
        print(
            f"{who}: first record after {first:.0f} ms; a test {statistics.median(later):.0f} ms"
            f" (median of {count}, {min(later):.0f} to {max(later):.0f})"
        )


if __name__ == "__main__":
    main()
