"""The HTTP listener: its connections, and the late loading of everything behind them.

What a request needs (h11, the routes, the metrics) is imported in a worker thread when the first connection comes, so
that neither a start nor a broker that nobody watches pays for it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from broker.http.connection import HttpConnection
from broker.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.http.answers import Answer, Later
    from broker.runtime import Runtime

    Respond = Callable[[str, str, dict[str, str]], Answer | Later]

log = get_logger()

MAX_CONNECTIONS = 100
"""Scrapers and health checks are few; more than these are a mistake somewhere."""
_SLICE_TIMER = ("http slice",)


class Loaded:
    """What was imported: h11, and `respond(method, target, headers)`, which makes answers. Header names are in lower
    case.
    """

    __slots__ = ("h11", "respond")

    def __init__(self, h11: Any, respond: Respond) -> None:
        self.h11 = h11
        self.respond = respond


class HttpServer:
    """The connections of the HTTP listener. `load` gives `respond`; it runs in a worker thread."""

    def __init__(self, runtime: Runtime, load: Callable[[], Respond]) -> None:
        self.runtime = runtime
        self.connections: set[HttpConnection] = set()
        self._slices: deque[HttpConnection] = deque()  # whose answers are worked on, in turn
        self._load = load
        self._loaded: Loaded | None = None
        self._waiting: list[Callable[[Loaded], None]] | None = None

    def protocol(self) -> HttpConnection:
        """What a new connection talks to."""
        return HttpConnection(self)

    def when_loaded(self, callback: Callable[[Loaded], None]) -> None:
        """Call `callback` once requests can be understood: at once, but for the first connection."""
        if self._loaded is not None:
            callback(self._loaded)
        elif self._waiting is not None:
            self._waiting.append(callback)
        else:
            self._waiting = [callback]
            self.runtime.in_thread(self._import, self._have, self._failed)

    def _import(self) -> Loaded:
        import h11  # noqa: PLC0415  10 ms, which a start does not pay

        return Loaded(h11, self._load())

    def _have(self, loaded: Loaded) -> None:
        self._loaded = loaded
        waiting, self._waiting = self._waiting or [], None
        for callback in waiting:
            callback(loaded)

    def _failed(self, error: Exception) -> None:
        log.error("http_not_loaded", error=f"{type(error).__name__}: {error}")
        self._waiting = None
        self.close()

    def take_turns(self, connection: HttpConnection) -> None:
        """Have the connection go on with its answer when it is its turn.

        All connections together have one slice of time, and then clients are served: a hundred scrapes at once take
        longer, not more of the loop.
        """
        self._slices.append(connection)
        if len(self._slices) == 1:
            self._soon()

    @property
    def busy(self) -> bool:
        """Whether somebody waits for a turn."""
        return bool(self._slices)

    def _soon(self) -> None:
        # A millisecond is what the timers know; it is also what leaves half of the loop to the clients.
        self.runtime.timers.set(_SLICE_TIMER, self.runtime.now_ms() + 1, self._slice)

    def _slice(self) -> None:
        waiting = self._slices
        while waiting:
            connection = waiting.popleft()
            if not connection.closed:
                connection.go_on()
                break
        if waiting:
            self._soon()

    def close(self) -> None:
        """End every connection."""
        for connection in list(self.connections):
            connection.abort()
