"""How long does the worst request of each API hold the loop? In CPU time of its thread: others at work do not count.

Four connections send each request at once, twice. The figure is the longest turn of the loop meanwhile that was put
down to somebody (`broker/loop/stalls.py`), and whom: turns of less than 2 ms are 0.
"""

import re
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common import Row, arguments, machine, show
from benchmarks.worst import frames_of, furnish, worst
from tests.support.broker_process import Kohort
from tests.support.wire import Wire

LIMIT_MS = 50
CONNECTIONS = 4
ROUNDS = 2
_PATIENCE_S = 300  # four times a request of 888 bytes that looks into 50 batches takes some 50 s of CPU, in a thread
SETTINGS = {
    "num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class OnItsOwnClock(Kohort):
    """A broker whose loop measures by its thread's CPU time."""

    def command(self) -> list[str]:
        words = super().command()
        words[words.index("kohort")] = "benchmarks.loop_clock"
        return words


def stalls(broker: Kohort) -> dict[str, float]:
    """The longest stall in ms by API or task, since the start."""
    text = urllib.request.urlopen(f"{broker.http}/metrics").read().decode()
    found = re.findall(r'^kohort_loop_longest_stall_seconds\{api="(.*?)"\} (\S+)', text, re.MULTILINE)
    return {name: float(seconds) * 1_000 for name, seconds in found}


def held_ms(broker: Kohort, api: str) -> tuple[float, str]:
    """The longest turn while the worst requests of an API were answered, and to whom it was put down.

    A name that had a longer turn before says nothing.
    """
    before = stalls(broker)
    data = frames_of(api)
    count = _frames_in(data)
    wires = [Wire(broker.address, timeout_s=_PATIENCE_S) for _ in range(CONNECTIONS)]
    try:
        for _ in range(ROUNDS):
            for wire in wires:
                wire.socket.sendall(data)
            for wire in wires:
                for _ in range(count):
                    wire.receive_frame()
    finally:
        for wire in wires:
            wire.close()
    worse = {name: ms for name, ms in stalls(broker).items() if ms > before.get(name, 0)}
    name = max(worse, key=lambda one: worse[one], default="")
    return worse.get(name, 0.0), name


def _frames_in(data: bytes) -> int:
    count = position = 0
    while position < len(data):
        position += 4 + int.from_bytes(data[position : position + 4], "big")
        count += 1
    return count


def measured(apis: list[str]) -> Iterator[tuple[str, float, str]]:
    """Each API, how long it held the loop in ms, and under which name."""
    with (
        tempfile.TemporaryDirectory(prefix="kohort-bench-") as folder,
        OnItsOwnClock(Path(folder), SETTINGS) as broker,
    ):
        furnish(broker)
        for api in apis:
            yield api, *held_ms(broker, api)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--api", action="append", help="only this API's worst client; may be repeated")
    options = parser.parse_args()
    rows = []
    for api, ms, name in measured(options.api or list(worst())):
        print(f"{api}: {ms:.1f} ms {name}", file=sys.stderr, flush=True)
        rows.append(Row(api, "ms", f"<= {LIMIT_MS}", {"kohort": ms}, {"kohort": name}))
    print(f"\n{machine()}; the longest turn, in CPU time\n")
    show(rows, options)


if __name__ == "__main__":
    main()
