"""ExpireDelegationToken: let a token end sooner."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Bytes, Int16, Int32, Int64, Message, field, message


@message(api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(1, 2), flexible_from=2)
class ExpireDelegationTokenRequest(Message):
    """A token and a span in ms. Source: KIP-48."""

    hmac: bytes = field(Bytes)
    expiry_time_period_ms: int = field(Int64)


@message(api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(1, 2), flexible_from=2)
class ExpireDelegationTokenResponse(Message):
    """When it ends."""

    error_code: int = field(Int16)
    expiry_timestamp_ms: int = field(Int64)
    throttle_time_ms: int = field(Int32)
