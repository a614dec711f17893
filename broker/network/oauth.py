"""OAUTHBEARER on one listener, from its settings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.config.listener_keys import CALLBACK_HANDLER
from broker.config.setting_types import SettingsError
from broker.loop.logs import get_logger
from broker.network.jwks import JwksSource
from broker.security.mechanisms import NotYet
from broker.security.oauth_bearer import BadToken, OAuthBearer
from broker.security.tokens import KeysWanted, Rules, unsecured, verified

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.config.listener_settings import ListenerSettings
    from broker.loop.runtime import Runtime
    from broker.security.mechanisms import Mechanism, Proven
    from protocol.jaas import Login

log = get_logger(__name__)

_SKEW = "unsecuredValidatorAllowableClockSkewMs"


class OAuthSide:
    """Judges tokens: signed ones by the keys of an endpoint, or unsigned ones where that is allowed.

    Raises: SettingsError.
    """

    def __init__(self, own: ListenerSettings, login: Login) -> None:
        self._options = login.options
        self._rules = Rules(
            own.of("sasl.oauthbearer.sub.claim.name"),
            own.of("sasl.oauthbearer.clock.skew.seconds") * 1_000,
            frozenset(own.of("sasl.oauthbearer.expected.audience")),
            own.of("sasl.oauthbearer.expected.issuer") or None,
        )
        self._source: JwksSource | None = None
        url = own.of("sasl.oauthbearer.jwks.endpoint.url")
        if url is not None:
            self._source = JwksSource(url, own.of("sasl.oauthbearer.jwks.endpoint.refresh.ms"))
            self._check_whose_tokens(own)
            return
        if own.has_own(f"oauthbearer.{CALLBACK_HANDLER}"):
            raise SettingsError(
                f"sasl.oauthbearer.jwks.endpoint.url: it is missing, and listener {own.name} verifies tokens"
            )
        if not own.of("kohort.allow.unsecured.oauth"):
            raise SettingsError(
                f"sasl.oauthbearer.jwks.endpoint.url: it is missing for OAUTHBEARER on listener {own.name}; tokens "
                "that nobody signed are taken with kohort.allow.unsecured.oauth=true alone"
            )
        skew = login.options.get(_SKEW, "0")
        if not skew.isdecimal():
            raise SettingsError(f"{own.key_of_mechanism('OAUTHBEARER', 'sasl.jaas.config')}: {_SKEW} takes a number")
        log.warning("tokens_without_signature", listener=own.name, key="kohort.allow.unsecured.oauth")

    def _check_whose_tokens(self, own: ListenerSettings) -> None:
        """Source: Kafka's BrokerJwtValidator (4.4)."""
        for expected, any_, given in (
            ("sasl.oauthbearer.expected.audience", "sasl.oauthbearer.allow.unverified.audience", self._rules.audiences),
            ("sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.allow.unverified.issuer", self._rules.issuer),
        ):
            if given:
                continue
            if not own.of(any_):
                raise SettingsError(
                    f"{expected}: it is missing, and listener {own.name} verifies tokens; {any_}=true takes any"
                )
            log.warning("tokens_of_any", listener=own.name, key=expected)

    def begin(self, runtime: Runtime) -> Callable[[], Mechanism]:
        """What begins an exchange; from now on keys are read."""
        if self._source is not None:
            self._source.start(runtime)
        judge = partial(self._judge, runtime)
        return lambda: OAuthBearer(judge)

    def end(self) -> None:
        """Read keys no more; exchanges that are on their way have those that were read."""
        if self._source is not None:
            self._source.stop()

    def _judge(self, runtime: Runtime, token: str) -> Proven:
        now_ms = runtime.now_ms()
        source = self._source
        if source is None:
            return unsecured(token, self._options, now_ms)
        try:
            return verified(token, source.keys, self._rules, now_ms)
        except KeysWanted:
            if source.may_have_more():
                raise NotYet(source.when_read) from None
            raise BadToken("its key is not known") from None
