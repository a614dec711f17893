"""One client's connection: what has happened to it, told to its parts; and what others ask of it.

Its parts: who speaks (`broker.network.caller`), the requests (`requests`), the answers owed (`answers`) and its side
of the transport (`transport_side`); and where it has to say who it is first, a `gate`. Requests are begun and answered
in their order (D7).

Whatever a peer sends ends in an answer or in a closed connection, with one log line that says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.handlers.context import CloseConnection
from broker.network.answers import LARGE_REQUEST_BYTES, Answers
from broker.network.caller import Caller
from broker.network.gate import Gate
from broker.network.requests import Requests
from broker.network.transport_side import TransportSide
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.broker import Broker
    from broker.handlers.context import AnswerRoute, RequestContext
    from broker.handlers.dispatch import Route
    from broker.network.listener_security import ListenerSecurity
    from broker.network.ports import Owner, Transport
    from protocol.schema.wire_types import Buffer


class Connection:
    """The protocol of one accepted socket; called by the event loop."""

    __slots__ = (
        "__weakref__",
        "_owner",
        "answers",
        "broker",
        "caller",
        "data_received",
        "outside",
        "price_ns",
        "requests",
        "shakes_hands",
        "side",
    )

    def __init__(self, owner: Owner, listener: str, security: ListenerSecurity | None = None) -> None:
        self._owner = owner
        self.broker: Broker = owner.broker
        """What it serves."""
        self.side = TransportSide(owner)
        self.caller = Caller(owner, listener)
        self.answers = Answers(owner.broker.runtime, self.side, self.caller.session)
        self.requests = Requests(self, owner, self.side, self.answers, self.caller)
        self.data_received: Callable[[bytes], None] = self.requests.received
        """Some bytes have come: the loop calls who handles them."""
        if security is not None and security.protocol.sasl:
            self.requests.gate = Gate(self, owner, security)
            cutter = self.requests.cutter
            cutter.limit = min(cutter.limit, security.max_receive_bytes)
        self.shakes_hands = security is not None and security.protocol.tls
        """Whether a TLS handshake comes before its first request."""
        self.caller.session.is_encrypted = self.shakes_hands
        self.price_ns = 0
        """What it counts for until it has said who it is."""
        self.outside = False
        """Whether it waits, unread, for its turn to be let in."""

    # --- called by the event loop

    def connection_made(self, transport: Transport) -> None:
        """A client has connected."""
        name = transport.get_extra_info("peername") or ("", 0)
        self.caller.came_from(str(name[0]), name[1])
        owner = self._owner
        most = max(owner.memory.shares.requests // 1024, 16_384)
        self.side.made(transport, min(owner.broker.settings.kohort_max_inflight_bytes, most))
        owner.counters.accepted += 1
        owner.admit(self)

    def identified(self, principal: str) -> None:
        """Its TLS handshake is done; where nothing else asks who it is, this is it."""
        if self.requests.gate is None:
            self.caller.is_now(principal)
            if self.price_ns:
                self._owner.logged_in(self)

    def eof_received(self) -> None:
        """The peer sends no more: the transport closes itself, since nobody will read answers."""
        self.requests.hurry()

    def peer_ended(self) -> None:
        """As `eof_received`, from who decrypts."""
        self.requests.hurry()

    def pause_writing(self) -> None:
        """The peer leaves too much unread."""
        self.side.left_unread()
        self.requests.settle()

    def resume_writing(self) -> None:
        """The peer has read most of it."""
        self.side.was_read()
        self.requests.settle()
        if not self.side.closed:
            self.broker.runtime.soon(self.requests.go_on)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone, whoever ended it. Parked requests are forgotten; group members stay."""
        how = "broker" if self.side.closed else "end of file" if error is None else "reset"
        self.broker.peers.closed(self.caller.session.peer, how)
        self.side.lost()
        self._owner.forget(self)
        self._abandon()

    # --- what it is like

    @property
    def listener(self) -> str:
        """The name of the listener that it came through."""
        return self.caller.listener

    @property
    def host(self) -> str:
        """The bare address of its client."""
        return self.caller.host

    @property
    def peer(self) -> str:
        """Address and port of its client."""
        return self.caller.peer

    @property
    def closed(self) -> bool:
        """Whether nothing more is read or written."""
        return self.side.closed

    @property
    def last_tick(self) -> int:
        """The owner's `tick` when it was last heard of."""
        return self.side.last_tick

    @property
    def idle(self) -> bool:
        """Whether silence counts: nothing is owed to the peer, or it does not read what it is given."""
        return self.side.write_paused or not self.answers.waiting

    def parked(self) -> Iterator[AnswerRoute]:
        """The route of each request whose answer is owed."""
        return (deferred.route for deferred in self.answers.waiting)

    @property
    def backlog(self) -> int:
        """Requests that have come and are not handled yet."""
        return len(self.requests.backlog)

    # --- called by who looks after the memory of all

    @property
    def held_bytes(self) -> int:
        """What the memory of all connections is charged with for this one."""
        return self.requests.held_bytes

    @property
    def unsent_bytes(self) -> int:
        """Of these, bytes of answers that its peer does not read."""
        return self.side.unsent_bytes

    @property
    def missing(self) -> int:
        """Bytes that a request which has begun to come still needs."""
        return self.requests.cutter.missing

    @property
    def is_heavy(self) -> bool:
        """Whether it is held back first when memory is short: it has held much, or was never heard."""
        return self.requests.held_much or not self.caller.was_heard

    @property
    def in_flight(self) -> bool:
        """Whether a large request of it is being handled, or waits."""
        return self.answers.inflight_bytes >= LARGE_REQUEST_BYTES

    @property
    def is_read(self) -> bool:
        """Whether the peer could send more."""
        return self.side.is_read

    def hold_back(self) -> None:
        """Read it no further, since memory is short."""
        self.side.hold_back()

    def let_go(self) -> None:
        """Read it again."""
        self.side.let_go()

    # --- called by who admits it

    def let_in(self) -> None:
        """It is served from now on."""
        if self.outside:
            self.outside = False
            self.side.let_go()
        self._owner.joined(self)
        self._owner.memory.connected(self)
        self.caller.hold_to_quotas()
        requests = self.requests
        if requests.gate is not None:
            requests.gate.opened()
        if requests.stalled:
            self.broker.runtime.soon(requests.unstall)

    def keep_out(self) -> None:
        """It waits for that."""
        self.requests.stall()

    def keep_outside(self) -> None:
        """It waits for that, and is not read meanwhile."""
        self.requests.stall()
        self.outside = True
        self.side.hold_back()
        self.broker.runtime.soon(self._stay_outside)

    def _stay_outside(self) -> None:
        if self.outside:
            self.side.hold_back()

    def hold_to_quotas(self) -> None:
        """They have changed."""
        self.caller.hold_to_quotas()

    # --- called by its gate

    @property
    def owes(self) -> bool:
        """Whether a request before this one is not answered yet."""
        return bool(self.answers.waiting)

    def hold(self, frame: bytes) -> None:
        """Show this frame again when everything before it is answered."""
        self.requests.hold(frame)

    def route(self, api_key: int, version: int) -> Route | None:
        """What serves a version of an API, None if nothing does."""
        routes = self._owner.routes
        return routes.made.get(api_key << 16 | version) or routes.find(api_key, version)

    def context(self, client_id: str | None, version: int) -> RequestContext:
        """Of a request of this client in this version."""
        return self.caller.context(client_id, version)

    def unserved(self, api_key: int, version: int, correlation_id: int) -> None:
        """Answer a version that is not ours."""
        self.requests.unserved(api_key, version, correlation_id)

    def answer(self, buffers: list[Buffer]) -> None:
        """Send this in its turn; nothing is owed before it."""
        self.side.put(buffers)

    def wait_with(self, frame: bytes) -> Callable[[], None]:
        """Do nothing more; what is returned shows this frame again and goes on. Nothing is owed before it."""
        return self.requests.wait_with(frame)

    def authenticated(self, principal: str, *, watched: bool) -> None:
        """From now on it is this principal; the gate goes unless it is `watched`."""
        if self.price_ns:
            self._owner.logged_in(self)
        self.caller.is_now(principal)
        requests = self.requests
        requests.cutter.limit = min(self.broker.settings.socket_request_max_bytes, self._owner.memory.shares.request)
        if not watched:
            requests.gate = None

    # --- its end

    def end_later(self, buffers: list[Buffer], delay_ms: int) -> None:
        """Read nothing more; after the delay send this and end."""
        self.stop_reading()
        runtime = self.broker.runtime

        def end() -> None:
            if not self.side.closed:
                self.side.put(buffers)
                self.end()

        runtime.timers.set(("login", id(self)), runtime.now_ms() + delay_ms, end)

    def stop_reading(self) -> None:
        """Handle no further request; answers that are owed still leave."""
        self.requests.stop()

    def close(self, reason: str, **facts: Any) -> None:
        """End it, with one log line; what is ready still leaves, requests that wait are forgotten."""
        if not self.side.closed:
            self._owner.closings.tell(self.host, self.peer, reason, self.caller.client_id, facts)
            self.end()

    def failed(self, route: AnswerRoute | None, error: Exception) -> None:
        """This connection ends, so that its client does not wait; a fault of ours is traced, each once."""
        if isinstance(error, CloseConnection):
            self.close(str(error))
            return
        if isinstance(error, ProtocolError):
            self._owner.counters.bad_frames += 1
            api = None if route is None else f"{route.name} v{route.version}"
            self.close(str(error), api=api)
            return
        name = "unknown" if route is None else f"{route.name} v{route.version}"
        self._owner.counters.log_bug(name, self.peer, error)
        self.end()

    def end(self) -> None:
        """End it without a word."""
        if not self.side.closed:
            self.side.close()
            self._abandon()

    def abort(self) -> None:
        """End it at once, whatever the peer has not read yet."""
        self.requests.max_requests = 0
        self.side.abort()

    def _abandon(self) -> None:
        self.answers.abandon()
        self.side.forget()
        self.requests.over()
        self.caller.over()
        self._owner.memory.forget(self)
        self._owner.slow_frames.forget(self)
