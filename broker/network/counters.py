"""What all connections of the broker have seen together."""

from __future__ import annotations

from broker.loop.logs import get_logger

log = get_logger(__name__)


class Counters:
    """What all connections of the broker have seen."""

    __slots__ = (
        "_traced",
        "accepted",
        "authenticated",
        "bad_frames",
        "requests_with_trailing_bytes",
        "sessions_expired",
    )

    def __init__(self) -> None:
        self.accepted = 0  # connections, the refused ones included
        self.requests_with_trailing_bytes = 0
        self.bad_frames = 0
        self.authenticated = 0  # connections, and each time that one did it again
        self.sessions_expired = 0
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
