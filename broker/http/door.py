"""The door of the HTTP listener: a refused log-in is answered late, counted by address, and logged.

Source: `broker.security.failures` says how late, and which lines are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.http.answers import Answer, Later
from broker.loop.logs import get_logger
from broker.security.failures import Failures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.http.log_in import LogIn
    from broker.loop.runtime import Runtime

DELAY_MS = 100
"""Before a refusal is answered; up to five seconds for an address that is refused more than ten times a minute."""

log = get_logger(__name__)


class Door:
    """Lets requests through to `inside`, or refuses them."""

    def __init__(
        self, runtime: Runtime, log_in: LogIn, inside: Callable[[str, str, Mapping[str, str]], Answer | Later]
    ) -> None:
        self._runtime = runtime
        self._log_in = log_in
        self._inside = inside
        self._failures = Failures()

    def respond(self, method: str, target: str, headers: dict[str, str], host: str) -> Answer | Later:
        """The answer to a request from an address."""
        refusal = self._log_in.refusal(target, headers)
        return self._inside(method, target, headers) if refusal is None else self._refused(refusal, headers, host)

    def _refused(self, refusal: Answer, headers: Mapping[str, str], host: str) -> Later:
        runtime, later = self._runtime, Later()
        delay_ms, left_out = self._failures.failed(host, DELAY_MS, runtime.now_ms())
        if left_out is not None:
            scheme = headers.get("authorization", "").partition(" ")[0].lower()
            log.info(
                "authentication_failed",
                peer=host,
                listener="HTTP",
                mechanism=scheme if scheme in ("basic", "bearer") else "",
                reason="it is not the one that the settings name" if scheme else "none was shown",
                **({"left_out": left_out} if left_out else {}),
            )
        runtime.timers.set(("http log-in", later), runtime.now_ms() + delay_ms, lambda: later.complete(refusal))
        return later
