"""The open listeners and their connections: who is let in, who has been silent for too long, and the end of all.

Source: Kafka's SocketServer (ConnectionQuotas, idle expiry).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from broker.network.closings import Closings
from broker.network.connection import Connection
from broker.network.counters import Counters
from broker.network.memory import NO_BOUND, RequestMemory, Shares
from broker.security.failures import Failures

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from broker.broker import Broker
    from broker.handlers.dispatch import Routes
    from broker.loop.runtime import LoopRuntime, Runtime
    from broker.network.listener_security import ListenerSecurity
    from broker.network.tls_channel import TlsChannel

log = get_logger()

_TICKS_PER_IDLE_TIME = 8  # an idle connection is closed at most an eighth of its time late


class Server:
    """The connections of all listeners."""

    def __init__(
        self,
        broker: Broker,
        routes: Routes,
        shares: Shares = NO_BOUND,
        securities: Mapping[str, ListenerSecurity] | None = None,
    ) -> None:
        self.broker = broker
        self.routes = routes
        self.counters = Counters()
        self.closings = Closings(broker.runtime)
        self.tick = 0
        self.connections: dict[Connection, None] = {}  # in the order in which they came
        self.memory = RequestMemory(broker.runtime, shares, self.connections)
        self.failures = Failures()
        self.securities = securities or {}
        self._per_host: dict[str, int] = {}
        self._per_listener: Counter[str] = Counter()
        self._host_limits: dict[str, int] = {}
        self._stopped = False
        broker.settings.on_change(self._read_limits)
        self._read_limits()

    # --- for connections

    def admit(self, connection: Connection) -> str | None:
        """Count a new connection in; the reason why not, when it is one too many."""
        settings = self.broker.settings
        if self._stopped:
            return "the broker is stopping"
        if len(self.connections) >= settings.max_connections:
            return f"max.connections={settings.max_connections} are open"
        host = connection.host
        count = self._per_host.get(host, 0)
        limit = self._host_limits.get(host, settings.max_connections_per_ip)
        if count >= limit:
            return f"max.connections.per.ip={limit} are open from {host}"
        security = self.securities.get(connection.listener)
        most = None if security is None else security.max_connections
        if most is not None and self._per_listener[connection.listener] >= most:
            return f"max.connections={most} of listener {connection.listener} are open"
        self._per_listener[connection.listener] += 1
        self._per_host[host] = count + 1
        self.connections[connection] = None
        connection.admitted = True
        return None

    def forget(self, connection: Connection) -> None:
        """Count it out."""
        if not connection.admitted:
            return
        connection.admitted = False
        self.connections.pop(connection, None)
        self._per_listener[connection.listener] -= 1
        count = self._per_host[connection.host] - 1
        if count:
            self._per_host[connection.host] = count
        else:
            del self._per_host[connection.host]

    # --- start and end

    def listen(self, runtime: LoopRuntime, sockets: list[tuple[str, socket.socket]]) -> None:
        """Accept connections on bound sockets, given with their listener's name."""
        backlog = self.broker.settings.socket_listen_backlog_size
        for listener, sock in sockets:
            runtime.listen(sock, self._factory(listener), backlog)
        self._watch_idleness()

    def stop_reading(self) -> None:
        """Take no further request: whoever is connected gets what is owed, no more."""
        self._stopped = True
        self.broker.runtime.timers.cancel(("server", "idle"))
        for connection in list(self.connections):
            connection.stop_reading()

    def close_connections(self) -> None:
        """End them all; what is ready still leaves."""
        for connection in list(self.connections):
            connection.end()
        self.broker.runtime.timers.cancel(("server", "closings"))
        self.closings.count()
        self.broker.runtime.timers.cancel(("server", "closings"))

    # ---

    def _factory(self, listener: str) -> Callable[[], Connection | TlsChannel]:
        security = self.securities.get(listener)
        if security is None or security.tls is None:
            return lambda: Connection(self, listener, security)
        from broker.network.tls_channel import TlsChannel  # noqa: PLC0415  few starts need it

        tls = security.tls
        return lambda: TlsChannel(Connection(self, listener, security), self, tls)

    def _read_limits(self) -> None:
        limits = {}
        for entry in self.broker.settings.max_connections_per_ip_overrides:
            host, _, count = entry.rpartition(":")
            if count.isdigit():
                limits[host] = int(count)
        self._host_limits = limits

    def _watch_idleness(self) -> None:
        idle_ms = self.broker.settings.connections_max_idle_ms
        if idle_ms < 0:
            return
        runtime: Runtime = self.broker.runtime
        interval_ms = max(idle_ms // _TICKS_PER_IDLE_TIME, 1)

        def look() -> None:
            self.tick += 1
            for connection in list(self.connections):
                if connection.closed:
                    connection.abort()  # asked to end a while ago, and its peer does not read what is left
                elif self.tick - connection.last_tick > _TICKS_PER_IDLE_TIME and connection.idle:
                    log.info("connection_closed", peer=connection.peer, reason="idle", idle_ms=idle_ms)
                    connection.end()
            runtime.timers.set(("server", "idle"), runtime.now_ms() + interval_ms, look)

        runtime.timers.set(("server", "idle"), runtime.now_ms() + interval_ms, look)
