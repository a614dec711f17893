"""How does the cost of a request grow: over connections, members, groups, partitions and sizes? Curves, as an SVG.

CPU of the broker per request, the median of a few short counts, one point after the other, forth and back, so that a
machine that becomes busier bends no line. `make bench-curves` writes docs/curves.svg and prints the points as tables.
"""

import argparse
import socket
import statistics
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.common import SETTINGS, arguments, brokers, create_topic, kload, load, machine
from benchmarks.plots import Panel, svg
from benchmarks.requests import topic_for
from protocol.frames import encode_request
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.broker_process import BrokerProcess

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "curves.svg"
CONNECTIONS = (1, 4, 16, 64, 256, 1_000)
JOINING = (10, 30, 100, 300, 1_000)
PARTITIONS = (1, 4, 16, 64, 256)
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
GROUPS = (100, 1_000, 10_000, 30_000)
_AT_ONCE = 200
_TOPIC = "bench-curves"

Measure = Callable[[float], float]


def main() -> None:
    """Measure, write the picture, print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="how long one count takes (0.5)")
    parser.add_argument("--out", type=Path, default=PICTURE, help="where the picture goes (docs/curves.svg)")
    options = parser.parse_args()
    kload()
    begun = machine()
    panels: list[Panel] = []
    with brokers(options, ("kohort",), **SETTINGS) as (broker,):
        create_topic(broker, _TOPIC, 256)
        panels.append(_connections(broker, options))
        panels.append(_partitions(broker, options))
        panels.append(_sizes(broker, options))
        panels.append(_joining(broker, options))
        panels.append(_groups(broker, options))
    options.out.write_text(svg(panels))
    print(f"\n{begun}; {options.seconds:g} s a count, median of {options.rounds}\n")
    for panel in panels:
        _print(panel)


def _counted(broker: BrokerProcess, options: argparse.Namespace, mode: str, **more: object) -> float:
    """Broker CPU a request, us."""
    words = {"topic": _TOPIC, "partitions": 1, **more}
    return float(load(broker, mode, pid=broker.pid, seconds=options.seconds, wait=0.2, **words)["cpu_us"])


def _line(options: argparse.Namespace, places: Sequence[int], measure: Measure) -> list[tuple[float, float]]:
    found: dict[int, list[float]] = {place: [] for place in places}
    for turn in range(options.rounds):
        for place in places if turn % 2 == 0 else places[::-1]:
            found[place].append(measure(place))
    return [(place, statistics.median(figures)) for place, figures in found.items()]


def _connections(broker: BrokerProcess, options: argparse.Namespace) -> Panel:
    def of(**more: object) -> list[tuple[float, float]]:
        return _line(options, CONNECTIONS, lambda count: _counted(broker, options, "heartbeat", conns=count, **more))

    lines = {"a group each": of(), "all members of one group": of(groups=1)}
    return Panel("Heartbeats, one in flight on each connection", "connections", "us of CPU", lines)


def _partitions(broker: BrokerProcess, options: argparse.Namespace) -> Panel:
    def measure(count: float) -> float:
        return _counted(broker, options, "commit", conns=16, partitions=int(count))

    return Panel("Commits 16 x 1", "partitions a request", "us of CPU", {"commit": _line(options, PARTITIONS, measure)})


def _sizes(broker: BrokerProcess, options: argparse.Namespace) -> Panel:
    # A batch holds at most 1,048,588 bytes.
    written, read = topic_for(broker, "produce", 0), topic_for(broker, "fetch", 0)

    def of(mode: str, topic: str) -> list[tuple[float, float]]:
        return _line(
            options,
            SIZES,
            lambda size: _counted(broker, options, mode, conns=4, partitions=4, topic=topic, bytes=int(size)),
        )

    lines = {"produce": of("produce", written), "fetch (whole batches of 95 KB)": of("fetch", read)}
    return Panel("Produce and fetch 4 x 1", "bytes a request", "us of CPU", lines)


def _joining(broker: BrokerProcess, options: argparse.Namespace) -> Panel:
    def measure(count: float) -> float:
        return float(load(broker, "join", conns=int(count))["seconds"]) * 1_000 / count

    line = _line(options, JOINING, measure)
    return Panel("All join one group at once", "members", "ms for each member", {"join": line})


def _groups(broker: BrokerProcess, options: argparse.Namespace) -> Panel:
    """Last, since the groups stay."""
    heartbeats, commits, there = [], [], 0
    for count in GROUPS:
        _commit_for(broker, range(there, count))
        there = count
        for mode, line in (("heartbeat", heartbeats), ("commit", commits)):
            figures = [_counted(broker, options, mode, conns=16) for _ in range(options.rounds)]
            line.append((float(count), statistics.median(figures)))
    lines = {"heartbeat": heartbeats, "commit": commits}
    return Panel("16 x 1, while other groups have offsets", "groups that are there", "us of CPU", lines)


def _commit_for(broker: BrokerProcess, numbers: range) -> None:
    """A commit for each of so many groups without members."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    host, _, port = broker.address.rpartition(":")
    with socket.create_connection((host, int(port))) as wire, wire.makefile("rb") as answers:
        for first in range(numbers.start, numbers.stop, _AT_ONCE):
            names = [f"at-rest-{number}" for number in range(first, min(first + _AT_ONCE, numbers.stop))]
            for name in names:
                topic = OffsetCommitRequestTopic(name=_TOPIC, partitions=[partition])
                commit = OffsetCommitRequest(
                    group_id=name, generation_id_or_member_epoch=-1, member_id="", topics=[topic]
                )
                wire.sendall(encode_request(commit, 2, 1, "bench"))
            for _ in names:
                answer = answers.read(struct.unpack(">i", answers.read(4))[0])
                assert answer.endswith(b"\0\0"), "a commit was refused"


def _print(panel: Panel) -> None:
    places = sorted({x for line in panel.lines.values() for x, _ in line})
    print(f"**{panel.title}** ({panel.y})\n")
    print("| " + " | ".join([panel.x, *(f"{place:,.0f}" for place in places)]) + " |")
    print("|---" * (len(places) + 1) + "|")
    for name, line in panel.lines.items():
        found = dict(line)
        print("| " + " | ".join([name, *(f"{found[place]:.3g}" if place in found else "" for place in places)]) + " |")
    print()


if __name__ == "__main__":
    main()
