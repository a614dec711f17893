"""Where logs ended at many moments, asked of a broker: no record and no batch header is sent for it. No Spark in here.

ListOffsets with a time answers the first offset whose record is of that time or later: so many records were there
before it. Ends never fall, so where they are the same at two moments they need not be asked for in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.sources.access import Access
from pipeline.sources.fetch_client import EARLIEST, LATEST, NEWEST, Leader, OffsetLookup, connect, leaders

SKEW_MS = 60_000
"""So far the clocks of producers may be ahead of this one: within it, ends are told a little too low."""


class Grown(NamedTuple):
    """Records of one partition that came between two moments: as one batch, as far as anybody knows.

    Times in ms; of the records before the first moment, both times are it.
    """

    topic: str
    partition: int
    base_offset: int
    last_offset: int
    base_ms: int
    max_ms: int


@dataclass(slots=True)
class _Line:
    """What is known of one partition: its end at some of the moments, and between which others it is to be asked."""

    ends: dict[int, int]
    open: list[tuple[int, int]] = field(default_factory=list)  # indices of moments whose ends are known

    def next(self) -> int | None:
        """The moment to be asked for next, by its index; None when all is known."""
        while self.open:
            low, high = self.open[-1]
            if high - low > 1 and self.ends[low] != self.ends[high]:
                return (low + high) // 2
            self.open.pop()
        return None

    def learn(self, end: int) -> None:
        """The end at the moment that `next` gave."""
        low, high = self.open.pop()
        middle = (low + high) // 2
        # Of a log whose times run backwards, later ends count.
        self.ends[middle] = min(max(end, self.ends[low]), self.ends[high])
        self.open += [(low, middle), (middle, high)]


def growth(access: Access, topics: Iterable[str], moments_ms: Sequence[int]) -> tuple[list[Grown], set[str]]:
    """How these topics grew from moment to moment, as batches, and the topics of which this way cannot tell.

    `moments_ms` ascend, up to now at most. A record of the moment itself came before it. Not told of: topics with a
    record that is stamped in the future, behind which nothing earlier would be found. Raises: DataError.
    """
    future_ms = time.time() * 1000 + SKEW_MS
    with connect(access) as connection:
        partitions = leaders(connection, topics)
    with OffsetLookup(access, read_committed=False) as lookup:
        newest = lookup.ask(dict.fromkeys(partitions, NEWEST))
        untold = {one.topic for one, found in newest.items() if found.timestamp > future_ms}
        told = [one for one in partitions if one.topic not in untold]
        return list(_grown(told, moments_ms, lookup)), untold


def _grown(partitions: Sequence[Leader], moments_ms: Sequence[int], lookup: OffsetLookup) -> Iterable[Grown]:
    if not partitions:
        return
    last = len(moments_ms) - 1
    latest = lookup.ask(dict.fromkeys(partitions, LATEST))

    def ends(wanted: Mapping[Leader, int]) -> dict[Leader, int]:
        """The end of each at a moment, which is given by its index."""
        found = lookup.ask({one: moments_ms[at] + 1 for one, at in wanted.items()})
        return {one: latest[one].offset if at.offset < 0 else at.offset for one, at in found.items()}

    starts = lookup.ask(dict.fromkeys(partitions, EARLIEST))
    oldest = lookup.ask(dict.fromkeys(partitions, 0))
    first, final = (ends(dict.fromkeys(partitions, at)) for at in (0, last))
    lines = {one: _Line({0: first[one], last: max(final[one], first[one])}, [(0, last)]) for one in partitions}
    while wanted := {one: at for one, line in lines.items() if (at := line.next()) is not None}:
        for one, end in ends(wanted).items():
            lines[one].learn(end)
    for one, line in lines.items():
        before, since = starts[one].offset, min(max(oldest[one].timestamp, 0), moments_ms[0])
        for at in sorted(line.ends):
            if line.ends[at] > before:
                yield Grown(one.topic, one.partition, before, line.ends[at] - 1, since, moments_ms[at])
                before = line.ends[at]
            since = moments_ms[at]
