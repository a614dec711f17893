"""Levels of the broker's loggers, told and changed while it runs; a restart forgets them. There is one: `root`.

Source: KIP-412; Kafka's ConfigAdminManager.validateLogLevelConfigs, LoggingController.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.config_changes import ConfigOperation
from broker.config.setting_types import ConfigSource
from broker.loop import logs
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsResourceResult

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from protocol.messages.incremental_alter_configs import AlterableConfig

ROOT = "root"
LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


def described(names: Collection[str] | None) -> list[DescribeConfigsResourceResult]:
    """The loggers of these names, or all of them."""
    if names is not None and ROOT not in names:
        return []
    return [
        DescribeConfigsResourceResult(
            name=ROOT,
            value=logs.level().upper(),
            read_only=False,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            is_sensitive=False,
            synonyms=[],
        )
    ]


def wrong_node(name: str, node_id: int) -> str | None:
    """What is wrong with a resource of this name."""
    if not name.removeprefix("-").isdecimal():
        return f"Node id must be an integer, but it is: {name}"
    if int(name) != node_id:
        return f"Unexpected broker id, expected {node_id}, but received {name}"
    return None


def alter(changes: Sequence[AlterableConfig], *, validate_only: bool) -> tuple[ErrorCode, str | None]:
    """Set the levels, all or none; what was wrong."""
    for change in changes:
        operation = ConfigOperation(change.config_operation) if 0 <= change.config_operation <= 3 else None
        if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            what = operation.name if operation is not None else str(change.config_operation)
            return ErrorCode.INVALID_REQUEST, f"{what} operation is not allowed for the BROKER_LOGGER resource"
        if change.name != ROOT:
            return ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!"
        if operation is ConfigOperation.DELETE:
            return ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
        if change.value not in LEVELS:
            return (
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}",
            )
    for change in changes:
        if not validate_only and change.value is not None:
            logs.set_level(change.value)
    return ErrorCode.NONE, None
