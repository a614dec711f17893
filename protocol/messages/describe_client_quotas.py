"""DescribeClientQuotas: the quotas of users, client ids and addresses."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import (
    Array,
    Bool,
    Float64,
    Int8,
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
class ComponentData(Struct):
    """What one type of entity must be like."""

    entity_type: str = field(String)  # user, client-id, ip
    match_type: int = field(Int8)  # 0: this name, 1: the default, 2: any name
    match: str | None = field(Nullable(String))


@message(api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), flexible_from=1)
class DescribeClientQuotasRequest(Message):
    """Which entities are meant. Source: KIP-546."""

    components: list[ComponentData] = field(Array(ComponentData))
    strict: bool = field(Bool)  # with no other types than these


@struct
class EntityData(Struct):
    """Whom a quota holds, by one type; a null name is the default."""

    entity_type: str = field(String)
    entity_name: str | None = field(Nullable(String))


@struct
class ValueData(Struct):
    """One quota."""

    key: str = field(String)
    value: float = field(Float64)


@struct
class EntryData(Struct):
    """The quotas of one entity."""

    entity: list[EntityData] = field(Array(EntityData))
    values: list[ValueData] = field(Array(ValueData))


@message(api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), flexible_from=1)
class DescribeClientQuotasResponse(Message):
    """The entities that are meant; null with an error."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    entries: list[EntryData] | None = field(Nullable(Array(EntryData)))
