"""What holds the loop up, and for how long: who waits for a turn waits for all that others do in it.

Whoever has had the loop for more than `NOTED_NS` says so. The time from then until the turn is over, and sockets are
read again, is a stall; it is put down to the one that took most of it. What comes short of that each time is not seen
one by one, so a timer asks ten times a second how late it is. Usual turns pay for one comparison.

A stall is wall time: on a busy machine others may have had the processor. How much of it this process had since the
last such look, which is at least what it had during the stall, is told beside it.

Always true: a stall is counted once, under one name.
"""

from __future__ import annotations

from collections import deque
from time import process_time_ns
from typing import TYPE_CHECKING, Any

from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

log = get_logger(__name__)

NOTED_NS = 2_000_000
COUNTED_NS = 50_000_000
"""Others may wait for so long, and no longer: what takes more is counted, and told."""
_RECENT_MAX = 256
TOLD_EVERY_NS = 60_000_000_000
"""Between two log lines about the same name, unless it is twice as long as the one told; the later one says how many
there were."""


class Stalls:
    """The stalls of one loop. `after_turn` calls back when the sockets have been read once more."""

    __slots__ = (
        "_after_turn",
        "_began_ns",
        "_cpu_clock_ns",
        "_cpu_looked_ns",
        "_cpu_ns",
        "_longest_part_ns",
        "_name",
        "_told",
        "_untold",
        "_whose",
        "clock_ns",
        "counts",
        "expected_ns",
        "longest_ns",
        "recent",
        "total_ns",
    )

    def __init__(
        self,
        clock_ns: Callable[[], int],
        after_turn: Callable[[Callable[[], None]], None],
        cpu_clock_ns: Callable[[], int] = process_time_ns,
    ) -> None:
        """`cpu_clock_ns`: of all threads, since one that has Python's lock keeps the loop from going on, too."""
        self.clock_ns = clock_ns
        self._after_turn = after_turn
        self._cpu_clock_ns = cpu_clock_ns
        self._cpu_looked_ns = cpu_clock_ns()  # what it said at the last look
        self._cpu_ns = 0  # what it said at the last look before the stall that is not over
        self._began_ns = 0  # of a turn in which somebody has taken long; 0: there is none
        self._longest_part_ns = 0
        self._name = ""
        self._whose = ""
        self._told: dict[str, tuple[int, int]] = {}  # (when, how long it took) by name
        self._untold: dict[str, int] = {}  # how many since then
        self.longest_ns: dict[str, int] = {}
        """The longest stall by name, since the start."""
        self.counts: dict[str, int] = {}
        """How many were longer than `COUNTED_NS`, by name."""
        self.total_ns = 0  # of all that were noted
        self.recent: deque[tuple[int, int]] = deque(maxlen=_RECENT_MAX)
        """(when it was over, how long it took) of the last that were longer than `COUNTED_NS`."""
        self.expected_ns = 0  # when `late` is called next, if nothing holds the loop up

    def note(self, name: str, whose: str, took_ns: int) -> None:
        """`name` (an API, a task) has just had the loop for so long, for `whose` sake; call it above `NOTED_NS`."""
        if not self._began_ns:
            self._began_ns = self.clock_ns() - took_ns
            self._cpu_ns = self._cpu_looked_ns
            self._longest_part_ns = 0
            self._after_turn(self._turn_over)
        # What is little more than a part of it, which has been noted before, is known by that part's name.
        if took_ns > self._longest_part_ns * 5 // 4:
            self._longest_part_ns = took_ns
            self._name, self._whose = name, whose

    def late(self, by_ns: int) -> None:
        """A timer has come so late. What made it late has been noted by itself, unless it was many small things."""
        cpu_ns, self._cpu_looked_ns = self._cpu_looked_ns, self._cpu_clock_ns()
        if by_ns > NOTED_NS and not self._began_ns:
            self._count("many", "", by_ns, self._cpu_looked_ns - cpu_ns)

    def held_ns(self, since_ns: int) -> int:
        """How much of the time since then the loop was held up, by counted stalls and by one that is not over."""
        now_ns = self.clock_ns()
        held = sum(min(took_ns, ended_ns - since_ns) for ended_ns, took_ns in self.recent if ended_ns > since_ns)
        late_ns = now_ns - max(self.expected_ns, since_ns) if self.expected_ns else 0
        return held + (late_ns if late_ns > COUNTED_NS else 0)

    def _turn_over(self) -> None:
        took_ns, self._began_ns = self.clock_ns() - self._began_ns, 0
        self._count(self._name, self._whose, took_ns, self._cpu_clock_ns() - self._cpu_ns)

    def _count(self, name: str, whose: str, took_ns: int, cpu_ns: int) -> None:
        self.total_ns += took_ns
        if took_ns > self.longest_ns.get(name, 0):
            self.longest_ns[name] = took_ns
        if took_ns <= COUNTED_NS:
            return
        self.counts[name] = self.counts.get(name, 0) + 1
        self.recent.append((self.clock_ns(), took_ns))
        now_ns = self.clock_ns()
        told_ns, told_took_ns = self._told.get(name, (now_ns - TOLD_EVERY_NS, 0))
        # Seconds must not go unsaid because some tenths had the same name: `many` is the name of all that say nothing.
        if now_ns - told_ns < TOLD_EVERY_NS and took_ns < 2 * told_took_ns:
            self._untold[name] = self._untold.get(name, 0) + 1
            return
        self._told[name] = now_ns, took_ns
        log.warning(
            "loop_held",
            api=name,
            client=whose,
            took_ms=took_ns // 1_000_000,
            cpu_ms=cpu_ns // 1_000_000,
            since_last_line=self._untold.pop(name, 0),
        )


def name_of(callback: Any) -> str:
    """The API of whoever is called back, if it works for one, else its own name."""
    owner = getattr(callback, "__self__", None)
    return getattr(owner, "api", "") or getattr(callback, "__qualname__", type(callback).__name__)


def client_of(callback: Any) -> str:
    """The client for whose sake it is called back, if it says so."""
    owner = getattr(callback, "__self__", None)
    return str(getattr(owner, "client", ""))
