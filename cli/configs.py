"""Configs of topics and brokers: read, and changed one by one (IncrementalAlterConfigs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from cli.cluster import said
from cli.errors import Failed, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cli.cluster import Cluster

KINDS = {"topics": ConfigResource.Type.TOPIC, "brokers": ConfigResource.Type.BROKER}
_DEFAULT = 5  # ConfigSource.DEFAULT_CONFIG


class Config:
    """One config: its value (None for a secret one), and whether somebody has set it."""

    __slots__ = ("is_default", "is_sensitive", "name", "source", "value")

    def __init__(self, name: str, value: str | None, source: Any, is_sensitive: bool) -> None:
        self.name = name
        self.value = value
        self.source = int(getattr(source, "value", source))  # the library gives its number, or its name
        self.is_default = self.source == _DEFAULT
        self.is_sensitive = is_sensitive


def read_configs(cluster: Cluster, kind: str, names: Iterable[str]) -> dict[str, list[Config]]:
    """The configs of each resource (`topics`, `brokers`), sorted. Raises: Failed."""
    wanted = [ConfigResource(KINDS[kind], name) for name in names]
    if not wanted:
        return {}
    done, errors = cluster.results(cluster.admin.describe_configs(wanted, request_timeout=cluster.timeout_s))
    for resource, error in errors.items():
        raise Failed(f"{kind[:-1]} {resource.name!r}: {said(error)}")
    return {
        resource.name: [
            Config(entry.name, entry.value, entry.source, bool(entry.is_sensitive))
            for entry in sorted(entries.values(), key=lambda entry: entry.name)
        ]
        for resource, entries in done.items()
    }


def parse_configs(option: str, words: Iterable[str]) -> dict[str, str]:
    """The keys and values of `key=value` words. Raises: UsageError."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{option} {word}: it takes key=value")
        found[key.strip()] = value
    return found


def change_configs(cluster: Cluster, kind: str, name: str, values: dict[str, str], removed: Iterable[str]) -> None:
    """Set some configs of a resource, and take others back to their defaults. Raises: Failed."""
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in values.items()]
    entries += [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in removed]
    resource = ConfigResource(KINDS[kind], name, incremental_configs=entries)
    futures = cluster.admin.incremental_alter_configs([resource], request_timeout=cluster.timeout_s)
    _, errors = cluster.results(futures)
    for error in errors.values():
        raise Failed(f"{kind[:-1]} {name!r}: {said(error)}")
