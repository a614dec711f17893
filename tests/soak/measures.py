"""What a soak watches in the broker's process, and what it calls growth."""

import re
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from tests.soak.anatomy import Anatomy
from tests.support.broker_process import Kohort, status_bytes

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Measure:
    """The process at the end of a round, when nobody asks for anything."""

    memory_bytes: int
    """Resident."""
    used_bytes: int
    """Of it, what allocators have given out and not got back."""
    hole_bytes: int
    """And what they have, and have not given out; a part of it may have gone back to the system."""
    descriptors: int
    threads: int
    """But for those that wait for work to do, of which there is a fixed number, and each comes when all others work."""
    folders: int
    """Of the log directory: the one thing here that outlives the process."""
    pid: int = 0

    def __str__(self) -> str:
        measured = (self.memory_bytes, self.used_bytes, self.hole_bytes, self.other_bytes)
        memory, used, holes, other = (of / MEGABYTE for of in measured)
        return (
            f"{memory:.0f} MB, {used:.1f} in use, {holes:.0f} of holes, {other:.0f} of other things, "
            f"{self.descriptors} descriptors, {self.threads} threads, {self.folders} folders"
        )

    @property
    def other_bytes(self) -> int:
        """What else is resident, at least: pages of files, code, stacks, whatever is mapped past the allocators."""
        return self.memory_bytes - self.used_bytes - self.hole_bytes


@dataclass(frozen=True)
class Allowed:
    """How much more of something there may be."""

    slack: int | None
    """Beyond the most of the first tenth: what comes and goes with what clients happen to ask. None: it may."""
    creep: int
    """From the first quarter's least to the last quarter's. What comes and goes is gone in the least."""


OF_A_PROCESS = {
    # It rises, less and less, with the largest requests that happen to be answered at once: they leave holes, within
    # `kohort.memory.max.bytes` (docs/decisions/request-memory.md).
    "memory_bytes": Allowed(None, 192 * MEGABYTE),
    # A leak of small objects fills the holes that large requests leave, for hours, before the process grows.
    # The newest batches of all logs may take 8 MB, and have them after some rounds.
    "used_bytes": Allowed(24 * MEGABYTE, 8 * MEGABYTE),
    "other_bytes": Allowed(24 * MEGABYTE, 8 * MEGABYTE),
    "descriptors": Allowed(64, 8),
    "threads": Allowed(2, 1),
}
OF_THE_DISK = {"folders": Allowed(0, 0)}
WORKERS = 9
"""Eight of the loop's, and the one that speaks with the cleaner (`broker.loop.loop_runtime`)."""
WARM_ROUNDS = 3
"""A process's first rounds are warming up, however few there are."""
QUARTERS_FROM = 12
"""Rounds after the warm ones: three in a quarter."""


def measure(broker: Kohort, found: Anatomy) -> Measure:
    """As it is now, and as it has said itself."""
    process = Path(f"/proc/{broker.pid}")
    return Measure(
        found.anonymous + found.file,
        found.used_bytes,
        found.hole_bytes,
        len(list((process / "fd").iterdir())),
        len(list((process / "task").iterdir())) - min(found.workers, WORKERS),
        sum(path.is_dir() for path in broker.data.iterdir()),
        broker.pid,
    )


def stalls(broker: Kohort) -> dict[str, float]:
    """The longest stall of its loop in ms by API, since its start."""
    return {name: seconds * 1_000 for name, seconds in _by_api(broker, "kohort_loop_longest_stall_seconds").items()}


def unanswered(broker: Kohort) -> dict[str, int]:
    """How many requests of each API are without an answer."""
    return {name: int(count) for name, count in _by_api(broker, "kohort_requests_in_flight").items() if count}


def _by_api(broker: Kohort, metric: str) -> dict[str, float]:
    text = urllib.request.urlopen(f"{broker.http}/metrics", timeout=60).read().decode()
    return {name: float(value) for name, value in re.findall(rf'^{metric}{{api="(.*?)"}} (\S+)', text, re.MULTILINE)}


def peak_bytes(broker: Kohort) -> int:
    """The most that its process has had at any moment, but for pages of files, which are not its own to give back."""
    return status_bytes(broker.pid, "VmHWM") - status_bytes(broker.pid, "RssFile")


def lives(measures: Sequence[Measure]) -> list[list[Measure]]:
    """The measures of one process after the other."""
    return [list(life) for _, life in groupby(measures, key=lambda one: one.pid)]


def grown(measures: Sequence[Measure]) -> list[str]:
    """What has grown: within one process, from process to process, or on the disk.

    A process that is new has the memory of one that is new: only what it has after its own first tenth is compared with
    what it had in it. What a start reads from the disk is compared among the first measures of all processes.
    """
    processes = lives(measures)
    told = []
    for number, life in enumerate(processes, 1):
        where = f"in process {number} of {len(processes)}, after {len(life)} rounds"
        told += [f"{one}, {where}" for one in _grown(life, OF_A_PROCESS)]
    told += [f"{one}, from start to start" for one in _grown([life[0] for life in processes], OF_A_PROCESS)]
    return told + _grown(measures, OF_THE_DISK)


def _grown(measures: Sequence[Measure], watched: dict[str, Allowed]) -> list[str]:
    first = max(WARM_ROUNDS, len(measures) // 10)
    told = []
    for name, allowed in watched.items():
        values = [int(getattr(one, name)) for one in measures]
        warm, after = values[:first], values[first:]
        if not after:
            continue
        limit = None if allowed.slack is None else max(warm) + allowed.slack
        if limit is not None and max(after) > limit:
            told.append(f"{name} has grown to {max(after)}: {limit} is what it may be")
        elif (creep := _creep(after)) > allowed.creep:
            told.append(f"{name} grows on, by {creep} so far, {allowed.creep} is what it may")
    return told


def _creep(values: Sequence[int]) -> int:
    """By how much the least of each quarter rises to the last, if it goes on; 0 where it falls, or has slowed down.

    A heap that fills its holes rises too, less and less. What is never given back rises as fast in the end as before.
    """
    if len(values) < QUARTERS_FROM:
        return 0
    quarter = len(values) // 4
    least = [min(values[len(values) - (4 - at) * quarter :][:quarter]) for at in range(4)]
    rises = [after - before for before, after in pairwise(least)]
    goes_on = min(rises) > 0 and 2 * rises[-1] >= rises[0]
    return sum(rises) if goes_on else 0
