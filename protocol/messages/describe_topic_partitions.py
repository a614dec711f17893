"""DescribeTopicPartitions: topics in detail, in portions."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int16, Int32, Message, Nullable, String, Struct, Uuid, field, message, struct


@struct
class TopicRequest(Struct):
    name: str = field(String)


@struct
class Cursor(Struct):
    """The first partition of the next portion."""

    topic_name: str = field(String)
    partition_index: int = field(Int32)


@message(api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), flexible_from=0)
class DescribeTopicPartitionsRequest(Message):
    """Topics to describe, and where to go on. Source: KIP-966."""

    topics: list[TopicRequest] = field(Array(TopicRequest))
    response_partition_limit: int = field(Int32, default=2000)
    cursor: Cursor | None = field(Nullable(Cursor), default=None)


@struct
class DescribeTopicPartitionsResponsePartition(Struct):
    """A partition: its leader and its replicas."""

    error_code: int = field(Int16)
    partition_index: int = field(Int32)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32, default=-1)
    replica_nodes: list[int] = field(Array(Int32))
    isr_nodes: list[int] = field(Array(Int32))
    eligible_leader_replicas: list[int] | None = field(Nullable(Array(Int32)), default=None)
    last_known_elr: list[int] | None = field(Nullable(Array(Int32)), default=None)
    offline_replicas: list[int] = field(Array(Int32))


@struct
class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic, or why it is not there."""

    error_code: int = field(Int16)
    name: str | None = field(Nullable(String))
    topic_id: bytes = field(Uuid)
    is_internal: bool = field(Bool)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(Array(DescribeTopicPartitionsResponsePartition))
    topic_authorized_operations: int = field(Int32, default=-(2**31))  # bits; this is: not asked for


@message(api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), flexible_from=0)
class DescribeTopicPartitionsResponse(Message):
    """A portion of the topics, by name."""

    throttle_time_ms: int = field(Int32)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(Array(DescribeTopicPartitionsResponseTopic))
    next_cursor: Cursor | None = field(Nullable(Cursor), default=None)
