"""Everything that the metadata says now, as the records of a snapshot, in the order in which Kafka writes them.

Source: Kafka's MetadataImage.write and the images it is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.records import metadata_records as records
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.catalogue.cluster_state import ClusterState, PartitionState, TopicState

_CONTROLLERS_SINCE = 15  # the metadata.version that has registrations of controllers


def snapshot_records(state: ClusterState) -> Iterator[Any]:
    """One record at a time; `state` must not change meanwhile, and must not be inside a metadata transaction."""
    assert not state.in_transaction
    kept = state.kept
    # First, since it decides how a reader takes the rest.
    yield _level("metadata.version", state.features["metadata.version"])
    for name, level in sorted(state.features.items()):
        if name != "metadata.version":
            yield _level(name, level)
    if kept.zk_migration_state is not None:
        yield records.ZkMigrationStateRecord(zk_migration_state=kept.zk_migration_state)
    yield from kept.brokers.values()
    if state.features["metadata.version"] >= _CONTROLLERS_SINCE:
        yield from kept.controllers.values()
    for topic in state.topics.values():
        yield from _topic(topic)
    for (resource_type, resource_name), overrides in state.configs.items():
        for name, value in overrides.items():
            yield records.ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    yield from kept.quotas.values()
    if state.next_producer_id:
        yield records.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=state.next_producer_id)
    yield from kept.acls.values()
    yield from kept.scram.values()
    yield from kept.tokens.values()


def _level(name: str, level: int) -> records.FeatureLevelRecord:
    return records.FeatureLevelRecord(name=name, feature_level=level)


def _topic(topic: TopicState) -> Iterator[Any]:
    yield records.TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for partition, one in sorted(topic.partitions.items()):
        yield _partition(topic.topic_id, partition, one)


def _partition(topic_id: bytes, partition: int, one: PartitionState) -> records.PartitionRecord:
    return records.PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=list(one.replicas),
        isr=list(one.isr),
        removing_replicas=list(one.removing_replicas),
        adding_replicas=list(one.adding_replicas),
        leader=one.leader,
        leader_epoch=one.leader_epoch,
        partition_epoch=one.partition_epoch,
        # A record from before directories had names has none: MIGRATING for each replica, as Kafka fills them in.
        directories=list(one.directories) or [ZERO_UUID] * len(one.replicas),
        leader_recovery_state=one.leader_recovery_state,
        eligible_leader_replicas=list(one.eligible_leader_replicas) or None,
        last_known_elr=list(one.last_known_elr) or None,
    )
