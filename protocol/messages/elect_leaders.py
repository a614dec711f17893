"""ElectLeaders: leadership back to the preferred replica, or to any that lives."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class TopicPartitions(Struct):
    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@message(api_key=ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_from=2)
class ElectLeadersRequest(Message):
    """Partitions that are to elect; null is all. Source: KIP-183, KIP-460."""

    election_type: int = field(Int8, since=1)  # 0: preferred, 1: unclean
    topic_partitions: list[TopicPartitions] | None = field(Nullable(Array(TopicPartitions)))
    timeout_ms: int = field(Int32, default=60_000)


@struct
class PartitionResult(Struct):
    partition_id: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))


@struct
class ReplicaElectionResult(Struct):
    """The results of one topic."""

    topic: str = field(String)
    partition_result: list[PartitionResult] = field(Array(PartitionResult))


@message(api_key=ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_from=2)
class ElectLeadersResponse(Message):
    """What became of each partition."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, since=1)
    replica_election_results: list[ReplicaElectionResult] = field(Array(ReplicaElectionResult))
