"""What listeners show as they run: files that change are read again, and certificates that end are told of in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.loop.runtime import Runtime
    from broker.network.listener_security import ListenerSecurity
    from broker.network.tls_settings import TlsSide

LOOK_EVERY_MS = 60_000
_DAY_MS = 86_400_000
_WARN_BEFORE_MS = 30 * _DAY_MS

log = get_logger(__name__)


class TlsWatch:
    """Watches the listeners that have TLS."""

    def __init__(self, runtime: Runtime, securities: Iterable[ListenerSecurity]) -> None:
        self._runtime = runtime
        self.sides: list[TlsSide] = [security.tls for security in securities if security.tls is not None]
        self._refused: dict[str, object] = {}  # by listener: the files that could not be used last
        self._told_ms = 0

    def start(self) -> None:
        """Look now, and every minute from now on."""
        if self.sides:
            self._look()

    def reload(self) -> None:
        """Read everything again, as on SIGHUP."""
        for side in self.sides:
            self._reload(side)

    # ---

    def _look(self) -> None:
        now_ms = self._runtime.now_ms()
        for side in self.sides:
            if side.files_changed() and self._refused.get(side.listener) != side.stamps():
                self._reload(side)
        if now_ms - self._told_ms >= _DAY_MS:
            self._told_ms = now_ms
            for side in self.sides:
                _tell(side, now_ms)
        self._runtime.timers.set(("tls", "look"), now_ms + LOOK_EVERY_MS, self._look)

    def _reload(self, side: TlsSide) -> None:
        from broker.network.tls_settings import TlsRefused  # noqa: PLC0415  few starts need it

        stamps = side.stamps()
        try:
            side.reload()
        except TlsRefused as error:
            self._refused[side.listener] = stamps
            log.error("tls_reload_failed", listener=side.listener, reason=str(error))
        else:
            self._refused.pop(side.listener, None)
            log.info("tls_reloaded", listener=side.listener, subject=side.loaded.subject)
            _tell(side, self._runtime.now_ms())


def _tell(side: TlsSide, now_ms: int) -> None:
    """Warn of a certificate that is not good, or not for long."""
    loaded = side.loaded
    if now_ms < loaded.not_before_ms:
        log.warning("certificate_not_yet_valid", listener=side.listener, from_ms=loaded.not_before_ms)
    elif now_ms >= loaded.not_after_ms:
        log.warning("certificate_expired", listener=side.listener, since_ms=loaded.not_after_ms)
    elif loaded.not_after_ms - now_ms < _WARN_BEFORE_MS:
        days = (loaded.not_after_ms - now_ms) // _DAY_MS
        log.warning("certificate_expires_soon", listener=side.listener, days=days)
