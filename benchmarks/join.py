"""How long do 1,000 members take to be in one generation of one group, each on a connection of its own?"""

from benchmarks.common import Row, arguments, brokers, create_topic, load, machine, show

BUDGETS = {1_000: "<= 0.06", 10_000: "<= 1.5"}
GROUPS_OF_ANY_SIZE = {"message.max.bytes": 16 * 1024 * 1024}
"""A group is one record, of about 200 bytes for each member: no broker keeps one of 10,000 in the default 1 MiB."""


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--members", type=int, default=1000)
    options = parser.parse_args()
    budget = BUDGETS.get(options.members, "")
    row = Row(f"{options.members:,} members join one group", "s", budget)
    cpu = Row("each of them, until all are stable", "us CPU")
    with brokers(options, ("kohort", "kafka", "kfake"), **GROUPS_OF_ANY_SIZE) as running:
        for broker in running:
            create_topic(broker, "bench", 1)
            load(broker, "join", conns=options.members)  # warms it up
            answers = [load(broker, "join", conns=options.members, pid=broker.pid) for _ in range(options.rounds)]
            row.take(broker.name, [answer["seconds"] for answer in answers])
            cpu.take(broker.name, [answer["cpu_s"] * 1e6 / options.members for answer in answers])
    print(f"\n{machine()}; median of {options.rounds}\n")
    show([row, cpu], options)


if __name__ == "__main__":
    main()
