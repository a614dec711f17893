"""What do transactions cost?

How many a second, of one producer and of 16, with one partition and with 10 each; how long a record takes through a
consume-transform-produce loop; and what a plain produce pays for their verification. The producers are franz-go's, with
the transactions of KIP-890 (benchmarks/transactional). Needs Go. Both brokers are warmed up, and take turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from benchmarks.common import HERE, Row, arguments, brokers, create_topic, kload, load, machine, show
from benchmarks.requests import KB, MB
from tests.support.broker_process import BrokerProcess
from tests.support.golang import program

SHAPES = [(1, 1), (1, 10), (16, 1), (16, 10)]  # (producers, partitions each)
VERIFICATION = "transaction.partition.verification.enable"
SMALL = {"retention_bytes": str(256 * MB), "segment_bytes": str(64 * MB)}


def ask(*words: object) -> dict[str, Any]:
    """What the generator printed. Exits when it fails."""
    ended = subprocess.run(
        [str(program(HERE / "transactional")), *map(str, words)], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        sys.exit(f"transactional {words}: {ended.stderr}")
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=3, help="how long one measurement counts (3)")
    parser.add_argument("--warm", type=float, default=6, help="seconds of load before the first count of a row (6)")
    options = parser.parse_args()
    kload()
    rows = []
    with brokers(options) as running:
        for shape in SHAPES:
            rows += _rates(running, shape, options)
        rows += _loop(running, options.rounds)
    rows += [_plain(options, enabled) for enabled in ("true", "false")]
    print(f"\n{machine()}; {options.seconds:g} s a count, median of {options.rounds}\n")
    show(rows, options)


def _rates(running: list[BrokerProcess], shape: tuple[int, int], options: argparse.Namespace) -> list[Row]:
    """So many producers, each with so many partitions of its own in every transaction."""
    producers, partitions = shape
    what, topic = f"{producers} x {partitions}", f"ledger-{producers}-{partitions}"
    for broker in running:
        create_topic(broker, topic, producers * partitions, **SMALL)
    counted: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in running}
    for turn in range(options.rounds):
        for broker in running:
            warm_s = options.warm if turn == 0 else 1
            words = (broker.address, topic, broker.pid, *shape, warm_s, options.seconds)
            counted[broker.name].append(ask("write", *words))
    rate = Row(f"transactions, {what}", "/s", "> Kafka", more_is_better=True)
    rows = {"per_s": rate, "cpu_us": Row(f"one of {what}, CPU", "us CPU"), "p50_ms": Row(f"one of {what}, p50", "ms")}
    for key, row in rows.items():
        for name, answers in counted.items():
            row.take(name, [answer[key] for answer in answers])
    return list(rows.values())


def _loop(running: list[BrokerProcess], rounds: int) -> list[Row]:
    """Consume, transform, produce: one record at a time."""
    counted: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in running}
    for turn in range(rounds):
        for broker in running:
            source, sink = f"in-{turn}", f"out-{turn}"
            create_topic(broker, source, 1)
            create_topic(broker, sink, 1)
            counted[broker.name].append(ask("copy", broker.address, source, sink, 200 if turn == 0 else 50, 300))
    rows = {
        "p50_ms": Row("one record through a copying loop, p50", "ms", "< Kafka"),
        "p99_ms": Row("the same, p99", "ms"),
    }
    for key, row in rows.items():
        for name, answers in counted.items():
            row.take(name, [answer[key] for answer in answers])
    return list(rows.values())


def _plain(options: argparse.Namespace, enabled: str) -> Row:
    """Records of no transaction, with a broker that verifies transactions and with one that does not."""
    row = Row(f"plain produce 1 KB, 4 x 10, verification {enabled}", "us CPU")
    with brokers(options, **{VERIFICATION: enabled, "log.retention.check.interval.ms": 10_000}) as running:
        told: dict[str, list[float]] = {broker.name: [] for broker in running}
        for broker in running:
            create_topic(broker, "plain", 4, **SMALL)
        for turn in range(options.rounds):
            for broker in running:
                answer = load(
                    broker, "produce", topic="plain", partitions=4, pid=broker.pid, seconds=options.seconds,
                    wait=options.warm if turn == 0 else 0.3, conns=4, depth=10, bytes=KB,
                )  # fmt: skip
                told[broker.name].append(answer["cpu_us"])
    for name, figures in told.items():
        row.take(name, figures)
    return row


if __name__ == "__main__":
    main()
