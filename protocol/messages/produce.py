"""Produce: batches of records for partitions."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import (
    Array,
    Buffer,
    Int16,
    Int32,
    Int64,
    Message,
    Nullable,
    Records,
    String,
    Struct,
    Uuid,
    field,
    message,
    struct,
)


@struct
class PartitionProduceData(Struct):
    """The batches for one partition; from version 3 on exactly one."""

    index: int = field(Int32)
    records: Buffer | None = field(Nullable(Records))


@struct
class TopicProduceData(Struct):
    """The batches for one topic."""

    name: str = field(String, until=12)
    topic_id: bytes = field(Uuid, since=13)
    partition_data: list[PartitionProduceData] = field(Array(PartitionProduceData))


@message(api_key=ApiKey.PRODUCE, versions=(3, 13), flexible_from=9)
class ProduceRequest(Message):
    """Record batches to append. Source: KIP-98, KIP-467, KIP-516, KIP-890, KIP-951."""

    transactional_id: str | None = field(Nullable(String), default=None)
    acks: int = field(Int16)  # 0: no answer at all, 1: the leader, -1: all in sync
    timeout_ms: int = field(Int32)
    topic_data: list[TopicProduceData] = field(Array(TopicProduceData))


@struct
class BatchIndexAndErrorMessage(Struct):
    """A record that made the broker refuse its batch."""

    batch_index: int = field(Int32)
    batch_index_error_message: str | None = field(Nullable(String), default=None)


@struct
class LeaderIdAndEpoch(Struct):
    """Who leads the partition now, beside NOT_LEADER_OR_FOLLOWER."""

    leader_id: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32, default=-1)


@struct
class PartitionProduceResponse(Struct):
    """The result of one partition."""

    index: int = field(Int32)
    error_code: int = field(Int16)
    base_offset: int = field(Int64)
    log_append_time_ms: int = field(Int64, default=-1)  # -1: the records keep the times they came with
    log_start_offset: int = field(Int64, since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(Array(BatchIndexAndErrorMessage), since=8)
    error_message: str | None = field(Nullable(String), since=8, default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=10, tag=0)


@struct
class TopicProduceResponse(Struct):
    """The results of one topic."""

    name: str = field(String, until=12)
    topic_id: bytes = field(Uuid, since=13)
    partition_responses: list[PartitionProduceResponse] = field(Array(PartitionProduceResponse))


@struct
class NodeEndpoint(Struct):
    """Where a leader named in this response is reached."""

    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(Nullable(String), default=None)


@message(api_key=ApiKey.PRODUCE, versions=(3, 13), flexible_from=9)
class ProduceResponse(Message):
    """Where each batch begins in its partition, or why it is not there."""

    responses: list[TopicProduceResponse] = field(Array(TopicProduceResponse))
    throttle_time_ms: int = field(Int32)
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), since=10, tag=0)
