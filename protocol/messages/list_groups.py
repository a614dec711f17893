"""ListGroups: the groups of a broker."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Message, String, Struct, field, message, struct


@message(api_key=ApiKey.LIST_GROUPS, versions=(0, 5), flexible_from=3)
class ListGroupsRequest(Message):
    """Which groups to list; an empty filter lets all pass. Source: KIP-518, KIP-848."""

    states_filter: list[str] = field(Array(String), since=4)
    types_filter: list[str] = field(Array(String), since=5)


@struct
class ListedGroup(Struct):
    group_id: str = field(String)
    protocol_type: str = field(String)
    group_state: str = field(String, since=4)
    group_type: str = field(String, since=5)


@message(api_key=ApiKey.LIST_GROUPS, versions=(0, 5), flexible_from=3)
class ListGroupsResponse(Message):
    """The groups."""

    throttle_time_ms: int = field(Int32, since=1)
    error_code: int = field(Int16)
    groups: list[ListedGroup] = field(Array(ListedGroup))
