"""Fetch: record batches from given offsets on."""

from __future__ import annotations

from typing import Any

from protocol.api_keys import ApiKey
from protocol.schema import (
    Array,
    Buffer,
    Int8,
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
class ReplicaState(Struct):
    """Who asks, if it is a replica."""

    replica_id: int = field(Int32, default=-1)  # -1: a consumer
    replica_epoch: int = field(Int64, default=-1)


@struct
class FetchPartition(Struct):
    """From which offset to read one partition, and how much."""

    partition: int = field(Int32)
    current_leader_epoch: int = field(Int32, since=9, default=-1)  # -1: not to be checked
    fetch_offset: int = field(Int64)
    last_fetched_epoch: int = field(Int32, since=12, default=-1)
    log_start_offset: int = field(Int64, since=5, default=-1)
    partition_max_bytes: int = field(Int32)
    replica_directory_id: bytes = field(Uuid, since=17, tag=0)
    high_watermark: int = field(Int64, since=18, default=2**63 - 1, tag=1)


@struct
class FetchTopic(Struct):
    """The partitions to read of one topic."""

    topic: str = field(String, until=12)
    topic_id: bytes = field(Uuid, since=13)
    partitions: list[FetchPartition] = field(Array(FetchPartition))


@struct
class ForgottenTopic(Struct):
    """Partitions to take out of the fetch session."""

    topic: str = field(String, until=12)
    topic_id: bytes = field(Uuid, since=13)
    partitions: list[int] = field(Array(Int32))


@message(api_key=ApiKey.FETCH, versions=(4, 18), flexible_from=12)
class FetchRequest(Message):
    """Partitions to read, and how long to wait. Source: KIP-74, KIP-98, KIP-227, KIP-320, KIP-392, KIP-516, KIP-903."""

    cluster_id: str | None = field(Nullable(String), since=12, default=None, tag=0)
    replica_id: int = field(Int32, until=14, default=-1)  # -1: a consumer
    replica_state: ReplicaState = field(ReplicaState, since=15, tag=1)
    max_wait_ms: int = field(Int32)
    min_bytes: int = field(Int32)
    max_bytes: int = field(Int32, default=0x7FFFFFFF)
    isolation_level: int = field(Int8)  # 0: read uncommitted, 1: read committed
    session_id: int = field(Int32, since=7)
    session_epoch: int = field(Int32, since=7, default=-1)  # -1: no session, 0: a new one
    topics: list[FetchTopic] = field(Array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(Array(ForgottenTopic), since=7)
    rack_id: str = field(String, since=11)


@struct
class EpochEndOffset(Struct):
    """Where the log of the asker and ours part (KIP-595)."""

    epoch: int = field(Int32, default=-1)
    end_offset: int = field(Int64, default=-1)


@struct
class LeaderIdAndEpoch(Struct):
    """Who leads the partition now, beside an error about that."""

    leader_id: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32, default=-1)


@struct
class SnapshotId(Struct):
    """The snapshot to load first (KIP-630)."""

    end_offset: int = field(Int64, default=-1)
    epoch: int = field(Int32, default=-1)


@struct
class AbortedTransaction(Struct):
    """An aborted transaction that overlaps what was read."""

    producer_id: int = field(Int64)
    first_offset: int = field(Int64)


@struct
class PartitionData(Struct):
    """What was read of one partition, and how far it goes."""

    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    high_watermark: int = field(Int64)
    last_stable_offset: int = field(Int64, default=-1)
    log_start_offset: int = field(Int64, since=5, default=-1)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, since=12, tag=2)
    # Null: read uncommitted.
    aborted_transactions: list[AbortedTransaction] | None = field(Nullable(Array(AbortedTransaction)))
    preferred_read_replica: int = field(Int32, since=11, default=-1)  # -1: this one
    # Never null in an answer: librdkafka drops it.
    records: Buffer | list[Any] | None = field(Nullable(Records))


@struct
class FetchableTopicResponse(Struct):
    """What was read of one topic."""

    topic: str = field(String, until=12)
    topic_id: bytes = field(Uuid, since=13)
    partitions: list[PartitionData] = field(Array(PartitionData))


@struct
class NodeEndpoint(Struct):
    """Where a leader named in this response is reached."""

    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(Nullable(String), default=None)


@message(api_key=ApiKey.FETCH, versions=(4, 18), flexible_from=12)
class FetchResponse(Message):
    """Whole record batches, from the one that holds the asked offset on."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, since=7)
    session_id: int = field(Int32, since=7)
    responses: list[FetchableTopicResponse] = field(Array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), since=16, tag=0)
