"""What metrics tell of rebalances: counted from the groups' events, group by group and for all together.

An event costs a few additions, and comes a few times in a rebalance: nothing here is on the way of a heartbeat or a
commit. What is counted starts anew with the process, as counters do.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from coordinator.events import RebalanceBegan, RebalanceEnded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator.events import GroupEvent

BOUNDS_S = (0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0)
"""Ends of the buckets of rebalance phases; few, since there are three histograms a group."""
PHASES = ("join", "assign", "sync")
GROUPS_KEPT = 100_000
"""Groups that are counted apart; beyond, only together: names may come and go for ever."""


class Figures:
    """One group's, or all groups'."""

    __slots__ = ("commits_refused", "phase_counts", "phase_ms", "rebalances", "stopped_ms", "unread_ms")

    def __init__(self) -> None:
        self.rebalances: dict[str, int] = {}  # by trigger
        self.phase_counts: dict[str, list[int]] = {}  # by phase: one count a bucket, the last without an end
        self.phase_ms: dict[str, int] = {}
        self.stopped_ms = 0
        self.unread_ms = 0
        self.commits_refused: dict[str, int] = {}  # by error

    def began(self, trigger: str) -> None:
        """A rebalance began."""
        self.rebalances[trigger] = self.rebalances.get(trigger, 0) + 1

    def phase(self, phase: str, took_ms: int) -> None:
        """A phase of a rebalance is over."""
        counts = self.phase_counts.get(phase)
        if counts is None:
            counts = self.phase_counts[phase] = [0] * (len(BOUNDS_S) + 1)
        counts[bisect_left(BOUNDS_S, took_ms / 1_000)] += 1
        self.phase_ms[phase] = self.phase_ms.get(phase, 0) + took_ms

    def refused(self, error: str, count: int) -> None:
        """Commits were refused."""
        self.commits_refused[error] = self.commits_refused.get(error, 0) + count


class GroupFigures:
    """`groups` by id, and `total`. `on_event` and `on_ledger` are what others call."""

    def __init__(self) -> None:
        self.total = Figures()
        self.groups: dict[str, Figures] = {}

    def on_event(self, event: GroupEvent) -> None:
        """Something happened in a group."""
        what = event.what
        if isinstance(what, RebalanceBegan):
            for figures in self._both(event.group_id):
                figures.began(what.cause.trigger)
        elif isinstance(what, RebalanceEnded):
            for figures in self._both(event.group_id):
                for phase, took_ms in zip(PHASES, (what.join_ms, what.assign_ms, what.sync_ms), strict=True):
                    if took_ms is not None:
                        figures.phase(phase, took_ms)

    def on_ledger(self, record: Mapping[str, Any]) -> None:
        """The ledger has a record: it knows what no single event says."""
        kind = record["kind"]
        if kind == "rebalance_ended":
            stopped_ms = record.get("stopped_ms")
            if stopped_ms:
                for figures in self._both(record["group_id"]):
                    figures.stopped_ms += stopped_ms
        elif kind == "partitions_read":
            for figures in self._both(record["group_id"]):
                figures.unread_ms += record["unread_ms"]
        elif kind == "commits_refused":
            for figures in self._both(record["group_id"]):
                figures.refused(record["error"], record["count"])
        elif kind == "group_removed":
            self.groups.pop(record["group_id"], None)

    def _both(self, group_id: str) -> tuple[Figures, ...]:
        figures = self.groups.get(group_id)
        if figures is None:
            if len(self.groups) >= GROUPS_KEPT:
                return (self.total,)
            figures = self.groups[group_id] = Figures()
        return self.total, figures
