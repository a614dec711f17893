"""Members go: for good, for a while, by silence, by an administrator. Ids are those of docs/scenarios."""

from __future__ import annotations

from coordinator.offsets.inputs import DeleteGroup, DescribeGroup, ExpireOffsets
from protocol.errors import ErrorCode
from tests.coordinator.consumer.driver import REBALANCE, SESSION, Driver

E = ErrorCode
ALL = {"t": [0, 1, 2, 3]}
A = {"instance_id": "i"}


def static() -> Driver:
    broker = Driver()
    broker.stable("a", **A)
    return broker


def test_k41_when_the_last_one_leaves_the_group_is_empty_and_owes_nobody_a_target():
    """K41, KAFKA-20442: the group epoch rises, and the target epoch with it."""
    broker = Driver()
    broker.stable("a")
    assert broker.leave("a") == (-1, None)
    assert broker.written() == ["-8", "-7", "-5", "3", "6"]
    assert (broker.state, broker.group.epoch, broker.group.target_epoch) == ("Empty", 3, 3)
    assert not broker.timers
    assert broker.group.metadata_hash == 0
    assert broker.join("b") == (4, ALL)


def test_the_others_are_dealt_out_anew_at_the_next_heartbeat():
    """11.5: not before."""
    broker = Driver()
    broker.stable("a", "b")
    broker.leave("b")
    assert (broker.group.epoch, broker.group.target_epoch) == (4, 3)
    assert broker.beat("a") == (4, ALL)


def test_a_silent_member_is_removed():
    """11.5: its session starts anew with every heartbeat."""
    broker = Driver()
    broker.stable("a", "b")
    broker.advance(SESSION - 1)
    broker.beat("a")
    broker.advance(1)
    assert set(broker.group.members) == {"a"}
    assert broker.kinds()[0] == "session_expired"
    broker.advance(SESSION)
    assert broker.state == "Empty"


def test_k05_a_static_member_that_comes_back_finds_what_it_had():
    """K05, K36: under another id, without a bump; the old id is gone."""
    broker = static()
    assert broker.leave("a", "i", epoch=-2) == (-2, None)
    assert broker.written() == ["8"]
    assert broker.state == "Reconciling"
    broker.advance(SESSION - 1)

    assert broker.join("b", **A) == (2, ALL)

    assert broker.written() == ["-8", "-7", "-5", "5", "7", "8", "8"]
    assert (broker.group.epoch, set(broker.group.members)) == (2, {"b"})
    assert "member_replaced" in broker.kinds()
    broker.advance(SESSION - 1)
    assert set(broker.group.members) == {"b"}


def test_k38_one_that_does_not_come_back_in_time_is_removed():
    """K05, K38: within what remains of its session."""
    broker = static()
    broker.advance(1_000)
    broker.leave("a", "i", epoch=-2)
    broker.advance(SESSION - 1_001)
    assert broker.group.members
    broker.advance(1)
    assert (broker.state, broker.group.epoch) == ("Empty", 3)


def test_k37_who_is_away_can_say_so_again_and_only_that():
    """K37."""
    broker = static()
    broker.leave("a", "i", epoch=-2)
    assert broker.leave("a", "i", epoch=-2) == (-2, None)
    assert broker.heartbeat("a", 2, **A) == E.FENCED_MEMBER_EPOCH
    assert broker.heartbeat("b", 2, **A) == E.FENCED_INSTANCE_ID
    assert broker.leave("b", "i", epoch=-2) == E.FENCED_INSTANCE_ID
    assert broker.leave("a", "j", epoch=-2) == E.UNKNOWN_MEMBER_ID


def test_k06_another_process_must_not_take_a_living_instance():
    """K06."""
    broker = static()
    assert broker.join("b", **A) == E.UNRELEASED_INSTANCE_ID
    assert set(broker.group.members) == {"a"}


def test_k39_a_static_member_that_begins_anew_is_itself():
    """K39, Kafka's pull request 23542: the answer to its join was lost, or it was fenced; it is not its own rival."""
    broker = static()
    batches = len(broker.log)
    assert broker.join("a", **A) == (2, ALL)
    assert len(broker.log) == batches


