"""What a configuration key is: its type, default, allowed values, and what it is for.

Broker settings and topic configs are both made of `ConfigKey`s, so that validation, the error that names key, value and
what is allowed, and the answer of DescribeConfigs come from one declaration.

Source: Kafka's ConfigDef.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from broker.config.secret import HIDDEN, Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONG_MAX = 9_223_372_036_854_775_807
INT_MAX = 2_147_483_647

_NAMES = {  # what a wrong value should have been
    "BOOLEAN": "true or false",
    "INT": "a whole number of 32 bits",
    "SHORT": "a whole number of 16 bits",
    "LONG": "a whole number of 64 bits",
    "DOUBLE": "a number",
    "STRING": "a text",
    "LIST": "a list",
    "CLASS": "the name of a class",
    "PASSWORD": "a password",
}
_RANGES = {
    "INT": (-INT_MAX - 1, INT_MAX),
    "SHORT": (-32_768, 32_767),
    "LONG": (-LONG_MAX - 1, LONG_MAX),
}


class ConfigType(IntEnum):
    """The numbers are those of DescribeConfigs `config_type` (v3+)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigError(Exception):
    """A value that a key does not take; the message names the key, the value and what is allowed."""


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. `default` and every given value are texts, as in a properties file; None is Kafka's null.

    `allowed` judges the parsed value and `allowed_text` says in words what it takes. `synonyms` are the broker keys
    whose value a topic config falls back to, the nearest first.
    """

    name: str
    type: ConfigType
    default: str | None
    doc: str
    allowed: Callable[[Any], bool] | None = None
    allowed_text: str = ""
    synonyms: tuple[str, ...] = ()
    read_only: bool = False
    nullable: bool = False

    @property
    def sensitive(self) -> bool:
        """Whether its value is never shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str | None) -> Any:
        """The value of `text`: bool, int, float, str, tuple of str, Secret, or None for a key that may be null.

        Raises: ConfigError when the text is no value of this type, or one that is not allowed.
        """
        if text is None:
            if self.nullable or self.default is None:
                return None
            raise self._refused(text, _NAMES[self.type.name])
        value = self._converted(text.strip())
        if self.allowed is not None and not self.allowed(value):
            raise self._refused(text, self.allowed_text)
        return value

    def _converted(self, text: str) -> Any:
        kind = self.type
        try:
            if kind is ConfigType.BOOLEAN:
                return {"true": True, "false": False}[text.lower()]
            if kind in (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG):
                low, high = _RANGES[kind.name]
                if "_" in text or not low <= int(text) <= high:
                    raise ValueError
                return int(text)
            if kind is ConfigType.DOUBLE:
                return float(text)
        except (KeyError, ValueError):
            raise self._refused(text, _NAMES[kind.name]) from None
        if kind is ConfigType.LIST:
            return tuple(part.strip() for part in text.split(",")) if text else ()
        return Secret(text) if kind is ConfigType.PASSWORD else text

    def _refused(self, text: str | None, allowed: str) -> ConfigError:
        if self.sensitive:
            text = HIDDEN
        return ConfigError(f"Invalid value {text} for configuration {self.name}: it takes {allowed}")


def between(low: float | None, high: float | None = None) -> dict[str, Any]:
    """The `allowed` and `allowed_text` of a number from `low` to `high`, both inclusive, None for no bound."""

    def allowed(value: float | None) -> bool:
        return value is not None and (low is None or value >= low) and (high is None or value <= high)

    if high is None:
        words = f"a number of at least {low}"
    elif low is None:
        words = f"a number of at most {high}"
    else:
        words = f"a number from {low} to {high}"
    return {"allowed": allowed, "allowed_text": words}


def one_of(*names: str) -> dict[str, Any]:
    """The `allowed` and `allowed_text` of a text that is one of `names`."""
    return {"allowed": lambda value: value in names, "allowed_text": "one of " + ", ".join(names)}


def some_of(*names: str) -> dict[str, Any]:
    """The `allowed` and `allowed_text` of a list whose entries are among `names`, each at most once."""

    def allowed(values: tuple[str, ...]) -> bool:
        return len(set(values)) == len(values) and all(value in names for value in values)

    return {"allowed": allowed, "allowed_text": "a list of " + ", ".join(names) + ", each at most once"}


def by_name(keys: Iterable[ConfigKey]) -> dict[str, ConfigKey]:
    """Keys by name, sorted by it. Two keys of one name are a mistake of ours."""
    ordered = sorted(keys, key=lambda key: key.name)
    table = {key.name: key for key in ordered}
    assert len(table) == len(ordered)
    return table
