"""How is it with very many of all: groups and their offsets in memory, and a heartbeat of each of 10,000 members?

Offsets are committed by groups without members, ten each. Then more groups get a member each, on a connection of its
own, and heartbeats are sent at a fixed rate, each due at its own moment: if a broker stands still, all those wait that
were due meanwhile. Beside them a quiet client sends one heartbeat after the other; the longest that it waits is how
long the broker has stood still, as anybody sees it.
"""

import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.common import Row, arguments, brokers, create_topic, load, machine, show
from benchmarks.hostile import heartbeats, stalls
from benchmarks.offsets import commit_records

OFFSETS_EACH = 10
JOINED_AFTER_S = 30
"""By then the members are in their groups."""
MB = 1e6


def longest_ms(address: str, after_s: float, seconds: float) -> float:
    """What the quiet client waited, at the longest."""
    time.sleep(after_s)
    return heartbeats(address, seconds)[-1]


def main() -> None:
    """Measure and print: one round, since what is there stays."""
    parser = arguments(__doc__)
    parser.add_argument("--groups", type=int, default=100_000, help="groups with ten offsets each (100,000)")
    parser.add_argument("--connections", type=int, default=10_000, help="members, each of a group of its own (10,000)")
    parser.add_argument("--rate", type=int, default=50_000, help="heartbeats a second, of all together (50,000)")
    parser.add_argument("--seconds", type=float, default=20, help="for so long (20)")
    options = parser.parse_args()
    offsets = options.groups * OFFSETS_EACH
    memory = Row("memory at rest", "MB")
    full = Row(f"with {offsets:,} offsets of {options.groups:,} groups", "MB")
    held = Row(f"with {options.connections:,} connections besides, after the load", "MB")
    kept = Row(f"heartbeats answered, of {options.rate:,} due a second", "/s")
    cpu = Row("CPU each", "us CPU")
    tails = [Row(f"from when it was due to its answer, {name}", "ms") for name in ("p50", "p99", "p99.9", "longest")]
    stall = Row("the quiet client waited at the longest", "ms")
    rows = [memory, full, held, kept, cpu, *tails, stall]
    said = []
    with brokers(options) as running:
        for broker in running:
            create_topic(broker, "bench", OFFSETS_EACH)
            memory.figures[broker.name] = broker.memory_bytes() / MB
            commit_records(broker, offsets, None, groups=options.groups, partitions=OFFSETS_EACH)
            full.figures[broker.name] = broker.memory_bytes() / MB
            with ThreadPoolExecutor(1) as beside:
                waited = beside.submit(longest_ms, broker.address, JOINED_AFTER_S, options.seconds / 2)
                answer = load(
                    broker, "heartbeat", conns=options.connections, rate=options.rate, wait=3, pid=broker.pid,
                    seconds=options.seconds + JOINED_AFTER_S,
                )  # fmt: skip
                stall.figures[broker.name] = waited.result()
            held.figures[broker.name] = broker.memory_bytes() / MB
            kept.figures[broker.name], cpu.figures[broker.name] = answer["requests_per_s"], answer["cpu_us"]
            for row, name in zip(tails, ("p50_us", "p99_us", "p999_us", "max_us"), strict=True):
                row.figures[broker.name] = answer[name] / 1_000
            if found := stalls(broker):
                said.append(f"{broker.name} itself: {', '.join(found[:3])}")
            broker.stop()  # its memory is not the next one's
    print(f"\n{machine()}; one round\n")
    show(rows, options)
    print(*said, sep="\n")


if __name__ == "__main__":
    main()
