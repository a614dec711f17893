"""SASL PLAIN: `authzid NUL user NUL password`, held against the users of the listener's JAAS line.

Source: RFC 4616; Kafka's PlainSaslServer, PlainServerCallbackHandler, whose texts these are.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import TYPE_CHECKING

from broker.security.mechanisms import OTHER_AUTHORIZATION_ID, Proven, Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

_USER = "user_"


def users_of(options: Mapping[str, str]) -> dict[str, bytes]:
    """The users of a JAAS line: options `user_NAME="password"`."""
    return {key.removeprefix(_USER): text.encode() for key, text in options.items() if key.startswith(_USER)}


class Plain:
    """One exchange, of one token."""

    __slots__ = ("_users", "proven")

    def __init__(self, users: Mapping[str, bytes]) -> None:
        self._users = users
        self.proven: Proven | None = None

    def step(self, token: bytes) -> bytes:
        """Nothing is left to be said. Raises: Rejected."""
        parts = token.decode("utf-8", "replace").split("\0", 3)
        if len(parts) != 3:
            raise _rejected(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise _rejected("Authentication failed: username not specified")
        if not password:
            raise _rejected("Authentication failed: password not specified", user)
        expected = self._users.get(user)
        # Compared in every case, so that a user who is not there takes as long as one who is.
        right = compare_digest(password.encode(), expected if expected is not None else b"\0" * 16)
        if expected is None or not right:
            raise _rejected("Authentication failed: Invalid username or password", user)
        if authorization_id and authorization_id != user:
            raise _rejected(OTHER_AUTHORIZATION_ID, user)
        self.proven = Proven(user)
        return b""


def _rejected(text: str, user: str = "") -> Rejected:
    return Rejected(text, told=text, user=user)
