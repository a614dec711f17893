"""GetTelemetrySubscriptions: which metrics a client is to push."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, Uuid, field, message


@message(api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0), flexible_from=0)
class GetTelemetrySubscriptionsRequest(Message):
    """A client asks what is wanted of it. Source: KIP-714."""

    client_instance_id: bytes = field(Uuid)  # zero: it has none yet


@message(api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0), flexible_from=0)
class GetTelemetrySubscriptionsResponse(Message):
    """The metrics to push, how often and how."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    client_instance_id: bytes = field(Uuid)
    subscription_id: int = field(Int32)
    accepted_compression_types: list[int] = field(Array(Int8))
    push_interval_ms: int = field(Int32)
    telemetry_max_bytes: int = field(Int32)
    delta_temporality: bool = field(Bool)
    requested_metrics: list[str] = field(Array(String))  # prefixes of names; none: nothing is wanted, *: all
