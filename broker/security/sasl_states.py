"""The states of one connection on a listener with SASL: what may come, what is answered, and when it ends.

START takes ApiVersions or SaslHandshake; VERSIONS, after an ApiVersions that was answered well, SaslHandshake alone;
TOKENS takes SaslAuthenticate, BARE_TOKENS (after SaslHandshake 0) frames that are nothing but a token; DONE takes
everything. With a session lifetime a SaslHandshake leads from DONE back to TOKENS (KIP-368).

Source: KIP-12, KIP-43, KIP-152, KIP-368; Kafka's SaslServerAuthenticator, KafkaChannel.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from broker.security.mechanisms import Mechanism, NotYet, Rejected
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.security.mechanisms import Offer, Proven

_LEAST_BETWEEN_REAUTHENTICATIONS_MS = 1_000


class State(Enum):
    """Where a connection stands."""

    START = 0
    VERSIONS = 1
    TOKENS = 2
    BARE_TOKENS = 3
    DONE = 4


class Verdict(Enum):
    """What is to be done with a request."""

    SERVE = 0
    """As on any listener."""
    AUTHENTICATE = 1
    """It is a step of the authentication: `handshake` or `token`."""
    REFUSE = 2
    """It is answered ILLEGAL_SASL_STATE, and the connection ends a little later."""
    CLOSE = 3
    """The connection ends at once, without an answer."""
    EXPIRED = 4
    """Likewise, since its session has."""


class Answer(NamedTuple):
    """What a step is answered. With `failed`, why, the connection ends once this is sent, after a delay."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    token: bytes = b""
    lifetime_ms: int = 0
    failed: str | None = None
    wait: Callable[[Callable[[], None]], None] | None = None
    """Nothing is answered yet: whom this calls back may give the same token again."""


class SaslStates:
    """One connection. `offers` are the listener's mechanisms, in the order in which they are told."""

    __slots__ = (
        "_began_again_ms",
        "_first_mechanism",
        "_mechanism",
        "_name",
        "_offers",
        "_reauth_ms",
        "expires_at_ms",
        "state",
        "user",
        "user_of_failure",
    )

    def __init__(self, offers: Mapping[str, Offer]) -> None:
        self._offers = offers
        self._reauth_ms = 0
        self.state = State.START
        self.user: str | None = None
        """Who it is, once that is known; it stays while it authenticates again."""
        self.user_of_failure = ""
        """Who it said it was when that failed."""
        self.expires_at_ms: int | None = None
        """When its session ends; None: with its connection."""
        self._mechanism: Mechanism | None = None
        self._name = ""
        self._first_mechanism = ""
        self._began_again_ms: int | None = None

    @property
    def mechanism(self) -> str:
        """The name of the mechanism that was asked for."""
        return self._name

    @property
    def lasts(self) -> bool:
        """Whether nothing more is to be watched: it is who it is until it goes."""
        return self.state is State.DONE and self.expires_at_ms is None

    def judge(self, api_key: int, now_ms: int) -> Verdict:
        """What becomes of a request that is no bare token."""
        state = self.state
        if state is State.DONE:
            if self.expires_at_ms is None:
                return Verdict.SERVE
            if api_key == ApiKey.SASL_HANDSHAKE and not self._began_just_now(now_ms):
                return Verdict.AUTHENTICATE
            return Verdict.EXPIRED if now_ms >= self.expires_at_ms else Verdict.SERVE
        if state is State.TOKENS:
            return Verdict.AUTHENTICATE if api_key == ApiKey.SASL_AUTHENTICATE else Verdict.REFUSE
        if api_key == ApiKey.SASL_HANDSHAKE:
            return Verdict.AUTHENTICATE
        return Verdict.SERVE if state is State.START and api_key == ApiKey.API_VERSIONS else Verdict.CLOSE

    def versions_answered(self) -> None:
        """ApiVersions was answered without an error."""
        if self.state is State.START:
            self.state = State.VERSIONS

    def handshake(self, version: int, mechanism: str, now_ms: int) -> Answer:
        """SaslHandshake. Its answer names the mechanisms in any case."""
        if self.state is State.DONE:
            self._began_again_ms = now_ms
        offer = self._offers.get(mechanism)
        if offer is None:
            return Answer(ErrorCode.UNSUPPORTED_SASL_MECHANISM, failed="the mechanism is not enabled")
        self._name = mechanism
        self._mechanism = offer.begin()
        self._reauth_ms = offer.reauth_ms  # the mechanism may be taken away before this is over
        self.state = State.TOKENS if version > 0 else State.BARE_TOKENS
        return Answer()

    def token(self, token: bytes, now_ms: int) -> Answer:
        """A token, in SaslAuthenticate or bare."""
        assert self._mechanism is not None
        again = self.user is not None
        if again and self._name != self._first_mechanism:
            return Answer(failed="another mechanism than at first")
        try:
            answer = self._mechanism.step(token)
        except NotYet as not_yet:
            return Answer(wait=not_yet.wait)
        except Rejected as rejected:
            self.user_of_failure = rejected.user
            when = "re-authentication" if again else "authentication"
            general = f"Authentication failed during {when} due to invalid credentials with SASL mechanism {self._name}"
            return _failed(rejected.told if rejected.told is not None else general, str(rejected))
        proven = self._mechanism.proven
        if proven is None:
            return Answer(message="", token=answer)
        if again and proven.user != self.user:
            self.user_of_failure = proven.user
            text = f"Cannot change principals during re-authentication from User.{self.user}: User.{proven.user}"
            return _failed(text, "another user than at first")
        return self._accept(proven, answer, now_ms)

    def _accept(self, proven: Proven, answer: bytes, now_ms: int) -> Answer:
        lifetimes = [self._reauth_ms] if self._reauth_ms else []
        if proven.expires_at_ms is not None:
            lifetimes.append(max(proven.expires_at_ms - now_ms, 1))
        lifetime_ms = min(lifetimes, default=0)
        self.user = proven.user
        self._first_mechanism = self._first_mechanism or self._name
        self._mechanism = None
        self.expires_at_ms = now_ms + lifetime_ms if lifetime_ms else None
        self.state = State.DONE
        return Answer(message="", token=answer, lifetime_ms=lifetime_ms)

    def _began_just_now(self, now_ms: int) -> bool:
        last_ms = self._began_again_ms
        return last_ms is not None and now_ms - last_ms < _LEAST_BETWEEN_REAUTHENTICATIONS_MS


def _failed(told: str, reason: str) -> Answer:
    return Answer(ErrorCode.SASL_AUTHENTICATION_FAILED, told, failed=reason)
