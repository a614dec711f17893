"""OffsetCommit: how far a group has read."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Int64, Message, Nullable, String, Struct, Uuid, field, message, struct


@struct
class OffsetCommitRequestPartition(Struct):
    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, since=6, default=-1)
    committed_metadata: str | None = field(Nullable(String))


@struct
class OffsetCommitRequestTopic(Struct):
    name: str = field(String, until=9)
    topic_id: bytes = field(Uuid, since=10)
    partitions: list[OffsetCommitRequestPartition] = field(Array(OffsetCommitRequestPartition))


@message(api_key=ApiKey.OFFSET_COMMIT, versions=(2, 10), flexible_from=8)
class OffsetCommitRequest(Message):
    """Offsets to commit, in the name of a member or of nobody. Source: KIP-211, KIP-320, KIP-345, KIP-848."""

    group_id: str = field(String)
    generation_id_or_member_epoch: int = field(Int32, default=-1)  # -1: no member
    member_id: str = field(String)
    group_instance_id: str | None = field(Nullable(String), since=7, default=None)
    retention_time_ms: int = field(Int64, until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = field(Array(OffsetCommitRequestTopic))


@struct
class OffsetCommitResponsePartition(Struct):
    """The result of one partition."""

    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class OffsetCommitResponseTopic(Struct):
    """The results of one topic."""

    name: str = field(String, until=9)
    topic_id: bytes = field(Uuid, since=10)
    partitions: list[OffsetCommitResponsePartition] = field(Array(OffsetCommitResponsePartition))


@message(api_key=ApiKey.OFFSET_COMMIT, versions=(2, 10), flexible_from=8)
class OffsetCommitResponse(Message):
    """What became of each offset."""

    throttle_time_ms: int = field(Int32, since=3)
    topics: list[OffsetCommitResponseTopic] = field(Array(OffsetCommitResponseTopic))
