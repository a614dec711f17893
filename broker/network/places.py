"""How many large requests may be objects at once: the others wait as the bytes that came.

A megabyte of names or partitions is tens of megabytes of objects while it is answered, and the garbage collector goes
through what is new of it in one go: through the lists of twenty requests, 262,144 numbers each, for 76 ms. One core is
through with four at a time no later than with twenty, so four have a place, and the next to come wait for one in turn.

A place is given up when the answer is written, and before if the handler has done its work and waits for others, as
that of a JoinGroup does. Nobody waits for longer than `WAITED_MS`: large requests that take little would wait for all
that take much.

Always true: a place is given up once, however often that is said; who has gone waits no longer.
Source: Kafka's num.io.threads: so many requests are handled at once, and the others wait in its queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.loop.runtime import Runtime

AT_ONCE = 4
LARGE_BYTES = 131_072
WAITED_MS = 2_000
_ANYWHERE = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
"""They are records, or wait for those, and few objects for their size."""


def needs_place(api_key: int, size_bytes: int) -> bool:
    """Whether a request that is long (has many elements) is large enough."""
    return size_bytes >= LARGE_BYTES and api_key not in _ANYWHERE


class Place:
    """One request's: it waits for it, or goes on, with a place or because it has waited for long enough."""

    __slots__ = ("_places", "_wake", "goes_on")

    def __init__(self, places: Places) -> None:
        self._places = places
        self._wake: Callable[[], None] | None = None
        self.goes_on = False

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` once it goes on."""
        self._wake = wake

    def go_on(self) -> None:
        """For `Places`."""
        self.goes_on = True
        self._awake()

    def gone(self) -> None:
        """Nobody waits for the answer: the request, if it waits itself, is woken to be forgotten."""
        if self._places.withdraw(self):
            self._awake()

    def leave(self) -> None:
        """Its work is done, or not wanted."""
        self._places.left(self)

    def _awake(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()


class Places:
    """Those of all connections."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._taken: set[Place] = set()
        self._waiting: dict[Place, None] = {}  # in the order in which they came

    def __len__(self) -> int:
        """How many are taken."""
        return len(self._taken)

    def enter(self) -> Place:
        """A place that is taken, or one to wait for."""
        place = Place(self)
        if len(self._taken) < AT_ONCE:
            self._taken.add(place)
            place.go_on()
        else:
            self._waiting[place] = None
            self._runtime.timers.set(
                ("place", id(place)), self._runtime.now_ms() + WAITED_MS, lambda: self._waited(place)
            )
        return place

    def withdraw(self, place: Place) -> bool:
        """Whether it still waited; it does so no more. For `Place`."""
        if place not in self._waiting:
            return False
        del self._waiting[place]
        self._runtime.timers.cancel(("place", id(place)))
        return True

    def left(self, place: Place) -> None:
        """For `Place`."""
        self.withdraw(place)
        if place in self._taken:
            self._taken.remove(place)
            if self._waiting:
                following = next(iter(self._waiting))
                self.withdraw(following)
                self._taken.add(following)
                following.go_on()

    def _waited(self, place: Place) -> None:
        if self.withdraw(place):
            place.go_on()
