"""What a soak watches in the broker's process, and what must not grow."""

import re
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.support.broker_process import Kohort

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Measure:
    """The process at the end of a round, when nobody but hostile clients asks for anything."""

    memory_bytes: int
    descriptors: int
    threads: int
    folders: int

    def __str__(self) -> str:
        return (
            f"{self.memory_bytes / MEGABYTE:.0f} MB, {self.descriptors} descriptors, {self.threads} threads, "
            f"{self.folders} folders"
        )


def measure(broker: Kohort) -> Measure:
    """As it is now."""
    process = Path(f"/proc/{broker.pid}")
    return Measure(
        broker.memory_bytes(),
        len(list((process / "fd").iterdir())),
        len(list((process / "task").iterdir())),
        sum(path.is_dir() for path in broker.data.iterdir()),
    )


def stalls(broker: Kohort) -> dict[str, float]:
    """The longest stall of its loop in ms by API, since its start."""
    text = urllib.request.urlopen(f"{broker.http}/metrics", timeout=60).read().decode()
    found = re.findall(r'^kohort_loop_longest_stall_seconds\{api="(.*?)"\} (\S+)', text, re.MULTILINE)
    return {name: float(seconds) * 1_000 for name, seconds in found}


def grown(measures: list[Measure]) -> list[str]:
    """What is more than it was in the first tenth of the rounds (three at least), beyond what may come and go."""
    first = max(3, len(measures) // 10)
    before, after = measures[:first], measures[first:]
    told = []
    for name, slack, factor in (
        ("memory_bytes", 32 * MEGABYTE, 1.2),
        ("descriptors", 64, 1.0),
        ("threads", 2, 1.0),
        ("folders", 0, 1.0),
    ):
        limit = max(getattr(one, name) for one in before) * factor + slack
        worst = max((getattr(one, name) for one in after), default=0)
        if worst > limit:
            told.append(f"{name} has grown to {worst}: {limit:.0f} is what it may be")
    return told
