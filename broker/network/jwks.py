"""Where the keys of tokens come from: a file or an address, read again now and then, off the loop.

Source: Kafka's RefreshingHttpsJwks.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from broker.config.setting_types import SettingsError
from broker.loop.logs import get_logger
from broker.security.small_files import read_small
from broker.security.tokens import KeySet, KeySetError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from broker.loop.runtime import Runtime

MAX_BYTES = 1 << 20
FOR_NEW_KEYS_EVERY_MS = 60_000
_TIMEOUT_S = 10
_FIRST_RETRY_MS, _LAST_RETRY_MS = 100, 10_000

log = get_logger(__name__)


class JwksSource:
    """The keys of one address; none before the first answer."""

    def __init__(self, url: str, refresh_ms: int) -> None:
        """Raises: SettingsError for an address that cannot be."""
        self.url = url
        self._refresh_ms = refresh_ms
        self._runtime: Runtime | None = None
        self._keys: KeySet | None = None
        self._waiting: list[Callable[[], None]] = []
        self._reading = False
        self._requested_ms = -FOR_NEW_KEYS_EVERY_MS
        self._retry_ms = _FIRST_RETRY_MS
        if urlsplit(url).scheme not in ("http", "https", "file"):
            raise SettingsError(f"sasl.oauthbearer.jwks.endpoint.url={url}: it takes http, https or file")
        if urlsplit(url).scheme == "file":
            try:
                self._keys = read(url)
            except (OSError, KeySetError) as error:
                raise SettingsError(f"sasl.oauthbearer.jwks.endpoint.url={url}: {error}") from None

    def start(self, runtime: Runtime) -> None:
        """Read it now, and again and again."""
        self._runtime = runtime
        self._read()

    def stop(self) -> None:
        """Read it no more."""
        if self._runtime is not None:
            self._runtime.timers.cancel(("jwks", self.url, id(self)))
            self._runtime = None

    @property
    def keys(self) -> KeySet:
        """Those that were read last."""
        return self._keys if self._keys is not None else _NO_KEYS

    def may_have_more(self) -> bool:
        """Whether it is worth to wait for keys that are not there: once a minute, and while they are read."""
        runtime = self._runtime
        if runtime is None:
            return False
        if not self._reading and runtime.now_ms() - self._requested_ms >= FOR_NEW_KEYS_EVERY_MS:
            self._requested_ms = runtime.now_ms()
            self._read()
        return self._reading

    def when_read(self, callback: Callable[[], None]) -> None:
        """Call this when the reading that is on its way has ended, well or not."""
        self._waiting.append(callback)

    # ---

    def _read(self) -> None:
        if self._reading or self._runtime is None:
            return
        self._reading = True
        self._runtime.in_thread(lambda: read(self.url), self._have, self._failed)

    def _have(self, keys: KeySet) -> None:
        self._keys = keys
        self._retry_ms = _FIRST_RETRY_MS
        self._ended(self._refresh_ms)

    def _failed(self, error: Exception) -> None:
        log.warning("jwks_not_read", url=self.url, reason=str(error), keys_kept=len(self.keys))
        retry_ms, self._retry_ms = self._retry_ms, min(self._retry_ms * 2, _LAST_RETRY_MS)
        self._ended(retry_ms)

    def _ended(self, next_ms: int) -> None:
        runtime = self._runtime
        self._reading = False
        if runtime is not None:
            runtime.timers.set(("jwks", self.url, id(self)), runtime.now_ms() + next_ms, self._read)
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()


def read(url: str) -> KeySet:
    """The key set at an address. Blocks. Raises: OSError, KeySetError."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return KeySet(read_small(Path(parts.path)))
    request = Request(url, headers={"Accept": "application/json", "User-Agent": "kohort"})
    with build_opener(_SameHost).open(request, timeout=_TIMEOUT_S) as answer:
        text: bytes = answer.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise KeySetError(f"it is longer than {MAX_BYTES} bytes")
    return KeySet(text)


class _SameHost(HTTPRedirectHandler):
    """Follows no redirection to another host: whoever answers there was not meant."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        was, now = urlsplit(req.full_url), urlsplit(newurl)
        if (was.scheme, was.netloc) != (now.scheme, now.netloc):
            raise URLError(f"it redirects to another host, {now.netloc}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_NO_KEYS = KeySet(b'{"keys": []}')
