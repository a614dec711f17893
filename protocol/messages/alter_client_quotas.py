"""AlterClientQuotas: set and remove quotas of users, client ids and addresses."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import (
    Array,
    Bool,
    Float64,
    Int16,
    Int32,
    Message,
    Nullable,
    String,
    Struct,
    field,
    message,
    struct,
)


@struct
class EntityData(Struct):
    """Whom a quota holds, by one type; a null name is the default."""

    entity_type: str = field(String)  # user, client-id, ip
    entity_name: str | None = field(Nullable(String))


@struct
class OpData(Struct):
    """What becomes of one quota."""

    key: str = field(String)
    value: float = field(Float64)
    remove: bool = field(Bool)


@struct
class EntryData(Struct):
    """What becomes of the quotas of one entity."""

    entity: list[EntityData] = field(Array(EntityData))
    ops: list[OpData] = field(Array(OpData))


@message(api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible_from=1)
class AlterClientQuotasRequest(Message):
    """Which quotas change. Source: KIP-546."""

    entries: list[EntryData] = field(Array(EntryData))
    validate_only: bool = field(Bool)


@struct
class AlteredEntity(Struct):
    """What became of one entity."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    entity: list[EntityData] = field(Array(EntityData))


@message(api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible_from=1)
class AlterClientQuotasResponse(Message):
    """One result for each entity."""

    throttle_time_ms: int = field(Int32)
    entries: list[AlteredEntity] = field(Array(AlteredEntity))
