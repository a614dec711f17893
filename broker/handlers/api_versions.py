"""ApiVersions: what is offered. The first request of every connection, answered before any other step.

Of the cluster's features those are named that change what a client does, and that are real here.

Source: KIP-35, KIP-511, KIP-584, KIP-1242; Kafka's ApiVersionManager.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.catalogue.features import FEATURES
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from protocol.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.broker import Broker
    from broker.handlers.context import RequestContext

_FROM_LEVEL_0 = 4
TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The same list on every connection, until a feature of the cluster changes."""
    if context.version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.session.software_name = name
        context.session.software_version = version
    if context.version >= 5:
        # Only both together say whom the client means. Source: ApiVersionsRequest.isValid, KafkaApis.
        if (request.cluster_id is None) != (request.node_id == -1):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        if request.cluster_id is not None and (request.cluster_id, request.node_id) != (
            broker.cluster_id,
            broker.node_id,
        ):
            return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    levels, epoch = broker.features()
    names_level_0, telemetry = context.version >= _FROM_LEVEL_0, broker.client_metrics.wanted
    kind = (names_level_0, telemetry, epoch)
    response = broker.api_versions_responses.get(kind)
    if response is None:
        response = broker.api_versions_responses[kind] = _response(
            broker, levels, epoch, names_level_0=names_level_0, telemetry=telemetry
        )
    return response


def _response(
    broker: Broker, levels: Mapping[str, int], epoch: int, *, names_level_0: bool, telemetry: bool
) -> ApiVersionsResponse:
    # Clients that are offered telemetry ask for subscriptions again and again, be there one or not.
    served = [api for key, api in APIS.items() if key in broker.served and (telemetry or key not in TELEMETRY)]
    finalized = {name: level for name, level in levels.items() if name in FEATURES}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.advertised[0], max_version=api.advertised[1]) for api in served
        ],
        # Clients before version 4 cannot read a feature whose lowest level is 0: it is left out (KAFKA-17492).
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in FEATURES.items()
            if low or names_level_0
        ],
        finalized_features_epoch=epoch if finalized else -1,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.items()
        ],
    )
