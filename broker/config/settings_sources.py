"""Where settings come from: the defaults, then `server.properties`, then `KAFKA_*`, then `--override key=value`.

The later one counts. Source: the official Kafka image's mapping of environment names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.config.listener_keys import LISTENER_PREFIX
from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from storage.directory.meta_properties import parse_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
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

    __slots__ = ("settings", "unknown")

    def __init__(self, settings: Settings, unknown: list[str]) -> None:
        self.settings = settings
        self.unknown = unknown


def gather(path: Path | None, environment: Mapping[str, str], overrides: Iterable[str]) -> Sources:
    """The settings of this start. Raises: SettingsError, also for a file that cannot be read."""
    known, unknown = _sort_out(everything_given(path, environment, overrides))
    return Sources(Settings(known, cluster_id=environment.get("CLUSTER_ID") or None), unknown)


def everything_given(path: Path | None, environment: Mapping[str, str], overrides: Iterable[str]) -> dict[str, str]:
    """All keys and values of the three sources, also such as have no effect. Raises: SettingsError."""
    given: dict[str, str] = {}
    if path is not None:
        try:
            given.update(parse_properties(path.read_bytes().decode("latin-1")))
        except OSError as error:
            raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from None
    given.update(from_environment(environment, given))
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise SettingsError(f"--override {override}: it takes key=value")
        given[key.strip()] = value.strip()
    return given


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
