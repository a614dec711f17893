"""The HTTP listener: its connections, and the late loading of everything behind them.

What a request needs (h11, the routes, the metrics) is imported in a worker thread when the first connection comes, so
that neither a start nor a broker that nobody watches pays for it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.http.connection import HttpConnection, HttpParts
from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.http.app import App
    from broker.http.connection import Respond
    from broker.loop.runtime import Runtime

MAX_CONNECTIONS = 100
"""Scrapers and health checks are few; more than these are a mistake somewhere."""
MAX_OF_A_HOST = 80
"""One address may hold so many, by asking nothing or for what it is refused slowly: there is room for others."""
_TOLD_EVERY_MS = 1_000

log = get_logger(__name__)


class HttpServer:
    """The connections of the HTTP listener. `load` gives `respond`; it runs in a worker thread."""

    def __init__(self, runtime: Runtime, load: Callable[[], Respond]) -> None:
        self.runtime = runtime
        self.connections: set[HttpConnection] = set()
        self._load = load
        self._loaded: HttpParts | None = None
        self._waiting: list[Callable[[HttpParts], None]] | None = None
        self._told_ms = 0
        self._left_out = 0  # refusals that no line has told

    def protocol(self) -> HttpConnection:
        """What a new connection talks to."""
        return HttpConnection(self)

    def is_full_for(self, host: str) -> bool:
        """Whether one more connection of an address is refused; a line tells it, once a second."""
        if len(self.connections) >= MAX_CONNECTIONS:
            reason = f"{MAX_CONNECTIONS} connections are open"
        elif sum(one.host == host for one in self.connections) >= MAX_OF_A_HOST:
            reason = f"{MAX_OF_A_HOST} connections of its address are open"
        else:
            return False
        now_ms = self.runtime.now_ms()
        if now_ms - self._told_ms >= _TOLD_EVERY_MS:
            log.warning("http_refused", peer=host, reason=reason, left_out=self._left_out)
            self._told_ms, self._left_out = now_ms, 0
        else:
            self._left_out += 1
        return True

    def when_loaded(self, callback: Callable[[HttpParts], None]) -> None:
        """Call `callback` once requests can be understood: at once, but for the first connection."""
        if self._loaded is not None:
            callback(self._loaded)
        elif self._waiting is not None:
            self._waiting.append(callback)
        else:
            self._waiting = [callback]
            self.runtime.in_thread(self._import, self._have, self._failed)

    def _import(self) -> HttpParts:
        import h11  # noqa: PLC0415  10 ms, which a start does not pay

        return HttpParts(h11, self._load())

    def _have(self, loaded: HttpParts) -> None:
        self._loaded = loaded
        waiting, self._waiting = self._waiting or [], None
        for callback in waiting:
            callback(loaded)

    def _failed(self, error: Exception) -> None:
        log.error("http_not_loaded", error=f"{type(error).__name__}: {error}")
        self._waiting = None
        self.close()

    def close(self) -> None:
        """End every connection."""
        for connection in list(self.connections):
            connection.abort()


def loader(app: App) -> Callable[[], Respond]:
    """What `HttpServer` calls, in a worker thread, when the first connection comes."""

    def load() -> Respond:
        from broker.http.door import Door  # noqa: PLC0415  a start does not pay for it
        from broker.http.log_in import LogIn  # noqa: PLC0415
        from broker.http.routes import respond  # noqa: PLC0415

        app.version  # noqa: B018  reads files
        return Door(app.broker.runtime, LogIn(app.broker.settings), partial(respond, app)).respond

    return load
