"""DescribeLogDirs: log directories, and what partitions take in them."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int16, Int32, Int64, Message, Nullable, String, Struct, field, message, struct


@struct
class DescribableLogDirTopic(Struct):
    """The partitions of one topic."""

    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@message(api_key=ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5), flexible_from=2)
class DescribeLogDirsRequest(Message):
    """Topics whose share is wanted; null is all. Source: KIP-113, KIP-827, KIP-1066."""

    topics: list[DescribableLogDirTopic] | None = field(Nullable(Array(DescribableLogDirTopic)))


@struct
class DescribeLogDirsPartition(Struct):
    """What one partition takes."""

    partition_index: int = field(Int32)
    partition_size: int = field(Int64)  # bytes
    offset_lag: int = field(Int64)
    is_future_key: bool = field(Bool)


@struct
class DescribeLogDirsTopic(Struct):
    """A topic's partitions in the directory."""

    name: str = field(String)
    partitions: list[DescribeLogDirsPartition] = field(Array(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult(Struct):
    """A log directory: what is in it, and how much room it has."""

    error_code: int = field(Int16)
    log_dir: str = field(String)
    topics: list[DescribeLogDirsTopic] = field(Array(DescribeLogDirsTopic))
    total_bytes: int = field(Int64, since=4, default=-1)  # of the volume; -1: unknown
    usable_bytes: int = field(Int64, since=4, default=-1)  # of the volume; -1: unknown
    is_cordoned: bool = field(Bool, since=5)


@message(api_key=ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5), flexible_from=2)
class DescribeLogDirsResponse(Message):
    """Each log directory."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, since=3)
    results: list[DescribeLogDirsResult] = field(Array(DescribeLogDirsResult))
