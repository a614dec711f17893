"""What a connection knows of its surroundings, and they of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from broker.network.memory import Holder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.broker import Broker
    from broker.handlers.context import AnswerRoute
    from broker.handlers.dispatch import Routes
    from broker.network.closings import Closings
    from broker.network.counters import Counters
    from broker.network.memory import RequestMemory
    from broker.network.slow_frames import SlowFrames
    from broker.security.failures import Failures
    from protocol.schema.wire_types import Buffer


class Owner(Protocol):
    """Who keeps the connections of a listener."""

    broker: Broker
    routes: Routes
    counters: Counters
    closings: Closings
    memory: RequestMemory
    failures: Failures
    slow_frames: SlowFrames
    tick: int  # grows with time; a connection notes it when it is heard of

    def admit(self, connection: OpenConnection) -> None:
        """A new connection: it is let in, kept out for now, or closed."""

    def joined(self, connection: OpenConnection) -> None:
        """It is let in."""

    def logged_in(self, connection: OpenConnection) -> None:
        """It has said who it is, for the first time."""

    def forget(self, connection: OpenConnection) -> None:
        """It is gone."""


class TlsOwner(Protocol):
    """What of an owner a TLS channel needs."""

    broker: Broker
    counters: Counters
    failures: Failures


class Decrypted(Protocol):
    """Who gets what a TLS channel has decrypted: a connection of clients, or of HTTP."""

    outside: bool

    @property
    def host(self) -> str:
        """The bare address of its client."""

    @property
    def peer(self) -> str:
        """Address and port of its client."""

    def connection_made(self, transport: Any) -> None:
        """Somebody has connected, and has not shaken hands yet."""

    def identified(self, principal: str) -> None:
        """The handshake is done, with this one."""

    def data_received(self, data: bytes, /) -> None:
        """Some bytes have come."""

    def peer_ended(self) -> None:
        """No more will come, and it closes: what waits is handled now, or never."""

    def pause_writing(self) -> None:
        """The peer leaves too much unread."""

    def resume_writing(self) -> None:
        """The peer has read most of it."""

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone, whoever ended it."""

    def end(self) -> None:
        """End it when what is written has left."""


class Transport(Protocol):
    """What bytes go through: the event loop's, or a TLS channel in front of it."""

    def get_extra_info(self, name: str) -> Any:
        """What is known of the socket: its `peername`, say."""

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """How much may be unsent before writing is to pause, and to go on."""

    def get_write_buffer_size(self) -> int:
        """Bytes that are unsent."""

    def pause_reading(self) -> None:
        """Read no further."""

    def resume_reading(self) -> None:
        """Read again."""

    def write(self, data: Buffer) -> None:
        """Send this."""

    def writelines(self, pieces: list[Buffer]) -> None:
        """Send all of this."""

    def close(self) -> None:
        """End it once all is sent."""

    def abort(self) -> None:
        """End it at once."""


class Served(Holder, Protocol):
    """The connection whose requests they are."""

    @property
    def is_read(self) -> bool:
        """Whether the peer could send more."""

    def failed(self, route: AnswerRoute | None, error: Exception) -> None:
        """A request of it could not be served: it ends."""


class Gone:
    """The connection of requests that are over: nothing of it is held, and nobody is told."""

    __slots__ = ("closed", "held_bytes", "in_flight", "is_heavy", "is_read", "missing", "unsent_bytes")

    def __init__(self) -> None:
        self.closed = True
        self.is_read = self.is_heavy = self.in_flight = False
        self.held_bytes = self.unsent_bytes = self.missing = 0

    def hold_back(self) -> None:
        """Nothing: it is not read."""

    def let_go(self) -> None:
        """Nothing: it will not be read again."""

    def close(self, reason: str, **facts: object) -> None:
        """Nothing: it is closed."""

    def abort(self) -> None:
        """Nothing: it is closed."""

    def failed(self, route: AnswerRoute | None, error: Exception) -> None:
        """Nothing: there is no connection to end."""


GONE = Gone()


class OpenConnection(Holder, Protocol):
    """A connection, as who lets it in and keeps it sees it."""

    price_ns: int
    shakes_hands: bool

    @property
    def host(self) -> str:
        """The bare address of its client."""

    @property
    def peer(self) -> str:
        """Address and port of its client."""

    @property
    def listener(self) -> str:
        """The name of the listener that it came through."""

    @property
    def last_tick(self) -> int:
        """The owner's `tick` when it was last heard of."""

    @property
    def idle(self) -> bool:
        """Whether silence counts: nothing is owed to the peer, or it does not read what it is given."""

    @property
    def backlog(self) -> int:
        """Requests that have come and are not handled yet."""

    def parked(self) -> Iterator[AnswerRoute]:
        """The route of each request whose answer is owed."""

    def let_in(self) -> None:
        """It is served from now on."""

    def keep_out(self) -> None:
        """It waits for that."""

    def keep_outside(self) -> None:
        """It waits for that, and is not read meanwhile."""

    def hold_to_quotas(self) -> None:
        """Quotas have changed."""

    def stop_reading(self) -> None:
        """Handle no further request; answers that are owed still leave."""

    def close(self, reason: str, **facts: Any) -> None:
        """End it, with one log line."""

    def end_later(self, buffers: list[Buffer], delay_ms: int) -> None:
        """Read nothing more; after the delay send this and end."""

    def end(self) -> None:
        """End it without a word; what is ready still leaves."""

    def abort(self) -> None:
        """End it at once, whatever the peer has not read yet."""
