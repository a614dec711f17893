"""AlterConfigs, IncrementalAlterConfigs.

Source: KIP-133, KIP-339; Kafka's ConfigAdminManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from broker.catalogue.cluster_state import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from broker.catalogue.config_changes import ConfigChange
from broker.catalogue.topic_changes import Refused, check_size
from broker.handlers import broker_loggers
from broker.handlers.authorizer import CLUSTER_NAME, Operation, ResourceType, authorize
from broker.handlers.gathering import Gathering, deferring, tallied
from broker.loop.slices import Steps
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.messages.alter_configs import AlterConfigsResourceResponse as AlteredResource
from protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementallyAlteredResource,
)
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker.broker import Broker
    from broker.catalogue.requests import Result
    from broker.handlers.context import Deferred, RequestContext
    from protocol.messages.alter_configs import AlterConfigsResource
    from protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource

    Resource = AlterConfigsResource | IncrementalResource

R = TypeVar("R", AlteredResource, IncrementallyAlteredResource)


def alter_configs(broker: Broker, context: RequestContext, request: AlterConfigsRequest) -> Deferred:
    """Replace all overrides of each resource."""
    gathering: Gathering[AlteredResource] = Gathering(
        len(request.resources), lambda results: AlterConfigsResponse(responses=results)
    )

    def alter(index: int, times: Mapping[tuple[int, str], int]) -> None:
        one = request.resources[index]
        resource = (one.resource_type, one.resource_name)

        def altered(result: Result) -> None:
            gathering.put(index, _altered(AlteredResource, resource, result.error, result.message))

        refusal = _refusal(context, resource, times[resource], len(one.configs))
        if refusal is None and one.resource_type == BROKER_LOGGER_RESOURCE:
            refusal = ErrorCode.INVALID_REQUEST, f"Configs of resource type {one.resource_type} cannot be replaced"
        values = {} if refusal is not None else {config.name: config.value for config in one.configs}
        if refusal is None and len(values) < len(one.configs):
            refusal = ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
        if refusal is not None:
            gathering.put(index, _altered(AlteredResource, resource, *refusal))
            return
        broker.catalogue.replace_configs(resource, values, altered, validate_only=request.validate_only)

    return deferring(broker, context, gathering.deferred, _each_resource(gathering, request.resources, alter))


def _each_resource(
    gathering: Gathering[R],
    resources: Sequence[Resource],
    alter: Callable[[int, Mapping[tuple[int, str], int]], None],
) -> Steps[None]:
    times = yield from tallied((one.resource_type, one.resource_name) for one in resources)
    yield from gathering.ask_each(lambda index: alter(index, times))


def incremental_alter_configs(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Deferred:
    """Set, delete, append to or subtract from single configs of each resource."""
    gathering: Gathering[IncrementallyAlteredResource] = Gathering(
        len(request.resources), lambda results: IncrementalAlterConfigsResponse(responses=results)
    )

    def alter(index: int, times: Mapping[tuple[int, str], int]) -> None:
        one = request.resources[index]
        resource = (one.resource_type, one.resource_name)

        def altered(result: Result) -> None:
            gathering.put(index, _altered(IncrementallyAlteredResource, resource, result.error, result.message))

        refusal = _refusal(context, resource, times[resource], len(one.configs))
        if refusal is not None:
            gathering.put(index, _altered(IncrementallyAlteredResource, resource, *refusal))
            return
        if one.resource_type == BROKER_LOGGER_RESOURCE:
            wrong = broker_loggers.wrong_node(one.resource_name, broker.node_id)
            found = ErrorCode.INVALID_REQUEST, wrong
            if wrong is None:
                found = broker_loggers.alter(broker, one.configs, validate_only=request.validate_only)
            gathering.put(index, _altered(IncrementallyAlteredResource, resource, *found))
            return
        changes = [ConfigChange(config.name, config.config_operation, config.value) for config in one.configs]
        broker.catalogue.alter_configs(resource, changes, altered, validate_only=request.validate_only)

    return deferring(broker, context, gathering.deferred, _each_resource(gathering, request.resources, alter))


def _refusal(
    context: RequestContext, resource: tuple[int, str], times: int, config_count: int
) -> tuple[ErrorCode, str] | None:
    kind, name = resource
    if times > 1:
        return ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
    if kind == TOPIC_RESOURCE:
        if name == "":
            return ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."
        if not authorize(context, Operation.ALTER_CONFIGS, ResourceType.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
    elif kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE):
        if not authorize(context, Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Authorization failed."
    elif kind == GROUP_RESOURCE:
        if not authorize(context, Operation.ALTER_CONFIGS, ResourceType.GROUP, name):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED, "Authorization failed."
    else:
        return ErrorCode.INVALID_REQUEST, f"Configs of resource type {kind} cannot be changed here"
    try:
        check_size(config_count)
    except Refused as refused:
        return refused.code, str(refused)
    return None


def _altered(response: type[R], resource: tuple[int, str], error: ErrorCode, message: str | None) -> R:
    return response(error_code=error, error_message=message, resource_type=resource[0], resource_name=resource[1])
