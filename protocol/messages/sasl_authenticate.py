"""SaslAuthenticate: the tokens of a SASL exchange."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Bytes, Int16, Int64, Message, Nullable, String, field, message


@message(api_key=ApiKey.SASL_AUTHENTICATE, versions=(0, 2), flexible_from=2)
class SaslAuthenticateRequest(Message):
    """The client's token. Source: KIP-152."""

    auth_bytes: bytes = field(Bytes)


@message(api_key=ApiKey.SASL_AUTHENTICATE, versions=(0, 2), flexible_from=2)
class SaslAuthenticateResponse(Message):
    """The broker's token. Source: KIP-152, KIP-368."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    auth_bytes: bytes = field(Bytes)
    session_lifetime_ms: int = field(Int64, since=1)  # 0: for ever
