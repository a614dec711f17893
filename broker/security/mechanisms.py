"""What SASL mechanisms have in common: tokens in, tokens out, and in the end a principal, or a reason why not.

Source: RFC 4422; Kafka's SaslServer implementations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER_AUTHORIZATION_ID = "Authentication failed: Client requested an authorization id that is different from username"


class Rejected(Exception):
    """The peer is not who it says. `str()` is the reason for our log; it never holds a password or a token.

    `told` is what the peer is told, None for the text that is the same whatever was wrong. `user` is the name that was
    given, if it was well-formed.
    """

    def __init__(self, reason: str, *, told: str | None = None, user: str = "") -> None:
        super().__init__(reason)
        self.told = told
        self.user = user


class NotYet(Exception):
    """It cannot be told yet; `wait` calls back when the same token may be given again."""

    def __init__(self, wait: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("not yet")
        self.wait = wait


class Proven(NamedTuple):
    """The peer is `user`; its proof is good until `expires_at_ms`, None for ever."""

    user: str
    expires_at_ms: int | None = None


class Mechanism(Protocol):
    """One exchange. `proven` is set with the last token."""

    proven: Proven | None

    def step(self, token: bytes) -> bytes:
        """Answer the peer's token. Raises: Rejected."""


class Offer(NamedTuple):
    """A mechanism that a listener has enabled: what begins an exchange, and how long a session lasts (0: for ever)."""

    begin: Callable[[], Mechanism]
    reauth_ms: int = 0
