"""How the broker's settings are declared: each function gives a `ConfigKey` whose name is that of its attribute.

At the class `Settings` an attribute is the declaration, at an instance its value; the functions are typed as `Any`, so
that `settings.num_partitions` is an int to the type checker.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from broker.config.config_def import ConfigKey, ConfigType, between, one_of, some_of


class SettingsError(Exception):
    """A setting that cannot be; the message is one sentence with the key, the value and what is allowed."""


class OtherCertificate(SettingsError):
    """A certificate that is not the successor of the one that is shown now."""


class ConfigSource(IntEnum):
    """Where a value comes from. The numbers are those of DescribeConfigs `config_source` (v1+)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Declaration:
    """One key without its name yet."""

    __slots__ = ("arguments", "default", "doc", "dynamic", "internal", "type")

    def __init__(
        self, kind: ConfigType, default: str | None, doc: str, *, dynamic: bool, internal: bool, **arguments: Any
    ) -> None:
        self.type = kind
        self.default = default
        self.doc = doc
        self.dynamic = dynamic
        self.internal = internal
        self.arguments = arguments

    def key(self, name: str) -> ConfigKey:
        """The key of this name."""
        return ConfigKey(
            name,
            self.type,
            self.default,
            self.doc,
            read_only=not self.dynamic,
            nullable=self.default is None,
            **self.arguments,
        )


def _number(kind: ConfigType) -> Any:
    def declare(
        default: float | None = None,
        doc: str = "",
        *,
        dynamic: bool = False,
        internal: bool = False,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> Any:
        limits = {} if at_least is None and at_most is None else between(at_least, at_most)
        return Declaration(kind, _text(default), doc, dynamic=dynamic, internal=internal, **limits)

    return declare


int16 = _number(ConfigType.SHORT)
int32 = _number(ConfigType.INT)
int64 = _number(ConfigType.LONG)
decimal = _number(ConfigType.DOUBLE)


def flag(default: bool, doc: str, *, dynamic: bool = False) -> Any:
    """A boolean."""
    return Declaration(ConfigType.BOOLEAN, _text(default), doc, dynamic=dynamic, internal=False)


def text(default: str | None, doc: str, *, allowed: list[str] | None = None, dynamic: bool = False) -> Any:
    """Any text, or one of a few words; without a default it may be absent."""
    limits = {} if allowed is None else one_of(*allowed)
    return Declaration(ConfigType.STRING, default, doc, dynamic=dynamic, internal=False, **limits)


def many(default: str, doc: str, *, dynamic: bool = False, allowed: list[str] | None = None) -> Any:
    """A list of words, separated by commas."""
    limits = {} if allowed is None else some_of(*allowed)
    return Declaration(ConfigType.LIST, default, doc, dynamic=dynamic, internal=False, **limits)


def password(doc: str) -> Any:
    """A secret, as a `Secret`, or nothing."""
    return Declaration(ConfigType.PASSWORD, None, doc, dynamic=False, internal=False)


def to_text(value: Any) -> str | None:
    """A value as a properties file has it."""
    return ",".join(value) if isinstance(value, tuple) else _text(value)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).replace("e+", "E").replace("e", "E")  # as Java prints a double
    return str(value)
