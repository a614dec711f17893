"""How many more files and sockets this process may open, and a few that are kept for the log.

The kernel gives out the lowest number that is free. A burst of connections is accepted in one go, before anybody can
say stop: so a reserve is held open from the first connection on, and let go when it is needed.

Source: getrlimit(2), open(2); libuv closes what it accepts over the limit.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress

RESERVE = 64
"""Descriptors for one burst of connections, and as many for the log; where little is allowed an eighth of that."""


class Descriptors:
    """Those of this process."""

    def __init__(self) -> None:
        self._held: list[int] = []
        self._short = True  # until something is held

    def are_short(self) -> bool:
        """Whether nothing more should be accepted. Two microseconds; the first time, and while it is so, a hundred."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit == resource.RLIM_INFINITY:
            return False
        reserve = min(RESERVE, limit // 8)
        if self._short:
            self._take(2 * reserve)
            self._short = len(self._held) < 2 * reserve
            self._give_back(0 if self._short else reserve)
        else:
            held = len(self._held)
            self._take(1)
            self._short = len(self._held) == held or self._held[-1] >= limit - reserve
            self._give_back(0 if self._short else held)
        return self._short

    def close(self) -> None:
        """Hold nothing."""
        self._give_back(0)
        self._short = True

    def _take(self, count: int) -> None:
        with suppress(OSError):
            for _ in range(count):
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _give_back(self, but: int) -> None:
        for descriptor in self._held[but:]:
            os.close(descriptor)
        del self._held[but:]
