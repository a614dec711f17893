"""OffsetForLeaderEpoch: where the records of a leader epoch end."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, field, message, struct


@struct
class OffsetForLeaderPartition(Struct):
    """The epoch to look up in one partition."""

    partition: int = field(Int32)
    current_leader_epoch: int = field(Int32, default=-1)  # -1: not to be checked
    leader_epoch: int = field(Int32)


@struct
class OffsetForLeaderTopic(Struct):
    """The partitions of one topic."""

    topic: str = field(String)
    partitions: list[OffsetForLeaderPartition] = field(Array(OffsetForLeaderPartition))


@message(api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), flexible_from=4)
class OffsetForLeaderEpochRequest(Message):
    """Leader epochs whose ends are wanted. Source: KIP-101, KIP-320."""

    replica_id: int = field(Int32, since=3, default=-2)  # -2: may look past the high watermark
    topics: list[OffsetForLeaderTopic] = field(Array(OffsetForLeaderTopic))


@struct
class EpochEndOffset(Struct):
    """The largest epoch not above the asked one, and where it ends."""

    error_code: int = field(Int16)
    partition: int = field(Int32)
    leader_epoch: int = field(Int32, default=-1)
    end_offset: int = field(Int64, default=-1)


@struct
class OffsetForLeaderTopicResult(Struct):
    topic: str = field(String)
    partitions: list[EpochEndOffset] = field(Array(EpochEndOffset))


@message(api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), flexible_from=4)
class OffsetForLeaderEpochResponse(Message):
    """Where the epochs end."""

    throttle_time_ms: int = field(Int32)
    topics: list[OffsetForLeaderTopicResult] = field(Array(OffsetForLeaderTopicResult))
