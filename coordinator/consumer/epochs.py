"""The group epoch: when it rises, and the records that say so.

Source: KIP-848; Kafka's GroupMetadataManager.updateSubscriptionMetadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.consumer.causes import topics_cause
from coordinator.consumer.metadata_hash import metadata_hash
from coordinator.consumer.records import epoch_record, partition_metadata_tombstone, target_epoch_record
from coordinator.events import GroupEpochBumped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator.cause import Cause
    from coordinator.consumer.draft import Draft


def update_epoch(draft: Draft, causes: Sequence[Cause]) -> None:
    """Raise the epoch once if there are `causes`, or if the topics are not what they were when it was last raised.

    The topics are looked at when there are causes, and when they are others than those looked at before.
    """
    group, topics = draft.group, draft.view.topics
    looked_at = draft.soft.get("hashed_topics", group.hashed_topics)
    if not causes and looked_at is topics:
        return
    draft.soft["hashed_topics"] = topics
    now = metadata_hash(group.subscribed_topics, topics, draft.view.consumer_settings.rack)
    wants_tombstone = group.has_partition_metadata
    if not causes and now != group.metadata_hash:
        causes = (topics_cause(draft.now_ms, group.subscribed_topics, looked_at, topics),)
    if causes:
        draft.write(epoch_record(draft.group_id, group.epoch + 1, now))
        draft.causes += causes
        draft.event(GroupEpochBumped(causes[0].trigger))
    if wants_tombstone:
        draft.write(partition_metadata_tombstone(draft.group_id))


def empty_epoch(draft: Draft) -> None:
    """With nobody left the target is nothing, and as new as can be: an empty group waits for no assignment.

    Of no known time, so that whoever comes next is dealt in at once. Source: KAFKA-20442.
    """
    if not draft.group.members:
        draft.write(target_epoch_record(draft.group_id, draft.group.epoch, 0))


def nobody_else_finds_the_target(draft: Draft) -> bool:
    """Whether a target is due and only a join can find it: nobody is left who speaks the new protocol.

    Such a group is there where the policy allows no downgrade. Kafka lets its members stay, and nobody reads what the
    last member of the new protocol had, nor partitions that its topics get later.
    """
    group, topics = draft.group, draft.view.topics
    if group.classic_count < len(group.members):
        return False
    if group.epoch > group.target_epoch:
        return True
    if group.hashed_topics is topics:
        return False
    if metadata_hash(group.subscribed_topics, topics, draft.view.consumer_settings.rack) != group.metadata_hash:
        return True
    draft.soft["hashed_topics"] = topics
    return False
