"""DescribeDelegationToken: the tokens that there are."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bytes, Int16, Int32, Int64, Message, Nullable, String, Struct, field, message, struct


@struct
class DescribeDelegationTokenOwner(Struct):
    """Whose tokens."""

    principal_type: str = field(String)
    principal_name: str = field(String)


@message(api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(1, 3), flexible_from=2)
class DescribeDelegationTokenRequest(Message):
    """Owners; null for all. Source: KIP-48, KIP-373."""

    owners: list[DescribeDelegationTokenOwner] | None = field(Nullable(Array(DescribeDelegationTokenOwner)))


@struct
class DescribedDelegationTokenRenewer(Struct):
    """Who may renew it."""

    principal_type: str = field(String)
    principal_name: str = field(String)


@struct
class DescribedDelegationToken(Struct):
    principal_type: str = field(String)
    principal_name: str = field(String)
    token_requester_principal_type: str = field(String, since=3)
    token_requester_principal_name: str = field(String, since=3)
    issue_timestamp: int = field(Int64)
    expiry_timestamp: int = field(Int64)
    max_timestamp: int = field(Int64)
    token_id: str = field(String)
    hmac: bytes = field(Bytes)
    renewers: list[DescribedDelegationTokenRenewer] = field(Array(DescribedDelegationTokenRenewer))


@message(api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(1, 3), flexible_from=2)
class DescribeDelegationTokenResponse(Message):
    """The tokens of these owners."""

    error_code: int = field(Int16)
    tokens: list[DescribedDelegationToken] = field(Array(DescribedDelegationToken))
    throttle_time_ms: int = field(Int32)