def test_k39_and_so_is_one_that_was_away():
    """Its own id comes back: no tombstones, the same partitions."""
    broker = static()
    broker.leave("a", "i", epoch=-2)
    assert broker.join("a", **A) == (2, ALL)
    assert broker.written() == ["8"]
    assert (broker.member("a").epoch, broker.group.epoch) == (2, 2)


def test_a_member_id_keeps_its_instance_id():
    """Kafka's pull request 23542: a join that changes it is refused."""
    broker = static()
    broker.join("d", [])
    assert broker.join("a") == E.INVALID_REQUEST
    assert broker.join("a", instance_id="j") == E.INVALID_REQUEST
    assert broker.join("d", [], instance_id="j") == E.INVALID_REQUEST
    assert broker.group.static_members == {"i": "a"}


def test_a_static_member_away_in_the_middle_of_a_revocation_frees_what_it_had_to_give_up():
    """11.5: pending revocation is emptied."""
    broker = static()
    broker.join("b")
    broker.beat("a", owned=ALL)
    assert broker.pending("a") == {"t": [2, 3]}
    broker.leave("a", "i", epoch=-2)
    assert broker.beat("b") == (3, {"t": [2, 3]})
    assert broker.join("c", **A) == (3, {"t": [0, 1]})


def test_a_replaced_member_s_timers_do_nothing():
    """11.5."""
    broker = static()
    broker.leave("a", "i", epoch=-2)
    broker.join("b", **A)
    assert broker.timer_in("heartbeat", "a") is None
    assert broker.timer_in("heartbeat", "b") == SESSION


def test_k42_an_administrator_takes_out_members_of_this_protocol():
    """K42, K43: each has its own result, and there is one group record."""
    broker = Driver()
    broker.stable("a", "b")
    broker.join("s", instance_id="i")
    epoch = broker.group.epoch
    assert broker.leave_group(("nobody", None), ("a", None), ("", "i"), ("", "j")) == [
        E.UNKNOWN_MEMBER_ID,
        E.NONE,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
    ]
    assert broker.group.epoch == epoch + 1
    assert set(broker.group.members) == {"b"}
    batches = len(broker.log)
    assert broker.leave_group(("nobody", None)) == [E.UNKNOWN_MEMBER_ID]
    assert len(broker.log) == batches


def test_a_refused_leave_takes_nobody_out():
    """D3: the member is there with all its timers."""
    broker = Driver()
    broker.stable("a")
    broker.join("b")
    broker.beat("a", owned=ALL)
    before = broker.group
    broker.fail_appends(E.NOT_ENOUGH_REPLICAS)
    assert broker.leave("a") == E.COORDINATOR_NOT_AVAILABLE
    assert broker.group == before
    assert broker.timer_in("heartbeat", "a") == SESSION
    assert broker.timer_in("rebalance", "a") == REBALANCE


def test_k44_an_empty_group_without_offsets_goes_at_the_expiry_check():
    """K44: and stays when that cannot be written."""
    broker = Driver()
    broker.stable("a")
    broker.feed(ExpireOffsets("g"))
    assert broker.group.members
    broker.leave("a")
    broker.fail_appends(E.KAFKA_STORAGE_ERROR)
    broker.feed(ExpireOffsets("g"))
    assert broker.state == "Empty"
    broker.feed(ExpireOffsets("g"))
    assert broker.written() == ["-6", "-4", "-3"]
    assert not broker.shard.consumer_groups


def test_a_group_with_members_is_not_deleted():
    """11.7: NON_EMPTY_GROUP; an empty one goes with its offsets."""
    broker = Driver()
    broker.stable("a")
    assert broker.commit("a", 2, {"t": {0: 5}}) == {E.NONE}
    assert broker.ask(DeleteGroup("g", None)).error_code == E.NON_EMPTY_GROUP
    broker.leave("a")
    assert broker.ask(DeleteGroup("g", None)).error_code == E.NONE
    assert broker.written() == ["-1", "-6", "-4", "-3"]
    assert not broker.shard.all_keys()


def test_to_describe_groups_such_a_group_is_unknown():
    """7.8: it is no classic group."""
    broker = Driver()
    broker.stable("a")
    described = broker.ask(DescribeGroup("g", 6, None))
    assert (described.error_code, described.group_state) == (E.GROUP_ID_NOT_FOUND, "Dead")
    assert described.error_message == "Group g is not a classic group."
    assert broker.ask(DescribeGroup("g", 5, None)).error_code == E.NONE
