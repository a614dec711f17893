"""What does one request cost? Broker CPU (user and system, from its own accounting) and time, for each kind of request.

`n x d` is n connections with d requests in flight on each. Both brokers are warmed up before anything is counted, and
take turns, row by row, so that both see the same machine.
"""

import re

from benchmarks.common import (
    REAL,
    Row,
    arguments,
    brokers,
    create_topic,
    is_compiled,
    kload,
    load,
    machine,
    median,
    show,
)
from benchmarks.peers import PEERS, Mock
from tests.support.broker_process import BrokerProcess

KB, MB = 1000, 1000 * 1000

# (question, unit, budget, mode, load options): the unit says which figure of the load generator is shown.
ROWS = [
    ("heartbeat 1 x 1, p50", "us", "<= 35", "heartbeat", {"conns": 1}),
    ("heartbeat 16 x 1, CPU", "us CPU", "<= 16", "heartbeat", {"conns": 16}),
    ("heartbeat 16 x 10, CPU", "us CPU", "<= 7", "heartbeat", {"conns": 16, "depth": 10}),
    ("consumer heartbeat 1 x 1, p50", "us", "<= 35", "consumer", {"conns": 1}),
    ("consumer heartbeat 16 x 1, CPU", "us CPU", "<= 16", "consumer", {"conns": 16}),
    ("consumer heartbeat 16 x 10, CPU", "us CPU", "<= 7", "consumer", {"conns": 16, "depth": 10}),
    ("commit, 1 partition, 1 x 1, p50", "us", "<= 50", "commit", {"conns": 1}),
    ("commit 16 x 1, CPU", "us CPU", "<= 25", "commit", {"conns": 16}),
    ("commit 16 x 10, CPU", "us CPU", "<= 13", "commit", {"conns": 16, "depth": 10}),
    ("produce 1 KB, 4 x 10, CPU", "us CPU", "<= 30", "produce", {"conns": 4, "depth": 10, "bytes": KB}),
    ("produce 100 KB, 4 x 5, deleted soon", "/s", ">= Kafka", "produce", {"conns": 4, "depth": 5, "bytes": 100 * KB}),
    ("produce 100 KB, 4 x 5", "/s", ">= Kafka", "produce", {"conns": 4, "depth": 5, "bytes": 100 * KB}),
    ("fetch 100 KB, 4 x 1, CPU", "us CPU", "<= 30", "fetch", {"conns": 4, "bytes": 100 * KB}),
    ("fetch 1 MB, 4 x 1", "/s", ">= 0.8 Kafka", "fetch", {"conns": 4, "bytes": MB}),
]
COMPILED = {
    "heartbeat 16 x 1, CPU": "<= 13",
    "heartbeat 16 x 10, CPU": "<= 4",
    "commit, 1 partition, 1 x 1, p50": "<= 40",
    "commit 16 x 1, CPU": "<= 22",
    "commit 16 x 10, CPU": "<= 8",
    "produce 1 KB, 4 x 10, CPU": "<= 14",
    "produce 100 KB, 4 x 5": ">= 1.3 Kafka",
    "produce 100 KB, 4 x 5, deleted soon": ">= 1.3 Kafka",
    "fetch 100 KB, 4 x 1, CPU": "<= 38",
    "fetch 1 MB, 4 x 1": ">= 1.2 Kafka",
}
"""The budgets of native code, where they differ."""
DELETED = {"retention_bytes": str(128 * MB), "segment_bytes": str(128 * MB), "file_delete_delay_ms": "0"}
"""Of topics that have a gigabyte at most. A virtual machine has its memory from the host, page by page as it first
touches them; what files had that were deleted a moment ago it has already, so that brokers are measured, and not hosts.
This row comes before the one that keeps what is produced, which the disk is busy with for a while.
"""
FIGURE = {"us": "p50_us", "us CPU": "cpu_us", "/s": "requests_per_s"}


def topic_for(broker: BrokerProcess, mode: str, number: int, question: str) -> str:
    """A topic of four partitions for one row; one to be fetched from holds batches of 100 KB, 20 MB in each."""
    name = f"bench-{mode}-{number}"
    # What is produced is not needed again: kept small, so that a bench does not fill the disk.
    usual = {"retention_bytes": str(256 * MB), "segment_bytes": str(64 * MB)}
    create_topic(broker, name, 4, **(DELETED if question.endswith("deleted soon") else usual))
    if mode == "fetch":
        while load(broker, "produce", conns=4, bytes=95 * KB, topic=name, partitions=4, seconds=0.25)["requests"] < 20:
            pass
    return name


def main() -> None:
    """Measure every row, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=2, help="how long one measurement counts (2)")
    parser.add_argument("--warm", type=float, default=4, help="load before the first count of a row (4)")
    parser.add_argument(
        "--row", action="append", metavar="PATTERN", help="only rows whose question matches this; may be repeated"
    )
    options = parser.parse_args()
    kload()
    rows = []
    often = {"log.retention.check.interval.ms": 1_000, "log.initial.task.delay.ms": 1_000}
    with brokers(options, tuple(PEERS), **often) as running:
        own = COMPILED if is_compiled(running[0]) else {}
        for number, (question, unit, budget, mode, load_options) in enumerate(ROWS):
            if options.row and not any(re.search(pattern, question) for pattern in options.row):
                continue
            row = Row(question, unit, own.get(question, budget), more_is_better=unit == "/s")
            rows.append(row)
            # The mock forgets all but the newest 5 MB of a partition, so that there is no offset 0 to read from; the
            # consumer protocol (KIP-848) is for those that keep what they are given.
            measured = [
                broker
                for broker in running
                if not (mode == "fetch" and isinstance(broker, Mock)) and (mode != "consumer" or broker.name in REAL)
            ]
            topics = {broker.name: topic_for(broker, mode, number, question) for broker in measured}
            counted: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in measured}
            for turn in range(options.rounds):
                for broker in measured:
                    # The first turn pays for compilation, of the JVM's and of the codecs.
                    wait = options.warm if turn == 0 else 0.3
                    partitions = 4 if mode in ("produce", "fetch") else 1
                    answer = load(
                        broker, mode, topic=topics[broker.name], partitions=partitions, pid=broker.pid,
                        seconds=options.seconds, wait=wait, **load_options,
                    )  # fmt: skip
                    counted[broker.name].append(answer)
            for name, answers in counted.items():
                row.take(name, [answer[FIGURE[unit]] for answer in answers])
                if unit == "us CPU":
                    row.notes[name] = f"{median([answer['requests_per_s'] for answer in answers]):,.0f}/s"
    print(f"\n{machine()}; {options.seconds:g} s a count, median of {options.rounds}\n")
    show(rows, options)


if __name__ == "__main__":
    main()
