"""The records of a consumer group: what rules write.

Source: Kafka's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.records.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from protocol.records.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

if TYPE_CHECKING:
    from coordinator.consumer.assignor import Partitions
    from coordinator.consumer.group import ConsumerGroup, ConsumerMember, EpochPartitions, ResolvedRegex

Record = tuple[Any, Any | None]


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """Who the member is, and what it wants to read."""
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        classic_member_metadata=None,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.names),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
    )
    if classic is not None:
        value.classic_member_metadata = ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
        )
    return ConsumerGroupMemberMetadataKey(group_id, member.member_id), value


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """How far the member is, and what it owns."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_with_epochs(member.assigned),
        partitions_pending_revocation=_with_epochs(member.pending),
    )
    return ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value


def _with_epochs(held: EpochPartitions) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[partition] for partition in sorted(epochs)],
        )
        for topic_id, epochs in held.items()
    ]


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    """What the member shall own."""
    topics = [
        TargetTopicPartitions(topic_id=topic_id, partitions=list(partitions)) for topic_id, partitions in target.items()
    ]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
    return key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


def target_epoch_record(group_id: str, epoch: int, computed_at_ms: int) -> Record:
    """The group epoch that the targets were computed for, and when."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=computed_at_ms)
    return ConsumerGroupTargetAssignmentMetadataKey(group_id), value


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The group epoch, and what the topics looked like then."""
    return ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    """The topics that an expression stands for."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return ConsumerGroupRegularExpressionKey(group_id, regex), value


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """A member is gone."""
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        (ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        (ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def regex_tombstone(group_id: str, regex: str) -> Record:
    """Nobody uses the expression any more."""
    return ConsumerGroupRegularExpressionKey(group_id, regex), None


def partition_metadata_tombstone(group_id: str) -> Record:
    """What brokers before 4.1 wrote about the topics is the hash's business now."""
    return ConsumerGroupPartitionMetadataKey(group_id), None


def group_tombstones(group: ConsumerGroup) -> list[Record]:
    """The whole group is gone, members and all."""
    group_id = group.group_id
    members = list(group.members)
    return [
        *((ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None) for member_id in members),
        *((ConsumerGroupTargetAssignmentMemberKey(group_id, id_), None) for id_ in {**group.members, **group.targets}),
        (ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
        *((ConsumerGroupMemberMetadataKey(group_id, member_id), None) for member_id in members),
        *(regex_tombstone(group_id, regex) for regex in group.regexes),
        partition_metadata_tombstone(group_id),
        (ConsumerGroupMetadataKey(group_id), None),
    ]
