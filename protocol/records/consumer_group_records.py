"""The values that keep KIP-848 groups. All are flexible from their only version, 0.

Source: Kafka's ConsumerGroup*Value.json.
"""

from __future__ import annotations

from protocol.schema import (
    Array,
    Bytes,
    Int8,
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


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupMetadataValue(Message):
    """The group epoch, and a hash of what the group's topics looked like then (0: not known)."""

    epoch: int = field(Int32)
    metadata_hash: int = field(Int64, tag=0)


@struct
class PartitionMetadata(Struct):
    """One partition and the racks of its replicas."""

    partition: int = field(Int32)
    racks: list[str] = field(Array(String))


@struct
class TopicMetadata(Struct):
    """One subscribed topic."""

    topic_id: bytes = field(Uuid)
    topic_name: str = field(String)
    num_partitions: int = field(Int32)
    partition_metadata: list[PartitionMetadata] = field(Array(PartitionMetadata))


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupPartitionMetadataValue(Message):
    """The subscribed topics as they were; replaced by the metadata hash in 4.1."""

    topics: list[TopicMetadata] = field(Array(TopicMetadata))


@struct
class ClassicProtocol(Struct):
    """A protocol that a member of the classic kind supports."""

    name: str = field(String)
    metadata: bytes = field(Bytes)


@struct
class ClassicMemberMetadata(Struct):
    """What is known only of members that speak the classic protocol. Session timeout in ms."""

    session_timeout_ms: int = field(Int32)
    supported_protocols: list[ClassicProtocol] = field(Array(ClassicProtocol))


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupMemberMetadataValue(Message):
    """A member's subscription. `subscribed_topic_regex` is "" when it is not used.

    What is left out is to Kafka a member of the classic kind without protocols: a null is written.
    """

    instance_id: str | None = field(Nullable(String), default=None)
    rack_id: str | None = field(Nullable(String), default=None)
    client_id: str = field(String)
    client_host: str = field(String)
    subscribed_topic_names: list[str] = field(Array(String))
    subscribed_topic_regex: str | None = field(Nullable(String), default=None)
    rebalance_timeout_ms: int = field(Int32, default=-1)
    server_assignor: str | None = field(Nullable(String), default=None)
    classic_member_metadata: ClassicMemberMetadata | None = field(Nullable(ClassicMemberMetadata), tag=0)


def classic_of(value: ConsumerGroupMemberMetadataValue) -> ClassicMemberMetadata | None:
    """What is known of a member of the classic kind alone; None for others, also where it was left out.

    Kohort did that once; a member of the classic kind always has protocols.
    """
    classic = value.classic_member_metadata
    return classic if classic is not None and classic.supported_protocols else None


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The epoch of the target assignment, and when it was computed (ms; 0: not known)."""

    assignment_epoch: int = field(Int32)
    assignment_timestamp: int = field(Int64, tag=0)


@struct
class TargetTopicPartitions(Struct):
    """Partitions of one topic that a member is to own, by number."""

    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """What a member shall own."""

    topic_partitions: list[TargetTopicPartitions] = field(Array(TargetTopicPartitions))


@struct
class CurrentTopicPartitions(Struct):
    """Partitions of one topic, each with the epoch at which the member got it (None: not known)."""

    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))
    assignment_epochs: list[int] | None = field(Nullable(Array(Int32)), tag=0, default=None)


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """What a member owns. `state`: 0 stable, 1 unrevoked partitions, 2 unreleased partitions."""

    member_epoch: int = field(Int32)
    previous_member_epoch: int = field(Int32)
    state: int = field(Int8)
    assigned_partitions: list[CurrentTopicPartitions] = field(Array(CurrentTopicPartitions))
    partitions_pending_revocation: list[CurrentTopicPartitions] = field(Array(CurrentTopicPartitions))


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that a regular expression stood for, at an offset of the metadata log; timestamp in ms."""

    topics: list[str] = field(Array(String))
    version: int = field(Int64)
    timestamp: int = field(Int64)
