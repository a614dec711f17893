"""What may happen to configs: set, delete, append, subtract, or replace all. Pure: values in, records or a refusal out.

Source: KIP-339; Kafka's ConfigurationControlManager, ConfigAdminManager.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from broker.catalogue.cluster_state import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from broker.catalogue.topic_changes import Refused, check_size
from broker.config import (
    client_metrics_configs,
    cordoned,
    group_configs,
    listener_keys,
    listener_settings,
    settings_ignored,
    topic_configs,
)
from broker.config.config_def import ConfigError, ConfigType
from broker.config.setting_types import OtherCertificate, SettingsError
from protocol.errors import ErrorCode
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker.catalogue.cluster_state import ClusterState
    from broker.config.config_def import ConfigKey


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does with one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One key of one IncrementalAlterConfigs resource."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class BrokerConfigs:
    """The broker's own keys, and what was set at start. `static` holds only what somebody set explicitly."""

    node_id: int
    keys: Mapping[str, ConfigKey]
    static: Mapping[str, str | None]
    check_listeners: Callable[[Mapping[str, str], Mapping[str, str], set[str]], None] = lambda *_: None
    """Whether the listeners could be as the cluster's and the broker's configs would have them, of which these keys
    were changed. Raises: SettingsError."""

    def explicit(self, configs: Mapping[tuple[int, str], Mapping[str, str]]) -> dict[str, str | None]:
        """What is set by anybody: at start, for the cluster, for this broker; the last of these wins."""
        merged: dict[str, str | None] = dict(self.static)
        merged.update(configs.get((BROKER_RESOURCE, ""), {}))
        merged.update(configs.get((BROKER_RESOURCE, str(self.node_id)), {}))
        return merged


def incremental(
    state: ClusterState, broker: BrokerConfigs, resource: tuple[int, str], changes: Sequence[ConfigChange]
) -> list[Any]:
    """The records of an IncrementalAlterConfigs resource. Raises: Refused."""
    keys = _keys(state, broker, resource)
    check_size(len(changes))
    seen: set[str] = set()
    overrides: dict[str, str | None] = dict(state.configs.get(resource, {}))
    made: list[Any] = []
    for change in changes:
        if change.name in seen:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {change.name}")
        seen.add(change.name)
        if change.operation == ConfigOperation.DELETE:
            value = None
        elif change.value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}")
        elif change.operation == ConfigOperation.SET:
            value = change.value
        elif change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            value = _edited(state, broker, keys, overrides, change)
        else:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown config operation {change.operation}")
        if value is None:
            overrides.pop(change.name, None)
        else:
            overrides[change.name] = value
        made.append(_record(resource, change.name, value))
    _validate(state, broker, resource, keys, overrides, seen)
    return made


def replace_all(
    state: ClusterState, broker: BrokerConfigs, resource: tuple[int, str], values: Mapping[str, str | None]
) -> list[Any]:
    """The records of an AlterConfigs resource: what is not named goes back to its default. Raises: Refused."""
    keys = _keys(state, broker, resource)
    check_size(len(values))
    for name, value in values.items():
        if value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
    now = state.configs.get(resource, {})
    # What goes back to its default changes a listener too.
    gone = {name for name in now if listener_keys.is_of_listener(name) or name in listener_keys.FOR_ALL}
    _validate(state, broker, resource, keys, values, set(values) | (gone if resource[0] == BROKER_RESOURCE else set()))
    made = [_record(resource, name, None) for name in now if name not in values]
    # Of a broker also what is as it was: its files are looked at again (KAFKA-14136).
    always = resource[0] == BROKER_RESOURCE
    made.extend(_record(resource, name, value) for name, value in values.items() if always or now.get(name) != value)
    return made


def _record(resource: tuple[int, str], name: str, value: str | None) -> Any:
    return records.ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)


def _keys(state: ClusterState, broker: BrokerConfigs, resource: tuple[int, str]) -> Mapping[str, ConfigKey]:
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        if name not in state.topic_ids:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return topic_configs.TOPIC_CONFIGS
    if kind == BROKER_RESOURCE:
        if name not in ("", str(broker.node_id)):
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker.node_id} or empty, got {name!r}"
            )
        return broker.keys
    if kind == GROUP_RESOURCE:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        return group_configs.GROUP_CONFIGS
    if kind == CLIENT_METRICS_RESOURCE:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        return client_metrics_configs.CLIENT_METRICS_CONFIGS
    raise Refused(ErrorCode.INVALID_REQUEST, f"Configs of resource type {kind} cannot be changed here")


