"""A connection without a socket: a transport that remembers, a broker that has only what connections need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.broker import Broker
from broker.config.settings import Settings
from broker.handlers import api_versions, sasl
from broker.handlers.dispatch import Routes
from broker.network.connection import Connection
from broker.network.memory import NO_BOUND, Shares
from broker.network.server import Server
from protocol.api_keys import ApiKey
from protocol.frame_cutter import FrameCutter
from protocol.frames import decode_response, encode_request
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.network.listener_security import ListenerSecurity

NO_LIMIT = 1 << 40


class FakeTransport:
    """Takes what is written; `room` is how many bytes it takes before it calls `pause_writing`."""

    def __init__(self, host: str = "127.0.0.1", port: int = 50_000) -> None:
        self.written = bytearray()
        self.writes = 0
        self.closed = self.aborted = False
        self.reading = True
        self.room = NO_LIMIT
        self.protocol: Connection | None = None
        self._peer = (host, port)
        self._unread = 0
        self._paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peer if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self._unread

    def write(self, data: bytes) -> None:
        assert not self.closed, "written to after close"
        self.writes += 1
        self._take(bytes(data))

    def writelines(self, list_of_data: list[bytes]) -> None:
        assert not self.closed, "written to after close"
        self.writes += 1
        self._take(b"".join(list_of_data))

    def _take(self, data: bytes) -> None:
        self.written += data
        self._unread += len(data)
        if self._unread > self.room and not self._paused:
            self._paused = True
            self.protocol.pause_writing()

    def peer_reads(self) -> None:
        """The peer has read everything."""
        self._unread = 0
        if self._paused:
            self._paused = False
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.closed
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


class Harness:
    """A server with one connection; `handlers` replace or add to ApiVersions and SASL. `security` is the listener's."""

    def __init__(
        self,
        handlers: Mapping[int, Callable[..., Any]] | None = None,
        settings: Mapping[str, str] | None = None,
        broker: Broker | None = None,
        shares: Shares = NO_BOUND,
        security: ListenerSecurity | None = None,
        runtime: VirtualRuntime | None = None,
    ) -> None:
        self.security = security
        self.runtime = runtime or VirtualRuntime()
        self.broker = broker or Broker(Settings(settings or {}), self.runtime)
        table: dict[int, Callable[..., Any]] = {
            ApiKey.API_VERSIONS: api_versions.api_versions,
            ApiKey.SASL_HANDSHAKE: sasl.sasl_handshake,
            ApiKey.SASL_AUTHENTICATE: sasl.sasl_authenticate,
        }
        table.update(handlers or {})
        self.broker.served = table.keys()
        self.server = Server(self.broker, Routes(table), shares)
        self.connection, self.transport = self.connect()

    def connect(self, host: str = "127.0.0.1", port: int = 50_000) -> tuple[Connection, FakeTransport]:
        """One more connection."""
        connection, transport = Connection(self.server, "PLAINTEXT", self.security), FakeTransport(host, port)
        transport.protocol = connection
        connection.connection_made(transport)
        return connection, transport

    def send(self, request: Any, version: int, correlation_id: int = 1, client_id: str | None = "test") -> None:
        """A request arrives."""
        self.connection.data_received(encode_request(request, version, correlation_id, client_id))

    def lose(self) -> None:
        """The peer goes away."""
        self.transport.closed = True
        self.connection.connection_lost(None)

    def frames(self) -> list[bytes]:
        """The answers written so far."""
        cutter = FrameCutter(1 << 30)
        frames = cutter.feed(bytes(self.transport.written))
        assert not cutter.holds_part, "half an answer was written"
        return frames

    def correlation_ids(self) -> list[int]:
        """Whose answers were written so far, in order."""
        return [int.from_bytes(frame[4:8], "big", signed=True) for frame in self.frames()]

    def answer(self, api_key: int, version: int) -> Any:
        """The only answer."""
        (frame,) = self.frames()
        return decode_response(api_key, version, frame)[1]
