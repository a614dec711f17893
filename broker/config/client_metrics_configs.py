"""The configs of one subscription to metrics of clients (resource type 16): their keys, and what they may be.

Source: KIP-714; Kafka's ClientMetricsConfigs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.config.config_def import ConfigError, ConfigKey, ConfigType, between
from coordinator import re2_patterns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import re2

METRICS, INTERVAL_MS, MATCH = "metrics", "interval.ms", "match"
DEFAULT_INTERVAL_MS = 300_000

CLIENT_METRICS_CONFIGS: dict[str, ConfigKey] = {
    INTERVAL_MS: ConfigKey(
        INTERVAL_MS,
        ConfigType.INT,
        str(DEFAULT_INTERVAL_MS),
        "How often clients push, in ms.",
        **between(100, 3_600_000),
    ),
    MATCH: ConfigKey(MATCH, ConfigType.LIST, "", "Which clients: attribute=regular expression, all of them."),
    METRICS: ConfigKey(METRICS, ConfigType.LIST, "", "Prefixes of the metrics' names; * for all."),
}
"""By name."""

_ATTRIBUTES = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


class BadRequest(ConfigError):
    """It is the request that is wrong, in Kafka's eyes."""


def validate(overrides: Mapping[str, str | None], changed: Collection[str]) -> None:
    """Whether a subscription may have these. Raises: ConfigError; BadRequest where Kafka blames the request."""
    for name in changed:
        if name not in CLIENT_METRICS_CONFIGS and name in overrides:
            raise BadRequest(f"Unknown client metrics configuration: {name}")
    for name, text in overrides.items():
        key = CLIENT_METRICS_CONFIGS.get(name)
        if key is not None:
            try:
                key.parse(text)
            except ConfigError as error:
                # Kafka's own words where the number is one, but none of these.
                low = name == INTERVAL_MS and re.fullmatch(r"[+-]?\d{1,9}", (text or "").strip())
                limits = f"Invalid value {text} for {name}, interval must be between 100 and 3600000 (1 hour)"
                raise BadRequest(limits if low else str(error)) from error
    patterns(overrides.get(MATCH) or "")


def patterns(text: str) -> dict[str, re2._Regexp]:
    """Attribute of a client -> what its value must match as a whole. Raises: ConfigError."""
    found: dict[str, re2._Regexp] = {}
    parts = CLIENT_METRICS_CONFIGS[MATCH].parse(text)
    for part in parts:
        attribute, sign, pattern = part.partition("=")
        try:
            if not sign or not pattern.strip() or "=" in pattern or attribute.strip() not in _ATTRIBUTES:
                raise ValueError(part)
            found[attribute.strip()] = re2_patterns.compiled(pattern.strip())
        except ValueError:
            raise ConfigError(f"Illegal client matching pattern: {part}") from None
    return found
