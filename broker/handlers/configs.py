"""DescribeConfigs.

Source: KIP-133, KIP-226, KIP-569; Kafka's ConfigHelper.
"""

from __future__ import annotations

from itertools import dropwhile
from typing import TYPE_CHECKING, TypeAlias

from broker.catalogue.cluster_state import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from broker.catalogue.topic_changes import Refused, check_name
from broker.config import topic_configs
from broker.config.client_metrics_configs import CLIENT_METRICS_CONFIGS
from broker.config.group_configs import GROUP_CONFIGS
from broker.config.listener_keys import STORES, base_of, definition_of, is_of_listener
from broker.config.setting_types import ConfigSource
from broker.config.settings_ignored import DYNAMIC
from broker.handlers import broker_loggers
from broker.handlers.authorizer import CLUSTER_NAME, Operation, ResourceType, authorize
from broker.handlers.gathering import one_by_one
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from broker.broker import Broker
    from broker.config.config_def import ConfigKey
    from broker.handlers.context import Deferred, RequestContext
    from protocol.messages.describe_configs import DescribeConfigsResource

Chain: TypeAlias = "list[tuple[str, str | None, ConfigSource]]"
"""(name, value, source) of everything that could give a key its value, the strongest first."""

Entries = dict[object, list[DescribeConfigsResourceResult]]
"""What was worked out for one answer already, by overrides and names; shared by its resources, never changed."""


