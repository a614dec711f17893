"""The group epoch: when it rises, and the records that say so.

Source: KIP-848; Kafka's GroupMetadataManager.updateSubscriptionMetadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.consumer.metadata_hash import metadata_hash
from coordinator.consumer.records import epoch_record, partition_metadata_tombstone, target_epoch_record

if TYPE_CHECKING:
    from coordinator.consumer.draft import Draft


def update_epoch(draft: Draft, cause: str | None) -> None:
    """Raise the epoch once if there is a `cause`, or if the topics are not what they were when it was last raised.

    The topics are looked at when there is a cause, and when they are others than those looked at before.
    """
    group, topics = draft.group, draft.view.topics
    if cause is None and draft.soft.get("hashed_topics", group.hashed_topics) is topics:
        return
    draft.soft["hashed_topics"] = topics
    now = metadata_hash(group.subscribed_topics, topics, draft.view.consumer_settings.rack)
    if cause is None:
        if now == group.metadata_hash:
            return
        cause = "partitions_changed"
    if group.has_partition_metadata:
        draft.write(partition_metadata_tombstone(draft.group_id))
    draft.write(epoch_record(draft.group_id, draft.group.epoch + 1, now))
    draft.event("group_epoch_bumped", trigger=cause)


def empty_epoch(draft: Draft) -> None:
    """With nobody left the target is nothing, and as new as can be: an empty group waits for no assignment.

    Of no known time, so that whoever comes next is dealt in at once. Source: KAFKA-20442.
    """
    if not draft.group.members:
        draft.write(target_epoch_record(draft.group_id, draft.group.epoch, 0))
