"""What brokers of other versions wrote of a consumer group, loaded after a SIGKILL: appended while nobody was alive."""

from __future__ import annotations

from collections.abc import Callable

from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    CurrentTopicPartitions,
)
from protocol.records.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    GroupKey,
    GroupValue,
)
from tests.reference.judge import files
from tests.reference.judge.catalog import scenario
from tests.reference.judge.members import T1
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_consumer import beat, describe, join
from tests.reference.judge.scenarios_epochs import ALL

Record = tuple[GroupKey, GroupValue]


def _owns(s: Script, topic_id: bytes, state: int) -> Record:
    """What member `a` has, as brokers up to 4.2 wrote it: without the epochs at which it got it."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=2,
        previous_member_epoch=1,
        state=state,
        assigned_partitions=[CurrentTopicPartitions(topic_id=topic_id, partitions=ALL[T1])],
    )
    return ConsumerGroupCurrentMemberAssignmentKey(s.name(), "a"), value


def _later_state(s: Script, topic_id: bytes) -> Record:
    return _owns(s, topic_id, 9)


def _no_epochs(s: Script, topic_id: bytes) -> Record:
    return _owns(s, topic_id, 0)


def _old_metadata(s: Script, topic_id: bytes) -> Record:
    return ConsumerGroupPartitionMetadataKey(s.name()), ConsumerGroupPartitionMetadataValue()


def _other_hash(s: Script, topic_id: bytes) -> Record:
    return ConsumerGroupMetadataKey(s.name()), ConsumerGroupMetadataValue(epoch=2, metadata_hash=7)


def _gives_everything_up(s: Script) -> None:
    """K35: a state of a later version; who names partitions, or none, is fenced."""
    beat(s, "a", 2)
    beat(s, "a", 2, owned=ALL)
    beat(s, "a", 2, owned={})


def _commits(s: Script) -> None:
    """K60: partitions are held since the member's epoch."""
    for epoch in (1, 2, 3):
        said = [OffsetCommitRequestPartition(partition_index=0, committed_offset=epoch)]
        request = OffsetCommitRequest(
            group_id=s.name(),
            member_id="a",
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=T1, partitions=said)],
        )
        s.client("a").call(request, 9)


def _goes_on(s: Script) -> None:
    """K59, K62: one bump, and the same partitions; what older brokers wrote of the topics is removed."""
    beat(s, "a", 2, owned=ALL)
    beat(s, "a", 3, owned=ALL)


def _plays(name: str, record: Callable[[Script, bytes], Record], then: Callable[[Script], None]) -> None:
    """A group, this record, and what its member says to the broker that has loaded it."""

    def before(s: Script) -> None:
        s.kept = s.topic_id(T1)
        join(s, "a")

    def dead(s: Script) -> None:
        files.append_to_group(s.data, *record(s, s.kept))

    def after(s: Script) -> None:
        describe(s)
        then(s)
        describe(s)

    for stage, act in (("short", before), ("dead", dead), ("killed", after)):
        scenario(name, stage=stage)(act)


_plays("K35-Loaded-state", _later_state, _gives_everything_up)
_plays("K59-Loaded-metadata", _old_metadata, _goes_on)
_plays("K60-Loaded-epochs", _no_epochs, _commits)
_plays("K62-Loaded-hash", _other_hash, _goes_on)
