"""How long does a broker take from start to ready, and how much memory has it when nobody is there?

Once with an empty directory and once with a topic of 2,000 partitions, each of which holds records, after a clean stop.
Logs are opened when somebody asks for them, so there is a second moment: when every partition has told where it ends.
"""

import argparse
import subprocess
import sys
import time

from benchmarks.common import Row, arguments, brokers, create_topic, is_compiled, machine, show
from tests.support.broker_process import BrokerProcess
from tests.support.wire import Wire

PARTITIONS = 2_000
MANY = "many"
_PRODUCE = """
import sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1], "linger.ms": 50})
for number in range(3 * int(sys.argv[3])):
    producer.produce(sys.argv[2], b"x" * 100, partition=number % int(sys.argv[3]))
sys.exit(producer.flush(120))
"""


def main() -> None:
    """Measure and print. The directory is formatted by a first start, which does not count."""
    options = arguments(__doc__).parse_args()
    rows = [*_empty(options), *_with_partitions(options)]
    print(f"\n{machine()}; median of {options.rounds}\n")
    show(rows, options)


def _empty(options: argparse.Namespace) -> list[Row]:
    start = Row("start to ready", "ms", "<= 350")
    memory = Row("idle memory", "MB", "<= 60")
    with brokers(options) as running:
        for broker in running:
            times = []
            for _ in range(options.rounds):
                broker.restart()
                times.append(broker.start_ms)
            if is_compiled(broker):
                start.budget = "<= 200"
            start.take(broker.name, times)
            time.sleep(1)  # what start-up still does in the background is over
            memory.figures[broker.name] = broker.memory_bytes() / 1e6
    return [start, memory]


def _with_partitions(options: argparse.Namespace) -> list[Row]:
    ready = Row("start to ready, 2,000 partitions", "ms", "<= 2,000")
    told = Row("start to all their end offsets", "ms")
    with brokers(options) as running:
        for broker in running:
            broker.stop_within_s = 120  # the first stop closes 2,000 new logs, each with its fsyncs
            create_topic(broker, MANY, PARTITIONS)
            words = [sys.executable, "-c", _PRODUCE, broker.address, MANY, str(PARTITIONS)]
            subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
            broker.restart()
            times, both = [], []
            for _ in range(options.rounds):
                broker.restart()
                times.append(broker.start_ms)
                both.append(broker.start_ms + _ask_every_partition(broker))
            ready.take(broker.name, times)
            told.take(broker.name, both)
    return [ready, told]


def _ask_every_partition(broker: BrokerProcess) -> float:
    """How long it took, ms. Apache Kafka is asked again as long as a partition has no leader yet."""
    began = time.monotonic()
    with Wire(broker.address) as wire:
        while True:
            ends = wire.end_offsets(MANY, list(range(PARTITIONS)))
            if all(code == 0 for code, _ in ends.values()):
                break
            time.sleep(0.01)
    assert all(offset == 3 for _, offset in ends.values()), "records are missing"
    return (time.monotonic() - began) * 1_000


if __name__ == "__main__":
    main()
