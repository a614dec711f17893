"""Consumer groups from their log: restarts, what others wrote, faults of Kafka. Ids are those of docs/scenarios."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.consumer.group import ConsumerGroup
from coordinator.consumer.records import epoch_record, member_record, regex_tombstone, target_epoch_record
from coordinator.group import GroupState
from coordinator.load_summary import LoadFailed
from coordinator.loading import fold_log, load, replay_log
from coordinator.values import altered
from protocol.errors import ErrorCode
from protocol.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataValue,
    CurrentTopicPartitions,
)
from protocol.records.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.coordinator.consumer.driver import REBALANCE, SESSION, Driver, durable, tid

E = ErrorCode
WAYS = [fold_log, replay_log]
ways = pytest.mark.parametrize("way", WAYS)
CLASSIC = GroupMetadataValue(
    protocol_type="consumer", generation=7, protocol=None, leader=None, current_state_timestamp=1, members=[]
)


def test_k58_a_restart_changes_nothing_but_starts_the_timers_anew():
    """K58: epochs, assignments, assignment epochs and resolved expressions."""
    broker = Driver({"t": 4, "u": 2})
    broker.stable("a", "b")
    broker.join("c", ["t"], regex="u.*")
    broker.beat("b", owned=broker.held("b"))
    broker.advance(1_000)
    before = durable(broker.group)
    assert broker.pending("b")

    broker.reload()

    assert durable(broker.group) == before
    assert broker.timer_in("heartbeat", "a") == SESSION
    assert broker.timer_in("rebalance", "b") == REBALANCE
    assert broker.timer_in("rebalance", "a") is None
    broker.advance(SESSION)
    assert broker.state == "Empty"


def test_k59_what_brokers_before_4_1_wrote_of_the_topics_is_removed():
    """K59: at the next evaluation of the epoch, with a group record that has a hash."""
    broker = Driver()
    broker.stable("a")
    broker.log.append([(ConsumerGroupPartitionMetadataKey("g"), ConsumerGroupPartitionMetadataValue())])
    broker.log.append([epoch_record("g", 2, 0)])
    broker.reload()
    broker.beat("a")
    assert broker.written()[:2] == ["3", "-4"]
    assert broker.group.metadata_hash != 0
    assert not broker.group.has_partition_metadata
    # Also where the topics are what they were, and the epoch stays.
    broker.log.append([(ConsumerGroupPartitionMetadataKey("g"), ConsumerGroupPartitionMetadataValue())])
    broker.reload()
    broker.beat("a")
    assert broker.written() == ["-4"]
    assert not broker.group.has_partition_metadata


def test_k60_partitions_without_assignment_epochs_are_held_since_the_member_s():
    """K60: a commit of that epoch counts, an older one does not."""
    broker = Driver({"t": 2})
    broker.stable("a")
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=2,
        previous_member_epoch=1,
        state=0,
        assigned_partitions=[CurrentTopicPartitions(topic_id=tid("t"), partitions=[0, 1])],
    )
    broker.log.append([(ConsumerGroupCurrentMemberAssignmentKey("g", "a"), value)])
    broker.reload()
    assert broker.commit("a", 2, {"t": {0: 1}}) == {E.NONE}
    assert broker.commit("a", 1, {"t": {0: 1}}) == {E.STALE_MEMBER_EPOCH}


@ways
def test_k61_a_group_that_goes_while_a_member_stays_is_gone(way: Any):
    """K61: and so is a member that goes while it has an assignment. Kafka does not load the partition."""
    broker = Driver()
    broker.stable("a")
    log = list(broker.log)
    broker.log.append([(ConsumerGroupMetadataKey("g"), None)])
    assert not _load(broker, way).consumer_groups
    broker.log.append([member_record("g", broker.member("a"))])
    assert set(_load(broker, way).consumer_groups["g"].members) == {"a"}

    broker.log = [*log, [(member_record("g", broker.member("a"))[0], None)]]
    group = _load(broker, way).consumer_groups["g"]
    assert (group.members, group.targets, group.owners, group.epoch) == ({}, {}, {}, 2)


@ways
def test_k61_who_was_there_when_a_group_went_is_not_there_when_it_lives_again(way: Any):
    """A power loss took the tombstones of its members. Newest records do not tell, their order does."""
    broker, again = Driver({"t": 4, "u": 2}), Driver({"t": 4, "u": 2})
    broker.stable("a", names=["u"])
    again.stable("b")
    broker.log += [[(ConsumerGroupMetadataKey("g"), None)], *again.log]
    group = _load(broker, way).consumer_groups["g"]
    assert (set(group.members), set(group.targets), set(group.owners.values())) == ({"b"}, {"b"}, {"b"})


@ways
def test_who_is_back_because_compaction_took_the_end_of_its_group_stays_for_a_session(way: Any):
    """A power loss took its tombstones, and the cleaner that of the group, which had lived again: no order is left."""
    broker, again = Driver({"t": 4, "u": 2}), Driver({"t": 4, "u": 2})
    broker.stable("a", names=["u"])
    again.stable("b")
    broker.log += again.log
    assert set(_load(broker, way).consumer_groups["g"].members) == {"a", "b"}

    broker.reload()
    broker.advance(SESSION - 1)
    broker.beat("b", epoch=2)
    broker.advance(1)

    assert set(broker.group.members) == {"b"}


@ways
def test_a_group_that_went_is_there_again_by_any_value_of_its_own(way: Any):
    """Of what came after its end a power loss has left the epoch of its target alone."""
    broker = Driver()
    broker.stable("a")
    broker.log += [[(ConsumerGroupMetadataKey("g"), None)], [target_epoch_record("g", 7, 0)]]
    group = _load(broker, way).consumer_groups["g"]
    assert (group.members, group.target_epoch) == ({}, 7)


def test_what_was_taken_at_its_word_is_told():
    """K61: for a line in the log."""
    broker = Driver()
    broker.stable("a")
    broker.log.append([(ConsumerGroupMetadataKey("g"), None)])
    told = load(broker.new_shard(), lambda: [broker.data()]).contradictions
    assert [text.partition(": ")[2] for text in told] == ["group 'g' has 1 members, and a tombstone"]


def _load(broker: Driver, way: Any) -> Any:
    """As a leader loads, or record after record."""
    return broker.loaded(way if way is replay_log else None)


def moved(*batches: list[tuple[Any, Any]]) -> Driver:
    broker = Driver()
    broker.checks = False
    broker.log = list(batches)
    return broker


@ways
def test_kafka_21117_a_log_that_was_compacted_while_it_was_read_belongs_to_who_wrote_last(way: Any):
    """KAFKA-21117: the tombstone that ended the classic group, or the consumer group, is not there any more."""
    broker = Driver()
    broker.stable("a")
    consumer = list(broker.log)
    classic: list[tuple[Any, Any]] = [(GroupMetadataKey("g"), CLASSIC)]

    upgraded = _load(moved(classic, *consumer), way)
    assert set(upgraded.consumer_groups) == {"g"}
    assert not upgraded.groups

    downgraded = _load(moved(*consumer, classic), way)
    assert downgraded.groups["g"].generation == 7
    assert not downgraded.consumer_groups

    # And the tombstones of the consumer group may come after the classic one.
    broker.leave("a")
    from coordinator.offsets.inputs import DeleteGroup

    broker.ask(DeleteGroup("g", None))
    late = _load(moved(*consumer, classic, broker.log[-1]), way)
    assert set(late.groups) == {"g"}


def test_kafka_21117_built_in_again_is_found():
    """The fault: a record of another kind of group fails the load."""
    from unittest.mock import patch

    from coordinator import loaded_records

    real = loaded_records._load_consumer_record

    def strict(shard: Any, folds: Any, key: Any, value: Any) -> None:
        if key.group in shard.groups and not shard.groups[key.group].is_simple:
            raise LoadFailed(f"{key.group} is not a consumer group")
        real(shard, folds, key, value)

    with patch.object(loaded_records, "_load_consumer_record", strict), pytest.raises(LoadFailed):
        test_kafka_21117_a_log_that_was_compacted_while_it_was_read_belongs_to_who_wrote_last(replay_log)


@pytest.mark.parametrize("fault", ["KAFKA-19233", "KAFKA-20442", "23542"])
def test_a_fault_of_kafka_built_in_again_is_found(fault: str):
    """Each by the test that is named for it."""
    from unittest.mock import patch

    from coordinator.consumer import checks, heartbeat, members, removal
    from tests.coordinator.consumer import test_joining, test_leaving

    if fault == "KAFKA-19233":  # a join under a known id must be at the member's epoch
        real_joining = members.joining_member

        def strict(draft: Any, request: Any, member_id: str) -> Any:
            member = real_joining(draft, request, member_id)
            if member.epoch > 0:
                raise checks._fenced("a greater epoch is known")
            return member

        broken, caught = patch.object(heartbeat, "joining_member", strict), test_joining
        test = caught.test_k07_a_member_that_begins_anew_is_where_it_was
    elif fault == "KAFKA-20442":  # the target epoch of an emptied group stays behind
        broken = patch.object(removal, "empty_epoch", lambda draft: None)
        test = test_leaving.test_k41_when_the_last_one_leaves_the_group_is_empty_and_owes_nobody_a_target
    else:  # a static member is its own rival
        real_joining = members.joining_member

        def rival(draft: Any, request: Any, member_id: str) -> Any:
            group: ConsumerGroup = draft.group
            if request.instance_id is not None and request.instance_id in group.static_members:
                raise heartbeat.Refused(E.UNRELEASED_INSTANCE_ID, "still held")
            return real_joining(draft, request, member_id)

        broken = patch.object(heartbeat, "joining_member", rival)
        test = test_leaving.test_k39_a_static_member_that_begins_anew_is_itself
    test()
    with broken, pytest.raises(AssertionError):
        test()


@ways
def test_a_group_that_came_back_without_a_record_of_its_epoch_is_there(way: Any):
    """K17: a first member without topics writes no group record; the group's older tombstone contradicts nothing."""
    broker = Driver()
    broker.stable("a")
    broker.leave("a")
    from coordinator.offsets.inputs import DeleteGroup

    broker.ask(DeleteGroup("g", None))
    broker.join("b", [])
    shard = _load(broker, way)
    assert set(shard.consumer_groups["g"].members) == {"b"}
    assert shard.consumer_groups["g"].epoch == 1


