"""What does a scrape of /metrics cost, and whom does it hold up? 10,000 groups, each with ten committed offsets.

Half of the offsets are behind, so that their records' times are read from the logs. A client asks one small request
after the other on a connection of its own: its slowest answers, while nobody scrapes and while one scrape follows the
other, tell how long the loop is held. Kohort only: Apache Kafka has no such endpoint.
"""

import statistics
import threading
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Producer

from benchmarks.common import arguments, create_topic, machine
from tests.support.broker_process import Kohort
from tests.support.wire import Wire

GROUPS, PARTITIONS = 10_000, 10
RECORDS = 1_000
TOPIC = "orders"


def commit_everything(broker: Kohort) -> None:
    """The groups' offsets; every other one is behind."""
    with Wire(broker.address) as wire:
        in_flight = 0
        for number in range(GROUPS):
            offsets = {index: RECORDS if index % 2 else number % RECORDS for index in range(PARTITIONS)}
            wire.send_commit(f"group-{number}", TOPIC, offsets)
            in_flight += 1
            if in_flight == 50:
                wire.receive()
                in_flight -= 1
        for _ in range(in_flight):
            wire.receive()


class Asker(threading.Thread):
    """Asks until it is told to stop; `times_ms` are how long each answer took."""

    def __init__(self, broker: Kohort) -> None:
        super().__init__()
        self.times_ms: list[float] = []
        self._wire = Wire(broker.address)
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            began = time.perf_counter()
            self._wire.coordinator_error("group-1")
            self.times_ms.append((time.perf_counter() - began) * 1_000)
            time.sleep(0.0005)

    def end(self) -> list[float]:
        self._ended.set()
        self.join()
        self._wire.close()
        return sorted(self.times_ms)


def row(name: str, times_ms: list[float]) -> str:
    """Percentiles of a run."""
    shares = (0.5, 0.99, 0.999)
    figures = [times_ms[min(int(len(times_ms) * share), len(times_ms) - 1)] for share in shares]
    cells = " | ".join(f"{figure:.2f}" for figure in (*figures, times_ms[-1]))
    return f"| {name} | {len(times_ms):,} | {cells} |"


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__).parse_args()
    with TemporaryDirectory(prefix="kohort-bench-") as folder, Kohort(Path(folder) / "kohort") as broker:
        create_topic(broker, TOPIC, PARTITIONS)
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(RECORDS * PARTITIONS):
            producer.produce(TOPIC, b"x" * 100, partition=number % PARTITIONS)
        producer.flush(60)
        commit_everything(broker)
        url = f"{broker.http}/metrics"
        urllib.request.urlopen(url).read()  # imports, opens logs, reads times
        quiet = Asker(broker)
        quiet.start()
        time.sleep(5)
        quiet_ms = quiet.end()
        busy = Asker(broker)
        busy.start()
        took, size, cpu = [], 0, broker.cpu_s()
        for _ in range(options.rounds * 3):
            began = time.perf_counter()
            body = urllib.request.urlopen(url).read()
            took.append(time.perf_counter() - began)
            size = len(body)
        busy_ms = busy.end()
        cpu = (broker.cpu_s() - cpu) / len(took)
        lines = body.count(b"\n") - body.count(b"\n#")
        print(f"\n{machine()}\n")
        print(
            f"{lines:,} series, {size / 1e6:.1f} MB: a scrape takes {statistics.median(took):.2f} s and {cpu:.2f} s of "
            f"CPU (what the asking client costs included); memory {broker.memory_bytes() / 1e6:.0f} MB\n"
        )
        print("| answers to another client, ms | requests | p50 | p99 | p99.9 | longest |\n|---|---|---|---|---|---|")
        print(row("nobody scrapes", quiet_ms))
        print(row("one scrape after the other", busy_ms))


if __name__ == "__main__":
    main()
