"""Heartbeat: a member says that it is alive, and hears whether it must rejoin."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Int16, Int32, Message, Nullable, String, field, message


@message(api_key=ApiKey.HEARTBEAT, versions=(0, 4), flexible_from=4)
class HeartbeatRequest(Message):
    """A member is alive, in this generation. Source: KIP-345."""

    group_id: str = field(String)
    generation_id: int = field(Int32)
    member_id: str = field(String)
    group_instance_id: str | None = field(Nullable(String), since=3, default=None)


@message(api_key=ApiKey.HEARTBEAT, versions=(0, 4), flexible_from=4)
class HeartbeatResponse(Message):
    """Whether the member may go on, must rejoin, or is unknown. Source: KIP-124."""

    throttle_time_ms: int = field(Int32, since=1)
    error_code: int = field(Int16)
