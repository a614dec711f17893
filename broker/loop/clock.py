"""The broker's clock: milliseconds since 1970 that never jump and never go back (docs/decisions/clock.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.loop.timers import Timers

_STEP_NS = 1_000_000_000


class Clock:
    """The wall clock as it was at the start, carried on by the monotonic one."""

    __slots__ = ("_anchor_ns", "_floor_ms", "_monotonic_ns", "_time_ns", "_timers")

    def __init__(self, timers: Timers, time_ns: Callable[[], int], monotonic_ns: Callable[[], int]) -> None:
        """`timers` keep to the monotonic clock: they are told by how much this one is ahead of it."""
        self._timers = timers
        self._time_ns = time_ns
        self._monotonic_ns = monotonic_ns
        self._anchor_ns = time_ns() - monotonic_ns()
        self._floor_ms = 0
        timers.offset_ms = self._anchor_ns // 1_000_000

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        mono_ns = self._monotonic_ns()
        now_ms = (self._anchor_ns + mono_ns) // 1_000_000
        if now_ms > self._floor_ms:
            return now_ms
        self._timers.offset_ms = self._floor_ms - mono_ns // 1_000_000  # it stands still, and timers go on
        return self._floor_ms

    def follow(self, every_ms: int) -> int:
        """Take over a step of the wall clock of more than a second, and return it, in ns, or 0. Called `every_ms`.

        Forwards at once. Backwards by at most half of what passed since the last look, during which `now_ms` stands
        still: it never falls.
        """
        step_ns = self._time_ns() - self._monotonic_ns() - self._anchor_ns
        if abs(step_ns) <= _STEP_NS:
            if self.now_ms() > self._floor_ms:
                self._timers.offset_ms = self._anchor_ns // 1_000_000
            return 0
        self._floor_ms = self.now_ms()
        self._anchor_ns += max(step_ns, -every_ms * 1_000_000 // 2)
        self._timers.offset_ms = self._anchor_ns // 1_000_000
        return step_ns
