"""Settings as one listener has them: `listener.name.NAME.KEY` first, then `KEY`.

Of a SASL mechanism it is `listener.name.NAME.MECHANISM.KEY`. Names of listeners and mechanisms are in lower case there.
Source: Kafka's AbstractConfig.valuesWithPrefixOverride, ListenerName.configPrefix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.config.config_def import ConfigError
from broker.config.listener_keys import (
    CALLBACK_HANDLER,
    FOR_ALL,
    LISTENER_PREFIX,
    base_of,
    is_of_listener,
    listener_of,
    without_mechanism,
)
from broker.config.setting_types import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker.config.settings import Settings

TOKEN_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
"""The one class of a callback handler that stands for something here."""


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

    @property
    def configured(self) -> dict[str, object]:
        """All that may change while the broker runs: its own settings, and what holds for listeners that have none."""
        own = {key: value for key, value in self._own.items() if key.startswith(self._prefix)}
        return {**{key: self._bare(key) for key in FOR_ALL}, **own}

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
            if name not in controllers and (without_mechanism(rest) in settings.definitions or rest in REFUSED):
                raise SettingsError(f"{key}: {name.upper()} is not in listeners, and a broker without it may be open")
            continue
        rest = key.lower().removeprefix(prefix)
        mechanism = rest.partition(".")[0]
        rest = without_mechanism(rest)
        if (mechanism.upper(), rest, value.strip()) == ("OAUTHBEARER", CALLBACK_HANDLER, TOKEN_VALIDATOR):
            continue
        if is_refused(rest, value):
            raise SettingsError(f"{key}={value}: it is not supported, and a broker without it would be open")
        if rest not in settings.definitions and rest not in REFUSED and not has_no_effect(rest):
            unknown.append(key)
    return unknown


def passed_over(listeners: Iterable[str], changed: Mapping[str, str]) -> list[str]:
    """The keys among `changed`, what Kafka changed while it ran, that say who is let in and cannot hold here."""
    names = {name.lower() for name in listeners}
    lost = []
    for key, value in changed.items():
        if is_of_listener(key) and listener_of(key) not in names:
            continue
        if refuses(key, value):
            lost.append(key)
    return sorted(lost)


def refuses(key: str, value: str) -> bool:
    """Whether a value that was set while a broker ran would leave somebody in whom it would keep out."""
    from broker.config.settings_ignored import is_refused  # noqa: PLC0415  few directories have any

    base = base_of(key) if is_of_listener(key) else key
    handler = f".oauthbearer.{CALLBACK_HANDLER}"
    if is_of_listener(key) and key.endswith(handler) and value.strip() == TOKEN_VALIDATOR:
        return False
    return is_refused(base, value)
