"""OffsetFetch: how far groups have read, as committed."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
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
class OffsetFetchRequestTopic(Struct):
    """The partitions of one topic, up to version 7."""

    name: str = field(String)
    partition_indexes: list[int] = field(Array(Int32))


@struct
class OffsetFetchRequestTopics(Struct):
    """The partitions of one topic, from version 8 on."""

    name: str = field(String, until=9)
    topic_id: bytes = field(Uuid, since=10)
    partition_indexes: list[int] = field(Array(Int32))


@struct
class OffsetFetchRequestGroup(Struct):
    """What is asked of one group."""

    group_id: str = field(String)
    member_id: str | None = field(Nullable(String), since=9, default=None)
    member_epoch: int = field(Int32, since=9, default=-1)
    # Null is all.
    topics: list[OffsetFetchRequestTopics] | None = field(Nullable(Array(OffsetFetchRequestTopics)))


@message(api_key=ApiKey.OFFSET_FETCH, versions=(1, 10), flexible_from=6)
class OffsetFetchRequest(Message):
    """Partitions whose committed offsets are wanted. Source: KIP-88, KIP-320, KIP-447, KIP-709, KIP-848."""

    group_id: str = field(String, until=7)
    # Null is all.
    topics: list[OffsetFetchRequestTopic] | None = field(Array(OffsetFetchRequestTopic), until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = field(Array(OffsetFetchRequestGroup), since=8)
    require_stable: bool = field(Bool, since=7)


@struct
class OffsetFetchResponsePartition(Struct):
    """The offset of one partition, up to version 7; -1 where none is committed."""

    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, since=5, default=-1)
    metadata: str | None = field(Nullable(String))
    error_code: int = field(Int16)


@struct
class OffsetFetchResponseTopic(Struct):
    """The offsets of one topic, up to version 7."""

    name: str = field(String)
    partitions: list[OffsetFetchResponsePartition] = field(Array(OffsetFetchResponsePartition))


@struct
class OffsetFetchResponsePartitions(Struct):
    """The offset of one partition, from version 8 on; -1 where none is committed."""

    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, default=-1)
    metadata: str | None = field(Nullable(String))
    error_code: int = field(Int16)


@struct
class OffsetFetchResponseTopics(Struct):
    """The offsets of one topic, from version 8 on."""

    name: str = field(String, until=9)
    topic_id: bytes = field(Uuid, since=10)
    partitions: list[OffsetFetchResponsePartitions] = field(Array(OffsetFetchResponsePartitions))


@struct
class OffsetFetchResponseGroup(Struct):
    """The offsets of one group, or why there are none."""

    group_id: str = field(String)
    topics: list[OffsetFetchResponseTopics] = field(Array(OffsetFetchResponseTopics))
    error_code: int = field(Int16)


@message(api_key=ApiKey.OFFSET_FETCH, versions=(1, 10), flexible_from=6)
class OffsetFetchResponse(Message):
    """Committed offsets: of one group up to version 7, of each group from version 8 on."""

    throttle_time_ms: int = field(Int32, since=3)
    topics: list[OffsetFetchResponseTopic] = field(Array(OffsetFetchResponseTopic), until=7)
    error_code: int = field(Int16, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = field(Array(OffsetFetchResponseGroup), since=8)
