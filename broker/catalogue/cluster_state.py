"""What the records of the metadata log add up to.

`apply` is the fold: one record at a time, at start for the whole log and later for each change before it is written.
Records that say nothing to a broker of one node (quotas, ACLs, SCRAM, tokens) are `kept` and not acted on.

Source: Kafka's *Delta classes in metadata/image.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker.catalogue.kept_records import KeptRecords
from broker.catalogue.topics_image import Topic, TopicsImage
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE = 2, 4, 8, 16, 32
_UNCHANGED_LEADER, _UNCHANGED_RECOVERY = -2, -1


class InconsistentMetadata(Exception):
    """A record contradicts the ones before it; the metadata log is not one that Kafka could have written."""


@dataclass(slots=True)
class PartitionState:
    """A partition as the log has it. Every list is of node ids, `directories` of directory ids."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    leader_recovery_state: int = 0
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(slots=True)
class TopicState:
    """A topic as the log has it."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionState] = field(default_factory=dict)


@dataclass(slots=True)
class ClusterState:
    """Everything the broker knows from the log. Changed in place; outsiders see the images made from it."""

    features: dict[str, int] = field(default_factory=dict)
    topics: dict[bytes, TopicState] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)  # (resource type, name) -> overrides
    kept: KeptRecords = field(default_factory=KeptRecords)
    next_producer_id: int = 0
    removed_topic_ids: set[bytes] = field(default_factory=set)  # since the newest snapshot
    data_records: int = 0
    directory_counts: Counter[bytes] = field(default_factory=Counter)  # partitions by the id of their directory
    _transaction: list[Any] | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether the log ends inside a metadata transaction, whose records count for nothing."""
        return self._transaction is not None

    def apply(self, record: Any) -> None:
        """Fold one record in. Raises: InconsistentMetadata."""
        self.data_records += 1
        kind = type(record)
        if kind is records.BeginTransactionRecord:
            if self._transaction is not None:
                raise InconsistentMetadata("a metadata transaction begins inside another")
            self._transaction = []
        elif kind is records.EndTransactionRecord or kind is records.AbortTransactionRecord:
            if self._transaction is None:
                raise InconsistentMetadata("a metadata transaction ends that never began")
            held, self._transaction = self._transaction, None
            if kind is records.EndTransactionRecord:
                for one in held:
                    self._apply_now(one)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._apply_now(record)

    def _apply_now(self, record: Any) -> None:
        rule = _RULES.get(type(record))
        if rule is None:
            self.kept.apply(record)
        else:
            rule(self, record)

    def _feature_level(self, record: records.FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level

    def _topic(self, record: records.TopicRecord) -> None:
        if record.name in self.topic_ids:
            raise InconsistentMetadata(f"topic {record.name!r} is created while it exists")
        self.topics[record.topic_id] = TopicState(record.name, record.topic_id)
        self.topic_ids[record.name] = record.topic_id

    def _remove_topic(self, record: records.RemoveTopicRecord) -> None:
        topic = self.topics.pop(record.topic_id, None)
        if topic is None:
            raise InconsistentMetadata(f"topic id {record.topic_id.hex()} is removed and does not exist")
        for one in topic.partitions.values():
            self.directory_counts.subtract(one.directories)
        del self.topic_ids[topic.name]
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        self.removed_topic_ids.add(record.topic_id)

    def _topic_of(self, topic_id: bytes) -> TopicState:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise InconsistentMetadata(f"a partition record names topic id {topic_id.hex()}, which does not exist")
        return topic

    def _partition(self, record: records.PartitionRecord) -> None:
        partitions = self._topic_of(record.topic_id).partitions
        before = partitions.get(record.partition_id)
        if before is not None:
            self.directory_counts.subtract(before.directories)
        self.directory_counts.update(record.directories)
        partitions[record.partition_id] = PartitionState(
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories),
            leader_recovery_state=record.leader_recovery_state,
            eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )

    def _partition_change(self, record: records.PartitionChangeRecord) -> None:
        topic = self._topic_of(record.topic_id)
        old = topic.partitions.get(record.partition_id)
        if old is None:
            raise InconsistentMetadata(f"{topic.name}-{record.partition_id} is changed and does not exist")

        def given(value: Any, otherwise: tuple[Any, ...]) -> tuple[Any, ...]:
            return otherwise if value is None else tuple(value)

        has_leader = record.leader != _UNCHANGED_LEADER
        recovery = record.leader_recovery_state
        if record.directories:
            self.directory_counts.subtract(old.directories)
            self.directory_counts.update(record.directories)
        topic.partitions[record.partition_id] = PartitionState(
            replicas=given(record.replicas, old.replicas),
            isr=given(record.isr, old.isr),
            removing_replicas=given(record.removing_replicas, old.removing_replicas),
            adding_replicas=given(record.adding_replicas, old.adding_replicas),
            leader=record.leader if has_leader else old.leader,
            leader_epoch=old.leader_epoch + has_leader,
            partition_epoch=old.partition_epoch + 1,
            directories=tuple(record.directories) if record.directories else old.directories,
            leader_recovery_state=old.leader_recovery_state if recovery == _UNCHANGED_RECOVERY else recovery,
            eligible_leader_replicas=given(record.eligible_leader_replicas, old.eligible_leader_replicas),
            last_known_elr=given(record.last_known_elr, old.last_known_elr),
        )

    def _config(self, record: records.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        # A new dict: images that were published keep the one they have.
        overrides = dict(self.configs.get(resource, {}))
        if record.value is None:
            overrides.pop(record.name, None)
        else:
            overrides[record.name] = record.value
        if overrides:
            self.configs[resource] = overrides
        else:
            self.configs.pop(resource, None)

    def _producer_ids(self, record: records.ProducerIdsRecord) -> None:
        if record.next_producer_id <= self.next_producer_id:
            raise InconsistentMetadata(f"next producer id falls to {record.next_producer_id}")
        self.next_producer_id = record.next_producer_id

    def _clear_elr(self, record: records.ClearElrRecord) -> None:
        if not record.topic_name:
            topics = list(self.topics.values())
        elif record.topic_name in self.topic_ids:
            topics = [self.topics[self.topic_ids[record.topic_name]]]
        else:
            raise InconsistentMetadata(
                f"a record clears the replicas of topic {record.topic_name!r}, which is not there"
            )
        for topic in topics:
            for one in topic.partitions.values():
                one.eligible_leader_replicas = one.last_known_elr = ()

    def topic_image(self, topic_id: bytes) -> Topic:
        """The published form of one topic. Raises: InconsistentMetadata when its partition ids have holes."""
        state = self.topics[topic_id]
        count = len(state.partitions)
        if any(partition not in state.partitions for partition in range(count)):
            raise InconsistentMetadata(f"the partitions of {state.name!r} are {sorted(state.partitions)}")
        every = [state.partitions[partition] for partition in range(count)]
        epochs = tuple(one.leader_epoch for one in every)
        directories = tuple(one.directories[0] if one.directories else b"" for one in every)
        return Topic(state.name, topic_id, epochs, self.configs.get((TOPIC_RESOURCE, state.name), {}), directories)

    def image(self) -> TopicsImage:
        """All topics as one immutable value."""
        return TopicsImage({state.name: self.topic_image(topic_id) for topic_id, state in self.topics.items()})


_RULES: dict[type, Callable[[ClusterState, Any], None]] = {
    records.FeatureLevelRecord: ClusterState._feature_level,
    records.TopicRecord: ClusterState._topic,
    records.RemoveTopicRecord: ClusterState._remove_topic,
    records.PartitionRecord: ClusterState._partition,
    records.PartitionChangeRecord: ClusterState._partition_change,
    records.ConfigRecord: ClusterState._config,
    records.ProducerIdsRecord: ClusterState._producer_ids,
    records.ClearElrRecord: ClusterState._clear_elr,
}
