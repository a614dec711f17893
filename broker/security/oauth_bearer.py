"""SASL OAUTHBEARER: one message with a token, and whoever can judge it says who that is.

A token that is bad is answered with a small JSON text, which the client acknowledges before the log-in fails.
Source: RFC 7628; KIP-255; Kafka's OAuthBearerSaslServer, OAuthBearerClientInitialResponse.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.security.mechanisms import Proven, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TOKEN_BYTES = 65_536

_OTHER = "Authentication failed: Client requested an authorization id"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST = re.compile(rf"n,(?:a=({_NAME}))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01", re.DOTALL)
_AUTH = re.compile(r"bearer +([-_~+/.A-Za-z0-9]+=*)", re.IGNORECASE)


class BadToken(Exception):
    """It proves nothing; the message says why, for our log, and never holds it."""

    def __init__(self, reason: str, *, status: str = "invalid_token", scope: str = "") -> None:
        super().__init__(reason)
        more = f', "scope":"{scope}"' if scope else ""
        self.told = f'{{"status":"{status}"{more}}}'


class OAuthBearer:
    """One exchange. `judge` gives who bears a token, and until when; it raises BadToken, or KeysWanted of
    `broker.security.tokens`, after which the same message may be given again."""

    __slots__ = ("_bad", "_judge", "proven")

    def __init__(self, judge: Callable[[str], Proven]) -> None:
        self._judge = judge
        self._bad: BadToken | None = None
        self.proven: Proven | None = None

    def step(self, token: bytes) -> bytes:
        """The client's message, or its acknowledgement of a bad token. Raises: Rejected, KeysWanted."""
        if self._bad is not None:
            raise Rejected(str(self._bad), told=self._bad.told if token == b"\x01" else None)
        if len(token) > MAX_TOKEN_BYTES:
            raise Rejected("the message is too long")
        match = _FIRST.fullmatch(token.decode("latin-1"))
        pairs = dict(pair.split("=", 1) for pair in match[2].split("\x01") if pair) if match else {}
        bearer = _AUTH.fullmatch(pairs.get("auth", ""))
        if match is None or bearer is None:
            raise Rejected("the message has another form")
        try:
            proven = self._judge(bearer[1])
        except BadToken as bad:
            self._bad = bad.with_traceback(None)
            return bad.told.encode()
        authorization_id = (match[1] or "").replace("=2C", ",").replace("=3D", "=")
        if authorization_id and authorization_id != proven.user:
            told = f"{_OTHER} ({authorization_id}) that is different from the token's principal name ({proven.user})"
            raise Rejected("another authorization id than the token's user", told=told, user=proven.user)
        self.proven = proven
        return b""
