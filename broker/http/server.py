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


log = get_logger()


class HttpServer:
    """The connections of the HTTP listener. `load` gives `respond`; it runs in a worker thread."""

    def __init__(self, runtime: Runtime, load: Callable[[], Respond]) -> None:
        self.runtime = runtime
        self.connections: set[HttpConnection] = set()
        self._load = load
        self._loaded: HttpParts | None = None
        self._waiting: list[Callable[[HttpParts], None]] | None = None

    def protocol(self) -> HttpConnection:
        """What a new connection talks to."""
        return HttpConnection(self)

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
