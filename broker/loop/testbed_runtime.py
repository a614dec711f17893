"""A runtime for testbeds: made anew for each broker of a process, with a clock that can be moved and stopped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from broker.loop.event_loop import new_event_loop
from broker.loop.logs import get_logger
from broker.loop.loop_runtime import LoopRuntime
from broker.loop.timers import Timers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Hashable

log = get_logger(__name__)

_REAL = ("testbed", "ledger", "load")  # the delays of faults, and trying again what could not be done at once
_ROUNDS = 100  # of timers that what is due has set for now


class TestbedRuntime(LoopRuntime):
    """As `LoopRuntime`, but that its clock does as a test says, and that nothing is left of it when it is closed.

    The clock moves deadlines of the broker: sessions, rebalances, transactions, retention. How long a request may wait
    on its connection is its client's time, which no test moves: those timers, whose keys are neither text nor tuples,
    keep to the real clock, and so do those of `_REAL`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._shift_ms = 0
        self._frozen_ms: int | None = None
        super().__init__(loop)

    @classmethod
    def create(cls) -> TestbedRuntime:
        """A runtime on a new uvloop."""
        return cls(new_event_loop())

    def _new_timers(self) -> Timers:
        return _ClockedTimers(self._wake_at, self._call_in)

    @property
    def clock_ms(self) -> Callable[[], int]:
        """As the test has set it."""
        return self.now_ms

    def now_ms(self) -> int:
        """As the test has set it."""
        return super().now_ms() + self._shift_ms if self._frozen_ms is None else self._frozen_ms

    def set_clock(self, shift_ms: int, frozen_ms: int | None) -> None:
        """Where the clock of the broker's last life was: before anything is opened."""
        self._shift_ms, self._frozen_ms = shift_ms, frozen_ms

    @property
    def clock(self) -> tuple[int, int | None]:
        """By how much it is ahead, and at what it stands still, if it does."""
        return self._shift_ms, self._frozen_ms

    def shift(self, by_ms: int, done: Callable[[], None]) -> None:
        """Move the clock forward; `done()` when all that is due then has happened."""
        self._shift_ms += by_ms
        if self._frozen_ms is not None:
            self._frozen_ms += by_ms

        def run() -> None:
            try:
                for _ in range(_ROUNDS):
                    if not self.timers.run_due(self.now_ms()):
                        break
            except Exception:
                log.exception("timer_failed")
            self._rearm()
            self.next_turn(lambda: self.next_turn(done))

        # What members have sent lies in their sockets, perhaps: the loop reads between one turn and the next.
        self.next_turn(lambda: self.next_turn(lambda: self._after_what_was_read(run)))

    def freeze(self) -> None:
        """Stand still: no deadline of the broker comes any nearer."""
        if self._frozen_ms is None:
            self._frozen_ms = self.now_ms()

    def unfreeze(self) -> None:
        """Go on from where it stands."""
        if self._frozen_ms is not None:
            self._shift_ms = self._frozen_ms - super().now_ms()
            self._frozen_ms = None
            self._rearm()

    def stand_still(self, ms: int) -> None:
        """Do nothing at all for so long, as a process that is stopped, swapped out or collects its garbage."""
        time.sleep(ms / 1_000)

    def close(self) -> None:
        """Nothing is called back afterwards, and the loop's descriptors are closed."""
        super().close()
        self._loop.close()

    def _rearm(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        next_ms = self.timers.next_deadline_ms()
        if next_ms is not None:
            self._wake_at(next_ms)

    def _wake_at(self, deadline_ms: int) -> None:
        if self._frozen_ms is None:
            super()._wake_at(deadline_ms)

    def _call_in(self, deadline_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(max(deadline_ms - self.now_ms(), 0) / 1_000, callback)


class _ClockedTimers(Timers):
    """Timers of the broker by its clock, and of requests by the real one."""

    __slots__ = ("_call_in", "_real")

    def __init__(
        self,
        wake_at: Callable[[int], None],
        call_in: Callable[[int, Callable[[], None]], asyncio.TimerHandle],
    ) -> None:
        super().__init__(wake_at)
        self._call_in = call_in
        self._real: dict[Hashable, asyncio.TimerHandle] = {}

    def set(self, key: Hashable, deadline_ms: int, callback: Callable[..., None], *args: Any) -> None:
        if _is_of_the_broker(key):
            super().set(key, deadline_ms, callback, *args)
            return
        self.cancel(key)

        def run() -> None:
            self._real.pop(key, None)
            callback(*args)

        self._real[key] = self._call_in(deadline_ms, run)

    def cancel(self, key: Hashable) -> None:
        if _is_of_the_broker(key):
            super().cancel(key)
            return
        handle = self._real.pop(key, None)
        if handle is not None:
            handle.cancel()


def _is_of_the_broker(key: Hashable) -> bool:
    return isinstance(key, str) or (isinstance(key, tuple) and key[0] not in _REAL)
