"""What a handler is told about a request, and how it answers one later.

A handler is `handle(broker, context, request) -> response | Deferred | None`: it answers at once, promises to answer
later, or says that no answer leaves (Produce with acks=0). It never awaits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class CloseConnection(Exception):
    """A handler's verdict that this connection must end without an answer; logged in one line, without a trace."""


class RequestContext:
    """Who asks, over which listener, in which version. Shared by requests that agree in all of it: never changed.

    `principal` is Kafka's form, `User:ANONYMOUS`; `host` the bare address of the peer, `127.0.0.1`; a null client id
    of the header is `""`. `session` is the connection's own memory (SASL state, software name), the same object for
    every request of one connection.
    """

    __slots__ = ("client_id", "host", "listener", "principal", "session", "version")

    def __init__(
        self,
        principal: str = "User:ANONYMOUS",
        listener: str = "PLAINTEXT",
        host: str = "127.0.0.1",
        client_id: str = "",
        version: int = 0,
        session: Session | None = None,
    ) -> None:
        self.principal = principal
        self.listener = listener
        self.host = host
        self.client_id = client_id
        self.version = version
        self.session = session if session is not None else Session()


class Session:
    """What is known of one connection besides its requests. Source: KIP-511 (software name and version)."""

    __slots__ = ("software_name", "software_version")

    def __init__(self) -> None:
        self.software_name = "unknown"
        self.software_version = "unknown"


class Deferred:
    """An answer that comes later, exactly once.

    The handler makes one and returns it; whoever knows the answer calls `complete`, during the handler's call or any
    time after. When the connection goes first, `gone` becomes true and `on_gone` is called, once: set it to forget the
    request early (take it off a wait list, cancel its timer). Completing a gone one does nothing.

    `complete(None)` says that no answer leaves, as `None` from a handler does.
    """

    __slots__ = (
        "began_ns",
        "connection",
        "correlation_id",
        "done",
        "gone",
        "on_gone",
        "response",
        "route",
        "size_bytes",
    )

    def __init__(self, on_gone: Callable[[], None] | None = None) -> None:
        self.done = False
        self.gone = False
        self.on_gone = on_gone
        self.response: Any = None
        # Set by the connection when the handler has returned and the answer has not come yet.
        self.connection: Any = None
        self.route: Any = None
        self.correlation_id = 0
        self.size_bytes = 0
        self.began_ns = 0  # when its request came, by the clock of `time.perf_counter_ns`

    def complete(self, response: Any) -> None:
        """Answer with `response`, a message of `protocol.messages` complete but for its version; first call wins."""
        if self.done:
            return
        self.done = True
        self.response = response
        if self.connection is not None and not self.gone:
            self.connection.deferred_completed(self)

    def abandon(self) -> None:
        """Called by the connection when it closes with this answer outstanding."""
        if self.gone:
            return
        self.gone = True
        if not self.done and self.on_gone is not None:
            self.on_gone()