def _edited(
    state: ClusterState,
    broker: BrokerConfigs,
    keys: Mapping[str, ConfigKey],
    overrides: Mapping[str, str | None],
    change: ConfigChange,
) -> str:
    """The list value after an append or subtract, which start from the effective value."""
    key = keys.get(change.name)
    # Kafka knows no types of the configs of client metrics here.
    if key is None or key.type is not ConfigType.LIST or keys is client_metrics_configs.CLIENT_METRICS_CONFIGS:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Can't {ConfigOperation(change.operation).name} to key {change.name} because its type is not LIST.",
        )
    text = overrides.get(change.name)
    if text is None:
        behind = topic_configs.broker_value(key, broker.explicit(state.configs)) if key.synonyms else None
        text = behind[1] if behind is not None else key.default or ""
    now = [part for part in text.split(",") if part]
    # As Java splits: what is empty at the end is dropped, but nothing at all is one empty entry, which no list takes.
    given = [part.strip() for part in (change.value or "").rstrip(",").split(",")]
    if change.operation == ConfigOperation.APPEND:
        now.extend(part for part in given if part not in now)
    else:
        now = [part for part in now if part not in given]
    return ",".join(now)


def _validate(
    state: ClusterState,
    broker: BrokerConfigs,
    resource: tuple[int, str],
    keys: Mapping[str, ConfigKey],
    overrides: Mapping[str, str | None],
    changed: set[str],
) -> None:
    try:
        if resource[0] == CLIENT_METRICS_RESOURCE:
            client_metrics_configs.validate(overrides, changed)
            return
        if resource[0] == GROUP_RESOURCE:
            explicit = broker.explicit(state.configs)
            group_configs.validate(
                overrides, changed, lambda name: int(explicit.get(name) or broker.keys[name].default or 0)
            )
            return
        if resource[0] == TOPIC_RESOURCE:
            # Only what this change sets must be known: a directory of Kafka's may hold keys that have retired since,
            # and those can be deleted.
            known = {name: text for name, text in overrides.items() if name in keys or name in changed}
            topic_configs.validate(known, changed)
            return
        _check_of_listeners(state, broker, resource, overrides, changed)
        for name in changed:
            if listener_keys.is_of_listener(name) or (name in listener_keys.STORES and name not in overrides):
                continue
            key = keys.get(name) or settings_ignored.DYNAMIC.get(name)
            if key is None:
                if name not in overrides:
                    continue
                raise ConfigError(f"Unknown broker config name: {name}")
            if key.read_only:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{name}]")
            if name in overrides:
                _parse_for_broker(key, overrides[name])
                if name == cordoned.KEY:
                    _check_cordoned(overrides[name] or "", broker)
    except client_metrics_configs.BadRequest as error:
        raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from error
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_of_listeners(
    state: ClusterState,
    broker: BrokerConfigs,
    resource: tuple[int, str],
    overrides: Mapping[str, str | None],
    changed: set[str],
) -> None:
    """Source: Kafka's DynamicBrokerConfig.validateConfigs."""
    bare = sorted(name for name in changed if name in listener_keys.STORES and name in overrides)
    if bare:
        why = "These security configs can be dynamically updated only per-listener using the listener prefix"
        raise Refused(ErrorCode.INVALID_REQUEST, f"{why}: [{', '.join(bare)}]")
    of_listeners = {name for name in changed if listener_keys.is_of_listener(name) or name in listener_keys.FOR_ALL}
    for name in of_listeners:
        value = overrides.get(name)
        if value is not None and listener_keys.is_of_listener(name):
            _check_of_listener(broker, name, value)
    of_one_broker = sorted(
        name for name in of_listeners if name in overrides and listener_keys.base_of(name) not in listener_keys.LIMITS
    )
    if of_one_broker and resource[1] == "":
        why = "Cannot update these configs at default cluster level, broker id must be specified"
        raise Refused(ErrorCode.INVALID_REQUEST, f"{why}: [{', '.join(of_one_broker)}]")
    if not of_listeners:
        return
    after = {name: value for name, value in overrides.items() if value is not None}
    other = state.configs.get((BROKER_RESOURCE, "" if resource[1] else str(broker.node_id)), {})
    cluster, own = (other, after) if resource[1] else (after, other)
    try:
        broker.check_listeners(cluster, own, of_listeners)
    except OtherCertificate as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
    except SettingsError as error:
        raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from error


def _check_of_listener(broker: BrokerConfigs, name: str, value: str) -> None:
    base = listener_keys.base_of(name)
    if listener_settings.refuses(name, value):
        raise Refused(ErrorCode.INVALID_REQUEST, f"{name}={value}: it is not supported")
    key = listener_keys.definition_of(name, broker.keys)
    if key is not None and listener_keys.changes(base):
        _parse_for_broker(key, value)
    elif not settings_ignored.has_no_effect(base) and base not in settings_ignored.REFUSED:
        if key is None:
            raise ConfigError(f"Unknown broker config name: {name}")
        raise Refused(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{name}]")


def _check_cordoned(text: str, broker: BrokerConfigs) -> None:
    static = broker.static
    log_dirs = static.get("log.dirs") or static.get("log.dir") or broker.keys["log.dirs"].default or ""
    try:
        cordoned.cordoned_directories(text.split(","), [one.strip() for one in log_dirs.split(",")])
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from error


def _parse_for_broker(key: ConfigKey, text: str | None) -> None:
    """A bad value of a broker's key is the request's fault, where a bad value of a topic's is the config's."""
    try:
        key.parse(text)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from error
