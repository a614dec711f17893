"""Who may ask over HTTP: whoever shows the token, or the user and password, that the settings name.

`/healthz` and `/readyz` are open, since those who start and stop processes have no passwords.

Source: RFC 6750, RFC 7617.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import TYPE_CHECKING

from broker.config.setting_types import SettingsError
from broker.http.answers import Answer, problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.config.settings import Settings

OPEN = frozenset({"/healthz", "/readyz"})


class LogIn:
    """What the settings ask of a request. Raises: SettingsError."""

    def __init__(self, settings: Settings) -> None:
        self._taken: list[bytes] = []
        self._schemes: list[str] = []
        token, user = settings.kohort_http_token, settings.kohort_http_basic_auth
        if token is not None:
            self._taken.append(b"bearer " + _filled("kohort.http.token", token.reveal()))
            self._schemes.append('Bearer realm="kohort"')
        if user is not None:
            text = user.reveal()
            if not text.partition(":")[0] or not text.partition(":")[2]:
                raise SettingsError("kohort.http.basic.auth=[hidden]: it takes user:password")
            self._taken.append(b"basic " + b64encode(text.encode()))
            self._schemes.append('Basic realm="kohort", charset="UTF-8"')

    def refusal(self, target: str, headers: Mapping[str, str]) -> Answer | None:
        """The answer to who may not ask for this; None to all others."""
        if not self._taken or target.partition("?")[0] in OPEN:
            return None
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        said = f"{scheme.lower()} {shown.strip()}".encode("latin-1")  # the bytes that came, which are those of UTF-8
        # Each is compared, whatever came of the others: what it takes tells nothing.
        if sum([hmac.compare_digest(said, taken) for taken in self._taken]):
            return None
        answer = problem(401, "this broker wants a log-in: kohort.http.token or kohort.http.basic.auth")
        answer.headers = tuple(("www-authenticate", scheme) for scheme in self._schemes)
        return answer


def _filled(key: str, text: str) -> bytes:
    if not text.strip():
        raise SettingsError(f"{key}=[hidden]: it is empty")
    return text.strip().encode()
