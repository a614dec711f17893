"""What a broker costs a test: the first of a run, and each one after it, with three topics and a first record.

python -m benchmarks.testbed [--brokers 50]
"""

import argparse
import statistics
import subprocess
import sys
import time

from kohort.testing import Broker

TOPICS = {"orders": 3, "shipments": 3, "refunds": 1}
FIRST = """
import time
began = time.perf_counter()
from kohort.testing import Broker
with Broker():
    print((time.perf_counter() - began) * 1000)
"""


def ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1_000


def first_ms() -> float:
    """Of a new Python: imports, the broker's process, a broker in it."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    return float(done.stdout)


def later_ms() -> tuple[float, float, float]:
    """(until it is there with its topics, until a record is read back, until it is gone)."""
    began = time.perf_counter()
    broker = Broker(topics=TOPICS).open()
    opened = ms_since(began)
    broker.produce("orders", "a book", key="ann")
    broker.assert_produced("orders", "a book")
    record = ms_since(began)
    began = time.perf_counter()
    broker.close()
    return opened, record, ms_since(began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=50)
    count = parser.parse_args().brokers
    firsts = [first_ms() for _ in range(5)]
    spread = f"5: {min(firsts):.0f} to {max(firsts):.0f}"
    print(f"first of a run, imports included: median {statistics.median(firsts):.0f} ms ({spread})")
    later_ms()
    rows = [later_ms() for _ in range(count)]
    for name, column in zip(
        ("open with 3 topics", "to a record read back", "close"), zip(*rows, strict=True), strict=True
    ):
        print(f"{name}: median {statistics.median(column):.1f} ms, longest {max(column):.1f} ms ({count})")


if __name__ == "__main__":
    main()
