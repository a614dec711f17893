"""What one listener asks of its peers, from its settings; wrong ones refuse the start.

Source: Kafka's ChannelBuilders, JaasContext, SaslChannelBuilder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.listener_keys import LISTENER_PREFIX, MECHANISMS
from broker.config.listener_settings import ListenerSettings
from broker.config.listeners import SecurityProtocol, is_loopback
from broker.config.setting_types import SettingsError
from broker.loop.logs import get_logger
from broker.loop.uuids import random_uuid_text
from broker.security.mechanisms import Offer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.config.listeners import Listener
    from broker.config.settings import Settings
    from broker.loop.runtime import Runtime
    from broker.network.oauth import OAuthSide
    from broker.network.tls_settings import TlsSide
    from broker.security.mechanisms import Mechanism
    from broker.security.scram import Credential, Shape
    from protocol.jaas import Login

log = get_logger(__name__)

_SECURITY = "org.apache.kafka.common.security."
_MODULES = {
    "PLAIN": f"{_SECURITY}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}scram.ScramLoginModule",
    "OAUTHBEARER": f"{_SECURITY}oauthbearer.OAuthBearerLoginModule",
}
_OF_SASL = ("sasl.enabled.mechanisms", *(f"{name.lower()}.sasl.jaas.config" for name in MECHANISMS))


class ListenerSecurity:
    """One listener. Raises: SettingsError when its settings do not go together."""

    def __init__(self, settings: Settings, listener: Listener) -> None:
        self.name = listener.name
        self.protocol = listener.protocol
        own = ListenerSettings(settings, listener.name)
        self.configured = own.configured
        """What may change while the broker runs, as it was when this was made."""
        self._refuse_ineffective(own)
        self.tls: TlsSide | None = None
        if self.protocol.tls:
            from broker.network.tls_settings import TlsSide  # noqa: PLC0415  few starts need it

            self.tls = TlsSide(own, sasl=self.protocol.sasl)
        self.max_receive_bytes: int = own.of("sasl.server.max.receive.size")
        self.failed_delay_ms: int = own.of("connection.failed.authentication.delay.ms")
        self.max_connections: int | None = own.of("max.connections") if own.has_own("max.connections") else None
        rate = "max.connection.creation.rate"
        self.max_connection_rate: int | None = own.of(rate) if own.has_own(rate) else None
        self.offers: dict[str, Offer] = {}
        """By name, in the order of the settings; filled by `open`."""
        self._logins: dict[str, Login] = {}
        self._reauth_ms: dict[str, int] = {}
        self._oauth: OAuthSide | None = None
        if self.protocol.sasl:
            self._read_mechanisms(own)
        self._begin: Callable[[], None] | None = None  # to offer the mechanisms

    def open(
        self,
        runtime: Runtime,
        find: Callable[[str, str], Credential | None],
        decoy_secret: bytes,
        usual: Callable[[str], Shape] | None = None,
    ) -> None:
        """Begin to offer the mechanisms.

        `find` gives a user's SCRAM credential, `decoy_secret` is known to nobody; `usual` tells what most credentials
        of a mechanism look like.
        """

        def begin() -> None:
            self._offer(runtime, find, decoy_secret, usual)

        self._begin = begin
        begin()

    def files_changed(self) -> bool:
        """Whether a file that it was read from is another one now."""
        return self.tls is not None and self.tls.files_changed()

    def check_next(self, following: ListenerSecurity) -> None:
        """Whether another one of this listener can take its place. Raises: OtherCertificate."""
        if self.tls is not None and following.tls is not None:
            self.tls.check_next(following.tls)

    def take(self, following: ListenerSecurity) -> None:
        """Ask what another one of this listener asks, of new connections and log-ins; `following` ends."""
        if self.tls is not None and following.tls is not None:
            self.tls.take(following.tls)
        self.max_receive_bytes, self.failed_delay_ms = following.max_receive_bytes, following.failed_delay_ms
        self.max_connections, self.max_connection_rate = following.max_connections, following.max_connection_rate
        of_sasl = _of_sasl(self.configured) != _of_sasl(following.configured)
        self.configured = following.configured
        if not of_sasl:
            return
        if self._oauth is not None:
            self._oauth.end()
        self._logins, self._reauth_ms, self._oauth = following._logins, following._reauth_ms, following._oauth
        if self._begin is not None:
            self._begin()

    # ---

    def _offer(
        self,
        runtime: Runtime,
        find: Callable[[str, str], Credential | None],
        decoy_secret: bytes,
        usual: Callable[[str], Shape] | None,
    ) -> None:
        self.offers.clear()  # connections have this very dict
        for name, login in self._logins.items():
            if name == "PLAIN":
                begin = _plain(login.options)
            elif name == "OAUTHBEARER":
                assert self._oauth is not None
                begin = self._oauth.begin(runtime)
            else:
                begin = _scram(name, find, decoy_secret, usual)
            self.offers[name] = Offer(begin, self._reauth_ms[name])

    def _refuse_ineffective(self, own: ListenerSettings) -> None:
        """What is set for this listener alone, and asks who its clients are, must be asked."""
        ineffective = [] if self.protocol.sasl else [key for key in _OF_SASL if own.has_own(key)]
        if not self.protocol.tls and own.has_own("ssl.client.auth") and own.of("ssl.client.auth") != "none":
            ineffective.append("ssl.client.auth")
        for key in ineffective:
            said = f"{LISTENER_PREFIX}{self.name.lower()}.{key}"
            raise SettingsError(f"{said}: the listener speaks {self.protocol.name} and would be open all the same")

    def _read_mechanisms(self, own: ListenerSettings) -> None:
        enabled: tuple[str, ...] = own.of("sasl.enabled.mechanisms")
        said = f"sasl.enabled.mechanisms={','.join(enabled)}"
        if not enabled:
            raise SettingsError(f"{said}: listener {self.name} takes at least one mechanism")
        for name in enabled:
            if name not in _MODULES:
                known = "is not supported" if name in MECHANISMS else "is no mechanism"
                raise SettingsError(f"{said}: {name} on listener {self.name} {known}; it takes {', '.join(_MODULES)}")
            self._logins[name] = _login(own, name)
            reauth_ms = own.of_mechanism(name, "connections.max.reauth.ms")
            if name == "OAUTHBEARER":
                from broker.network.oauth import OAuthSide  # noqa: PLC0415  few starts need it

                self._oauth = OAuthSide(own, self._logins[name])
            self._reauth_ms[name] = own.of("connections.max.reauth.ms") if reauth_ms is None else reauth_ms


def warn_of_openness(settings: Settings, listeners: list[Listener]) -> None:
    """Tell of settings that let in whom they seem to keep out, and of what crosses the network as it is."""
    if settings.ssl_client_auth != "none" and not any(one.protocol is SecurityProtocol.SSL for one in listeners):
        why = "no listener speaks SSL, and SASL_SSL takes it with the prefix of a listener"
        log.warning("setting_without_effect", key="ssl.client.auth", why=why)
    of_sasl = [listener for listener in listeners if listener.protocol.sasl]
    if "sasl.enabled.mechanisms" in settings.given and not of_sasl:
        log.warning("setting_without_effect", key="sasl.enabled.mechanisms", why="no listener speaks SASL")
    for listener in of_sasl:
        if settings.sasl_jaas_config is not None:
            log.warning("setting_without_effect", key="sasl.jaas.config", why="it takes the prefix of a listener")
        if listener.protocol.tls or is_loopback(listener.host):
            continue
        enabled = ListenerSettings(settings, listener.name).of("sasl.enabled.mechanisms")
        if "OAUTHBEARER" in enabled:
            log.warning("tokens_in_clear_text", listener=listener.name, protocol=listener.protocol.name)
        if "PLAIN" in enabled:
            log.warning(
                "passwords_in_clear_text", listener=listener.name, mechanism="PLAIN", protocol=listener.protocol.name
            )


def _of_sasl(configured: Mapping[str, object]) -> dict[str, object]:
    """Those of them by which mechanisms are offered."""
    return {key: value for key, value in configured.items() if "sasl." in key or key.endswith("max.reauth.ms")}


def _login(own: ListenerSettings, mechanism: str) -> Login:
    from protocol.jaas import JaasError, parse_jaas  # noqa: PLC0415  few starts need it

    key = own.key_of_mechanism(mechanism, "sasl.jaas.config")
    line = own.of_mechanism(mechanism, "sasl.jaas.config")
    if line is None:
        raise SettingsError(f"{key}: it is missing, and {mechanism} is enabled on listener {own.name}")
    try:
        login = parse_jaas(line.reveal())
    except JaasError as error:
        raise SettingsError(f"{key}=[hidden]: {error}") from None
    if login.module != _MODULES[mechanism]:
        raise SettingsError(f"{key}=[hidden]: for {mechanism} it takes the module {_MODULES[mechanism]}")
    return login


def _plain(options: Mapping[str, str]) -> Callable[[], Mechanism]:
    from broker.security.plain import Plain, users_of  # noqa: PLC0415  few starts need it

    users = users_of(options)
    return lambda: Plain(users)


def _scram(
    name: str,
    find: Callable[[str, str], Credential | None],
    decoy_secret: bytes,
    usual: Callable[[str], Shape] | None,
) -> Callable[[], Mechanism]:
    from broker.security.scram import ORDINARY, Scram  # noqa: PLC0415  few starts need it

    def begin() -> Mechanism:
        nonce = random_uuid_text().replace("-", "")
        return Scram(name, find, nonce, decoy_secret, ORDINARY if usual is None else usual(name))

    return begin
