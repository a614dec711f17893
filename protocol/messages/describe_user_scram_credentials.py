"""DescribeUserScramCredentials: which users can log in by SCRAM. What is stored of their passwords is not told."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class UserName(Struct):
    name: str = field(String)


@message(api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible_from=0)
class DescribeUserScramCredentialsRequest(Message):
    """Users to tell of; null or none for all. Source: KIP-554."""

    users: list[UserName] | None = field(Nullable(Array(UserName)))


@struct
class CredentialInfo(Struct):
    """One credential of a user."""

    mechanism: int = field(Int8)  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512
    iterations: int = field(Int32)


@struct
class DescribeUserScramCredentialsResult(Struct):
    user: str = field(String)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    credential_infos: list[CredentialInfo] = field(Array(CredentialInfo))


@message(api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible_from=0)
class DescribeUserScramCredentialsResponse(Message):
    """One result for each user."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    results: list[DescribeUserScramCredentialsResult] = field(Array(DescribeUserScramCredentialsResult))