def describe_configs(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse | Deferred:
    """Every known key of each resource, or the keys asked for; not only what was overridden."""
    made: Entries = {}
    resources = request.resources
    return one_by_one(
        broker,
        context,
        resources,
        lambda requested: _describe(broker, context, request, requested, made),
        lambda results: DescribeConfigsResponse(results=results),
        once=lambda requested: (requested.resource_type, requested.resource_name),
    )


def _describe(
    broker: Broker,
    context: RequestContext,
    request: DescribeConfigsRequest,
    requested: DescribeConfigsResource,
    made: Entries,
) -> DescribeConfigsResult:
    kind, name = requested.resource_type, requested.resource_name
    keys = set(requested.configuration_keys) if requested.configuration_keys else None
    error, message = ErrorCode.NONE, ""  # not null, as in Kafka
    entries: list[DescribeConfigsResourceResult] = []
    options = (request.include_synonyms, request.include_documentation)
    if kind == TOPIC_RESOURCE:
        topic = broker.catalogue.image.topic(name)
        if not authorize(context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
            error, message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
        elif topic is None:
            error, message = _absence(name)
        else:
            entries = topic_entries(broker, topic.configs, keys, *options, made=made)
    elif kind == BROKER_RESOURCE:
        if not authorize(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
            error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Authorization failed."
        elif name == "":
            entries = _cluster_entries(broker, keys, *options)
        elif name == str(broker.node_id):
            entries = _broker_entries(broker, keys, *options)
        else:
            error = ErrorCode.INVALID_REQUEST
            message = f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
    elif kind == GROUP_RESOURCE:
        if not authorize(context, Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, name):
            error, message = ErrorCode.GROUP_AUTHORIZATION_FAILED, "Authorization failed."
        elif not name:
            error, message = ErrorCode.INVALID_REQUEST, "Group name must not be empty."
        else:
            entries = _group_entries(broker, name, keys, *options)
    elif kind == CLIENT_METRICS_RESOURCE:
        if not authorize(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
            error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Authorization failed."
        elif not name:
            error, message = ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
        else:
            entries = _client_metrics_entries(broker, name, keys, *options)
    elif kind == BROKER_LOGGER_RESOURCE:
        wrong = broker_loggers.wrong_node(name, broker.node_id)
        if not authorize(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
            error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Authorization failed."
        elif wrong is not None:
            error, message = ErrorCode.INVALID_REQUEST, wrong
        else:
            entries = broker_loggers.described(keys)
    else:
        error, message = ErrorCode.INVALID_REQUEST, f"Kohort has no configs of resource type {kind}"
    return DescribeConfigsResult(
        error_code=error, error_message=message, resource_type=kind, resource_name=name, configs=entries
    )


def _absence(name: str) -> tuple[ErrorCode, str]:
    try:
        check_name(name)
    except Refused as refusal:
        return refusal.code, str(refusal)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message


def _broker_layers(broker: Broker) -> tuple[tuple[ConfigSource, Mapping[str, str | None]], ...]:
    """What is set explicitly, the strongest first."""
    configs = broker.catalogue.configs
    return (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, configs.get((BROKER_RESOURCE, str(broker.node_id)), {})),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, configs.get((BROKER_RESOURCE, ""), {})),
        (ConfigSource.STATIC_BROKER_CONFIG, broker.catalogue.broker_configs.static),
    )


def _behind(
    broker: Broker, key: ConfigKey, layers: tuple[tuple[ConfigSource, Mapping[str, str | None]], ...]
) -> Iterator[tuple[str, str | None, ConfigSource]]:
    """(name, value, source) of everything that could give `key` its value, the strongest first."""
    names = key.synonyms or (key.name,)
    known = broker.catalogue.broker_configs.keys
    for source, layer in layers:
        for name in names:
            if layer.get(name) is not None:
                found = topic_configs.broker_value(key, {name: layer[name]}) if key.synonyms else (name, layer[name])
                if found is not None:
                    yield name, found[1], source
    for name in names:
        if key.synonyms and name in known and known[name].default is not None:
            yield name, known[name].default, ConfigSource.DEFAULT_CONFIG
        elif not key.synonyms and key.default is not None:
            yield name, key.default, ConfigSource.DEFAULT_CONFIG


def topic_entries(
    broker: Broker,
    overrides: Mapping[str, str],
    names: Collection[str] | None,
    synonyms: bool = False,
    documentation: bool = False,
    *,
    made: Entries,
) -> list[DescribeConfigsResourceResult]:
    """The configs of a topic with these overrides, sorted by name; `names` None for all of them.

    `made` is kept for one answer: most topics have the same configs, and working them out takes 0.3 ms.
    """
    key_of_made = (frozenset(overrides.items()), None if names is None else frozenset(names))
    known = made.get(key_of_made)
    if known is not None:
        return known
    layers = _broker_layers(broker)
    entries: list[DescribeConfigsResourceResult] = []
    for key in topic_configs.TOPIC_CONFIGS.values():
        if names is not None and key.name not in names:
            continue
        chain = list(_behind(broker, key, layers)) if key.synonyms else []
        if key.name in overrides:
            chain.insert(0, (key.name, overrides[key.name], ConfigSource.DYNAMIC_TOPIC_CONFIG))
        value, _ = _first(chain, key)
        shown = _shown(chain, key)
        source = shown[0][2] if shown else ConfigSource.DEFAULT_CONFIG
        entries.append(_entry(key, value, source, shown if synonyms else [], documentation))
    made[key_of_made] = entries
    return entries


def _shown(chain: Chain, key: ConfigKey) -> Chain:
    """What a client is told of the chain: nothing before the first that has the foremost name, `log.retention.ms`.

    So a topic's value that comes from `log.retention.hours` alone is called a default. Source: Kafka's
    ConfigHelper.configSynonyms.
    """
    if chain and chain[0][2] is ConfigSource.DYNAMIC_TOPIC_CONFIG:
        return [chain[0], *_shown(chain[1:], key)]
    foremost = key.synonyms[0] if key.synonyms else key.name
    return list(dropwhile(lambda one: one[0] != foremost, chain))


def _first(chain: Chain, key: ConfigKey) -> tuple[str | None, ConfigSource]:
    """The value that holds. A default is the topic key's own: a synonym may count in other units."""
    if chain and chain[0][2] is not ConfigSource.DEFAULT_CONFIG:
        return chain[0][1], chain[0][2]
    return key.default, ConfigSource.DEFAULT_CONFIG


def _broker_entries(
    broker: Broker, names: Collection[str] | None, synonyms: bool, documentation: bool
) -> list[DescribeConfigsResourceResult]:
    layers = _broker_layers(broker)
    entries: list[DescribeConfigsResourceResult] = []
    known = broker.catalogue.broker_configs.keys
    set_by_somebody = [key for name, key in DYNAMIC.items() if any(layer.get(name) is not None for _, layer in layers)]
    for key in (*known.values(), *set_by_somebody, *_of_listeners(broker, layers)):
        if names is not None and key.name not in names:
            continue
        chain = list(_behind(broker, key, layers))
        if is_of_listener(key.name):
            chain = _before_the_bare(chain, list(_behind(broker, known[base_of(key.name)], layers)))
        value, source = _first(chain, key)
        entries.append(_entry(key, value, source, chain if synonyms else [], documentation))
    return entries


def _of_listeners(broker: Broker, layers: tuple[tuple[ConfigSource, Mapping[str, str | None]], ...]) -> list[ConfigKey]:
    """What is set for single listeners."""
    keys = broker.catalogue.broker_configs.keys
    names = sorted({name for _, layer in layers for name in layer if is_of_listener(name)})
    return [key for key in (definition_of(name, keys) for name in names) if key is not None]


def _before_the_bare(own: Chain, bare: Chain) -> Chain:
    """What gives a listener's setting its value: its own values by their sources, and between them the bare key's."""
    found = [one for one in own if one[2] is not ConfigSource.DEFAULT_CONFIG]
    name = found[0][0]
    return list(dropwhile(lambda one: one[0] != name, sorted([*found, *bare], key=lambda one: one[2])))


def _group_entries(
    broker: Broker, group_id: str, names: Collection[str] | None, synonyms: bool, documentation: bool
) -> list[DescribeConfigsResourceResult]:
    layers = _broker_layers(broker)
    overrides = broker.catalogue.configs.get((GROUP_RESOURCE, group_id), {})
    entries: list[DescribeConfigsResourceResult] = []
    for key in GROUP_CONFIGS.values():
        if names is not None and key.name not in names:
            continue
        chain = list(_behind(broker, key, layers))
        value = chain[0][1] if chain else key.default
        source = ConfigSource.DEFAULT_CONFIG
        if key.name in overrides:
            value, source = overrides[key.name], ConfigSource.GROUP_CONFIG
            chain.insert(0, (key.name, value, source))
        entries.append(_entry(key, value, source, chain if synonyms else [], documentation))
    return entries


def _client_metrics_entries(
    broker: Broker, subscription: str, names: Collection[str] | None, synonyms: bool, documentation: bool
) -> list[DescribeConfigsResourceResult]:
    overrides = broker.catalogue.configs.get((CLIENT_METRICS_RESOURCE, subscription), {})
    source = ConfigSource.CLIENT_METRICS_CONFIG
    entries: list[DescribeConfigsResourceResult] = []
    for key in CLIENT_METRICS_CONFIGS.values():
        if names is not None and key.name not in names:
            continue
        if key.name in overrides:
            value = overrides[key.name]
            chain: list[tuple[str, str | None, ConfigSource]] = [(key.name, value, source)]
            entries.append(_entry(key, value, source, chain if synonyms else [], documentation))
        else:
            entries.append(_entry(key, key.default, ConfigSource.DEFAULT_CONFIG, [], documentation))
    return entries


def _cluster_entries(
    broker: Broker, names: Collection[str] | None, synonyms: bool, documentation: bool
) -> list[DescribeConfigsResourceResult]:
    """The cluster-wide defaults: only what somebody has set."""
    known = {**DYNAMIC, **broker.catalogue.broker_configs.keys}
    known.update({key.name: key for key in _of_listeners(broker, _broker_layers(broker))})
    overrides = broker.catalogue.configs.get((BROKER_RESOURCE, ""), {})
    return [
        _entry(
            known[name],
            value,
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            [(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)] if synonyms else [],
            documentation,
        )
        for name, value in sorted(overrides.items())
        if name in known and (names is None or name in names)
    ]


def _entry(
    key: ConfigKey,
    value: str | None,
    source: ConfigSource,
    chain: list[tuple[str, str | None, ConfigSource]],
    documentation: bool,
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=key.name,
        value=None if key.sensitive else value,
        read_only=key.read_only and key.name not in STORES,
        config_source=source,
        is_sensitive=key.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=None if key.sensitive else text, source=origin)
            for name, text, origin in chain
        ],
        config_type=key.type,
        documentation=key.doc if documentation else None,
    )
