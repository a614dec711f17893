"""AlterPartitionReassignments: other replicas for partitions."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class ReassignablePartition(Struct):
    """Where the replicas of one partition are to go."""

    partition_index: int = field(Int32)
    replicas: list[int] | None = field(Nullable(Array(Int32)), default=None)  # null: end the move


@struct
class ReassignableTopic(Struct):
    """The partitions of one topic."""

    name: str = field(String)
    partitions: list[ReassignablePartition] = field(Array(ReassignablePartition))


@message(api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible_from=0)
class AlterPartitionReassignmentsRequest(Message):
    """Where replicas are to go; null ends a move. Source: KIP-455, KIP-860."""

    timeout_ms: int = field(Int32, default=60_000)
    allow_replication_factor_change: bool = field(Bool, since=1, default=True)
    topics: list[ReassignableTopic] = field(Array(ReassignableTopic))


@struct
class ReassignablePartitionResponse(Struct):
    """The result of one partition."""

    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))


@struct
class ReassignableTopicResponse(Struct):
    """The results of one topic."""

    name: str = field(String)
    partitions: list[ReassignablePartitionResponse] = field(Array(ReassignablePartitionResponse))


@message(api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible_from=0)
class AlterPartitionReassignmentsResponse(Message):
    """What became of each partition."""

    throttle_time_ms: int = field(Int32)
    allow_replication_factor_change: bool = field(Bool, since=1, default=True)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    responses: list[ReassignableTopicResponse] = field(Array(ReassignableTopicResponse))
