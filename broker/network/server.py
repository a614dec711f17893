"""The open listeners and their connections: who is let in, who has been silent for too long, and the end of all.

Source: Kafka's SocketServer (ConnectionQuotas, idle expiry).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from broker.network.admission import Admission
from broker.network.closings import Closings
from broker.network.connection import Connection
from broker.network.counters import Counters
from broker.network.memory import NO_BOUND, RequestMemory, Shares
from broker.network.slow_frames import SlowFrames
from broker.security.failures import Failures

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from broker.broker import Broker
    from broker.handlers.dispatch import Routes
    from broker.loop.listening import Listening
    from broker.loop.loop_runtime import LoopRuntime
    from broker.loop.runtime import Runtime
    from broker.network.listener_security import ListenerSecurity
    from broker.network.ports import OpenConnection
    from broker.network.tls_channel import TlsChannel

log = get_logger(__name__)

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
        self.connections: dict[OpenConnection, None] = {}  # in the order in which they came
        self.memory = RequestMemory(broker.runtime, shares, self.connections)
        self.failures = Failures()
        self.slow_frames = SlowFrames(broker.runtime)
        self.securities = securities or {}
        self._listening: dict[str, list[Listening]] = {}  # by listener
        self._stopped = False
        self.admission = Admission(broker, self.securities, self._accept, self._turn_away)
        broker.quotas.on_change.append(self._quotas_changed)

    # --- for connections

    def admit(self, connection: OpenConnection) -> None:
        """A new connection: it is let in, kept out for now, or closed."""
        if self._stopped:
            connection.close("the broker is stopping")
        else:
            self.admission.arrived(connection)

    def logged_in(self, connection: OpenConnection) -> None:
        """It has said who it is, for the first time."""
        self.admission.door.logged_in(connection)

    def joined(self, connection: OpenConnection) -> None:
        """It is let in."""
        self.connections[connection] = None

    def forget(self, connection: OpenConnection) -> None:
        """It is gone."""
        if self.connections.pop(connection, self) is None:
            self.admission.left(connection)

    # --- start and end

    def listen(self, runtime: LoopRuntime, sockets: list[tuple[str, socket.socket]]) -> None:
        """Accept connections on bound sockets, given with their listener's name."""
        backlog = self.broker.settings.socket_listen_backlog_size
        for listener, sock in sockets:
            self._listening.setdefault(listener, []).append(runtime.listen(sock, self._factory(listener), backlog))
        self._watch_idleness()

    def stop_reading(self) -> None:
        """Take no further request: whoever is connected gets what is owed, no more."""
        self._stopped = True
        self.admission.end()
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

    def _accept(self, listener: str, whether: bool) -> None:
        for listening in self._listening.get(listener, ()):
            listening.resume() if whether else listening.pause()

    def _turn_away(self, listener: str, hosts: Sequence[str]) -> bool:
        done = [listening.turn_away(hosts) for listening in self._listening.get(listener, ())]
        return all(done)

    def _quotas_changed(self) -> None:
        for connection in self.connections:
            connection.hold_to_quotas()

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
