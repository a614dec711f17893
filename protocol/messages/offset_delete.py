"""OffsetDelete: committed offsets of a group, gone."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Message, String, Struct, field, message, struct


@struct
class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field(Int32)


@struct
class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = field(String)
    partitions: list[OffsetDeleteRequestPartition] = field(Array(OffsetDeleteRequestPartition))


@message(api_key=ApiKey.OFFSET_DELETE, versions=(0, 0))
class OffsetDeleteRequest(Message):
    """Partitions whose offsets are to go. Source: KIP-496."""

    group_id: str = field(String)
    topics: list[OffsetDeleteRequestTopic] = field(Array(OffsetDeleteRequestTopic))


@struct
class OffsetDeleteResponsePartition(Struct):
    """The result of one partition."""

    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class OffsetDeleteResponseTopic(Struct):
    """The results of one topic."""

    name: str = field(String)
    partitions: list[OffsetDeleteResponsePartition] = field(Array(OffsetDeleteResponsePartition))


@message(api_key=ApiKey.OFFSET_DELETE, versions=(0, 0))
class OffsetDeleteResponse(Message):
    """What became of each offset."""

    error_code: int = field(Int16)
    throttle_time_ms: int = field(Int32)
    topics: list[OffsetDeleteResponseTopic] = field(Array(OffsetDeleteResponseTopic))
