"""ApiVersions: what is offered. The first request of every connection, answered before any other step.

Source: KIP-35, KIP-511, KIP-584; Kafka's ApiVersionManager.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.registry import APIS

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.context import RequestContext

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The same list on every connection; no feature is named, since none of them is built."""
    if context.version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.session.software_name = name
        context.session.software_version = version
    if broker.api_versions_response is None:
        broker.api_versions_response = _response(broker)
    return broker.api_versions_response


def _response(broker: Broker) -> ApiVersionsResponse:
    served = [api for key, api in APIS.items() if key in broker.handlers]
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.advertised[0], max_version=api.advertised[1]) for api in served
        ]
    )
