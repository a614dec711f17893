"""ListConfigResources: of what there are configs.

Source: KIP-714, KIP-1142; Kafka's KafkaApis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.cluster_state import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.gathering import PACE, sliced
from broker.loop.slices import Steps
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.broker import Broker
    from broker.handlers.context import Deferred, RequestContext

_ALL = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)


def list_config_resources(
    broker: Broker, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse | Deferred:
    """Every topic and broker; of groups and subscriptions to client metrics those that have configs."""
    if not authorize(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    supported = _ALL if context.version else (CLIENT_METRICS_RESOURCE,)
    kinds = set(request.resource_types or supported)
    if not kinds.issubset(supported):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return sliced(broker, context, _listed(broker, kinds))


def _listed(broker: Broker, kinds: set[int]) -> Steps[ListConfigResourcesResponse]:
    found: list[ConfigResource] = []
    for kind in _ALL:
        if kind in kinds:
            for name in _names(broker, kind):
                found.append(ConfigResource(resource_name=name, resource_type=kind))
                if len(found) % PACE == 0:
                    yield None
    return ListConfigResourcesResponse(config_resources=found)


def _names(broker: Broker, kind: int) -> Iterator[str]:
    if kind == TOPIC_RESOURCE:
        yield from list(broker.catalogue.image.names())
    elif kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        yield str(broker.node_id)
    else:
        yield from [name for one, name in broker.catalogue.configs if one == kind and name]
