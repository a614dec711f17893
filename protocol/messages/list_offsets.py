"""ListOffsets: the offset that a timestamp, or one of the marks below zero, stands for."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int8, Int16, Int32, Int64, Message, String, Struct, field, message, struct


@struct
class ListOffsetsPartition(Struct):
    """What is asked of one partition."""

    partition_index: int = field(Int32)
    current_leader_epoch: int = field(Int32, since=4, default=-1)  # -1: not to be checked
    timestamp: int = field(Int64)  # -1: the end, -2: the start, -3: the largest, -4 to -6: tiered storage


@struct
class ListOffsetsTopic(Struct):
    """The partitions asked for of one topic."""

    name: str = field(String)
    partitions: list[ListOffsetsPartition] = field(Array(ListOffsetsPartition))


@message(api_key=ApiKey.LIST_OFFSETS, versions=(1, 11), flexible_from=6)
class ListOffsetsRequest(Message):
    """A timestamp for each partition. Source: KIP-79, KIP-207, KIP-405, KIP-734, KIP-1005, KIP-1023, KIP-1075."""

    replica_id: int = field(Int32)  # -1: a consumer
    isolation_level: int = field(Int8, since=2)  # 0: read uncommitted, 1: read committed
    topics: list[ListOffsetsTopic] = field(Array(ListOffsetsTopic))
    timeout_ms: int = field(Int32, since=10)


@struct
class ListOffsetsPartitionResponse(Struct):
    """The offset of one partition; -1 where there is none."""

    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    timestamp: int = field(Int64, default=-1)
    offset: int = field(Int64, default=-1)
    leader_epoch: int = field(Int32, since=4, default=-1)


@struct
class ListOffsetsTopicResponse(Struct):
    name: str = field(String)
    partitions: list[ListOffsetsPartitionResponse] = field(Array(ListOffsetsPartitionResponse))


@message(api_key=ApiKey.LIST_OFFSETS, versions=(1, 11), flexible_from=6)
class ListOffsetsResponse(Message):
    """An offset and its timestamp for each partition."""

    throttle_time_ms: int = field(Int32, since=2)
    topics: list[ListOffsetsTopicResponse] = field(Array(ListOffsetsTopicResponse))
