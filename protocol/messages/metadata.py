"""Metadata: brokers, topics, and who leads which partition."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int16, Int32, Message, Nullable, String, Struct, Uuid, field, message, struct


@struct
class MetadataRequestTopic(Struct):
    """A topic by name, or from version 12 on by id."""

    topic_id: bytes = field(Uuid, since=10)
    name: str | None = field(String, nullable_since=10)


@message(api_key=ApiKey.METADATA, versions=(0, 13), flexible_from=9)
class MetadataRequest(Message):
    """Topics to describe, and perhaps to create. Source: KIP-4, KIP-204, KIP-430, KIP-516, KIP-700."""

    # Null is all; in version 0, where it cannot be null, empty is.
    topics: list[MetadataRequestTopic] | None = field(Array(MetadataRequestTopic), nullable_since=1)
    allow_auto_topic_creation: bool = field(Bool, since=4, default=True)
    include_cluster_authorized_operations: bool = field(Bool, since=8, until=10)
    include_topic_authorized_operations: bool = field(Bool, since=8)


@struct
class MetadataResponseBroker(Struct):
    """Where a broker is reached."""

    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(Nullable(String), since=1, default=None)


@struct
class MetadataResponsePartition(Struct):
    """A partition: its leader and its replicas."""

    error_code: int = field(Int16)
    partition_index: int = field(Int32)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32, since=7, default=-1)
    replica_nodes: list[int] = field(Array(Int32))
    isr_nodes: list[int] = field(Array(Int32))
    offline_replicas: list[int] = field(Array(Int32), since=5)


@struct
class MetadataResponseTopic(Struct):
    """A topic, or why it is not there."""

    error_code: int = field(Int16)
    name: str | None = field(String, nullable_since=12)
    topic_id: bytes = field(Uuid, since=10)
    is_internal: bool = field(Bool, since=1)
    partitions: list[MetadataResponsePartition] = field(Array(MetadataResponsePartition))
    topic_authorized_operations: int = field(Int32, since=8, default=-(2**31))  # bits; this is: not asked for


@message(api_key=ApiKey.METADATA, versions=(0, 13), flexible_from=9)
class MetadataResponse(Message):
    """The brokers, and the topics asked for."""

    throttle_time_ms: int = field(Int32, since=3)
    brokers: list[MetadataResponseBroker] = field(Array(MetadataResponseBroker))
    cluster_id: str | None = field(Nullable(String), since=2, default=None)
    controller_id: int = field(Int32, since=1, default=-1)
    topics: list[MetadataResponseTopic] = field(Array(MetadataResponseTopic))
    # Bits; this is: not asked for.
    cluster_authorized_operations: int = field(Int32, since=8, until=10, default=-(2**31))
    error_code: int = field(Int16, since=13)
