"""Settings as one listener has them: `listener.name.NAME.KEY` first, then `KEY`.

Of a SASL mechanism it is `listener.name.NAME.MECHANISM.KEY`. Names of listeners and mechanisms are in lower case there.
Source: Kafka's AbstractConfig.valuesWithPrefixOverride, ListenerName.configPrefix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.config.config_def import ConfigError
from broker.config.security_settings import SecuritySettings
from broker.config.setting_types import SettingsError
from broker.config.settings import LISTENER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker.config.settings import Settings

CALLBACK_HANDLER = "sasl.server.callback.handler.class"
OF_MECHANISMS = frozenset({"connections.max.reauth.ms", "sasl.jaas.config", CALLBACK_HANDLER})
TOKEN_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
"""The one class of a callback handler that stands for something here."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")


class ListenerSettings:
    """What holds for the listener of this name."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.name = name
        self._settings = settings
        self._prefix = f"{LISTENER_PREFIX}{name.lower()}."
        self._own = {key.lower(): value for key, value in settings.of_listeners.items()}

    def of(self, key: str) -> Any:
        """The value of a key. Raises: SettingsError for one that is not allowed."""
        own = self._prefix + key
        return self._parsed(own, key) if own in self._own else self._bare(key)

    def has_own(self, key: str) -> bool:
        """Whether it was set for this listener alone."""
        return self._prefix + key in self._own

    def of_mechanism(self, mechanism: str, key: str) -> Any:
        """The value of a key that each mechanism may have; None for one that neither it nor the listener says.

        Raises: SettingsError for one that is not allowed.
        """
        own = self.key_of_mechanism(mechanism, key)
        if own in self._own:
            return self._parsed(own, key)
        return self._parsed(self._prefix + key, key) if self._prefix + key in self._own else None

    def key_of_mechanism(self, mechanism: str, key: str) -> str:
        """The whole name of such a key."""
        return f"{self._prefix}{mechanism.lower()}.{key}"

    def _bare(self, key: str) -> Any:
        return getattr(self._settings, key.replace(".", "_"))

    def _parsed(self, own: str, key: str) -> Any:
        try:
            return self._settings.definitions[key].parse(self._own[own])
        except ConfigError as error:
            raise SettingsError(str(error).replace(f"configuration {key}:", f"configuration {own}:")) from None


def check_own(settings: Settings, listeners: Iterable[str]) -> list[str]:
    """The keys of these listeners that nobody knows. Raises: SettingsError for one that would keep somebody out."""
    from broker.config.settings_ignored import REFUSED, has_no_effect, is_refused  # noqa: PLC0415  few starts need it

    unknown = []
    prefixes = [f"{LISTENER_PREFIX}{name.lower()}." for name in listeners]
    controllers = {name.lower() for name in settings.controller_listener_names}
    for key, value in settings.of_listeners.items():
        prefix = next((prefix for prefix in prefixes if key.lower().startswith(prefix)), None)
        if prefix is None:
            name, _, rest = key.lower().removeprefix(LISTENER_PREFIX).partition(".")
            if name not in controllers and (_of_any_mechanism(rest) in settings.definitions or rest in REFUSED):
                raise SettingsError(f"{key}: {name.upper()} is not in listeners, and a broker without it may be open")
            continue
        rest = key.lower().removeprefix(prefix)
        mechanism = rest.partition(".")[0]
        rest = _of_any_mechanism(rest)
        if (mechanism.upper(), rest, value.strip()) == ("OAUTHBEARER", CALLBACK_HANDLER, TOKEN_VALIDATOR):
            continue
        if is_refused(rest, value):
            raise SettingsError(f"{key}={value}: it is not supported, and a broker without it would be open")
        if rest not in settings.definitions and rest not in REFUSED and not has_no_effect(rest):
            unknown.append(key)
    return unknown


def passed_over(settings: Settings, listeners: Iterable[str], changed: Mapping[str, str]) -> list[str]:
    """The keys among `changed`, what Kafka changed while it ran, that say who is let in and would not hold.

    Those hold that this start says too. Source: Kafka's DynamicBrokerConfig (DynamicSecurityConfigs,
    DynamicListenerConfig).
    """
    from broker.config.settings_ignored import REFUSED  # noqa: PLC0415  few directories have any

    said = {key.lower(): value for key, value in {**settings.given, **settings.of_listeners}.items()}
    prefixes = tuple(f"{LISTENER_PREFIX}{name.lower()}." for name in listeners)
    lost = []
    for key, value in changed.items():
        low = key.lower()
        prefix = next((prefix for prefix in prefixes if low.startswith(prefix)), "")
        if not prefix and low.startswith(LISTENER_PREFIX):
            continue  # of a listener that is not there
        bare = _of_any_mechanism(low.removeprefix(prefix))
        known = bare in settings.definitions if prefix else bare.replace(".", "_") in SecuritySettings.__annotations__
        if (known or bare in REFUSED) and said.get(low, "").strip() != value.strip():
            lost.append(key)
    return sorted(lost)


def _of_any_mechanism(key: str) -> str:
    """`sasl.jaas.config` of `plain.sasl.jaas.config`; other keys as they are."""
    mechanism, _, rest = key.partition(".")
    return rest if mechanism.upper() in MECHANISMS and rest in OF_MECHANISMS else key
