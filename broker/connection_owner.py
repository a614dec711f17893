"""What a connection knows of its listener: who counts it in and out, and what all connections have seen together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.logs import get_logger

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection import Connection
    from broker.dispatch import Routes

log = get_logger()


class Counters:
    """What all connections of the broker have seen."""

    __slots__ = ("_traced", "accepted", "bad_frames", "refused", "requests_with_trailing_bytes")

    def __init__(self) -> None:
        self.accepted = 0  # connections, the refused ones included
        self.requests_with_trailing_bytes = 0
        self.bad_frames = 0
        self.refused = 0
        self._traced: set[tuple[str, type[BaseException], int]] = set()  # bugs whose trace was logged already

    def log_bug(self, api: str, peer: str, error: Exception) -> None:
        """Log a fault of ours, while it is handled; each is traced once, however often a client meets it."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = (api, type(error), 0 if trace is None else trace.tb_lineno)
        facts = {"api": api, "peer": peer, "error": f"{type(error).__name__}: {error}"}
        if place in self._traced:
            log.error("request_failed", **facts)
        else:
            self._traced.add(place)
            log.exception("request_failed", **facts)


class Owner(Protocol):
    """Who keeps the connections of a listener."""

    broker: Broker
    routes: Routes
    counters: Counters
    tick: int  # grows with time; a connection notes it when it is heard of

    def admit(self, connection: Connection) -> str | None:
        """Count a new connection in; the reason why not, when it is one too many."""

    def forget(self, connection: Connection) -> None:
        """Count it out."""
