"""DescribeQuorum: who votes on the metadata log, and how far each has it."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    Message,
    Nullable,
    String,
    Struct,
    UInt16,
    Uuid,
    field,
    message,
    struct,
)


@struct
class DescribeQuorumPartition(Struct):
    partition_index: int = field(Int32)


@struct
class DescribeQuorumTopic(Struct):
    """A topic to describe: only `__cluster_metadata` has a quorum."""

    topic_name: str = field(String)
    partitions: list[DescribeQuorumPartition] = field(Array(DescribeQuorumPartition))


@message(api_key=ApiKey.DESCRIBE_QUORUM, versions=(0, 2), flexible_from=0)
class DescribeQuorumRequest(Message):
    """Partitions to describe. Source: KIP-595, KIP-836, KIP-853."""

    topics: list[DescribeQuorumTopic] = field(Array(DescribeQuorumTopic))


@struct
class ReplicaState(Struct):
    """How far a replica is."""

    replica_id: int = field(Int32)
    replica_directory_id: bytes = field(Uuid, since=2)
    log_end_offset: int = field(Int64)
    last_fetch_timestamp: int = field(Int64, since=1, default=-1)  # -1: the leader
    last_caught_up_timestamp: int = field(Int64, since=1, default=-1)


@struct
class DescribeQuorumPartitionResponse(Struct):
    """One partition's quorum."""

    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String), since=2)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32)
    high_watermark: int = field(Int64)
    current_voters: list[ReplicaState] = field(Array(ReplicaState))
    observers: list[ReplicaState] = field(Array(ReplicaState))


@struct
class DescribeQuorumTopicResponse(Struct):
    """One topic's quorum."""

    topic_name: str = field(String)
    partitions: list[DescribeQuorumPartitionResponse] = field(Array(DescribeQuorumPartitionResponse))


@struct
class DescribeQuorumListener(Struct):
    """Where a voter is reached."""

    name: str = field(String)
    host: str = field(String)
    port: int = field(UInt16)


@struct
class DescribeQuorumNode(Struct):
    """A voter and its listeners."""

    node_id: int = field(Int32)
    listeners: list[DescribeQuorumListener] = field(Array(DescribeQuorumListener))


@message(api_key=ApiKey.DESCRIBE_QUORUM, versions=(0, 2), flexible_from=0)
class DescribeQuorumResponse(Message):
    """The quorum of each partition that was asked for."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String), since=2)
    topics: list[DescribeQuorumTopicResponse] = field(Array(DescribeQuorumTopicResponse))
    nodes: list[DescribeQuorumNode] = field(Array(DescribeQuorumNode), since=2)
