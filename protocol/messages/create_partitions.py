"""CreatePartitions: more partitions for topics."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class CreatePartitionsAssignment(Struct):
    """Where the replicas of one new partition go."""

    broker_ids: list[int] = field(Array(Int32))


@struct
class CreatePartitionsTopic(Struct):
    """One topic, and how many partitions it is to have in all."""

    name: str = field(String)
    count: int = field(Int32)
    assignments: list[CreatePartitionsAssignment] | None = field(Nullable(Array(CreatePartitionsAssignment)))


@message(api_key=ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible_from=2)
class CreatePartitionsRequest(Message):
    """Topics that are to have more partitions. Source: KIP-195, KIP-599."""

    topics: list[CreatePartitionsTopic] = field(Array(CreatePartitionsTopic))
    timeout_ms: int = field(Int32)
    validate_only: bool = field(Bool)


@struct
class CreatePartitionsTopicResult(Struct):
    name: str = field(String)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String), default=None)


@message(api_key=ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible_from=2)
class CreatePartitionsResponse(Message):
    """What became of each topic."""

    throttle_time_ms: int = field(Int32)
    results: list[CreatePartitionsTopicResult] = field(Array(CreatePartitionsTopicResult))
