"""How many large requests may be objects at once: the others wait as the bytes that came.

A megabyte of names or partitions is tens of megabytes of objects while it is answered, and the garbage collector goes
through what is new of it in one go: through the lists of twenty requests, 262,144 numbers each, for 76 ms. One core is
through with four at a time no later than with twenty, so there are four slots, for which the next to come
wait in turn.

A slot is given up when the answer is written, and before if the handler has done its work and waits for others, as
that of a JoinGroup does. Nobody waits for longer than `WAITED_MS`: large requests that take little would wait for all
that take much.

Always true: a slot is given up once, however often that is said; who has gone waits no longer.
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


def needs_slot(api_key: int, size_bytes: int) -> bool:
    """Whether a request that is long (has many elements) is large enough."""
    return size_bytes >= LARGE_BYTES and api_key not in _ANYWHERE


class Slot:
    """One request's: it waits for it, or goes on, with a slot or because it has waited for long enough."""

    __slots__ = ("_slots", "_wake", "goes_on")

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._wake: Callable[[], None] | None = None
        self.goes_on = False

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` once it goes on."""
        self._wake = wake

    def go_on(self) -> None:
        """For `Slots`."""
        self.goes_on = True
        self._awake()

    def gone(self) -> None:
        """Nobody waits for the answer: the request, if it waits itself, is woken to be forgotten."""
        if self._slots.withdraw(self):
            self._awake()

    def leave(self) -> None:
        """Its work is done, or not wanted."""
        self._slots.left(self)

    def _awake(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()


class Slots:
    """Those of all connections: `AT_ONCE` requests have one at a time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._taken: set[Slot] = set()
        self._waiting: dict[Slot, None] = {}  # in the order in which they came

    def __len__(self) -> int:
        """How many are taken."""
        return len(self._taken)

    def enter(self) -> Slot:
        """A slot that is taken, or one to wait for."""
        slot = Slot(self)
        if len(self._taken) < AT_ONCE:
            self._taken.add(slot)
            slot.go_on()
        else:
            self._waiting[slot] = None
            self._runtime.timers.set(("slot", id(slot)), self._runtime.now_ms() + WAITED_MS, lambda: self._waited(slot))
        return slot

    def withdraw(self, slot: Slot) -> bool:
        """Whether it still waited; it does so no more. For `Slot`."""
        if slot not in self._waiting:
            return False
        del self._waiting[slot]
        self._runtime.timers.cancel(("slot", id(slot)))
        return True

    def left(self, slot: Slot) -> None:
        """For `Slot`."""
        self.withdraw(slot)
        if slot in self._taken:
            self._taken.remove(slot)
            if self._waiting:
                following = next(iter(self._waiting))
                self.withdraw(following)
                self._taken.add(following)
                following.go_on()

    def _waited(self, slot: Slot) -> None:
        if self.withdraw(slot):
            slot.go_on()
