"""SaslHandshake: which SASL mechanism follows."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Message, String, field, message


@message(api_key=ApiKey.SASL_HANDSHAKE, versions=(0, 1))
class SaslHandshakeRequest(Message):
    """The mechanism that the client wants. Source: KIP-43, KIP-152."""

    mechanism: str = field(String)


@message(api_key=ApiKey.SASL_HANDSHAKE, versions=(0, 1))
class SaslHandshakeResponse(Message):
    """The mechanisms that are enabled."""

    error_code: int = field(Int16)
    mechanisms: list[str] = field(Array(String))
