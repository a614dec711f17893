"""What a storm of commits loses to a client that sends garbage and to one that never reads its answers.

The same 20,000 commits for 200 groups by 20 clients, alone and beside the two. The hostile ones' own threads run in the
process of the clients, so a part of what is lost is theirs and not the broker's; the broker's CPU time for each commit
counts the garbage too.
"""

import time

from benchmarks.common import Row, arguments, brokers, machine, median, show
from tests.broker_process import BrokerProcess
from tests.crash.test_storm import Storm, deaf, garbage, prepare


def main() -> None:
    """Measure and print: each round alone first, then beside."""
    options = arguments(__doc__).parse_args()
    rows = [Row("commits alone", "/s"), Row("commits beside hostile connections", "/s")]
    cpu = [Row("broker CPU a commit, alone", "us"), Row("broker CPU a commit, beside", "us")]
    with brokers(options) as running:
        for broker in running:
            prepare(broker)
            Storm(broker.address, "topic-0", 1)  # warms up
            alone, beside = [], []
            for number in range(options.rounds):
                alone.append(_storm(broker, (2 * number + 1) * 1_000_000))
                with garbage(broker.address, seed=number), deaf(broker):
                    beside.append(_storm(broker, (2 * number + 2) * 1_000_000))
            for which, measured in enumerate((alone, beside)):
                rows[which].figures[broker.name] = median([rate for rate, _ in measured])
                cpu[which].figures[broker.name] = median([cost for _, cost in measured])
    print(f"\n{machine()}; median of {options.rounds}\n")
    show([*rows, *cpu], options)


def _storm(broker: BrokerProcess, first_offset: int) -> tuple[float, float]:
    """(commits a second, microseconds of the broker's CPU time for each)."""
    began, used_s = time.monotonic(), broker.cpu_s()
    storm = Storm(broker.address, "topic-0", first_offset)
    took_s = time.monotonic() - began
    assert not storm.failures, storm.failures[:3]
    return storm.commits / took_s, (broker.cpu_s() - used_s) / storm.commits * 1e6


if __name__ == "__main__":
    main()
