"""One client's connection: bytes to requests, handlers' answers to bytes, in the order of the requests (D7).

A request is begun when those before it are answered, as in Kafka, which reads a connection again when its answer has
left. Only requests that flow (`broker.dispatch.FLOWING`) are begun behind each other without waiting; an answer that
comes early waits for its turn. What is ready when a loop turn ends leaves in one write.
Source: Kafka's SocketServer (a channel is muted while it has a request), docs/decisions/one-request-at-a-time.md.

A peer is read no further while too many of its requests are unanswered, or it leaves too much unread; what was cut into
frames already waits in the backlog. Whatever a peer sends ends in an answer or in a closed connection, with one log
line that says why.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from broker.context import CloseConnection, Deferred, RequestContext, Session
from broker.durations import DURATION_SHIFT
from broker.logs import get_logger
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode, ProtocolError
from protocol.frame_cutter import BadFrameSize, FrameCutter
from protocol.frames import encode_response, read_request_header
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.connection_owner import Owner
    from broker.dispatch import Route

log = get_logger()

_MAX_REQUESTS_PER_TURN = 256
# Of answers: then they are written, to learn whether the peer reads, and others have a turn.
_MAX_BYTES_PER_TURN = 65_536
_JOIN_BELOW_BYTES = 65_536  # copying less than this together costs less than the kernel's looking at each piece


class Connection:
    """The protocol of one accepted socket; called by the event loop."""

    __slots__ = (
        "__weakref__",
        "_backlog",
        "_broker",
        "_client_id",
        "_contexts",
        "_cutter",
        "_fault",
        "_flush_scheduled",
        "_held",
        "_inflight_bytes",
        "_listener",
        "_max_bytes",
        "_max_requests",
        "_out",
        "_out_bytes",
        "_owner",
        "_reading_paused",
        "_routes",
        "_session",
        "_since_ns",
        "_transport",
        "_waiting",
        "_working",
        "_write_paused",
        "admitted",
        "closed",
        "host",
        "last_tick",
        "peer",
    )

    def __init__(self, owner: Owner, listener: str) -> None:
        settings = owner.broker.settings
        self._owner = owner
        self._broker = owner.broker
        self._listener = listener
        self._routes = owner.routes.made
        self._max_requests = settings.kohort_max_inflight_requests
        self._max_bytes = settings.kohort_max_inflight_bytes
        self._cutter = FrameCutter(settings.socket_request_max_bytes)
        self._transport: Any  # asyncio.Transport, which only `broker.runtime` may name
        self._session = Session()
        self._client_id: str | None = None
        self._contexts: dict[int, RequestContext] = {}  # by version; of `_client_id`
        self._backlog: deque[bytes] = deque()  # frames not handled yet
        self._waiting: deque[Deferred] = deque()  # answers owed, in order; the first one is not done
        self._inflight_bytes = 0  # of the requests in `_waiting`
        self._out: list[Any] = []  # answers in order, not yet given to the transport
        self._out_bytes = 0
        self._fault: BadFrameSize | None = None  # what follows the frames of the backlog
        self._working = False
        self._held = False  # nothing is begun before everything in `_waiting` is answered
        self._flush_scheduled = False
        self._reading_paused = False
        self._write_paused = False
        self._since_ns = 0  # when the oldest request came that is being handled or waits for that; 0: there is none
        self.admitted = False
        self.closed = False
        self.host = ""
        self.peer = ""
        self.last_tick = 0

    # --- called by the event loop

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        self._transport = transport
        name = transport.get_extra_info("peername") or ("", 0)
        self.host = str(name[0]).removeprefix("::ffff:")
        self.peer = f"{self.host}:{name[1]}"
        self.last_tick = self._owner.tick
        transport.set_write_buffer_limits(high=self._max_bytes, low=self._max_bytes // 4)
        self._owner.counters.accepted += 1
        reason = self._owner.admit(self)
        if reason is not None:
            self._owner.counters.refused += 1
            self.close(reason)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        if self.closed or not self._max_requests:
            return
        self.last_tick = self._owner.tick
        try:
            self._backlog += self._cutter.feed(data)
        except BadFrameSize as fault:
            self._backlog += fault.frames
            self._fault = fault
        if not self._working:
            self._work()

    def eof_received(self) -> None:
        """The peer sends no more: the transport closes itself, since nobody will read answers."""

    def pause_writing(self) -> None:
        """The peer leaves too much unread."""
        self._write_paused = True
        self._pause_reading()

    def resume_writing(self) -> None:
        """The peer has read most of it."""
        self.last_tick = self._owner.tick
        self._write_paused = False
        if not self.closed:
            self._broker.runtime.soon(self._go_on)

    def connection_lost(self, _: Exception | None) -> None:
        """The connection is gone, whoever ended it. Parked requests are forgotten; group members stay."""
        self.closed = True
        self._owner.forget(self)
        self._abandon()

    # --- called by ours

    @property
    def idle(self) -> bool:
        """Whether silence counts: nothing is owed to the peer, or it does not read what it is given."""
        return self._write_paused or not self._waiting

    def parked(self) -> Iterator[Route]:
        """The route of each request whose answer is owed."""
        return (deferred.route for deferred in self._waiting)

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
        log.warning("connection_closed", peer=self.peer, reason=reason, **facts)
        self.end()

    def failed(self, route: Route | None, error: Exception) -> None:
        """A fault of ours: this connection ends, so that its client does not wait; each fault is traced once."""
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

    def abort(self) -> None:
        """End it at once, whatever the peer has not read yet."""
        self.closed = True
        self._transport.abort()

    # ---

    def _work(self) -> None:
        """Handle the backlog until it is empty or enough is in flight; then write what is ready."""
        backlog, waiting = self._backlog, self._waiting
        self._working = True
        began_ns = self._since_ns = self._since_ns or perf_counter_ns()
        budget = _MAX_REQUESTS_PER_TURN
        # Requests that come together leave together, so they took the same time: one look at the clock for all of them.
        answered: Route | None = None
        count = 0
        while backlog and not self._write_paused:
            if waiting and (
                self._held or len(waiting) >= self._max_requests or self._inflight_bytes >= self._max_bytes
            ):
                break
            if budget == 0:
                self._broker.runtime.next_turn(self._go_on)
                break
            budget -= 1
            route = self._handle(backlog.popleft())
            if self.closed:
                return
            if route is not None:
                if route is not answered:
                    if answered is not None:
                        answered.tally(count, perf_counter_ns() - began_ns)
                    answered, count = route, 0
                count += 1
            if self._out_bytes >= _MAX_BYTES_PER_TURN:
                self._write()
                # Large answers are work too: a peer that asks for many takes its share of a turn, not all of it.
                budget = 0
        if answered is not None:
            took_ns = perf_counter_ns() - began_ns  # as `tally`, without the call
            answered.durations[(took_ns >> DURATION_SHIFT).bit_length()] += count
            answered.total_ns += took_ns * count
        if not backlog or self._held:
            # Requests that are held up count from when their turn comes: Kafka would not have read them yet.
            self._since_ns = 0
        self._working = False
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
            self._reading_paused = False
            self._transport.resume_reading()

    def _reads_ahead(self) -> bool:
        """Whether the peer is read though requests are held up: only of who is read it is seen that it has gone."""
        backlog = self._backlog
        return (
            self._held
            and self._fault is None
            and len(backlog) < self._max_requests
            and sum(map(len, backlog)) < self._max_bytes
        )

    def _go_on(self) -> None:
        if not self.closed and not self._working:
            self._work()

    def _handle(self, frame: bytes) -> Route | None:
        """Handle a request; its route when the answer is there at once."""
        route: Route | None = None
        try:
            api_key, version, correlation_id, client_id, position = read_request_header(frame)
            route = self._routes.get(api_key << 16 | version) or self._owner.routes.find(api_key, version)
            if self._waiting and (route is None or not route.flows):
                self._backlog.appendleft(frame)
                self._held = True
                return None
            if route is None:
                self._unserved(api_key, version, correlation_id)
                return None
            request, end = route.decode(frame, position)
            if end != len(frame):
                self._owner.counters.requests_with_trailing_bytes += 1
            if client_id != self._client_id:
                self._contexts = {}
                self._client_id = client_id
            context = self._contexts.get(version)
            if context is None:
                context = self._new_context(client_id, version)
            response = route.handle(self._broker, context, request)
            if response.__class__ is Deferred:
                if not response.done:
                    self._park(response, route, correlation_id, len(frame))
                    self._held = not route.flows
                    return None
                response = response.response
            if response is None:
                return route
            if self._waiting:
                ready = Deferred()
                ready.complete(response)
                self._park(ready, route, correlation_id, 0)
                return None
            self._put(route.encode(response, correlation_id))
            return route
        except ProtocolError as error:
            self._owner.counters.bad_frames += 1
            api = None if route is None else f"{route.name} v{route.version}"
            self.close(str(error), api=api, client_id=self._client_id)
        except CloseConnection as verdict:
            self.close(str(verdict))
        except Exception as error:
            self.failed(route, error)
        return None

    def _new_context(self, client_id: str | None, version: int) -> RequestContext:
        context = RequestContext("User:ANONYMOUS", self._listener, self.host, client_id or "", version, self._session)
        self._contexts[version] = context
        return context

    def _unserved(self, api_key: int, version: int, correlation_id: int) -> None:
        """An API or a version that is not ours. Source: KIP-511; Kafka's SocketServer closes the connection."""
        if api_key != ApiKey.API_VERSIONS:
            self._owner.counters.bad_frames += 1
            name = APIS[api_key].name if api_key in APIS else "unknown"
            self.close("unsupported API or version", api_key=api_key, api=name, version=version)
            return
        first, last = APIS[api_key].advertised
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[ApiVersion(api_key=api_key, min_version=first, max_version=last)],
        )
        self._put(encode_response(api_key, 0, correlation_id, response))

    def _park(self, deferred: Deferred, route: Route, correlation_id: int, size_bytes: int) -> None:
        deferred.connection = self
        deferred.route = route
        deferred.correlation_id = correlation_id
        deferred.size_bytes = size_bytes
        deferred.began_ns = self._since_ns
        self._inflight_bytes += size_bytes
        self._waiting.append(deferred)

    def _put(self, buffers: list[Any]) -> None:
        if len(buffers) == 1:
            self._out.append(buffers[0])
            self._out_bytes += len(buffers[0])
        else:
            self._out += buffers
            self._out_bytes += sum(map(len, buffers))

    def _drain(self) -> bool:
        """Encode the answers whose turn has come; false when the connection ended over one."""
        waiting = self._waiting
        now_ns = perf_counter_ns()
        while waiting and waiting[0].done:
            deferred = waiting.popleft()
            self._inflight_bytes -= deferred.size_bytes
            took_ns = now_ns - deferred.began_ns
            route = deferred.route
            route.durations[(took_ns >> DURATION_SHIFT).bit_length()] += 1
            route.total_ns += took_ns
            if deferred.response is None:
                continue
            try:
                self._put(deferred.route.encode(deferred.response, deferred.correlation_id))
            except Exception as error:
                self.failed(deferred.route, error)
                return False
            deferred.response = None  # its handler may hold on to the deferred for longer
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

    def _write(self) -> None:
        out = self._out
        if not out:
            return
        if len(out) == 1:
            self._transport.write(out[0])
        elif self._out_bytes < _JOIN_BELOW_BYTES:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
        self._out = []
        self._out_bytes = 0
        self.last_tick = self._owner.tick

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self.closed:
            self._reading_paused = True
            self._transport.pause_reading()

    def _refuse_frame(self, fault: BadFrameSize) -> None:
        self._owner.counters.bad_frames += 1
        self.close("frame of a size that is not allowed", size=fault.size, limit=fault.limit)

    def _abandon(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._backlog.clear()
        self._out = []
        for deferred in waiting:
            deferred.abandon()
