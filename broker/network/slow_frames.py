"""Requests that come too slowly: one that has begun has a minute, and a second more for every 100 KiB it still needs.

Who sends a byte now and then would otherwise be connected for ever, and hold what it has sent. While we do not read a
connection ourselves, its time stands still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from broker.loop.runtime import Runtime

LEAST_MS = 60_000
_BYTES_PER_MS = 102.4
_LOOK_EVERY_MS = 5_000
_TIMER = ("server", "slow frames")


class Sender(Protocol):
    """A connection."""

    @property
    def missing(self) -> int:
        """Bytes that a request which has begun to come still needs."""

    @property
    def is_read(self) -> bool:
        """Whether it could send more."""

    def close(self, reason: str, **facts: Any) -> None:
        """End it, with a line."""


class SlowFrames:
    """Who has begun to send a request, and until when it must be whole."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._deadlines_ms: dict[Sender, int] = {}

    def came(self, sender: Sender, missing: int, *, anew: bool) -> None:
        """Some bytes have; `anew`: a request has ended, and another one begun if bytes are missing."""
        if not missing:
            self._deadlines_ms.pop(sender, None)
        elif anew or sender not in self._deadlines_ms:
            if not self._deadlines_ms:
                self._look_later()
            self._deadlines_ms[sender] = self._deadline_ms(missing)

    def forget(self, sender: Sender) -> None:
        """It is gone."""
        self._deadlines_ms.pop(sender, None)

    def _deadline_ms(self, missing: int) -> int:
        return self._runtime.now_ms() + LEAST_MS + int(missing / _BYTES_PER_MS)

    def _look_later(self) -> None:
        self._runtime.timers.set(_TIMER, self._runtime.now_ms() + _LOOK_EVERY_MS, self._look)

    def _look(self) -> None:
        now_ms = self._runtime.now_ms()
        for sender, deadline_ms in list(self._deadlines_ms.items()):
            if not sender.is_read:
                self._deadlines_ms[sender] = self._deadline_ms(sender.missing)
            elif now_ms >= deadline_ms:
                sender.close("its request comes too slowly", missing=sender.missing)
        if self._deadlines_ms:
            self._look_later()
