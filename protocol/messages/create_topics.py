"""CreateTopics: new topics with their partitions and configs."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    Nullable,
    String,
    Struct,
    Uuid,
    field,
    message,
    struct,
)


@struct
class CreatableReplicaAssignment(Struct):
    """Where the replicas of one partition go."""

    partition_index: int = field(Int32)
    broker_ids: list[int] = field(Array(Int32))


@struct
class CreatableTopicConfig(Struct):
    """A config that differs from its default."""

    name: str = field(String)
    value: str | None = field(Nullable(String))


@struct
class CreatableTopic(Struct):
    """One topic; -1 stands for the broker's default."""

    name: str = field(String)
    num_partitions: int = field(Int32)  # -1: the default, or as assigned
    replication_factor: int = field(Int16)  # -1: the default, or as assigned
    assignments: list[CreatableReplicaAssignment] = field(Array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(Array(CreatableTopicConfig))


@message(api_key=ApiKey.CREATE_TOPICS, versions=(2, 7), flexible_from=5)
class CreateTopicsRequest(Message):
    """Topics to create. Source: KIP-4, KIP-464, KIP-525, KIP-599."""

    topics: list[CreatableTopic] = field(Array(CreatableTopic))
    timeout_ms: int = field(Int32, default=60_000)
    validate_only: bool = field(Bool)


@struct
class CreatableTopicConfigs(Struct):
    """A config of the new topic."""

    name: str = field(String)
    value: str | None = field(Nullable(String))
    read_only: bool = field(Bool)
    config_source: int = field(Int8, default=-1)  # as in DescribeConfigs
    is_sensitive: bool = field(Bool)


@struct
class CreatableTopicResult(Struct):
    """A topic as it was made, or why it was not."""

    name: str = field(String)
    topic_id: bytes = field(Uuid, since=7)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    topic_config_error_code: int = field(Int16, since=5, tag=0)
    num_partitions: int = field(Int32, since=5, default=-1)
    replication_factor: int = field(Int16, since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(Nullable(Array(CreatableTopicConfigs)), since=5)


@message(api_key=ApiKey.CREATE_TOPICS, versions=(2, 7), flexible_from=5)
class CreateTopicsResponse(Message):
    """What became of each topic. Source: KIP-516, KIP-525."""

    throttle_time_ms: int = field(Int32)
    topics: list[CreatableTopicResult] = field(Array(CreatableTopicResult))
