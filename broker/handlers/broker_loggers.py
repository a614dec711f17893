"""Levels of the broker's loggers, told and changed while it runs; a restart forgets them.

There is `root`, one for every module that writes lines (`broker.partitions.moves`), and one for each room they are in
(`broker.partitions`); who was given no level has that of the room around it.

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

    from broker.broker import Broker
    from protocol.messages.incremental_alter_configs import AlterableConfig

LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


def described(names: Collection[str] | None) -> list[DescribeConfigsResourceResult]:
    """The loggers of these names, or all of them."""
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=level.upper(),
            read_only=False,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            is_sensitive=False,
            synonyms=[],
        )
        for name, level in logs.levels().items()
        if names is None or name in names
    ]


def wrong_node(name: str, node_id: int) -> str | None:
    """What is wrong with a resource of this name."""
    if not name.removeprefix("-").isdecimal():
        return f"Node id must be an integer, but it is: {name}"
    if int(name) != node_id:
        return f"Unexpected broker id, expected {node_id}, but received {name}"
    return None


def alter(broker: Broker, changes: Sequence[AlterableConfig], *, validate_only: bool) -> tuple[ErrorCode, str | None]:
    """Set the levels, all or none; what was wrong."""
    known = logs.levels()
    for change in changes:
        operation = ConfigOperation(change.config_operation) if 0 <= change.config_operation <= 3 else None
        if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            what = operation.name if operation is not None else str(change.config_operation)
            return ErrorCode.INVALID_REQUEST, f"{what} operation is not allowed for the BROKER_LOGGER resource"
        if change.name not in known:
            return ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!"
        if operation is ConfigOperation.DELETE:
            if change.name == logs.ROOT:
                return ErrorCode.INVALID_REQUEST, f"Removing the log level of the {logs.ROOT} logger is not allowed"
        elif change.value not in LEVELS:
            return (
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}",
            )
    for change in changes:
        if not validate_only:
            deleted = change.config_operation == ConfigOperation.DELETE
            logs.set_level(change.name, None if deleted else change.value)
    if broker.authorizer is not None and not validate_only:
        broker.authorizer.decide_anew()
    return ErrorCode.NONE, None
