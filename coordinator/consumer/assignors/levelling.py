"""The least and the most loaded of a topic's subscribers, one after the other, as partitions are given and taken.

From below, everybody on the lowest level is given one partition, then the level rises and takes in who stands on it;
from above, everybody on the highest level gives one, then the level sinks. The loads change meanwhile, through the
caller. Who comes when is Kafka's to the letter, since the result hangs on it.

Source: Kafka's UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer.
"""

from __future__ import annotations

from collections.abc import Sequence


class Levels:
    """The subscribers of one topic, by load. `loads` is the caller's and changes between calls."""

    __slots__ = ("_above", "_below", "_bottom_end", "_loads", "_members", "_top_end", "_top_start", "high", "low")

    def __init__(self, subscribers: Sequence[int], loads: list[int]) -> None:
        """`subscribers` are ascending, so that of two equal loads the lower index comes first."""
        self._loads = loads
        self._members = members = sorted(subscribers, key=loads.__getitem__)
        self.low = loads[members[0]] - 1  # the lower level; nobody stands on it yet
        self.high = loads[members[-1]] + 1
        self._bottom_end = 0  # members[:_bottom_end] are on the lower level
        self._below = 0  # who is given the next one
        self._top_start = self._top_end = len(members)  # members[_top_start:_top_end] are on the upper level
        self._above = len(members) - 1  # who gives the next one

    def are_level(self) -> bool:
        """Whether another move would improve nothing."""
        return self.high - self.low <= 1

    def next_least(self) -> int:
        """Who is to be given the next partition."""
        if self._below >= self._bottom_end:
            self.low += 1
            members, loads, end = self._members, self._loads, self._bottom_end
            while end < len(members) and loads[members[end]] == self.low:
                end += 1
            self._bottom_end, self._below = end, 0
        member = self._members[self._below]
        self._below += 1
        return member

    def next_most(self) -> int | None:
        """Who is to give the next partition; None when nobody is left that could."""
        members, start = self._members, self._top_start
        if self._above < start:
            if self._top_end <= start and start > 0:
                # All on this level were set aside: go straight down to the next that anybody stands on.
                self.high = self._loads[members[start - 1]]
            else:
                self.high -= 1
            while start > 0 and self._loads[members[start - 1]] == self.high:
                start -= 1
            self._top_start, self._above = start, self._top_end - 1
        if self._above < 0:
            return None
        member = members[self._above]
        self._above -= 1
        return member

    def set_aside(self) -> None:
        """The last of `next_most` has nothing to give: it is not asked again."""
        members, at, last = self._members, self._above + 1, self._top_end - 1
        members[at], members[last] = members[last], members[at]
        self._top_end = last
