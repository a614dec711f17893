"""How many large requests may be objects at once: the others wait as the bytes that came.

A megabyte of names or partitions is tens of megabytes of objects while it is answered, and the garbage collector goes
through what is new of it in one go: through the lists of twenty requests, 262,144 numbers each, for 76 ms. One core is
through with four at a time no later than with twenty, so four have a place, and the next to come wait for one in turn.

Who waits for others (a JoinGroup does) keeps nobody else waiting: a place is lost after `KEPT_MS`.

Always true: a place is given up once, however often that is said.
Source: Kafka's num.io.threads: so many requests are handled at once, and the others wait in its queue.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.loop.runtime import Runtime

AT_ONCE = 4
LARGE_BYTES = 131_072
KEPT_MS = 500
_ANYWHERE = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
"""They are records, or wait for those, and few objects for their size."""


def needs_place(api_key: int, size_bytes: int) -> bool:
    """Whether a request that is long (has many elements) is large enough."""
    return size_bytes >= LARGE_BYTES and api_key not in _ANYWHERE


class Place:
    """One request's: it waits for it, has it, or has given it up."""

    __slots__ = ("_is_over", "_places", "_wake", "is_taken")

    def __init__(self, places: Places) -> None:
        self._places = places
        self._wake: Callable[[], None] | None = None
        self._is_over = False
        self.is_taken = False

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` once it is taken."""
        self._wake = wake

    def taken(self) -> None:
        """It is its turn. For `Places`."""
        self.is_taken = True
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def leave(self) -> None:
        """The request is answered, or nobody waits for that any more."""
        if not self._is_over:
            self._is_over = True
            self._places.left(self)


class Places:
    """Those of all connections."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._free = AT_ONCE
        self._waiting: deque[Place] = deque()

    def __len__(self) -> int:
        """How many are taken."""
        return AT_ONCE - self._free

    def enter(self) -> Place:
        """A place that is taken, or one to wait for."""
        place = Place(self)
        if self._free:
            self._free -= 1
            self._give(place)
        else:
            self._waiting.append(place)
        return place

    def left(self, place: Place) -> None:
        """For `Place`, which says so once."""
        if not place.is_taken:
            self._waiting.remove(place)
            return
        self._runtime.timers.cancel(("place", id(place)))
        if self._waiting:
            self._give(self._waiting.popleft())
        else:
            self._free += 1

    def _give(self, place: Place) -> None:
        self._runtime.timers.set(("place", id(place)), self._runtime.now_ms() + KEPT_MS, place.leave)
        place.taken()
