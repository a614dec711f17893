"""ConsumerGroupDescribe: the state, the epochs and the members of groups of the new consumer protocol."""

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


@message(api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible_from=0)
class ConsumerGroupDescribeRequest(Message):
    """Groups to describe. Source: KIP-848, KIP-1099."""

    group_ids: list[str] = field(Array(String))
    include_authorized_operations: bool = field(Bool)


@struct
class DescribedTopicPartitions(Struct):
    topic_id: bytes = field(Uuid)
    topic_name: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct
class DescribedAssignment(Struct):
    """What a member owns, or shall own."""

    topic_partitions: list[DescribedTopicPartitions] = field(Array(DescribedTopicPartitions))


@struct
class DescribedConsumerMember(Struct):
    """A member of the group. `assignment` holds what it is to give up, too."""

    member_id: str = field(String)
    instance_id: str | None = field(Nullable(String), default=None)
    rack_id: str | None = field(Nullable(String), default=None)
    member_epoch: int = field(Int32)
    client_id: str = field(String)
    client_host: str = field(String)
    subscribed_topic_names: list[str] = field(Array(String))
    subscribed_topic_regex: str | None = field(Nullable(String), default=None)
    assignment: DescribedAssignment = field(DescribedAssignment)
    target_assignment: DescribedAssignment = field(DescribedAssignment)
    member_type: int = field(Int8, since=1, default=-1)  # 0: classic, 1: consumer, -1: not known


@struct
class DescribedConsumerGroup(Struct):
    """A group, or why it is not described."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String), default=None)
    group_id: str = field(String)
    group_state: str = field(String)
    group_epoch: int = field(Int32)
    assignment_epoch: int = field(Int32)
    assignor_name: str = field(String)
    members: list[DescribedConsumerMember] = field(Array(DescribedConsumerMember))
    authorized_operations: int = field(Int32, default=-(2**31))  # bits; this is: not asked for


@message(api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible_from=0)
class ConsumerGroupDescribeResponse(Message):
    """Each group asked for."""

    throttle_time_ms: int = field(Int32)
    groups: list[DescribedConsumerGroup] = field(Array(DescribedConsumerGroup))
