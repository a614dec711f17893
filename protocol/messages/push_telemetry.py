"""PushTelemetry: metrics of a client."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Bool, Bytes, Int8, Int16, Int32, Message, Uuid, field, message


@message(api_key=ApiKey.PUSH_TELEMETRY, versions=(0, 0), flexible_from=0)
class PushTelemetryRequest(Message):
    """What a client has measured, as MetricsData of OpenTelemetry. Source: KIP-714."""

    client_instance_id: bytes = field(Uuid)
    subscription_id: int = field(Int32)
    terminating: bool = field(Bool)
    compression_type: int = field(Int8)
    metrics: bytes = field(Bytes)


@message(api_key=ApiKey.PUSH_TELEMETRY, versions=(0, 0), flexible_from=0)
class PushTelemetryResponse(Message):
    """Whether it was taken."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
