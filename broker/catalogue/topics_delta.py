"""What a round of changes does to the image of the topics, and who is told of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.catalogue.cluster_state import BROKER_RESOURCE, TOPIC_RESOURCE
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.catalogue.cluster_state import ClusterState
    from broker.catalogue.topics_image import Topic, TopicsImage


_PARTITIONS = (records.PartitionRecord, records.PartitionChangeRecord)
_RIGHTS = (records.AccessControlEntryRecord, records.RemoveAccessControlEntryRecord, records.ClientQuotaRecord)


@dataclass(frozen=True, slots=True)
class TopicsDelta:
    """How one image differs from the one before."""

    created: tuple[Topic, ...] = ()
    deleted: tuple[Topic, ...] = ()
    grown: tuple[tuple[Topic, Topic], ...] = ()  # (before, after)
    reconfigured: tuple[Topic, ...] = ()  # broker configs changed: every topic
    broker_reconfigured: bool = False
    moved: tuple[tuple[Topic, Topic], ...] = ()  # (before, after), where a partition lies in another directory
    rights: tuple[Any, ...] = ()  # records of ACLs and quotas, in their order


class TopicsListener(ABC):
    """Somebody who keeps something per topic: the partitions' logs, the groups' offsets.

    Everybody is told what is published; who has more to do is one of `broker.catalogue.listeners` too.
    """

    @abstractmethod
    def publish(self, image: TopicsImage, delta: TopicsDelta, prepared: Any) -> None:
        """The image is now this one; `prepared` is what was prepared for it, else None. On the event loop."""


def difference(made: Sequence[Any], image: TopicsImage, state: ClusterState) -> tuple[TopicsDelta, TopicsImage]:
    """What records that `state` holds already change in `image`, and the image with it."""
    touched: dict[str, None] = {}
    broker_changed = False
    rights = []
    for record in made:
        if isinstance(record, records.ConfigRecord):
            if record.resource_type == TOPIC_RESOURCE:
                touched[record.resource_name] = None
            elif record.resource_type == BROKER_RESOURCE:
                broker_changed = True
        elif isinstance(record, records.TopicRecord):
            touched[record.name] = None
        elif isinstance(record, _PARTITIONS) and record.topic_id in state.topics:
            touched[state.topics[record.topic_id].name] = None
        elif isinstance(record, records.RemoveTopicRecord):
            gone = image.topic_by_id(record.topic_id)
            if gone is not None:
                touched[gone.name] = None
        elif isinstance(record, _RIGHTS):
            rights.append(record)
    created: list[Topic] = []
    deleted: list[Topic] = []
    grown: list[tuple[Topic, Topic]] = []
    reconfigured: list[Topic] = []
    moved: list[tuple[Topic, Topic]] = []
    changed: dict[str, Topic | None] = {}
    for name in touched:
        before = image.topic(name)
        topic_id = state.topic_ids.get(name)
        after = None if topic_id is None else state.topic_image(topic_id)
        if before is None and after is None:
            continue  # created and deleted in one round: its records cancel each other out
        changed[name] = after
        if before is not None and (after is None or after.topic_id != before.topic_id):
            deleted.append(before)
        if after is not None and (before is None or after.topic_id != before.topic_id):
            created.append(after)
        elif before is not None and after is not None:
            if after.partition_count != before.partition_count:
                grown.append((before, after))
            if after.configs != before.configs:
                reconfigured.append(after)
            if after.directories[: before.partition_count] != before.directories:
                moved.append((before, after))
    new_image = image.with_changes(changed) if changed else image
    if broker_changed:
        reconfigured = list(new_image)
    delta = TopicsDelta(
        tuple(created),
        tuple(deleted),
        tuple(grown),
        tuple(reconfigured),
        broker_changed,
        moved=tuple(moved),
        rights=tuple(rights),
    )
    return delta, new_image
