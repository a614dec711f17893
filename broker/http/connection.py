"""One HTTP/1.1 connection: h11 reads and writes the protocol, this drives it between the loop's other work.

A request line and its headers may have 16 KiB and must come within ten seconds; a connection that asks nothing is
closed after 75 s, one that does not read its answer after 30 s. While an answer is on its way nothing more is read, so
a peer that sends ahead fills its own socket. Bytes that are no HTTP are answered 400 and closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from broker.http.answers import Answer, Later
    from broker.loop.runtime import Runtime

    Respond = Callable[[str, str, dict[str, str], str], Answer | Later]

MAX_HEAD_BYTES = 16_384
MAX_BODY_BYTES = 65_536  # of a request: none has a use here
HEAD_WITHIN_MS = 10_000
IDLE_MS = 75_000
READ_WITHIN_MS = 30_000
WRITE_BUFFER_BYTES = 262_144
WRITE_BYTES = 65_536
"""What is made of a long answer before it is written."""

log = get_logger(__name__)


class HttpParts:
    """What is imported with the first connection: h11, and `respond(method, target, headers, host)`, which makes
    answers. Header names are in lower case; `host` is the bare address of the peer.
    """

    __slots__ = ("h11", "respond")

    def __init__(self, h11: Any, respond: Respond) -> None:
        self.h11 = h11
        self.respond = respond


class Owner(Protocol):
    """Who keeps the connections of the HTTP listener."""

    runtime: Runtime
    connections: set[HttpConnection]

    def when_loaded(self, callback: Callable[[HttpParts], None]) -> None:
        """Call `callback` once requests can be understood."""

    def is_full_for(self, host: str) -> bool:
        """Whether one more connection of an address is refused."""


class HttpConnection:
    """The protocol of one accepted socket; called by the event loop."""

    __slots__ = (
        "__weakref__",
        "_answering",
        "_body",
        "_body_bytes",
        "_early",
        "_h11",
        "_loaded",
        "_parser",
        "_paused",
        "_request",
        "_sending",
        "_server",
        "_transport",
        "closed",
        "host",
        "peer",
    )

    outside = False  # it is let in at once

    def __init__(self, server: Owner) -> None:
        self._server = server
        self._transport: Any  # asyncio.Transport, which only `broker.loop.loop_runtime` may name
        self._loaded: HttpParts | None = None
        self._h11: Any = None
        self._parser: Any = None
        self._early = bytearray()  # what came before the parser was there
        self._request: Any = None
        self._body_bytes = 0  # of the request
        self._answering = False
        self._body: Iterator[bytes] | None = None
        self._paused = False  # the peer does not read
        self._sending = False  # the answer is being made
        self.closed = False
        self.host = self.peer = ""

    # --- called by the event loop

    def connection_made(self, transport: Any) -> None:
        """Somebody has connected."""

        self._transport = transport
        name = transport.get_extra_info("peername") or ("", 0)
        self.host = name[0]
        self.peer = f"{name[0]}:{name[1]}"
        if self._server.is_full_for(self.host):
            self.closed = True
            transport.abort()
            return
        self._server.connections.add(self)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES, low=WRITE_BUFFER_BYTES // 4)
        self._within(HEAD_WITHIN_MS)
        self._server.when_loaded(self._begin)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        if self.closed:
            return
        if self._parser is None:
            self._early += data
            if len(self._early) > MAX_HEAD_BYTES:
                self._transport.pause_reading()
            return
        if self._request is None and not self._answering:
            self._begin_request()
        self._parser.receive_data(data)
        self._read()

    def eof_received(self) -> bool:
        """The peer sends no more; it still gets the answer that it waits for."""
        if self._parser is not None and not self.closed:
            self._parser.receive_data(b"")
            self._read()
        return not self.closed

    def peer_ended(self) -> None:
        """Nothing: no request waits here."""

    def pause_writing(self) -> None:
        """The peer leaves too much unread."""
        self._paused = True
        self._within(READ_WITHIN_MS)

    def resume_writing(self) -> None:
        """The peer has read most of it."""
        self._paused = False
        if self._body is not None and not self.closed:
            self._within(READ_WITHIN_MS)
            self._go_on_sending()

    def connection_lost(self, _: Exception | None) -> None:
        """The connection is gone, whoever ended it."""
        self.closed = True
        self._body = None
        self._server.connections.discard(self)
        self._server.runtime.timers.cancel(("http", id(self)))

    # --- called by a TLS channel, where there is one

    def identified(self, _: str) -> None:
        """Its handshake is done. Who may ask what is said by a token, or by basic authentication."""

    def end(self) -> None:
        """The handshake has failed."""
        if not self.closed:
            self._end()

    # --- called by ours

    def abort(self) -> None:
        """End it at once."""
        self.closed = True
        self._transport.abort()

    # --- requests

    def _begin(self, loaded: HttpParts) -> None:
        if self.closed:
            return
        self._loaded = loaded
        self._h11 = loaded.h11
        self._parser = loaded.h11.Connection(loaded.h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        early, self._early = bytes(self._early), bytearray()
        if early:
            if len(early) > MAX_HEAD_BYTES:
                self._transport.resume_reading()
            self.data_received(early)

    def _begin_request(self) -> None:
        """The first bytes of a request: the rest has its time from now on, however slowly it drips."""
        if not self._parser.trailing_data[0]:
            self._within(HEAD_WITHIN_MS)

    def _read(self) -> None:
        """Take what has come, up to the end of one request."""
        h11 = self._h11
        try:
            while not self.closed and not self._answering:
                event = self._parser.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    return
                if isinstance(event, h11.Request):
                    self._request = event
                    self._body_bytes = 0
                elif isinstance(event, h11.Data):
                    self._body_bytes += len(event.data)
                    if self._body_bytes > MAX_BODY_BYTES:
                        self._refuse(413, "requests have no body here")
                        return
                elif isinstance(event, h11.EndOfMessage):
                    self._respond()
                elif isinstance(event, h11.ConnectionClosed):
                    self._end()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint or 400, str(error))
            error.__traceback__ = None  # h11 raises it from a frame that knows it, and that knows this connection

    def _respond(self) -> None:
        from broker.http.answers import Later  # noqa: PLC0415  json: loaded by now

        self._answering = True
        self._transport.pause_reading()
        self._within(READ_WITHIN_MS)
        request = self._request
        assert self._loaded is not None
        try:
            answer = self._loaded.respond(
                request.method.decode("ascii"),
                request.target.decode("ascii"),
                {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers},
                self.host,
            )
        except Exception:
            answer = self._bug()
        if isinstance(answer, Later):
            answer.when_there(self._send)
        else:
            self._send(answer)

    def _bug(self) -> Answer:
        from broker.http.answers import problem  # noqa: PLC0415  json: loaded by now

        log.exception("http_failed", peer=self.peer, target=self._request.target.decode("ascii"))
        return problem(500, "the broker failed to make this answer; its log says how")

    # --- answers

    def _send(self, answer: Answer) -> None:
        if self.closed:
            return
        headers = [("content-type", answer.content_type), ("cache-control", "no-store"), *answer.headers]
        body = answer.body
        if isinstance(body, bytes):
            headers.append(("content-length", str(len(body))))
            body = iter((body,))
        h11 = self._h11
        self._write(h11.Response(status_code=answer.status, headers=headers))
        # The framing of an answer to HEAD is that of GET, and its body is not made.
        self._body = iter(()) if self._request is not None and self._request.method == b"HEAD" else body
        self._go_on_sending()

    def _go_on_sending(self) -> None:
        """Make and send the answer in slices, until all of it is written or the peer stops reading."""
        if self._sending:
            return
        self._sending = True
        self._server.runtime.in_slices(
            self._pieces(), self._sent, self._not_sent, owner=self, wanted=lambda: not self.closed
        )

    def _pieces(self) -> Generator[None, None, bool]:
        """Whether all of it was written; else the peer has stopped reading."""
        parts: list[bytes] = []
        size = 0
        while not self._paused and self._body is not None:
            part = next(self._body, None)
            if part is None:
                self._write_data(parts)
                return True
            if part:
                parts.append(part)
                size += len(part)
            if size >= WRITE_BYTES:
                self._write_data(parts)
                parts, size = [], 0
            self._within(READ_WITHIN_MS)
            yield
        self._write_data(parts)
        return False

    def _sent(self, whole: bool) -> None:
        self._sending = False
        if self.closed or self._body is None:
            return
        if whole:
            self._finish()
        elif not self._paused:
            self._go_on_sending()  # it reads again

    def _not_sent(self, _: Exception) -> None:
        self._sending = False
        log.exception("http_failed", peer=self.peer)
        self.abort()  # half an answer must not look whole

    def _write_data(self, parts: list[bytes]) -> None:
        if parts:
            self._write(self._h11.Data(data=b"".join(parts)))

    def _write(self, event: Any) -> None:
        data = self._parser.send(event)
        if data:
            self._transport.write(data)

    def _finish(self) -> None:
        self._body = None
        h11 = self._h11
        self._write(h11.EndOfMessage())
        self._request = None
        if self._parser.our_state is not h11.DONE or self._parser.their_state is not h11.DONE:
            self._end()
            return
        self._parser.start_next_cycle()
        self._answering = False
        self._within(IDLE_MS)
        self._transport.resume_reading()
        if self._parser.trailing_data[0]:
            self._within(HEAD_WITHIN_MS)
            # A peer that sends ahead takes its turn like everybody else.
            self._server.runtime.next_turn(self._go_on)

    def _go_on(self) -> None:
        if not self.closed and not self._answering:
            self._read()

    # --- ends

    def _refuse(self, status: int, sentence: str) -> None:
        """Say what is wrong with what came, and close."""
        from broker.http.answers import problem  # noqa: PLC0415  json: loaded by now

        log.debug("http_refused", peer=self.peer, reason=sentence)
        if self._parser.our_state in (self._h11.IDLE, self._h11.SEND_RESPONSE):
            answer = problem(status, sentence)
            assert isinstance(answer.body, bytes)
            headers = [
                ("content-type", answer.content_type),
                ("content-length", str(len(answer.body))),
                ("connection", "close"),
            ]
            self._write(self._h11.Response(status_code=status, headers=headers))
            self._write(self._h11.Data(data=answer.body))
            self._write(self._h11.EndOfMessage())
        self._end()

    def _end(self) -> None:
        self.closed = True
        self._body = None
        # What is written still leaves; a peer that does not read it is cut off when its time is over.
        self._within(READ_WITHIN_MS)
        self._transport.close()

    def _within(self, ms: int) -> None:
        runtime = self._server.runtime
        runtime.timers.set(("http", id(self)), runtime.now_ms() + ms, self._too_late)

    def _too_late(self) -> None:
        if self.closed or self._answering or self._paused:
            log.info("http_aborted", peer=self.peer, reason="it does not read its answer")
            self.abort()
        elif self._parser is not None and self._parser.trailing_data[0]:
            self._refuse(408, "the request did not come to its end in time")
        else:
            self._end()
