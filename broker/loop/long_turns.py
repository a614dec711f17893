"""Turns of the loop that would last too long: what is read late in one of them is put off to the next ones.

libuv reads up to 48 times 1,024 sockets before anything else has its turn. Of more than a thousand clients who all ask
again as soon as they are answered, those who were answered first are read again in the same turn, which then lasts for
seconds; timers, group commits and the results of threads wait for its end. So what is read after `LONG_NS` of a turn
waits, and whatever is read while something waits: nobody is answered, and soon there is nothing more to be read. What
waits is handled for `SHARE_NS` of each turn.

Always true: what waits is handled in the order in which it came, and before anything that is read later. (A connection
that goes on for another reason, a throttle that ends or an answer that is written, waits for nobody.)

Source: libuv's uv__io_poll; Kafka's Selector polls a connection again when all that were ready have been read once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

log = get_logger(__name__)

LOOK_NS = 5_000_000
"""Between two looks at how long a turn lasts: what is shorter than this is not seen."""
LONG_NS = 15_000_000
"""Of a turn, after such a look."""
SHARE_NS = 20_000_000
"""Of each turn, for what waits. With the reading of ten thousand sockets a turn takes a tenth of a second."""


class LongTurns:
    """Of one loop. `clock_ns` is any clock that only goes forward."""

    __slots__ = ("_clock_ns", "_looked_ns", "_next_turn", "_scheduled", "_under_way", "waiting")

    def __init__(self, next_turn: Callable[[Callable[[], None]], None], clock_ns: Callable[[], int]) -> None:
        self._next_turn = next_turn
        self._clock_ns = clock_ns
        self._looked_ns = 0
        self._under_way = False  # the turn in which the last look was taken
        self._scheduled = False
        self.waiting: deque[Callable[[], None]] = deque()
        """What was put off."""

    def puts_off(self, now_ns: int) -> bool:
        """Whether what has been read now must wait."""
        if self.waiting:
            return True
        took_ns = now_ns - self._looked_ns
        if self._under_way:
            return took_ns > LONG_NS
        if took_ns > LOOK_NS:
            self._looked_ns = now_ns
            self._under_way = True
            self._next_turn(self._over)
        return False

    def put_off(self, callback: Callable[[], None]) -> None:
        """Call `callback` when it is its turn: after all that waits already."""
        self.waiting.append(callback)
        if not self._scheduled:
            self._scheduled = True
            self._next_turn(self._go_on)

    def _over(self) -> None:
        self._under_way = False

    def _go_on(self) -> None:
        """A share of those who wait."""
        waiting, clock_ns = self.waiting, self._clock_ns
        end_ns = clock_ns() + SHARE_NS
        try:
            while waiting:
                try:
                    waiting[0]()
                except Exception:
                    # A bug of one; the others' turns come all the same.
                    log.exception("callback_failed", callback=repr(waiting[0]))
                finally:
                    waiting.popleft()  # until now: what is read meanwhile comes after it
                if clock_ns() >= end_ns:
                    break
        finally:
            self._scheduled = len(waiting) > 0
            if self._scheduled:
                self._next_turn(self._go_on)
