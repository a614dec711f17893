"""UnregisterBroker: forget a broker that is gone for good."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Int16, Int32, Message, Nullable, String, field, message


@message(api_key=ApiKey.UNREGISTER_BROKER, versions=(0, 0), flexible_from=0)
class UnregisterBrokerRequest(Message):
    """The broker to forget. Source: KIP-500, KIP-631."""

    broker_id: int = field(Int32)


@message(api_key=ApiKey.UNREGISTER_BROKER, versions=(0, 0), flexible_from=0)
class UnregisterBrokerResponse(Message):
    """Whether it is forgotten."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
