"""What everything that never awaits is given: time, deferred calls and work elsewhere (D6).

Objects get a `Runtime` and hand it callbacks. Here is what they may ask; `broker.loop.loop_runtime` is the real one,
and tests and the simulation have another, which runs the same broker in virtual time.

A turn of the loop: every readable socket is read and its requests handled; then, in one go, everything that was asked
for with `soon`, and last what was asked for with `last` (the writes: one per connection and turn).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from broker.loop.busy_polling import BusyPolling
    from broker.loop.long_turns import LongTurns
    from broker.loop.slices import Slices, Steps
    from broker.loop.stalls import Stalls
    from broker.loop.timers import Timers

T = TypeVar("T")


class Runtime(ABC):
    """Time, deferred calls and work elsewhere, for objects that never await."""

    timers: Timers
    slices: Slices
    stalls: Stalls
    long_turns: LongTurns
    busy_polling: BusyPolling
    clock_ns: Callable[[], int]
    """What work takes is measured by: it only goes forward, and says nothing of the time of day."""
    soon: Callable[[Callable[[], None]], None]
    """Call back at the end of this loop turn, after the requests that were read in it. See `broker.loop.turn_end`."""
    last: Callable[[Callable[[], None]], None]
    """Call back after all that `soon` was asked for in this turn, what that asked for included."""

    def in_slices(
        self,
        steps: Steps[T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        *,
        owner: Hashable = None,
        wanted: Callable[[], bool] | None = None,
        at_once: bool = True,
    ) -> None:
        """Take `steps`, a little in each turn; then `done(what they return)` or `failed(what they raise)`.

        The first of them are taken at once, unless it is said otherwise, and `done` may be called before this returns.
        Works of one `owner` follow each other, and owners take turns. Once `wanted()` is false the work is dropped, and
        nobody is called. See `broker.loop.slices`.
        """
        self.slices.take(steps, done, failed, owner=owner, wanted=wanted, at_once=at_once)

    def short_of_descriptors(self) -> bool:
        """Whether nothing more should be opened for now but by the log."""
        return False

    def held_ms_since(self, ago_ms: int) -> int:
        """How long somebody has held the loop up since so long ago, in stalls that are counted."""
        return self.stalls.held_ns(self.stalls.clock_ns() - ago_ms * 1_000_000) // 1_000_000

    @abstractmethod
    def now_ms(self) -> int:
        """Milliseconds since 1970 of a clock that never jumps and never goes back."""

    @property
    def clock_ms(self) -> Callable[[], int]:
        """`now_ms`, to be kept by who asks it for every request."""
        return self.now_ms

    @abstractmethod
    def next_turn(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the next loop turn: others get their share of this one."""

    @abstractmethod
    def in_thread(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Run `work` in a worker thread; then `done(result)` or `failed(exception)` on the event loop.

        Works may run side by side and finish in any order: who needs an order hands over one at a time.
        """

    @abstractmethod
    def in_process(
        self,
        work: Callable[..., T],
        arguments: tuple[Any, ...],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Run `work(*arguments)` in another process; then `done(result)` or `failed(exception)` on the event loop.

        `work` is a function of a module, and arguments and result can be pickled. One runs at a time.
        """
