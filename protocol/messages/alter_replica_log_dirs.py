"""AlterReplicaLogDirs: partitions that are to lie in another log directory."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Message, String, Struct, field, message, struct


@struct
class AlterReplicaLogDirTopic(Struct):
    """The partitions of one topic."""

    name: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct
class AlterReplicaLogDir(Struct):
    """A log directory, by its absolute path, and who is to lie there."""

    path: str = field(String)
    topics: list[AlterReplicaLogDirTopic] = field(Array(AlterReplicaLogDirTopic))


@message(api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), flexible_from=2)
class AlterReplicaLogDirsRequest(Message):
    """Which partitions go where. Source: KIP-113."""

    dirs: list[AlterReplicaLogDir] = field(Array(AlterReplicaLogDir))


@struct
class AlterReplicaLogDirPartitionResult(Struct):
    """Whether a partition is on its way."""

    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class AlterReplicaLogDirTopicResult(Struct):
    """The partitions of one topic."""

    topic_name: str = field(String)
    partitions: list[AlterReplicaLogDirPartitionResult] = field(Array(AlterReplicaLogDirPartitionResult))


@message(api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), flexible_from=2)
class AlterReplicaLogDirsResponse(Message):
    """What became of each wish; the moves themselves go on."""

    throttle_time_ms: int = field(Int32)
    results: list[AlterReplicaLogDirTopicResult] = field(Array(AlterReplicaLogDirTopicResult))
