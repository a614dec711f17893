"""OffsetDelete, DeleteGroups, deleted topics, retention. Ids are those of docs/scenarios/group-coordinator.md."""

from dataclasses import replace

import pytest

from coordinator.classic.inputs import Unload
from coordinator.group import GroupState
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from protocol.records.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from tests.coordinator.driver import Driver
from tests.coordinator.offsets.driver import DAY, PRODUCER, OffsetDriver, results, tombstones

NONE = ErrorCode.NONE
ON_T1 = (("range", b"\x00\x00\x00\x00\x00\x01\x00\x02t1\x00\x00\x00\x00"),)
WEEK = 7 * DAY


def test_o15_offsets_of_subscribed_topics_stay():
    broker = OffsetDriver()
    (a,) = broker.stable_group("a", protocols=ON_T1)
    for topic in ("t1", "t2"):
        broker.commit(1, topic=topic, member_id=a, generation=1)
    before = len(broker.log)

    answer = broker.delete_offsets({"t1": [0], "t2": [0, 3]})

    assert results(answer) == {("t1", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("t2", 0): NONE, ("t2", 3): NONE}
    assert tombstones(broker.log[before:]) == [("t2", 0)]
    assert broker.stored() == {("t1", 0): 1}


def test_o16_what_other_kinds_of_groups_read_is_unknown():
    broker = OffsetDriver()
    broker.stable_group("a", protocol_type="connect")
    answer = broker.delete_offsets({"t1": [0]})
    assert answer.error_code == ErrorCode.NON_EMPTY_GROUP
    assert answer.topics == []

    broker = OffsetDriver()
    broker.stable_group("a", protocols=(("range", b"?"),))
    assert set(results(broker.delete_offsets({"t1": [0], "t2": [0]})).values()) == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_offset_delete_of_unknown_and_empty_groups():
    """2.5: an unknown group is a top-level error, in an Empty one every partition may go."""
    broker = OffsetDriver()
    assert broker.delete_offsets({"t1": [0]}).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    broker.commit(1)

    assert results(broker.delete_offsets({"t1": [0, 0]})) == {("t1", 0): NONE}

    assert tombstones(broker.log[1:]) == [("t1", 0)]
    assert not broker.stored()


def test_offset_delete_takes_pending_offsets_along():
    """7.4: a tombstone is written for a pending transactional offset too."""
    broker = OffsetDriver()
    broker.commit(1, partition=1)
    broker.pend(5)

    broker.delete_offsets({"t1": [0]})

    assert tombstones(broker.log[1:]) == [("t1", 0)]
    assert not broker.shard.pending


def test_refused_tombstones_leave_the_offsets():
    broker = OffsetDriver()
    broker.commit(1)
    broker.fail_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert broker.delete_offsets({"t1": [0]}).error_code == ErrorCode.NOT_COORDINATOR
    assert broker.stored() == {("t1", 0): 1}


def test_o17_only_empty_groups_are_deleted():
    broker = OffsetDriver()
    broker.commit(1)
    broker.commit(2, topic="t2", partition=3)
    broker.pend(9, topic="t2", partition=1)
    before = len(broker.log)

    assert broker.delete("g") is NONE
    assert broker.delete("nobody") is ErrorCode.GROUP_ID_NOT_FOUND
    assert tombstones(broker.log[before:]) == [("t1", 0), ("t2", 3), ("t2", 1), "g"]
    assert broker.group is None
    assert not broker.shard.offsets
    assert not broker.shard.pending

    broker.stable_group("a")
    assert broker.delete("g") is ErrorCode.NON_EMPTY_GROUP


def test_a_group_whose_deletion_is_refused_is_there_again():
    broker = OffsetDriver()
    broker.commit(1)
    before = broker.group
    broker.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert broker.delete() is ErrorCode.COORDINATOR_NOT_AVAILABLE

    assert broker.group is before
    assert broker.stored() == {("t1", 0): 1}


def test_o18_a_deleted_topic_takes_its_offsets_along():
    broker = OffsetDriver()
    t1 = broker.topics.topic_id("t1") or b""
    broker.commit(1)
    broker.commit(2, topic="t2")
    broker.pend(3, partition=2)
    broker.group_id = "h"
    broker.commit(4, partition=1)
    # Of a namesake with another id: stays.
    broker.shard.replay(OffsetCommitKey("h", "t1", 3), OffsetCommitValue(5, -1, "", 0, -1, b"n" * 16), -1, 99)

    records = broker.forget("t1", t1)

    assert sorted((key.group, key.topic, key.partition) for key, _ in records) == [
        ("g", "t1", 0),
        ("g", "t1", 2),
        ("h", "t1", 1),
    ]
    assert broker.stored() == {("t1", 3): 5}
    assert not broker.shard.pending


def test_o19_what_members_said_is_shown_in_stable_only():
    broker = OffsetDriver()
    assert (broker.describe(5).group_state, broker.describe(5).error_code) == ("Dead", NONE)
    broker.commit(1)
    empty = broker.describe()
    assert (empty.group_state, empty.protocol_type, empty.members) == ("Empty", "", [])

    broker = OffsetDriver()
    a, b = broker.completing_group("a", "b", protocols=(("range", b"about"),))
    completing = broker.describe()
    assert (completing.group_state, completing.protocol_data) == ("CompletingRebalance", "")
    assert {member.member_metadata for member in completing.members} == {b""}
    for member_id in (a, b):
        broker.sync(member_id, 1, {a: b"for a", b: b"for b"} if member_id == a else None)
    stable = broker.describe()
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == ("Stable", "consumer", "range")
    assert [
        (m.member_id, m.client_id, m.client_host, m.member_metadata, m.member_assignment) for m in stable.members
    ] == [
        (a, "a", "/127.0.0.1", b"about", b"for a"),
        (b, "b", "/127.0.0.1", b"about", b"for b"),
    ]
    broker.join(client_id="c", version=3)
    preparing = broker.describe()
    assert (preparing.group_state, preparing.protocol_data) == ("PreparingRebalance", "")
    assert {member.member_metadata for member in preparing.members} == {b""}
    broker.feed(Unload("g"))
    assert broker.describe().group_state == "Dead"


def test_o24_an_unknown_group_is_an_error_from_version_6_on():
    described = OffsetDriver().describe(6)

    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (described.group_state, described.error_message) == ("Dead", "Group g not found.")


def test_o20_lists_are_filtered_without_regard_to_case():
    from coordinator.offsets.describe import list_groups

    broker = OffsetDriver()
    broker.stable_group("a")
    broker.group_id = "simple"
    broker.commit(1)
    groups = list(broker.shard.groups.values())

    def names(*filters: list[str]) -> list[str]:
        return [group.group_id for group in list_groups(groups, *filters)]

    assert names([" stable "], ["CLASSIC"]) == ["g"]
    assert names([], ["foo"]) == []
    assert names([], [" classic"]) == []  # types are not trimmed
    assert names(["EMPTY", "stable"]) == ["g", "simple"]
    assert names() == ["g", "simple"]
    (listed,) = list_groups(groups, ["Stable"])
    assert (listed.protocol_type, listed.group_state, listed.group_type) == ("consumer", "Stable", "classic")


def test_e01_offsets_of_a_simple_group_expire_one_by_one():
    broker = OffsetDriver()
    broker.commit(1)
    broker.wait(DAY)
    broker.commit(2, partition=1)

    broker.wait(WEEK - DAY - 1)
    assert broker.expire() == []
    broker.wait(1)
    assert tombstones(broker.expire()) == [("t1", 0)]
    assert broker.group is not None
    broker.wait(DAY)
    assert tombstones(broker.expire()) == [("t1", 1), "g"]
    assert broker.group is None


def test_e02_a_group_that_had_members_keeps_all_offsets_until_it_was_empty_for_long_enough():
    broker = OffsetDriver()
    (a,) = broker.stable_group("a")
    broker.commit(1, member_id=a, generation=1)
    broker.wait(30 * DAY)
    broker.leave(a)
    broker.wait(6 * DAY)
    broker.commit(2, partition=1)

    broker.wait(DAY - 1)
    assert broker.expire() == []
    broker.wait(1)
    assert tombstones(broker.expire()) == [("t1", 0), ("t1", 1), "g"]


def test_e03_without_a_state_timestamp_each_commit_counts_for_itself():
    broker = OffsetDriver()
    broker.leave(*broker.stable_group("a"))
    broker.shard.put_group("g", replace(broker.live, state_timestamp_ms=None))
    broker.commit(1)
    broker.wait(DAY)
    broker.commit(2, partition=1)
    broker.wait(WEEK - DAY)

    assert tombstones(broker.expire()) == [("t1", 0)]


def test_e04_a_living_consumer_group_loses_what_it_no_longer_reads():
    broker = OffsetDriver()
    (a,) = broker.stable_group("a", protocols=ON_T1, session_timeout_ms=1_800_000)
    for topic in ("t1", "t2"):
        broker.commit(1, topic=topic, member_id=a, generation=1)
    broker.wait(WEEK)

    assert tombstones(broker.expire()) == [("t2", 0)]
    assert broker.state is GroupState.STABLE


def _completing(broker: Driver) -> None:
    broker.completing_group("a", protocols=ON_T1)


def _preparing(broker: Driver) -> None:
    broker.stable_group("a", protocols=ON_T1)
    broker.join(client_id="b", version=3)


def _connect(broker: Driver) -> None:
    broker.stable_group("a", protocol_type="connect")


def _unparsable(broker: Driver) -> None:
    broker.stable_group("a", protocols=(("range", b"?"),))


@pytest.mark.parametrize("situation", [_completing, _preparing, _connect, _unparsable])
def test_e05_nothing_expires_while_it_is_unknown_what_is_read(situation):
    broker = OffsetDriver()
    broker.commit(1)
    broker.commit(2, topic="t2")
    situation(broker)
    broker.wait(10 * WEEK)

    assert broker.expire() == []


def test_e06_a_retention_of_its_own_counts_alone():
    broker = OffsetDriver(GroupSettings(offsets_retention_ms=1_000))
    broker.commit(1, version=2, retention_ms=5_000)
    broker.wait(4_999)
    assert broker.expire() == []
    broker.wait(1)
    assert tombstones(broker.expire()) == [("t1", 0), "g"]


def test_e07_what_a_transaction_holds_does_not_expire():
    broker = OffsetDriver()
    broker.commit(1)
    broker.commit(2, partition=1)
    broker.pend(5)
    broker.wait(WEEK)

    assert tombstones(broker.expire()) == [("t1", 1)]
    assert broker.group is not None
    assert broker.expire() == []

    broker.shard.end_transaction(PRODUCER, committed=False)
    assert tombstones(broker.expire()) == [("t1", 0), "g"]


def test_e08_an_empty_group_without_offsets_goes_at_the_next_check():
    broker = OffsetDriver()
    broker.leave(*broker.stable_group("a"))

    records = broker.expire()

    assert records == [(GroupMetadataKey("g"), None)]
    assert broker.group is None
    assert broker.kinds()[-1] == "group_removed"


def test_e08_even_if_somebody_is_about_to_join():
    """7.3: pending members do not keep a group alive."""
    broker = OffsetDriver()
    broker.join(version=4)
    assert broker.live.pending_members

    assert tombstones(broker.expire()) == ["g"]


def test_e09_a_group_that_only_a_transaction_knows_stays():
    broker = OffsetDriver()
    broker.commit(1)
    broker.delete_offsets({"t1": [0]})
    broker.pend(5)
    broker.wait(10 * WEEK)

    assert broker.expire() == []
    assert broker.group is not None


def test_refused_expiry_is_tried_again():
    broker = OffsetDriver()
    broker.commit(1)
    broker.wait(WEEK)
    broker.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    assert broker.expire() == []
    assert broker.group is not None

    assert tombstones(broker.expire()) == [("t1", 0), "g"]
