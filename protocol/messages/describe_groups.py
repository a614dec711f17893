"""DescribeGroups: the state and the members of classic groups."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Bytes, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@message(api_key=ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible_from=5)
class DescribeGroupsRequest(Message):
    """Groups to describe. Source: KIP-345, KIP-430, KIP-1043."""

    groups: list[str] = field(Array(String))
    include_authorized_operations: bool = field(Bool, since=3)


@struct
class DescribedGroupMember(Struct):
    """A member of the group; bytes are its assignor's own."""

    member_id: str = field(String)
    group_instance_id: str | None = field(Nullable(String), since=4, default=None)
    client_id: str = field(String)
    client_host: str = field(String)
    member_metadata: bytes = field(Bytes)
    member_assignment: bytes = field(Bytes)


@struct
class DescribedGroup(Struct):
    """A group; one that is unknown has the state Dead."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String), since=6, default=None)
    group_id: str = field(String)
    group_state: str = field(String)
    protocol_type: str = field(String)
    protocol_data: str = field(String)
    members: list[DescribedGroupMember] = field(Array(DescribedGroupMember))
    authorized_operations: int = field(Int32, since=3, default=-(2**31))  # bits; this is: not asked for


@message(api_key=ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible_from=5)
class DescribeGroupsResponse(Message):
    """Each group asked for."""

    throttle_time_ms: int = field(Int32, since=1)
    groups: list[DescribedGroup] = field(Array(DescribedGroup))
