"""DeleteGroups: empty groups and their offsets, gone."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@message(api_key=ApiKey.DELETE_GROUPS, versions=(0, 3), flexible_from=2)
class DeleteGroupsRequest(Message):
    """Groups to delete. Source: KIP-229."""

    groups_names: list[str] = field(Array(String))


@struct
class DeletableGroupResult(Struct):
    """Whether one group is gone."""

    group_id: str = field(String)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String), since=3, default=None)


@message(api_key=ApiKey.DELETE_GROUPS, versions=(0, 3), flexible_from=2)
class DeleteGroupsResponse(Message):
    """What became of each group."""

    throttle_time_ms: int = field(Int32)
    results: list[DeletableGroupResult] = field(Array(DeletableGroupResult))
