"""The end of a turn: what was asked for meanwhile is done, in one go, and last what was asked to be done last.

Usual turns pay for one look at the clock for each of them, to say who held the others up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from broker.loop.stalls import NOTED_NS, Stalls, client_of, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

log = get_logger(__name__)

# Callbacks of `soon` may ask for more; after so many rounds the rest waits for the next turn, so that sockets are read.
_MAX_ROUNDS = 64


class TurnEnd:
    """Of the turns of one loop. `call_soon` calls back behind what is read in this one."""

    __slots__ = ("_call_soon", "_clock_ns", "_last", "_scheduled", "_soon", "_stalls")

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], stalls: Stalls, clock_ns: Callable[[], int]
    ) -> None:
        self._call_soon = call_soon
        self._stalls = stalls
        self._clock_ns = clock_ns
        self._soon: list[Callable[[], None]] = []
        self._last: list[Callable[[], None]] = []
        self._scheduled = False

    def soon(self, callback: Callable[[], None]) -> None:
        """At the end of this turn."""
        self._soon.append(callback)
        if not self._scheduled:
            self._schedule()

    def last(self, callback: Callable[[], None]) -> None:
        """At the very end of this turn."""
        self._last.append(callback)
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self._call_soon(self._run)

    def _run(self) -> None:
        clock_ns = self._clock_ns
        began_ns = clock_ns()
        for _ in range(_MAX_ROUNDS):
            if self._soon:
                callbacks, self._soon = self._soon, []
            elif self._last:
                callbacks, self._last = self._last, []
            else:
                break
            for callback in callbacks:
                try:
                    callback()
                except Exception:
                    # A bug of one caller; the others' callbacks (answers, flushes) must run all the same.
                    log.exception("callback_failed", callback=repr(callback))
                ended_ns = clock_ns()
                if ended_ns - began_ns > NOTED_NS:
                    self._stalls.note(name_of(callback), client_of(callback), ended_ns - began_ns)
                began_ns = ended_ns
        self._scheduled = False
        if self._soon or self._last:
            self._schedule()
