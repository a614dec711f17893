"""One client's connection: bytes to requests, handlers' answers to bytes, in the order of the requests (D7).

A request is begun when those before it are answered, as in Kafka, which reads a connection again when its answer has
left. Only requests that flow (`broker.handlers.dispatch.FLOWING`) are begun behind each other without waiting; an
answer that comes early waits for its turn. What is ready when a loop turn ends leaves in one write.
Source: Kafka's SocketServer (a channel is muted while it has a request), docs/decisions/one-request-at-a-time.md.

A peer is read no further while too many of its requests are unanswered, or it leaves too much unread; what was cut into
frames already waits in the backlog. Whatever a peer sends ends in an answer or in a closed connection, with one log
line that says why.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.handlers.context import CloseConnection, Deferred, Encoded, RequestContext, Session
from broker.handlers.durations import DURATION_SHIFT
from broker.loop.slices import QUANTUM_NS
from broker.loop.stalls import NOTED_NS
from broker.network.gate import SHUT, Gate, Shut
from broker.network.long_messages import decoded, encoded, let_go
from broker.network.throttling import ThrottledRoute, settle
from broker.network.transport_side import TransportSide
from protocol.api_keys import ApiKey, api_name
from protocol.errors import ErrorCode, LongMessage, ProtocolError
from protocol.frame_cutter import BadFrameSize, FrameCutter
from protocol.frames import CLIENT_ID_AT, encode_response, past_tags, read_request_header, read_route
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from broker.broker import Broker
    from broker.handlers.context import AnswerRoute
    from broker.handlers.dispatch import Route
    from broker.network.listener_security import ListenerSecurity
    from broker.network.long_messages import Decoded
    from broker.network.ports import Owner, Transport
    from broker.quotas.limits import Limits
    from protocol.schema import Message
    from protocol.schema.wire_types import Buffer

_MAX_LOOKS_PER_TURN = 32
_MAX_TURN_NS = 500_000
_LOOKS_EVERY_BYTES = 1_024  # of requests, at the clock
_AT_LEAST_BYTES = 64  # that a request counts for: it may be small and ask for much
# Of answers: then they are written, to learn whether the peer reads, and others have a turn.
_MAX_BYTES_PER_TURN = 65_536
_OBJECTS_FACTOR = 30  # what a request of many small things becomes while it is answered in slices
_LARGE_REQUEST_BYTES = 16_384  # who holds less is no reason for memory to be short


class Connection(TransportSide):
    """The protocol of one accepted socket; called by the event loop."""

    __slots__ = (
        "__weakref__",
        "_backlog",
        "_broker",
        "_client_id",
        "_client_id_bytes",
        "_clock_ns",
        "_contexts",
        "_cutter",
        "_fault",
        "_flush_scheduled",
        "_gate",
        "_header_end",
        "_held",
        "_held_much",
        "_inflight_bytes",
        "_largest_of_objects",
        "_limits",
        "_max_bytes",
        "_max_requests",
        "_memory",
        "_principal",
        "_resting",
        "_routes",
        "_session",
        "_since_ns",
        "_stalled",
        "_waiting",
        "_working",
        "_write_paused",
        "held_bytes",
        "host",
        "listener",
        "outside",
        "peer",
        "price_ns",
        "shakes_hands",
    )

    def __init__(self, owner: Owner, listener: str, security: ListenerSecurity | None = None) -> None:
        super().__init__(owner)
        settings = owner.broker.settings
        self._broker = owner.broker
        self._clock_ns = owner.broker.runtime.clock_ns
        self.listener = listener
        self._routes = owner.routes.made
        self._max_requests = settings.kohort_max_inflight_requests
        self._max_bytes = settings.kohort_max_inflight_bytes
        self._memory = memory = owner.memory
        self._cutter = FrameCutter(min(settings.socket_request_max_bytes, memory.shares.request))
        self._principal = "User:ANONYMOUS"
        self._limits: Limits | None = None  # what quotas ask of it
        self._gate: Gate | Shut | None = None  # what every request must pass first
        if security is not None and security.protocol.sasl:
            self._gate = Gate(self, owner, security)
            self._cutter.limit = min(self._cutter.limit, security.max_receive_bytes)
        self._largest_of_objects = memory.shares.objects
        self.held_bytes = 0
        """What the memory of all connections is charged with for this one."""
        self._held_much = False
        self._session = Session()
        self._client_id: str | None = None
        self._client_id_bytes: bytes | tuple[()] = ()  # with their length, as in requests; (): not known yet
        self._header_end = 0  # behind them in a request
        self._contexts: dict[int, RequestContext] = {}  # by version; of `_client_id`
        self._backlog: deque[bytes] = deque()  # frames not handled yet
        self._waiting: deque[Deferred] = deque()  # answers owed, in order; the first one is not done
        self._inflight_bytes = 0  # of the requests in `_waiting`
        self._fault: BadFrameSize | None = None  # what follows the frames of the backlog
        self._working = False
        self._resting = False  # it has had its share, and goes on when others have had theirs
        self._held = False  # nothing is begun before everything in `_waiting` is answered
        self._flush_scheduled = False
        self._stalled = False  # nothing is begun before somebody else has answered: who a peer is, say
        self._write_paused = False
        self._since_ns = 0  # when the oldest request came that is being handled or waits for that; 0: there is none
        self.host = ""
        self.peer = ""
        self.shakes_hands = security is not None and security.protocol.tls
        """Whether a TLS handshake comes before its first request."""
        self.price_ns = 0
        """What it counts for until it has said who it is."""
        self.outside = False
        """Whether it waits, unread, for its turn to be let in."""

    # --- called by the event loop

    def connection_made(self, transport: Transport) -> None:
        """A client has connected."""
        self._transport = transport
        name = transport.get_extra_info("peername") or ("", 0)
        self.host = str(name[0]).removeprefix("::ffff:")
        self.peer = f"{self.host}:{name[1]}"
        self.last_tick = self._owner.tick
        high = min(self._max_bytes, max(self._memory.shares.requests // 1024, 16_384))
        transport.set_write_buffer_limits(high=high, low=high // 4)
        self._owner.counters.accepted += 1
        self._owner.admit(self)

    def identified(self, principal: str) -> None:
        """Its TLS handshake is done; where nothing else asks who it is, this is it."""
        if self._gate is None:
            self._principal = principal
            self.hold_to_quotas()
            if self.price_ns:
                self._owner.logged_in(self)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        if self.closed or not self._max_requests:
            return
        self.last_tick = self._owner.tick
        frames: list[bytes] = []
        try:
            frames = self._cutter.feed(data)
            self._backlog += frames
        except BadFrameSize as fault:
            self._backlog += fault.frames
            fault.frames = []
            self._fault = fault.with_traceback(None)  # kept: the frames it came through hold this connection
        if not self._working and not self._resting:
            self._work()
        if self.held_bytes or self._cutter.missing or self._backlog:
            self._settle()
            self._owner.slow_frames.came(self, self._cutter.missing, anew=bool(frames))
            if frames:
                self._memory.had_its_turn(self)

    def eof_received(self) -> None:
        """The peer sends no more: the transport closes itself, since nobody will read answers."""

    def pause_writing(self) -> None:
        """The peer leaves too much unread."""
        self._write_paused = True
        self._pause_reading()
        self.unsent_bytes = min(self._own_bytes, self._transport.get_write_buffer_size())
        self._settle()

    def resume_writing(self) -> None:
        """The peer has read most of it."""
        self.last_tick = self._owner.tick
        self._write_paused = False
        self._own_bytes = self.unsent_bytes = 0
        self._settle()
        if not self.closed:
            self._broker.runtime.soon(self._go_on)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone, whoever ended it. Parked requests are forgotten; group members stay."""
        how = "broker" if self.closed else "end of file" if error is None else "reset"
        self._broker.peers.closed(self._session.peer, how)
        self.closed = True
        self._owner.forget(self)
        self._abandon()

    # --- called by ours

    @property
    def idle(self) -> bool:
        """Whether silence counts: nothing is owed to the peer, or it does not read what it is given."""
        return self._write_paused or not self._waiting

    def parked(self) -> Iterator[AnswerRoute]:
        """The route of each request whose answer is owed."""
        return (deferred.route for deferred in self._waiting)

    @property
    def missing(self) -> int:
        """Bytes that a request which has begun to come still needs."""
        return self._cutter.missing

    @property
    def is_heavy(self) -> bool:
        """Whether it is held back first when memory is short: it has held much, or was never heard."""
        return self._held_much or not self._contexts

    @property
    def in_flight(self) -> bool:
        """Whether a large request of it is being handled, or waits."""
        return self._inflight_bytes >= _LARGE_REQUEST_BYTES

    # --- called by who admits it

    def let_in(self) -> None:
        """It is served from now on."""
        if self.outside:
            self.outside = False
            self.let_go()
        self._owner.joined(self)
        self._memory.connected(self)
        self.hold_to_quotas()
        if self._gate is not None:
            self._gate.opened()
        if self._stalled:
            self._stalled = False
            self._broker.runtime.soon(self._go_on)

    def keep_out(self) -> None:
        """It waits for that."""
        self._stalled = True

    def keep_outside(self) -> None:
        """It waits for that, and is not read meanwhile."""
        self._stalled = self.outside = True
        self.hold_back()
        self._broker.runtime.soon(self._stay_outside)

    def _stay_outside(self) -> None:
        if self.outside:
            self.hold_back()

    # --- called by its gate

    @property
    def broker(self) -> Broker:
        """What it serves."""
        return self._broker

    @property
    def owes(self) -> bool:
        """Whether a request before this one is not answered yet."""
        return bool(self._waiting)

    def hold(self, frame: bytes) -> None:
        """Show this frame again when everything before it is answered."""
        self._backlog.appendleft(frame)
        self._held = True

    def route(self, api_key: int, version: int) -> Route | None:
        """What serves a version of an API, None if nothing does."""
        return self._owner.routes.made.get(api_key << 16 | version) or self._owner.routes.find(api_key, version)

    def answer(self, buffers: list[Buffer]) -> None:
        """Send this in its turn; nothing is owed before it."""
        self._put(buffers)

    def wait_with(self, frame: bytes) -> Callable[[], None]:
        """Do nothing more; what is returned shows this frame again and goes on. Nothing is owed before it."""
        self._backlog.appendleft(frame)
        self._stalled = True

        def go_on() -> None:
            self._stalled = False
            self._go_on()

        return go_on

    def end_later(self, buffers: list[Buffer], delay_ms: int) -> None:
        """Read nothing more; after the delay send this and end."""
        self.stop_reading()
        runtime = self._broker.runtime

        def end() -> None:
            if not self.closed:
                self._put(buffers)
                self.end()

        runtime.timers.set(("login", id(self)), runtime.now_ms() + delay_ms, end)

    def authenticated(self, principal: str, *, watched: bool) -> None:
        """From now on it is this principal; the gate goes unless it is `watched`."""
        if self.price_ns:
            self._owner.logged_in(self)
        self._principal = principal
        self.hold_to_quotas()
        self._cutter.limit = min(self._broker.settings.socket_request_max_bytes, self._memory.shares.request)
        if not watched:
            self._gate = None

    # ---

    @property
    def backlog(self) -> int:
        """Requests that have come and are not handled yet."""
        return len(self._backlog)

    def deferred_completed(self, deferred: Deferred) -> None:
        """An answer has come."""
        if not self._working and not self._flush_scheduled and self._waiting and self._waiting[0] is deferred:
            self._flush_scheduled = True
            self._broker.runtime.last(self._flush)

    def stop_reading(self) -> None:
        """Handle no further request; answers that are owed still leave."""
        self._backlog.clear()
        self._max_requests = 0
        self._pause_reading()

    def close(self, reason: str, **facts: Any) -> None:
        """End it, with one log line; what is ready still leaves, requests that wait are forgotten."""
        if self.closed:
            return
        self._owner.closings.tell(self.host, self.peer, reason, self._client_id, facts)
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
        if not self.closed:
            self._write()
            self.closed = True
            self._transport.close()
            self._abandon()

    # ---

    def _work(self) -> None:
        """Handle the backlog until it is empty, enough is in flight or this took long; then write what is ready."""
        backlog, waiting = self._backlog, self._waiting
        self._working = True
        clock_ns = self._clock_ns
        start_ns = clock_ns()
        end_ns = start_ns + (QUANTUM_NS if self._resting else _MAX_TURN_NS)
        frame = b""
        began_ns = self._since_ns = self._since_ns or start_ns
        self._session.peer.heard_ns = start_ns
        looks = 0
        unlooked_bytes = _LOOKS_EVERY_BYTES
        enough = self._write_paused
        # Requests that come together leave together, so they took the same time: one look at the clock for all of them.
        answered: Route | None = None
        count = 0
        while backlog and not enough and not self._stalled:
            if waiting and (
                self._held or len(waiting) >= self._max_requests or self._inflight_bytes >= self._max_bytes
            ):
                break
            frame = backlog.popleft()
            route = self._handle(frame)
            if route is not None:
                if route is not answered:
                    if answered is not None:
                        answered.tally(count, clock_ns() - began_ns)
                    answered, count = route, 0
                count += 1
            elif self.closed:
                return
            unlooked_bytes -= len(frame) + _AT_LEAST_BYTES
            if self._out_bytes >= _MAX_BYTES_PER_TURN:
                self._write()
                # Large answers are work too: a peer that asks for many takes its share of a turn, not all of it.
                enough = True
            elif unlooked_bytes <= 0:
                unlooked_bytes = _LOOKS_EVERY_BYTES
                looks += 1
                enough = looks >= _MAX_LOOKS_PER_TURN or clock_ns() >= end_ns
        now_ns = clock_ns()
        if answered is not None:
            took_ns = now_ns - began_ns  # as `tally`, without the call
            answered.durations[(took_ns >> DURATION_SHIFT).bit_length()] += count
            answered.total_ns += took_ns * count
        if not backlog or self._held or self._stalled:
            # Requests that are held up count from when their turn comes: Kafka would not have read them yet.
            self._since_ns = 0
        self._working = False
        if now_ns - start_ns > NOTED_NS:
            # What took long was the last of them: it ends the turn.
            self._broker.runtime.stalls.note(_api_of(frame), self._session.client, now_ns - start_ns)
        if enough and backlog and not self._resting and not self._write_paused:
            self._rest()
        if waiting and waiting[0].done:
            if not self._drain():
                return
            if backlog:
                # A request has answered those before it, so there is room now, and perhaps nothing else that says so.
                self._broker.runtime.next_turn(self._go_on)
        if self._out:
            if not waiting:
                self._write()
            elif not self._flush_scheduled:
                # More may be ready when the turn ends (commits become durable together): one write for all of it.
                self._flush_scheduled = True
                self._broker.runtime.last(self._flush)
        if backlog and not self._reads_ahead():
            self._pause_reading()
        elif self._fault is not None:
            self._refuse_frame(self._fault)
        elif self._reading_paused and not self._write_paused and self._max_requests:
            self._resume_reading()

    def _reads_ahead(self) -> bool:
        """Whether the peer is read though requests are held up: only of who is read it is seen that it has gone."""
        backlog = self._backlog
        return (
            self._held
            and self._fault is None
            and len(backlog) < self._max_requests
            and sum(map(len, backlog)) < self._max_bytes
        )

    def _rest(self) -> None:
        """Go on in slices, which all connections that ask for much share: nobody else waits for them together."""
        self._resting = True
        self._broker.runtime.in_slices(
            self._in_turns(),
            _nothing,
            partial(self.failed, None),
            owner=self,
            wanted=lambda: not self.closed,
            at_once=False,
        )

    def _in_turns(self) -> Generator[None, None, None]:
        before = -1
        while self._backlog and len(self._backlog) != before:
            before = len(self._backlog)
            self._work()
            if self.held_bytes:
                self._settle()
            yield
        self._resting = False
        self._go_on()

    def _go_on(self) -> None:
        if not self.closed and not self._working and not self._resting:
            self._work()
            if self.held_bytes:
                self._settle()

    def _settle(self) -> None:
        """Tell the memory of all connections what this one holds."""
        held = 0
        if not self.closed:
            held = self._cutter.held_bytes + sum(map(len, self._backlog)) + self.unsent_bytes
            if self._inflight_bytes >= _LARGE_REQUEST_BYTES:
                held += self._inflight_bytes
        by_bytes = held - self.held_bytes
        if by_bytes:
            self.held_bytes = held
            self._held_much = self._held_much or held > _LARGE_REQUEST_BYTES
            self._memory.changed(self, by_bytes)

    def _handle(self, frame: bytes) -> Route | None:
        """Handle a request; its route when the answer is there at once."""
        route: Route | None = None
        try:
            if self._gate is not None and not self._gate.lets_through(frame):
                return None
            # What differs from request to request, where the client says that it is who it was; else all of the header.
            if frame.startswith(self._client_id_bytes, CLIENT_ID_AT):
                api_and_version, correlation_id = read_route(frame)
                route = self._routes.get(api_and_version)
                position = self._header_end
                if route is not None and route.has_tags:
                    position = position + 1 if frame.startswith(b"\0", position) else past_tags(frame, position)
            if route is None:
                api_key, version, correlation_id, client_id, position = read_request_header(frame)
                self._name(client_id, frame)
                route = self._routes.get(api_key << 16 | version) or self._find(api_key, version)
                if self._waiting and (route is None or not route.flows):
                    self.hold(frame)
                    return None
                if route is None:
                    self.unserved(api_key, version, correlation_id)
                    return None
            elif self._waiting and not route.flows:
                self.hold(frame)
                return None
            if len(frame) > self._largest_of_objects and route.api_key != ApiKey.PRODUCE:
                # A megabyte of names or partitions is some twenty of objects while it is answered.
                self._owner.counters.bad_frames += 1
                self.close("request too large for the memory there is", size=len(frame), limit=self._largest_of_objects)
                return None
            try:
                request, end = route.decode(frame, position)
            except LongMessage:
                self._read_in_thread(route, frame, position, correlation_id, self._client_id)
                return None
            if end != len(frame):
                self._owner.counters.requests_with_trailing_bytes += 1
            context = self._contexts.get(route.version)
            if context is None:
                context = self._new_context(route.version)
            response: Message | Deferred | Encoded | None = route.handle(self._broker, context, request)
            if isinstance(response, Deferred):
                if not response.done:
                    self._park(response, route, correlation_id, len(frame))
                    self._held = not route.flows or response.holds
                    return None
                known = response.response
                if isinstance(known, Exception):
                    raise known
                response = known
            if response is None:
                return route
            if not self._waiting:
                try:
                    self._put(route.encode(response, correlation_id))
                except LongMessage:
                    self._held = True
                else:
                    return route
            ready = Deferred()
            ready.complete(response)
            self._park(ready, route, correlation_id, 0)
            return None
        except Exception as error:
            self.failed(route, error)
        return None

    # --- quotas

    def hold_to_quotas(self) -> None:
        """They have changed, or who it is has: requests that were begun keep what held for them."""
        self._contexts = {}
        limits = self._broker.quotas.limits(self._principal, self._client_id or "")
        if limits is not None or self._limits is not None:
            settle(self._routes.values())
            self._limits = limits
            self._session.took = None if limits is None else limits.took
            self._routes = self._owner.routes.made if limits is None else {}

    def mute(self, for_ms: int) -> None:
        """Begin no further request for so long."""
        self._stalled = True
        runtime = self._broker.runtime
        runtime.timers.set(("mute", id(self)), runtime.now_ms() + for_ms, self._unmute)

    def _unmute(self) -> None:
        self._stalled = False
        self._go_on()

    def _find(self, api_key: int, version: int) -> Route | None:
        route = self.route(api_key, version)
        if route is not None and self._limits is not None:
            route = ThrottledRoute(route, self, self._limits, self._clock_ns)
            self._routes[api_key << 16 | version] = route
        return route

    # --- long requests and answers

    def _read_in_thread(
        self, route: Route, frame: bytes, position: int, correlation_id: int, client_id: str | None
    ) -> None:
        """Handle a long request once it is read. Nothing is begun behind it."""
        promise = Deferred()
        self._park(promise, route, correlation_id, len(frame))
        self._held = True
        self._broker.runtime.in_slices(
            decoded(route, frame, position),
            lambda read: self._handle_long(promise, route, client_id, len(frame), read),
            partial(self.failed, route),
            owner=self._session,
            wanted=lambda: not promise.gone,
        )

    def _handle_long(
        self, promise: Deferred, route: Route, client_id: str | None, size_bytes: int, read: Decoded
    ) -> None:
        promise.parts = read.parts
        if read.end != size_bytes:
            self._owner.counters.requests_with_trailing_bytes += 1
        response: Message | Deferred | Exception | Encoded | None
        try:
            response = route.handle_long(self._broker, self.context(client_id, route.version), read.request)
        except Exception as error:
            self.failed(route, error)
            return
        if isinstance(response, Deferred):
            if not response.done:
                self._take_place(response, promise)
                response.parts = read.parts
                self._waiting[-1] = response
                return
            response = response.response
        promise.complete(response)

    def _write_in_thread(self, deferred: Deferred) -> Deferred:
        """What stands in the place of an answer that is too long, while it is written."""
        later = Deferred()
        self._take_place(later, deferred)
        answer, deferred.response = [deferred.response], None
        parts: list[object] = getattr(deferred, "parts", [])
        runtime, owner = self._broker.runtime, self._session

        def written(result: tuple[Encoded, list[object]]) -> None:
            later.complete(result[0])
            for each in (parts, result[1]):
                runtime.in_slices(let_go(each), _nothing, _nothing, owner=owner)

        runtime.in_slices(
            encoded(deferred.route, answer, deferred.correlation_id),
            written,
            partial(self.failed, deferred.route),
            owner=owner,
            wanted=lambda: not later.gone,
        )
        return later

    @staticmethod
    def _take_place(later: Deferred, deferred: Deferred) -> None:
        later.connection = deferred.connection
        later.route = deferred.route
        later.correlation_id = deferred.correlation_id
        later.size_bytes = deferred.size_bytes
        later.began_ns = deferred.began_ns

    # ---

    def context(self, client_id: str | None, version: int) -> RequestContext:
        """Of a request of this client in this version."""
        self._is_of(client_id)
        return self._contexts.get(version) or self._new_context(version)

    def _is_of(self, client_id: str | None) -> None:
        """Serve this client from now on."""
        if client_id != self._client_id:
            self._client_id = client_id
            self._client_id_bytes = ()
            self.hold_to_quotas()

    def _name(self, client_id: str | None, frame: bytes) -> None:
        """The client says that this is its id, in the header of a whole request."""
        self._is_of(client_id)
        length = int.from_bytes(frame[CLIENT_ID_AT : CLIENT_ID_AT + 2], "big", signed=True)
        self._header_end = CLIENT_ID_AT + 2 + max(length, 0)
        self._client_id_bytes = frame[CLIENT_ID_AT : self._header_end]

    def _new_context(self, version: int) -> RequestContext:
        client_id = self._client_id
        context = RequestContext(self._principal, self.listener, self.host, client_id or "", version, self._session)
        if self._broker.authorizer is not None:
            context.rights = self._broker.authorizer.rights(context.principal, self.host)
        context.limits = self._limits
        self._contexts[version] = context
        self._session.client = f"{client_id or ''}@{self.peer}"
        self._broker.peers.named(self._session.peer, client_id or "", "/" + self.host)
        return context

    def unserved(self, api_key: int, version: int, correlation_id: int) -> None:
        """An API or a version that is not ours. Source: KIP-511; Kafka's SocketServer closes the connection."""
        if api_key != ApiKey.API_VERSIONS:
            self._owner.counters.bad_frames += 1
            self.close("unsupported API or version", api_key=api_key, api=api_name(api_key), version=version)
            return
        first, last = APIS[api_key].advertised
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[ApiVersion(api_key=api_key, min_version=first, max_version=last)],
        )
        self._put(encode_response(api_key, 0, correlation_id, response))

    def _park(self, deferred: Deferred, route: Route, correlation_id: int, size_bytes: int) -> None:
        self._session.api = route.name
        deferred.connection = self
        deferred.route = route
        deferred.correlation_id = correlation_id
        deferred.began_ns = self._since_ns
        self._waiting.append(deferred)
        if size_bytes >= _LARGE_REQUEST_BYTES and route.api_key != ApiKey.PRODUCE:
            size_bytes *= _OBJECTS_FACTOR
        deferred.size_bytes = size_bytes
        self._inflight_bytes += size_bytes
        if size_bytes >= _LARGE_REQUEST_BYTES:
            self._settle()

    def _drain(self) -> bool:
        """Encode the answers whose turn has come; false when the connection ended over one."""
        waiting = self._waiting
        now_ns = self._clock_ns()
        while waiting and waiting[0].done:
            deferred = waiting.popleft()
            route, response = deferred.route, deferred.response
            deferred.response = None  # its handler may hold on to the deferred for longer
            if response.__class__ is CloseConnection:
                self.close(str(response))
                return False
            try:
                if response.__class__ is Encoded:
                    self._put(response.buffers)
                elif response is not None:
                    self._put(route.encode(response, deferred.correlation_id))  # type: ignore[arg-type]  # see above
            except LongMessage:
                deferred.response = response
                response = None
                waiting.appendleft(self._write_in_thread(deferred))
                return True
            except Exception as error:
                self.failed(route, error)
                return False
            self._inflight_bytes -= deferred.size_bytes
            took_ns = now_ns - deferred.began_ns
            route.durations[(took_ns >> DURATION_SHIFT).bit_length()] += 1
            route.total_ns += took_ns
        if not waiting:
            self._held = False
        return True

    def _flush(self) -> None:
        """Write what is ready, at the end of a turn."""
        self._flush_scheduled = False
        if self.closed or not self._drain():
            return
        self._write()
        if self._backlog or self._reading_paused:
            self._go_on()
        if self.held_bytes:
            self._settle()

    def _refuse_frame(self, fault: BadFrameSize) -> None:
        self._fault = None
        if not self._max_requests:
            return  # what is owed at the end is on its way
        if self._gate is not None and self._gate.bad_size(fault.size, fault.limit):
            return
        self._owner.counters.bad_frames += 1
        self.close("frame of a size that is not allowed", size=fault.size, limit=fault.limit)

    def _abandon(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._backlog.clear()
        self._cutter.clear()
        self._out = []
        self._settle()
        self._memory.forget(self)
        self._owner.slow_frames.forget(self)
        if self._gate is not None:
            self._gate.over()
            self._gate = SHUT  # a gate and its connection hold each other
        if self._limits is not None:
            settle(self._routes.values())
        if self._stalled:  # perhaps by a quota that is gone by now
            self._broker.runtime.timers.cancel(("mute", id(self)))
        for deferred in waiting:
            deferred.abandon()


def _api_of(frame: bytes) -> str:
    api_key = int.from_bytes(frame[4:6], "big")
    return api_name(api_key)


def _nothing(_: object) -> None:
    """Nobody waits for that."""
