"""SyncGroup: the leader hands out assignments, and each member hears its own."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bytes, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class SyncGroupRequestAssignment(Struct):
    """What the leader assigns to one member."""

    member_id: str = field(String)
    assignment: bytes = field(Bytes)


@message(api_key=ApiKey.SYNC_GROUP, versions=(0, 5), flexible_from=4)
class SyncGroupRequest(Message):
    """A member asks for its assignment; the leader's request holds them all. Source: KIP-345, KIP-559."""

    group_id: str = field(String)
    generation_id: int = field(Int32)
    member_id: str = field(String)
    group_instance_id: str | None = field(Nullable(String), since=3, default=None)
    protocol_type: str | None = field(Nullable(String), since=5, default=None)
    protocol_name: str | None = field(Nullable(String), since=5, default=None)
    assignments: list[SyncGroupRequestAssignment] = field(Array(SyncGroupRequestAssignment))


@message(api_key=ApiKey.SYNC_GROUP, versions=(0, 5), flexible_from=4)
class SyncGroupResponse(Message):
    """What the member is to read."""

    throttle_time_ms: int = field(Int32, since=1)
    error_code: int = field(Int16)
    protocol_type: str | None = field(Nullable(String), since=5, default=None)
    protocol_name: str | None = field(Nullable(String), since=5, default=None)
    assignment: bytes = field(Bytes)
