"""Where settings come from: the defaults, then `server.properties`, then `KAFKA_*`, then `--override key=value`.

The later one counts. Source: the official Kafka image's mapping of environment names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.config.listener_keys import LISTENER_PREFIX
from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from storage.directory.meta_properties import property_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

# What the images' start scripts look at: never a key, and not worth a warning, since people paste them.
_NO_KEYS = frozenset(
    """
    KAFKA_VERSION KAFKA_HEAP_OPTS KAFKA_OPTS KAFKA_JMX_OPTS KAFKA_JMX_HOSTNAME KAFKA_JMX_PORT KAFKA_GC_LOG_OPTS
    KAFKA_JVM_PERFORMANCE_OPTS KAFKA_LOG4J_OPTS KAFKA_LOG4J_ROOT_LOGLEVEL KAFKA_LOG4J_LOGGERS KAFKA_TOOLS_LOG4J_LOGLEVEL
    """.split()  # noqa: SIM905  read as a list of words
)
_LOG_LEVELS = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warn",
    "ERROR": "error",
    "FATAL": "error",
    "OFF": "off",
}


class Sources:
    """The settings, and what is to be warned of."""

    __slots__ = ("repeated", "settings", "unknown")

    def __init__(self, settings: Settings, unknown: list[str], repeated: dict[str, list[int]]) -> None:
        self.settings = settings
        self.unknown = unknown
        self.repeated = repeated
        """The lines of each key that the file has with different values, of which the last one counts."""


def gather(path: Path | None, environment: Mapping[str, str], overrides: Iterable[str]) -> Sources:
    """The settings of this start. Raises: SettingsError, also for a file that cannot be read."""
    lines = _lines(path)
    of_file, behind = _given(lines, environment, overrides)
    known, unknown = _sort_out({**of_file, **behind})
    settings = Settings(known, cluster_id=environment.get("CLUSTER_ID") or None)
    return Sources(settings, unknown, _repeated(lines, but=behind))


def everything_given(path: Path | None, environment: Mapping[str, str], overrides: Iterable[str]) -> dict[str, str]:
    """All keys and values of the three sources, also such as have no effect. Raises: SettingsError."""
    of_file, behind = _given(_lines(path), environment, overrides)
    return {**of_file, **behind}


def _lines(path: Path | None) -> list[tuple[int, str, str]]:
    if path is None:
        return []
    try:
        return property_lines(path.read_bytes().decode("latin-1"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from None


def _given(
    lines: Iterable[tuple[int, str, str]], environment: Mapping[str, str], overrides: Iterable[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """What the file gives, and what the sources behind it give."""
    of_file = {key: value for _, key, value in lines}
    behind = from_environment(environment, of_file)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise SettingsError(f"--override {override}: it takes key=value")
        behind[key.strip()] = value.strip()
    return of_file, behind


def _repeated(lines: Iterable[tuple[int, str, str]], *, but: Collection[str]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    values: dict[str, set[str]] = {}
    for number, key, value in lines:
        numbers.setdefault(key, []).append(number)
        values.setdefault(key, set()).add(value.strip())
    return {key: numbers[key] for key in numbers if len(values[key]) > 1 and key not in but}


def _sort_out(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    known, unknown = {}, []
    for key, value in given.items():
        if key in Settings.definitions or key.lower().startswith(LISTENER_PREFIX):
            known[key] = value
            continue
        from broker.config.settings_ignored import REFUSED, has_no_effect, is_refused  # noqa: PLC0415  few starts need it

        if is_refused(key, value):
            raise SettingsError(f"{key}={value}: it is not supported, and a broker without it would be open")
        if key not in REFUSED and not has_no_effect(key):
            unknown.append(key)
    return known, unknown


def from_environment(environment: Mapping[str, str], before: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings among `KAFKA_*`: `KAFKA_LOG_RETENTION_MS` is `log.retention.ms`; `__` is `_`, `___` is `-`.

    `before` are those of the file, which `KAFKA_ADVERTISED_LISTENERS` alone makes listen on every address.
    """
    found: dict[str, str] = {}
    for name, value in environment.items():
        if name.startswith("KAFKA_") and name not in _NO_KEYS:
            found[key_of_variable(name)] = value
    level = environment.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").upper()
    if level in _LOG_LEVELS and "kohort.log.level" not in found:
        found["kohort.log.level"] = _LOG_LEVELS[level]
    advertised = found.get("advertised.listeners")
    if advertised and "listeners" not in found and "listeners" not in (before or {}):
        found["listeners"] = re.sub(r"://(\[[^\]]*\]|[^:,]*):", "://0.0.0.0:", advertised)
    return found


def key_of_variable(name: str) -> str:
    """`KAFKA_VALID___PROPERTY__ALL_CASES` is `valid-property_all.cases`."""
    key = name.removeprefix("KAFKA_").lower()
    return key.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
