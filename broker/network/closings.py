"""Log lines about connections that were closed: one for each host and reason, then a count once a minute.

A client that is refused connects again at once, and some never stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from broker.loop.runtime import Runtime

log = get_logger(__name__)

EVERY_MS = 60_000
MOST = 1_000  # kinds that are told apart in a minute

_TIMER = ("server", "closings")
_Kind = tuple[str, str, tuple[tuple[str, Any], ...]]  # host, reason, facts
_OTHERS: _Kind = ("any", "others that are too many to tell apart", ())


class Closings:
    """What was logged in this minute, and how often it came again."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._again: dict[_Kind, int] = {}

    def tell(self, host: str, peer: str, reason: str, client_id: str | None, facts: dict[str, Any]) -> None:
        """Log that a connection is closed, unless one of this host was for the same reason not long ago."""
        kind = (host, reason, tuple((name, fact) for name, fact in facts.items() if name in ("api", "version")))
        if kind not in self._again and len(self._again) >= MOST:
            kind = _OTHERS
        seen = self._again.get(kind)
        if seen is not None:
            self._again[kind] = seen + 1
            return
        log.warning("connection_closed", peer=peer, reason=reason, client_id=client_id, **facts)
        self._again[kind] = 0
        if len(self._again) == 1:
            self._runtime.timers.set(_TIMER, self._runtime.now_ms() + EVERY_MS, self.count)

    def count(self) -> None:
        """Log what came again since; who goes on is counted for another minute."""
        told, self._again = self._again, {}
        for kind, times in told.items():
            if times:
                host, reason, facts = kind
                log.warning("connections_closed", host=host, reason=reason, count=times, **dict(facts))
                self._again[kind] = 0
        if self._again:
            self._runtime.timers.set(_TIMER, self._runtime.now_ms() + EVERY_MS, self.count)