@ways
def test_offsets_do_not_make_a_simple_group_of_a_consumer_group(way: Any):
    """8.4: and are a simple group's when that is gone."""
    broker = Driver()
    broker.stable("a")
    broker.commit("a", 2, {"t": {0: 1}})
    shard = _load(broker, way)
    assert not shard.groups
    assert set(shard.states) == {"g"}
    only_offsets = moved([(OffsetCommitKey("g", "t", 0), OffsetCommitValue(1, -1, "", 1))])
    only_offsets.log.append([regex_tombstone("g", "x")])
    assert _load(only_offsets, way).groups["g"].state is GroupState.EMPTY


def test_k12_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets():
    """K12, K70: and the reverse."""
    from coordinator.classic.inputs import Join
    from coordinator.offsets.inputs import CommitOffsets

    broker = Driver()
    assert broker.commit("", -1, {"t": {0: 5}}) == {E.NONE}
    assert broker.shard.groups["g"].is_simple
    assert broker.join("a") == (2, {"t": [0, 1, 2, 3]})
    assert broker.written() == ["-2", "5", "3", "7", "6", "8"]
    assert not broker.shard.groups
    assert broker.fetch(None, -1) == [5]
    broker.leave("a")

    def classic_join(member_id: str) -> Any:
        return broker.ask(
            Join(
                "g",
                member_id,
                None,
                "consumer",
                (("range", b"\0\0\0\0\0\0\0\0\0\0"),),
                10_000,
                30_000,
                5,
                "new",
                "c",
                "/h",
                None,
            )
        )

    assert classic_join("old").error_code == E.UNKNOWN_MEMBER_ID
    assert broker.state == "Empty"
    broker.fail_appends(E.KAFKA_STORAGE_ERROR)
    assert classic_join("").error_code == E.NOT_COORDINATOR
    assert broker.state == "Empty"
    assert classic_join("").error_code == E.MEMBER_ID_REQUIRED
    assert broker.written() == ["-6", "-4", "-3", "2"]
    assert set(broker.shard.groups) == {"g"}
    assert CommitOffsets is not None
    assert broker.fetch(None, -1) == [5]
    assert altered(broker.shard.groups["g"]).state is GroupState.EMPTY
