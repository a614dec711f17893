"""What a handler is told about a request, and how it answers one later.

A handler is `handle(broker, context, request) -> response | Deferred | None`: it answers at once, promises to answer
later, or says that no answer leaves (Produce with acks=0). It never awaits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Never, Protocol, TypeAlias

from broker.groups.peers import Peer

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.authorization.authorizer import Rights
    from broker.broker import Broker
    from broker.quotas.limits import Limits
    from protocol.schema import Message
    from protocol.schema.wire_types import Buffer

    Answer: TypeAlias = "Message | Deferred | None"
    Handler: TypeAlias = "Callable[[Broker, RequestContext, Never], Answer]"
    """Takes the request of its own API and no other; `Handle` is the same for who has decoded just that."""
    Handle: TypeAlias = "Callable[[Broker, RequestContext, Message], Answer]"


class CloseConnection(Exception):
    """A handler's verdict that this connection must end without an answer; logged in one line, without a trace."""


class RequestContext:
    """Who asks, over which listener, in which version. Shared by requests that agree in all of it: never changed.

    `principal` is Kafka's form, `User:ANONYMOUS`; `host` the bare address of the peer, `127.0.0.1`, and `client_host`
    the same as group members show it, `/127.0.0.1`; a null client id of the header is `""`. `session` is the
    connection's own memory (SASL state, software name), the same object for every request of one connection. `rights`
    are those of the principal; None: of everybody, to everything. `limits` are what quotas ask of the connection; None:
    nothing.
    """

    __slots__ = ("client_host", "client_id", "host", "limits", "listener", "principal", "rights", "session", "version")

    def __init__(
        self,
        principal: str = "User:ANONYMOUS",
        listener: str = "PLAINTEXT",
        host: str = "127.0.0.1",
        client_id: str = "",
        version: int = 0,
        session: Session | None = None,
        rights: Rights | None = None,
    ) -> None:
        self.principal = principal
        self.listener = listener
        self.host = host
        self.client_host = "/" + host
        self.client_id = client_id
        self.version = version
        self.session = session if session is not None else Session()
        self.rights = rights
        self.limits: Limits | None = None


class Session:
    """What is known of one connection besides its requests. Source: KIP-511 (software name and version)."""

    __slots__ = ("api", "client", "is_encrypted", "peer", "software_name", "software_version", "took")

    def __init__(self) -> None:
        self.api = ""  # of the request that was parked last
        self.client = ""  # for log lines: its id and address
        self.is_encrypted = False  # what is answered is looked into: TLS
        self.peer = Peer()
        self.software_name = "unknown"
        self.software_version = "unknown"
        self.took: Callable[[int], None] | None = (
            None  # is told the ns of works of it that are taken later, or in threads
        )


class Encoded:
    """A long answer, written already."""

    __slots__ = ("buffers",)

    def __init__(self, buffers: list[Buffer]) -> None:
        self.buffers = buffers


class AnswerRoute(Protocol):
    """The API and version that an answer belongs to; `broker.handlers.dispatch.Route` is the one."""

    name: str
    version: int
    encode: Callable[[Message, int], list[Buffer]]

    def tally(self, count: int, took_ns: int) -> None:
        """So many requests took that long each."""

    def encode_long(self, response: Message, correlation_id: int) -> list[Buffer]:
        """As `encode`, however long the answer is. Any thread."""


class Answering(Protocol):
    """Who waits for an answer that comes later: a connection."""

    def deferred_completed(self, deferred: Deferred) -> None:
        """It is there."""

    def failed(self, route: AnswerRoute | None, error: Exception) -> None:
        """It will never be there: a fault of ours."""


class Deferred:
    """An answer that comes later, exactly once.

    The handler makes one and returns it; whoever knows the answer calls `complete`, during the handler's call or any
    time after. When the connection goes first, `gone` becomes true and `on_gone` is called, once: set it to forget the
    request early (take it off a wait list, cancel its timer). Completing a gone one does nothing.

    `complete(None)` says that no answer leaves, as `None` from a handler does; `complete(CloseConnection(...))` is for
    what a handler would raise.
    `fail` ends the connection, as an exception of the handler does.
    """

    __slots__ = (
        "began_ns",
        "connection",
        "correlation_id",
        "done",
        "gone",
        "holds",
        "on_gone",
        "parts",
        "response",
        "route",
        "size_bytes",
    )

    def __init__(self, on_gone: Callable[[], None] | None = None) -> None:
        self.done = False
        self.gone = False
        self.holds = False  # nothing may be begun on this connection before the answer is there, whatever the API
        self.on_gone = on_gone
        self.response: Message | Exception | Encoded | None = None
        # Set by the connection when the handler has returned and the answer has not come yet.
        self.connection: Answering | None = None
        self.route: AnswerRoute
        self.correlation_id: int
        self.size_bytes: int
        self.began_ns: int  # when its request came, by the clock of `time.perf_counter_ns`
        self.parts: list[object]  # of its request, if that is a long one

    def complete(self, response: Message | Exception | Encoded | None) -> None:
        """Answer with `response`, a message of `protocol.messages` complete but for its version; first call wins."""
        if self.done:
            return
        self.done = True
        self.on_gone = None  # whose it is often refers to this: together they would wait for the garbage collector
        self.response = response
        if self.connection is not None and not self.gone:
            self.connection.deferred_completed(self)

    def fail(self, error: Exception) -> None:
        """What the handler would have raised, when it has returned already: the connection ends."""
        if self.connection is None:
            self.done, self.response = False, error  # the handler has not returned: see `raise_failure`
        elif not self.done and not self.gone:
            self.connection.failed(self.route, error)

    def raise_failure(self) -> None:
        """Raise what `fail` was given before the handler has returned."""
        if not self.done and self.response is not None:
            error, self.response = self.response, None
            assert isinstance(error, Exception)
            try:
                raise error
            finally:
                del error  # it knows this frame: together they, and the request, would wait for the garbage collector

    def is_wanted(self) -> bool:
        """Whether its connection is still there."""
        return not self.gone

    def abandon(self) -> None:
        """Called by the connection when it closes with this answer outstanding."""
        if self.gone:
            return
        self.gone = True
        on_gone, self.on_gone = self.on_gone, None
        if on_gone is not None:
            on_gone()
