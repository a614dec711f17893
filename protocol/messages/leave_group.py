"""LeaveGroup: members go, or an administrator removes them."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class MemberIdentity(Struct):
    """A member that goes, by its member id, its instance id, or both."""

    member_id: str = field(String)
    group_instance_id: str | None = field(Nullable(String), default=None)
    reason: str | None = field(Nullable(String), since=5, default=None)


@message(api_key=ApiKey.LEAVE_GROUP, versions=(0, 5), flexible_from=4)
class LeaveGroupRequest(Message):
    """Members that go: one up to version 2, any number from version 3 on. Source: KIP-345, KIP-800."""

    group_id: str = field(String)
    member_id: str = field(String, until=2)
    members: list[MemberIdentity] = field(Array(MemberIdentity), since=3)


@struct
class MemberResponse(Struct):
    """Whether one member is gone."""

    member_id: str = field(String)
    group_instance_id: str | None = field(Nullable(String))
    error_code: int = field(Int16)


@message(api_key=ApiKey.LEAVE_GROUP, versions=(0, 5), flexible_from=4)
class LeaveGroupResponse(Message):
    """Whether they are gone."""

    throttle_time_ms: int = field(Int32, since=1)
    error_code: int = field(Int16)
    members: list[MemberResponse] = field(Array(MemberResponse), since=3)
