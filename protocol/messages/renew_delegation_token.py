"""RenewDelegationToken: let a token end later."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Bytes, Int16, Int32, Int64, Message, field, message


@message(api_key=ApiKey.RENEW_DELEGATION_TOKEN, versions=(1, 2), flexible_from=2)
class RenewDelegationTokenRequest(Message):
    """A token and a span in ms. Source: KIP-48."""

    hmac: bytes = field(Bytes)
    renew_period_ms: int = field(Int64)


@message(api_key=ApiKey.RENEW_DELEGATION_TOKEN, versions=(1, 2), flexible_from=2)
class RenewDelegationTokenResponse(Message):
    """When it ends."""

    error_code: int = field(Int16)
    expiry_timestamp_ms: int = field(Int64)
    throttle_time_ms: int = field(Int32)
