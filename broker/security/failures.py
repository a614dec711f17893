"""Failed authentications by address: who fails often is answered later and later, and not every line is written.

A user's name is never locked: that would be an attack of its own.
"""

from __future__ import annotations

_WITHIN_MS = 60_000
_FREE = 10  # failures of an address in a minute that cost the usual delay
_LONGEST_MS = 5_000
_LINES_A_SECOND = 10
_MOST_HOSTS = 10_000


class _Host:
    __slots__ = ("began_ms", "count", "left_out", "lines", "second_ms")

    def __init__(self, now_ms: int) -> None:
        self.began_ms = now_ms
        self.count = 0
        self.second_ms = now_ms
        self.lines = 0
        self.left_out = 0


class Failures:
    """Of one listener, or of all."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}
        self.total = 0

    def failed(self, host: str, delay_ms: int, now_ms: int) -> tuple[int, int | None]:
        """Count one. Returns how long its answer is held back; and how many lines were left out before the one that
        is to be written now, None when this one is left out too. A delay of 0 stays."""
        self.total += 1
        known = self._hosts.get(host)
        if known is None or now_ms - known.began_ms >= _WITHIN_MS:
            left_out = 0 if known is None else known.left_out
            if known is None and len(self._hosts) >= _MOST_HOSTS:
                self._forget(now_ms)
            known = self._hosts[host] = _Host(now_ms)
            known.left_out = left_out
        known.count += 1
        if now_ms - known.second_ms >= 1_000:
            known.second_ms, known.lines = now_ms, 0
        if known.count > _FREE:
            delay_ms = max(delay_ms, min(delay_ms << min(known.count - _FREE, 16), _LONGEST_MS))
        known.lines += 1
        if known.lines > _LINES_A_SECOND:
            known.left_out += 1
            return delay_ms, None
        left_out, known.left_out = known.left_out, 0
        return delay_ms, left_out

    def _forget(self, now_ms: int) -> None:
        """Drop who has not failed of late; the oldest tenth if all have."""
        self._hosts = {name: host for name, host in self._hosts.items() if now_ms - host.began_ms < _WITHIN_MS}
        if len(self._hosts) >= _MOST_HOSTS:  # a tenth, so that not every new address pays for a look at all
            for name in list(self._hosts)[: _MOST_HOSTS // 10]:
                del self._hosts[name]
