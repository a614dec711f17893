"""A `Runtime` without an event loop: the clock moves when told to, and turns end when told to."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from broker.loop.busy_polling import BusyPolling
from broker.loop.long_turns import LongTurns
from broker.loop.runtime import Runtime
from broker.loop.slices import Slices
from broker.loop.stalls import Stalls
from broker.loop.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class VirtualRuntime(Runtime):
    """Virtual time, manual turns.

    `turn()` ends the loop turn: runs what `soon` and `last` were asked for. `advance(ms)` moves the clock, stopping at
    each deadline on the way, with a turn after each. Work for threads and processes is queued in `works`, and runs in
    `run_work()` (the oldest one) or, with `eager_workers` (the default), at the end of the turn.

    What is done in slices takes no time, and so is done at once, unless `step_ns` says what each step takes. The turns
    that it asks for follow each other in one `turn()`, or with `eager_turns` false one by one: others come in between.
    """

    def __init__(
        self, now_ms: int = 1_700_000_000_000, *, eager_workers: bool = True, eager_turns: bool = True
    ) -> None:
        self._now_ms = now_ms
        self.timers = Timers()
        self.works: deque[Callable[[], None]] = deque()
        self._eager_workers = eager_workers
        self._rounds = 10_000 if eager_turns else 1
        self.step_ns = 0
        self._worked_ns = 0
        self.clock_ns = self._work_clock_ns
        self.stalls = Stalls(self._work_clock_ns, self.next_turn, lambda: self._worked_ns)
        self.slices = Slices(self, self._work_clock_ns)
        self.long_turns = LongTurns(self.next_turn, self._work_clock_ns)
        self.busy_polling = BusyPolling(self.next_turn, self._work_clock_ns, int)
        self._soon: list[Callable[[], None]] = []
        self._last: list[Callable[[], None]] = []
        self._next: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def _work_clock_ns(self) -> int:
        self._worked_ns += self.step_ns
        return self._worked_ns

    def soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def last(self, callback: Callable[[], None]) -> None:
        self._last.append(callback)

    def next_turn(self, callback: Callable[[], None]) -> None:
        self._next.append(callback)

    def in_thread(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        self.works.append(lambda: _run(work, (), done, failed))

    def in_process(
        self,
        work: Callable[..., T],
        arguments: tuple[Any, ...],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.works.append(lambda: _run(work, arguments, done, failed))

    def run_work(self) -> None:
        """Run the oldest work that is queued, its completion included, and end the turn."""
        self.works.popleft()()
        self._drain()

    def run_works(self) -> None:
        """Run all work that is queued, and what comes of it, the oldest first."""
        while self.works:
            self.run_work()

    @property
    def idle(self) -> bool:
        """Whether a turn would do nothing, work for threads and processes aside."""
        return not (self._soon or self._last or self._next)

    def turn(self) -> None:
        """End this turn and those that were asked for; with eager workers their work and its results too."""
        for _ in range(self._rounds):
            self.step()
            if not self._next and not (self._eager_workers and self.works):
                break

    def step(self) -> None:
        """End this turn and no other one; with eager workers the oldest work is done after it."""
        self._drain()
        if self._next:
            callbacks, self._next = self._next, []
            for callback in callbacks:
                callback()
            self._drain()
        if self._eager_workers and self.works:
            self.run_work()

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass; timers run at their own moments."""
        end_ms = self._now_ms + ms
        if self._soon or self._last or self._next or self.works:  # else a turn does nothing, and most are such
            self.turn()
        while True:
            next_ms = self.timers.next_deadline_ms()
            if next_ms is None or next_ms > end_ms:
                break
            self._now_ms = max(self._now_ms, next_ms)
            self.timers.run_due(self._now_ms)
            self.turn()
        self._now_ms = end_ms

    def _drain(self) -> None:
        if not self._soon and not self._last:
            return
        for _ in range(1_000):
            if self._soon:
                callbacks, self._soon = self._soon, []
            elif self._last:
                callbacks, self._last = self._last, []
            else:
                return
            for callback in callbacks:
                callback()
        raise AssertionError("a turn that does not end: callbacks keep asking for more")


def _run(
    work: Callable[..., T],
    arguments: tuple[Any, ...],
    done: Callable[[T], None],
    failed: Callable[[Exception], None],
) -> None:
    try:
        result = work(*arguments)
    except Exception as error:
        failed(error)
    else:
        done(result)
