"""GetTelemetrySubscriptions, PushTelemetry. Offered only while somebody has asked for metrics of clients.

Source: KIP-714; Kafka's ClientMetricsManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.loop.uuids import random_uuid
from protocol.errors import ErrorCode
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from protocol.types import ZERO_UUID, uuid_text

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.handlers.context import RequestContext

_CODECS = [4, 3, 1, 2]  # zstd, lz4, gzip, snappy: in the order in which they are liked


def get_telemetry_subscriptions(
    broker: Broker, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Which metrics the client is to push, and how often; a client without an id gets one."""
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = random_uuid()
    now_ms = broker.runtime.now_ms()
    error, one = broker.client_metrics.subscription(instance_id, _client(context, instance_id), now_ms)
    if error is not ErrorCode.NONE:
        return GetTelemetrySubscriptionsResponse(error_code=error)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=one.subscription_id,
        accepted_compression_types=_CODECS,
        push_interval_ms=one.interval_ms,
        telemetry_max_bytes=broker.settings.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(one.metrics),
    )


def push_telemetry(broker: Broker, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Count it."""
    instance_id = request.client_instance_id
    error = broker.client_metrics.push(
        instance_id,
        _client(context, instance_id),
        broker.runtime.now_ms(),
        subscription_id=request.subscription_id,
        codec=request.compression_type,
        size_bytes=len(request.metrics),
        terminating=request.terminating,
    )
    return PushTelemetryResponse(error_code=error)


def _client(context: RequestContext, instance_id: bytes) -> dict[str, str]:
    return {
        "client_instance_id": uuid_text(instance_id),
        "client_id": context.client_id,
        "client_software_name": context.session.software_name,
        "client_software_version": context.session.software_version,
        "client_source_address": context.host,
        "client_source_port": context.session.client.rpartition(":")[2],
    }
