"""DescribeProducers: what a partition remembers of those who write to it."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Int64, Message, Nullable, String, Struct, field, message, struct


@struct
class DescribeProducersTopicRequest(Struct):
    """Partitions of one topic."""

    name: str = field(String)
    partition_indexes: list[int] = field(Array(Int32))


@message(api_key=ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible_from=0)
class DescribeProducersRequest(Message):
    """Which partitions to look at. Source: KIP-664."""

    topics: list[DescribeProducersTopicRequest] = field(Array(DescribeProducersTopicRequest))


@struct
class ProducerState(Struct):
    """One producer id in one partition."""

    producer_id: int = field(Int64)
    producer_epoch: int = field(Int32)
    last_sequence: int = field(Int32, default=-1)  # -1: no batch is remembered
    last_timestamp: int = field(Int64, default=-1)
    coordinator_epoch: int = field(Int32)  # of its last marker; -1 before one
    current_txn_start_offset: int = field(Int64, default=-1)  # -1: no transaction is open


@struct
class DescribeProducersPartitionResponse(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String), default=None)
    active_producers: list[ProducerState] = field(Array(ProducerState))


@struct
class DescribeProducersTopicResponse(Struct):
    """The partitions of one topic."""

    name: str = field(String)
    partitions: list[DescribeProducersPartitionResponse] = field(Array(DescribeProducersPartitionResponse))


@message(api_key=ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible_from=0)
class DescribeProducersResponse(Message):
    """The producers, by partition."""

    throttle_time_ms: int = field(Int32)
    topics: list[DescribeProducersTopicResponse] = field(Array(DescribeProducersTopicResponse))
