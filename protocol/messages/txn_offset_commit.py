"""TxnOffsetCommit: offsets that count when their transaction commits."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Int64, Message, Nullable, String, Struct, Uuid, field, message, struct


@struct
class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, since=2, default=-1)
    committed_metadata: str | None = field(Nullable(String))


@struct
class TxnOffsetCommitRequestTopic(Struct):
    name: str = field(String, until=5)
    topic_id: bytes = field(Uuid, since=6)
    partitions: list[TxnOffsetCommitRequestPartition] = field(Array(TxnOffsetCommitRequestPartition))


@message(api_key=ApiKey.TXN_OFFSET_COMMIT, versions=(0, 6), flexible_from=3)
class TxnOffsetCommitRequest(Message):
    """Offsets of a group, in a producer's transaction. Source: KIP-98, KIP-320, KIP-447, KIP-890, KIP-1319."""

    transactional_id: str = field(String)
    group_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    generation_id_or_member_epoch: int = field(Int32, since=3, default=-1)  # -1: no member
    member_id: str = field(String, since=3)
    group_instance_id: str | None = field(Nullable(String), since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(Array(TxnOffsetCommitRequestTopic))


@struct
class TxnOffsetCommitResponsePartition(Struct):
    """The result of one partition."""

    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class TxnOffsetCommitResponseTopic(Struct):
    """The results of one topic."""

    name: str = field(String, until=5)
    topic_id: bytes = field(Uuid, since=6)
    partitions: list[TxnOffsetCommitResponsePartition] = field(Array(TxnOffsetCommitResponsePartition))


@message(api_key=ApiKey.TXN_OFFSET_COMMIT, versions=(0, 6), flexible_from=3)
class TxnOffsetCommitResponse(Message):
    """What became of each offset."""

    throttle_time_ms: int = field(Int32)
    topics: list[TxnOffsetCommitResponseTopic] = field(Array(TxnOffsetCommitResponseTopic))
