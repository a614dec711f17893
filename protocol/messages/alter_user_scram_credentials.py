"""AlterUserScramCredentials: credentials of users set and removed. Passwords are salted by the client."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bytes, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class ScramCredentialDeletion(Struct):
    """A credential to remove."""

    name: str = field(String)
    mechanism: int = field(Int8)  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512


@struct
class ScramCredentialUpsertion(Struct):
    """A credential to set."""

    name: str = field(String)
    mechanism: int = field(Int8)  # as above
    iterations: int = field(Int32)
    salt: bytes = field(Bytes)
    salted_password: bytes = field(Bytes)


@message(api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible_from=0)
class AlterUserScramCredentialsRequest(Message):
    """Credentials to remove and to set, at most one of each user. Source: KIP-554."""

    deletions: list[ScramCredentialDeletion] = field(Array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(Array(ScramCredentialUpsertion))


@struct
class AlterUserScramCredentialsResult(Struct):
    """What became of one user."""

    user: str = field(String)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))


@message(api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible_from=0)
class AlterUserScramCredentialsResponse(Message):
    """One result for each user, in any order."""

    throttle_time_ms: int = field(Int32)
    results: list[AlterUserScramCredentialsResult] = field(Array(AlterUserScramCredentialsResult))
