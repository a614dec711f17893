"""The bound on what requests and their answers may hold of the process's memory, all connections together.

`kohort.memory.max.bytes`, less what the process has at its start, is dealt out (`Shares`): what is received and not
handled yet, or owed, or not read by its peer, has a budget. When that is used up, connections are not read: all that
hold something or have never been heard, and soon everybody. Then one whose request has begun is read alone until it is
whole and handled, which gives its memory back, and the next one, until there is room for all again. Who holds memory
and does nothing for `STUCK_MS` meanwhile is closed.

Source: Kafka's queued.max.request.bytes (KIP-72), which waits for memory in the same way but never gives up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from broker.loop.logs import get_logger
from broker.network.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from broker.loop.runtime import Runtime

MB = 1 << 20
STUCK_MS = 5_000
IN_FLIGHT_MS = 60_000
_SLOWEST_BYTES_PER_MS = 1_000  # of a request that is read while others wait
_LATER_BYTES = 12 * MB  # what is loaded with the first log line, the first compressed batch, the first scrape
_LEAST_ROOM_BYTES = 16 * MB
_LOOK_EVERY_MS = 1_000
_TOLD_EVERY_MS = 60_000
_LAST_RESORT_EVERY_MS = 600_000  # at most, and for no more than a three-hundredth of the time
LEAST_BYTES = _LATER_BYTES + _LEAST_ROOM_BYTES
"""What must be left beside what the process has at its start."""

log = get_logger(__name__)


class Shares(NamedTuple):
    """What may take how many bytes.

    `requests`: received and unhandled, in flight, or answers that are not read. `request`: one request, of which up to
    four copies exist while it is handled (its frame in pieces and whole, the batch, and what is written). `objects`: a
    request that is made of many small things, each an object. `decompressed`: one batch, two at a time.
    """

    requests: int
    request: int
    objects: int
    decompressed: int

    @classmethod
    def of(cls, max_bytes: int, base_bytes: int) -> Shares:
        """What is left of `max_bytes` beside the `base_bytes` that the process has with nobody connected."""
        room = max(max_bytes - base_bytes - _LATER_BYTES, _LEAST_ROOM_BYTES)
        return cls(requests=room // 3, request=room // 10, objects=room // 90, decompressed=room // 12)


NO_BOUND = Shares(*[1 << 62] * 4)


class Holder(Protocol):
    """A connection."""

    @property
    def closed(self) -> bool:
        """Whether nothing more is read or written."""

    @property
    def held_bytes(self) -> int:
        """What it holds."""

    @property
    def unsent_bytes(self) -> int:
        """Of these, in answers that its peer does not read."""

    @property
    def missing(self) -> int:
        """Bytes that a request which has begun to come still needs."""

    @property
    def is_heavy(self) -> bool:
        """Whether it is held back first."""

    @property
    def in_flight(self) -> bool:
        """Whether a large request of it is being handled, or waits."""

    def hold_back(self) -> None:
        """Read it no further."""

    def let_go(self) -> None:
        """Read it again."""

    def close(self, reason: str, **facts: Any) -> None:
        """End it, with a line."""

    def abort(self) -> None:
        """End it at once, whatever its peer has not read."""


class RequestMemory:
    """Who holds how much, and who may be read. `connections` are those that are open."""

    def __init__(self, runtime: Runtime, shares: Shares, connections: Collection[Holder]) -> None:
        self._runtime = runtime
        self._connections = connections
        self.slots = Slots(runtime)
        self.shares = shares
        self.limit_bytes = shares.requests
        self.used_bytes = 0
        self.short = False
        self.shortages = 0
        self.evicted = 0
        self._began: dict[Holder, None] = {}  # not read, a part of a request is here
        self._idle: dict[Holder, None] = {}  # not read, nothing is here
        self._alone: Holder | None = None  # the one that is read while the others are not
        self._deadline_ms = 0  # for its request to be whole
        self._moved_ms = 0  # when something was last given back

    # --- for connections

    def connected(self, connection: Holder) -> None:
        """A new one: it waits when memory is short."""
        if self.short:
            self._pause(connection)

    def changed(self, connection: Holder, by_bytes: int) -> None:
        """`connection` holds so much more, or less."""
        self.used_bytes += by_bytes
        if by_bytes > 0:
            if not self.short:
                if self.used_bytes >= self.limit_bytes:
                    self._run_short()
            elif self.used_bytes >= 2 * self.limit_bytes:
                for each in list(self._connections):
                    if each is not self._alone:
                        self._pause(each)
            elif connection is not self._alone and connection.missing:
                self._pause(connection)
        elif self.short:
            self._moved_ms = self._runtime.now_ms()
            if connection is self._alone:
                self._next_after(connection)
            else:
                self._go_on()

    def had_its_turn(self, connection: Holder) -> None:
        """A request of it is whole, and perhaps handled; the next one may have begun."""
        if connection is self._alone and self.used_bytes < self.limit_bytes + self.shares.request:
            self._next_after(connection)

    def forget(self, connection: Holder) -> None:
        """It is closed, and holds nothing any more."""
        self._began.pop(connection, None)
        self._idle.pop(connection, None)
        if connection is self._alone:
            self._alone = None
        if self.short:
            self._go_on()

    # ---

    def _run_short(self) -> None:
        self.short = True
        self.shortages += 1
        self._moved_ms = self._runtime.now_ms()
        for connection in list(self._connections):
            if connection.is_heavy:
                self._pause(connection)
        self._go_on()
        self._look_again()

    def _pause(self, connection: Holder) -> None:
        if connection.closed:
            return
        queue = self._began if connection.missing else self._idle
        (self._idle if queue is self._began else self._began).pop(connection, None)
        queue.setdefault(connection)
        connection.hold_back()

    def _next_after(self, connection: Holder) -> None:
        """It is read no longer alone: others are first."""
        self._alone = None
        self._pause(connection)
        self._go_on()

    def _go_on(self) -> None:
        """Read everybody again, or the next one alone."""
        if self.used_bytes <= self.limit_bytes * 3 // 4 or (
            not self._began and self._alone is None and self.used_bytes < self.limit_bytes
        ):
            self._relax()
        elif self._alone is None and self._began and not any(each.in_flight for each in self._connections):
            self._alone = connection = next(iter(self._began))
            del self._began[connection]
            self._deadline_ms = self._runtime.now_ms() + STUCK_MS + connection.missing // _SLOWEST_BYTES_PER_MS
            connection.let_go()

    def _relax(self) -> None:
        self.short = False
        self._alone = None
        waiting = [*self._began, *self._idle]
        self._began, self._idle = {}, {}
        for connection in waiting:
            connection.let_go()

    def _look_again(self) -> None:
        runtime = self._runtime
        runtime.timers.set(("server", "memory"), runtime.now_ms() + _LOOK_EVERY_MS, self._look)

    def _look(self) -> None:
        """Memory is short: see that it gets better."""
        if not self.short:
            return
        now_ms = self._runtime.now_ms()
        still_ms = now_ms - self._moved_ms
        if self._alone is not None and self._alone.missing:
            if now_ms >= self._deadline_ms:
                self._evict(self._alone)
        elif still_ms >= STUCK_MS:
            # Requests in flight are mostly our own work, which may be slow; some wait on purpose, which may be long.
            unread = [connection for connection in self._connections if connection.unsent_bytes]
            if unread or still_ms >= IN_FLIGHT_MS:
                self._evict(max(unread or self._connections, key=_held_bytes, default=None))
        if self.short:
            self._look_again()

    def _evict(self, connection: Holder | None) -> None:
        if connection is None or not connection.held_bytes:
            return
        self.evicted += 1
        self._moved_ms = self._runtime.now_ms()
        connection.close("it holds memory that others wait for", bytes=connection.held_bytes)
        connection.abort()


def _held_bytes(connection: Holder) -> int:
    return connection.held_bytes


def follow(
    memory: RequestMemory,
    runtime: Runtime,
    max_bytes: int,
    anonymous_bytes: Callable[[], int],
    last_resort: Callable[[], int],
) -> None:
    """Take off the budget what topics, groups and offsets have come to hold since the start; look every second.

    What the process has beside requests is the least that was seen in ten seconds: the rest comes and goes. When that
    is nearly all, `last_resort` looks for what can be done without, and returns how many objects it has found.
    """
    least: list[int] = []
    state = {"told_ms": 0, "next_look_ms": 0}

    def look() -> None:
        now_ms = runtime.now_ms()
        least.append(anonymous_bytes() - memory.used_bytes)
        del least[:-10]
        wanted = Shares.of(max_bytes, min(least) - _LATER_BYTES).requests
        memory.limit_bytes = min(memory.shares.requests, wanted)
        if min(least) > max_bytes - _LEAST_ROOM_BYTES:
            if now_ms - state["told_ms"] > _TOLD_EVERY_MS:
                state["told_ms"] = now_ms
                log.warning("memory_nearly_full", max_bytes=max_bytes, held_bytes=min(least))
            if now_ms > state["next_look_ms"]:
                began_ns = runtime.clock_ns()
                found = last_resort()
                took_ms = (runtime.clock_ns() - began_ns) // 1_000_000
                state["next_look_ms"] = now_ms + max(_LAST_RESORT_EVERY_MS, 300 * took_ms)
                now_bytes = anonymous_bytes()
                log.info("memory_looked_through", garbage_objects=found, took_ms=took_ms, now_bytes=now_bytes)
        runtime.timers.set(("server", "memory limit"), now_ms + _LOOK_EVERY_MS, look)

    look()
