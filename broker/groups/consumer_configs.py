"""The settings of consumer groups: the broker's, and over them what is set for one group (resource type 32).

A group need not exist to have settings. Those that do not fit the broker's bounds any more are taken to the nearest
that does. Source: KIP-848; Kafka's GroupConfig, GroupConfigManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.cluster_state import GROUP_RESOURCE
from broker.config.group_configs import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from coordinator.consumer.assignors import ASSIGNORS
from coordinator.values import altered
from coordinator.view import ConsumerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.catalogue.catalogue import Catalogue
    from broker.config.settings import Settings


class ConsumerGroupConfigs:
    """What holds for each group."""

    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._settings = settings
        self._seen: dict[str, Mapping[str, str]] = {}
        self.default = ConsumerSettings(
            session_timeout_ms=settings.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
            assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
            regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
            max_size=settings.group_consumer_max_size,
            assignors={name: ASSIGNORS[name] for name in settings.group_consumer_assignors},
            migration_policy=settings.group_consumer_migration_policy.lower(),
            rack=settings.broker_rack,
        )

    def of_group(self, group_id: str) -> ConsumerSettings:
        """What holds for this group now."""
        overrides = self._catalogue.configs.get((GROUP_RESOURCE, group_id))
        if not overrides:
            return self.default
        settings, default = self._settings, self.default
        return altered(
            default,
            session_timeout_ms=_within(
                overrides.get(SESSION_TIMEOUT),
                settings.group_consumer_min_session_timeout_ms,
                settings.group_consumer_max_session_timeout_ms,
                default.session_timeout_ms,
            ),
            heartbeat_interval_ms=_within(
                overrides.get(HEARTBEAT_INTERVAL),
                settings.group_consumer_min_heartbeat_interval_ms,
                settings.group_consumer_max_heartbeat_interval_ms,
                default.heartbeat_interval_ms,
            ),
            assignment_interval_ms=_within(
                overrides.get(ASSIGNMENT_INTERVAL),
                settings.group_consumer_min_assignment_interval_ms,
                settings.group_consumer_max_assignment_interval_ms,
                default.assignment_interval_ms,
            ),
        )

    def changed(self) -> list[str]:
        """The groups whose settings are others than when this was last called."""
        now = {name: values for (kind, name), values in self._catalogue.configs.items() if kind == GROUP_RESOURCE}
        before, self._seen = self._seen, now
        return [name for name in {**before, **now} if before.get(name) != now.get(name)]


def _within(text: str | None, least: int, most: int, default: int) -> int:
    return default if text is None else min(max(int(text), least), most)
