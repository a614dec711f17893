"""How long does a broker take from start to ready, and how much memory has it when nobody is there?"""

import time

from benchmarks.common import Row, arguments, brokers, machine, median, show


def main() -> None:
    """Measure and print. The directory is formatted by a first start, which does not count."""
    options = arguments(__doc__).parse_args()
    start = Row("start to ready", "ms", "<= 350")
    memory = Row("idle memory", "MB", "<= 60")
    with brokers(options) as running:
        for broker in running:
            times = []
            for _ in range(options.rounds):
                broker.restart()
                times.append(broker.start_ms)
            start.figures[broker.name] = median(times)
            time.sleep(1)  # what start-up still does in the background is over
            memory.figures[broker.name] = broker.memory_bytes() / 1e6
    print(f"\n{machine()}; median of {options.rounds}\n")
    show([start, memory], options)


if __name__ == "__main__":
    main()
