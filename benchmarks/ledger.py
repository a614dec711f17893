"""What does the rebalance ledger cost? Two brokers on this machine, one that keeps it and one that does not, in turns.

A heartbeat and a commit make no record, so they must cost the same; a join of 1,000 members makes two, one of which
tells of every member. `on / off` is the median over the turns, in each of which both see the same machine; `of the
best` compares the best quarter of the turns of each, which other programs disturbed least.
"""

import resource
import tempfile
from pathlib import Path

from benchmarks.common import SETTINGS, arguments, create_topic, digits, kload, load, machine, median
from tests.support.broker_process import Kohort

# (question, unit, budget of on / off, load's mode, its figure)
QUESTIONS = [
    ("heartbeat 16 x 10, CPU", "us CPU", "<= 1.02", "heartbeat", "cpu_us"),
    ("heartbeat 16 x 10", "/s", ">= 0.98", "heartbeat", "requests_per_s"),
    ("commit 16 x 10, CPU", "us CPU", "<= 1.02", "commit", "cpu_us"),
    ("commit 16 x 10", "/s", ">= 0.98", "commit", "requests_per_s"),
    ("1,000 members join one group", "s", "<= 0.13 s", "join", "seconds"),
    ("the same, CPU", "s CPU", "", "join", "cpu_s"),
]
MEMBERS = 1000


def measure(broker: Kohort, mode: str, seconds: float, wait: float) -> dict[str, float]:
    """One count. A join's CPU includes the half second after it, in which its records are written."""
    if mode != "join":
        return load(
            broker, mode, topic="bench", partitions=1, pid=broker.pid, seconds=seconds, wait=wait, conns=16, depth=10
        )
    before = broker.cpu_s()
    answer = load(broker, "join", conns=MEMBERS)
    return {**answer, "cpu_s": broker.cpu_s() - before}


def main() -> None:
    """Measure, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="how long one measurement counts (1)")
    options = parser.parse_args()
    turns = options.rounds * 3
    kload()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    counted: dict[str, list[dict[str, dict[str, float]]]] = {"heartbeat": [], "commit": [], "join": []}
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as folder:
        on = Kohort(Path(folder) / "on", {**SETTINGS, "kohort.ledger.enable": "true"})
        off = Kohort(Path(folder) / "off", {**SETTINGS, "kohort.ledger.enable": "false"})
        with on, off:
            for broker in (on, off):
                create_topic(broker, "bench", 1)
            for mode, found in counted.items():
                for turn in range(turns + 1):
                    # Who goes first changes, so that neither always finds the machine as the other left it.
                    order = (on, off) if turn % 2 else (off, on)
                    wait = 0.2 if turn else 3
                    both = {id(broker): measure(broker, mode, options.seconds, wait) for broker in order}
                    if turn:  # the first warms up
                        found.append({"on": both[id(on)], "off": both[id(off)]})
    print(f"\n{machine()}; median of {turns}\n")
    print("|  | ledger on | ledger off | on / off | of the best | budget |")
    print("|---|---|---|---|---|---|")
    for question, unit, budget, mode, figure in QUESTIONS:
        sides = {side: median([turn[side][figure] for turn in counted[mode]]) for side in ("on", "off")}
        ratio = median([turn["on"][figure] / max(turn["off"][figure], 1e-9) for turn in counted[mode]])
        cells = " | ".join(f"{value:,.{digits(value)}f} {unit}" for value in sides.values())
        best = {side: _best([turn[side][figure] for turn in counted[mode]], unit) for side in ("on", "off")}
        print(f"| {question} | {cells} | {ratio:.3f} | {best['on'] / max(best['off'], 1e-9):.3f} | {budget} |")


def _best(values: list[float], unit: str) -> float:
    """The median of the best quarter: the highest rates, the lowest times."""
    ordered = sorted(values, reverse=unit == "/s")
    return median(ordered[: max(1, len(ordered) // 4)])


if __name__ == "__main__":
    main()
