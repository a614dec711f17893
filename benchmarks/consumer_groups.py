"""How long do 1,000 and 10,000 members of the consumer protocol (KIP-848) take to join one group, settle, and lose one?

They heartbeat at once until they are where the group is (benchmarks/members, in Go), so that the brokers are measured
and not an interval; targets are computed at most once a second, as is the default of both. The longest that one
heartbeat took is among the figures. Needs Go.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.common import HERE, Row, arguments, brokers, create_topic, machine, show
from tests.support.golang import program

QUESTIONS = {"join": "{} members have joined", "settle": "and are settled", "lose": "and are again, when one has left"}

# Nobody expires, however long a machine with other work takes.
SETTINGS = {
    "group.consumer.max.size": 100_000,
    "group.consumer.max.session.timeout.ms": 600_000,
    "group.consumer.session.timeout.ms": 600_000,
}


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--members", type=int, nargs="*", default=[1_000, 10_000])
    parser.add_argument("--partitions", type=int, default=1_000)
    options = parser.parse_args()
    rows = []
    with brokers(options, **SETTINGS) as running:
        for broker in running:
            create_topic(broker, "bench", options.partitions)
        for members in options.members:
            counted: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in running}
            for turn in range(options.rounds + 1):
                for broker in running:
                    used_s = broker.cpu_s()
                    words = (broker.address, "bench", f"group-{members}-{turn}", members)
                    ended = subprocess.run(
                        [str(program(HERE / "members")), *map(str, words)], capture_output=True, text=True, check=False
                    )
                    if ended.returncode:
                        sys.exit(f"{broker.name}, {members} members: {ended.stderr}")
                    if turn:  # the first warms up
                        told = json.loads(ended.stdout)
                        counted[broker.name].append({**told, "cpu_s": broker.cpu_s() - used_s})
            for key, question in QUESTIONS.items():
                time_row = Row(question.format(f"{members:,}"), "s", "< Kafka")
                longest_row = Row("the longest heartbeat of it", "ms")
                for name, answers in counted.items():
                    time_row.take(name, [answer[f"{key}_s"] for answer in answers])
                    longest_row.take(name, [answer[f"{key}_longest_ms"] for answer in answers])
                rows += [time_row, longest_row]
            cpu_row = Row("the broker's CPU for all of it", "s")
            for name, answers in counted.items():
                cpu_row.take(name, [answer["cpu_s"] for answer in answers])
            rows.append(cpu_row)
    print(f"\n{machine()}; {options.partitions:,} partitions, median of {options.rounds}\n")
    show(rows, options)


if __name__ == "__main__":
    main()
