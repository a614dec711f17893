"""The value that keeps a classic group: generation, protocol, and members with their assignments.

Source: Kafka's GroupMetadataValue.json.
"""

from __future__ import annotations

from protocol.schema import Array, Bytes, Int32, Int64, Message, Nullable, String, Struct, field, message, struct


@struct
class MemberMetadata(Struct):
    """One member. Timeouts in ms; rebalance timeout -1: as the session timeout."""

    member_id: str = field(String)
    group_instance_id: str | None = field(Nullable(String), since=3, default=None)
    client_id: str = field(String)
    client_host: str = field(String)
    rebalance_timeout: int = field(Int32, since=1, default=-1)
    session_timeout: int = field(Int32)
    subscription: bytes = field(Bytes)
    assignment: bytes = field(Bytes)


@message(versions=(0, 4), flexible_from=4)
class GroupMetadataValue(Message):
    """A classic group as its last completed rebalance left it. Timestamp in ms, -1: not known."""

    protocol_type: str = field(String)
    generation: int = field(Int32)
    protocol: str | None = field(Nullable(String), default=None)
    leader: str | None = field(Nullable(String), default=None)
    current_state_timestamp: int = field(Int64, since=2, default=-1)
    members: list[MemberMetadata] = field(Array(MemberMetadata))
