"""What would several processes bring, each with partitions of its own? One broker, and two with half of the load each.

Two brokers that know nothing of each other are the best that two nodes in one machine could be: whatever they have to
agree on comes on top. CPU a request says what a core could serve, which holds on a busy machine better than rates do.
"""

from concurrent.futures import ThreadPoolExecutor

from benchmarks.common import SETTINGS, arguments, brokers, create_topic, kload, load, machine, median
from tests.support.broker_process import BrokerProcess

ROWS = (
    ("heartbeat 16 x 1", "heartbeat", {"conns": 16}),
    ("heartbeat 16 x 10", "heartbeat", {"conns": 16, "depth": 10}),
    ("commit 16 x 1", "commit", {"conns": 16}),
    ("commit 16 x 10", "commit", {"conns": 16, "depth": 10}),
    ("produce 1 KB, 4 x 10", "produce", {"conns": 4, "depth": 10, "bytes": 1_000}),
)


def main() -> None:
    """Measure in turns, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="how long one measurement counts (1)")
    options = parser.parse_args()
    kload()
    begun = machine()
    with brokers(options, ("kohort",), **SETTINGS) as (one,), brokers(options, ("kohort",), **SETTINGS) as (other,):
        for broker in (one, other):
            create_topic(broker, "cores", 4)
        print("| | one: requests/s | CPU | two: requests/s | CPU | a core, one | two cores, two |")
        print("|---|---|---|---|---|---|---|")
        for question, mode, words in ROWS:
            alone, halves = [], []
            for _ in range(options.rounds):
                alone.append(_count([one], mode, words, options.seconds))
                halves.append(_count([one, other], mode, {**words, "conns": words["conns"] // 2}, options.seconds))
            rates = [median([rate for rate, _ in found]) for found in (alone, halves)]
            costs = [median([cost for _, cost in found]) for found in (alone, halves)]
            most = f"{1e6 / costs[0]:,.0f} | {2e6 / costs[1]:,.0f}"
            print(
                f"| {question} | {rates[0]:,.0f} | {costs[0]:.1f} us | {rates[1]:,.0f} | {costs[1]:.1f} us | {most} |"
            )
        memory = [broker.memory_bytes() / 1e6 for broker in (one, other)]
    print(
        f"\nmemory {memory[0]:.0f} and {memory[1]:.0f} MB; {begun}; {options.seconds:g} s, median of {options.rounds}"
    )


def _count(among: list[BrokerProcess], mode: str, words: dict[str, int], seconds: float) -> tuple[float, float]:
    """(requests a second of all together, CPU a request in us)."""

    def of(broker: BrokerProcess) -> dict[str, float]:
        partitions = 4 if mode == "produce" else 1
        return load(
            broker, mode, topic="cores", partitions=partitions, pid=broker.pid, seconds=seconds, wait=0.3, **words
        )

    with ThreadPoolExecutor(len(among)) as pool:
        answers = list(pool.map(of, among))
    rate = sum(answer["requests_per_s"] for answer in answers)
    return rate, sum(answer["cpu_us"] * answer["requests_per_s"] for answer in answers) / rate


if __name__ == "__main__":
    main()
