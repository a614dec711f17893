"""ConsumerGroupHeartbeat: all that a member of the new consumer protocol says and hears."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Message, Nullable, String, Struct, Uuid, field, message, struct


@struct
class TopicPartitions(Struct):
    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))


@message(api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible_from=0)
class ConsumerGroupHeartbeatRequest(Message):
    """A member joins, is alive, has given partitions up, or goes. Null is what has not changed. Source: KIP-848."""

    group_id: str = field(String)
    member_id: str = field(String)
    member_epoch: int = field(Int32)
    instance_id: str | None = field(Nullable(String), default=None)
    rack_id: str | None = field(Nullable(String), default=None)
    rebalance_timeout_ms: int = field(Int32, default=-1)
    subscribed_topic_names: list[str] | None = field(Nullable(Array(String)), default=None)
    subscribed_topic_regex: str | None = field(Nullable(String), since=1, default=None)
    server_assignor: str | None = field(Nullable(String), default=None)
    topic_partitions: list[TopicPartitions] | None = field(Nullable(Array(TopicPartitions)), default=None)


@struct
class Assignment(Struct):
    """What a member may read."""

    topic_partitions: list[TopicPartitions] = field(Array(TopicPartitions))


@message(api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible_from=0)
class ConsumerGroupHeartbeatResponse(Message):
    """Its epoch, and its assignment when that is new."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String), default=None)
    member_id: str | None = field(Nullable(String), default=None)
    member_epoch: int = field(Int32)
    heartbeat_interval_ms: int = field(Int32)
    assignment: Assignment | None = field(Nullable(Assignment), default=None)
