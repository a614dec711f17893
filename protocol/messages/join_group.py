"""JoinGroup: a consumer asks to be in the next generation of a group."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Bytes, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class JoinGroupRequestProtocol(Struct):
    """A protocol that the member supports, with what its assignor wants known."""

    name: str = field(String)
    metadata: bytes = field(Bytes)


@message(api_key=ApiKey.JOIN_GROUP, versions=(0, 9), flexible_from=6)
class JoinGroupRequest(Message):
    """A consumer asks to be in the next generation. Source: KIP-62, KIP-345, KIP-394, KIP-559, KIP-800."""

    group_id: str = field(String)
    session_timeout_ms: int = field(Int32)
    rebalance_timeout_ms: int = field(Int32, since=1, default=-1)  # -1: the session timeout
    member_id: str = field(String)  # empty: none yet
    group_instance_id: str | None = field(Nullable(String), since=5, default=None)
    protocol_type: str = field(String)
    protocols: list[JoinGroupRequestProtocol] = field(Array(JoinGroupRequestProtocol))
    reason: str | None = field(Nullable(String), since=8, default=None)


@struct
class JoinGroupResponseMember(Struct):
    """A member, as the leader sees it."""

    member_id: str = field(String)
    group_instance_id: str | None = field(Nullable(String), since=5, default=None)
    metadata: bytes = field(Bytes)


@message(api_key=ApiKey.JOIN_GROUP, versions=(0, 9), flexible_from=6)
class JoinGroupResponse(Message):
    """The generation that the member is in, and for its leader the members to assign to. Source: KIP-814."""

    throttle_time_ms: int = field(Int32, since=2)
    error_code: int = field(Int16)
    generation_id: int = field(Int32, default=-1)
    protocol_type: str | None = field(Nullable(String), since=7, default=None)
    protocol_name: str | None = field(String, nullable_since=7)
    leader: str = field(String)
    skip_assignment: bool = field(Bool, since=9)
    member_id: str = field(String)
    members: list[JoinGroupResponseMember] = field(Array(JoinGroupResponseMember))
