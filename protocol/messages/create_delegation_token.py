"""CreateDelegationToken: a token by which another may act for a principal."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bytes, Int16, Int32, Int64, Message, Nullable, String, Struct, field, message, struct


@struct
class CreatableRenewers(Struct):
    """Who may renew it."""

    principal_type: str = field(String)
    principal_name: str = field(String)


@message(api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions=(1, 3), flexible_from=2)
class CreateDelegationTokenRequest(Message):
    """A token for the owner, the asker itself by default. Source: KIP-48, KIP-373."""

    owner_principal_type: str | None = field(Nullable(String), since=3)
    owner_principal_name: str | None = field(Nullable(String), since=3)
    renewers: list[CreatableRenewers] = field(Array(CreatableRenewers))
    max_lifetime_ms: int = field(Int64)


@message(api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions=(1, 3), flexible_from=2)
class CreateDelegationTokenResponse(Message):
    """The token."""

    error_code: int = field(Int16)
    principal_type: str = field(String)
    principal_name: str = field(String)
    token_requester_principal_type: str = field(String, since=3)
    token_requester_principal_name: str = field(String, since=3)
    issue_timestamp_ms: int = field(Int64)
    expiry_timestamp_ms: int = field(Int64)
    max_timestamp_ms: int = field(Int64)
    token_id: str = field(String)
    hmac: bytes = field(Bytes)
    throttle_time_ms: int = field(Int32)
