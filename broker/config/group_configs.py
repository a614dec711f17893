"""The configs of one group (resource type 32): their keys, their bounds, and what they may be together.

A group need not exist to have some. Each has a broker setting of the same name with `group.` before it for its default,
and two for its bounds. Source: KIP-848; Kafka's GroupConfig, GroupConfigManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.config_def import ConfigError, ConfigKey, ConfigType, between

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"

GROUP_CONFIGS: dict[str, ConfigKey] = {
    name: ConfigKey(name, ConfigType.INT, default, doc, synonyms=(f"group.{name}",))
    for name, default, doc in (
        (ASSIGNMENT_INTERVAL, "1000", "How long a target assignment of the group stays at least."),
        (HEARTBEAT_INTERVAL, "5000", "How often members of the group are told to say that they are alive."),
        (SESSION_TIMEOUT, "45000", "How long a member of the group may be silent."),
    )
}
"""By name. Those of share and streams groups come with these groups."""


def validate(overrides: Mapping[str, str | None], changed: Collection[str], setting: Callable[[str], int]) -> None:
    """Whether a group may have these. `setting`: the value of a broker setting. Raises: ConfigError."""
    found: dict[str, int] = {}
    for name, key in GROUP_CONFIGS.items():
        text = overrides.get(name)
        if text is None:
            found[name] = setting(f"group.{name}")
            continue
        kind = name.removeprefix("consumer.")
        bounds = between(setting(f"group.consumer.min.{kind}"), setting(f"group.consumer.max.{kind}"))
        found[name] = ConfigKey(name, key.type, key.default, key.doc, **bounds).parse(text)
    for name in changed:
        if name not in GROUP_CONFIGS and name in overrides:
            raise ConfigError(f"Unknown group config name: {name}")
    if found[SESSION_TIMEOUT] <= found[HEARTBEAT_INTERVAL]:
        raise ConfigError(
            f"{SESSION_TIMEOUT}={found[SESSION_TIMEOUT]}: it takes a number above {HEARTBEAT_INTERVAL}, which is "
            f"{found[HEARTBEAT_INTERVAL]}"
        )
