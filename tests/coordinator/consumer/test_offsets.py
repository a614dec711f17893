"""Offsets of a consumer group: who may commit and read them. Ids are those of docs/scenarios."""

from __future__ import annotations

from coordinator.offsets.inputs import ExpireOffsets, FetchOffsets
from protocol.errors import ErrorCode
from tests.coordinator.consumer.driver import Driver

E = ErrorCode
DAYS = 24 * 60 * 60_000


def held_since_two_epochs() -> Driver:
    """A is at epoch 5 (previous 4) and has p0 since 2, p1 since 5."""
    broker = Driver({"t": 2, "u": 1})
    broker.join("a")
    broker.join("b")
    for _ in range(3):
        broker.beat("a", owned=broker.held("a"))
        broker.beat("b", owned=broker.held("b"))
    broker.join("c", [])
    broker.beat("c", names=["u"])
    broker.beat("a", owned=broker.held("a"))
    broker.leave("b")
    broker.beat("a", owned=broker.held("a"))
    assert (broker.member("a").epoch, broker.held("a")) == (5, {"t": [0, 1]})
    assert list(broker.member("a").assigned.values()) == [{0: 2, 1: 5}]
    return broker


def test_k11_k63_a_commit_from_before_the_last_bump_counts_for_what_is_held_since():
    """K11, K63 (KIP-1251)."""
    broker = held_since_two_epochs()
    assert broker.commit("a", 5, {"t": {0: 1, 1: 1}}) == {E.NONE}
    assert broker.commit("a", 6, {"t": {0: 1}}) == {E.STALE_MEMBER_EPOCH}
    assert broker.commit("a", 2, {"t": {0: 2}}) == {E.NONE}
    assert broker.commit("a", 4, {"t": {0: 3}}) == {E.NONE}
    assert broker.commit("a", 4, {"t": {0: 9, 1: 9}}) == {E.STALE_MEMBER_EPOCH}
    assert broker.commit("a", 1, {"t": {0: 9}}) == {E.STALE_MEMBER_EPOCH}
    assert broker.commit("a", 4, {"u": {0: 9}}) == {E.STALE_MEMBER_EPOCH}
    assert broker.commit("a", 4, {"t": {0: 4}}, version=9) == {E.NONE}
    assert broker.fetch(None, -1, partitions=[0, 1]) == [4, 1]


def test_a_transactional_commit_knows_generations_only():
    """TX74 and 11.7: where OffsetCommit says STALE_MEMBER_EPOCH; a client that says nothing of itself is heard."""
    broker = held_since_two_epochs()
    assert broker.commit_in_transaction("a", 5, {"t": {0: 1}}) == {E.NONE}
    assert broker.commit_in_transaction("a", 4, {"t": {0: 1}}) == {E.NONE}
    assert broker.commit_in_transaction("a", 4, {"t": {0: 1, 1: 1}}) == {E.ILLEGAL_GENERATION}
    assert broker.commit_in_transaction("a", 6, {"t": {0: 1}}) == {E.ILLEGAL_GENERATION}
    assert broker.commit_in_transaction("a", 6, {"t": {0: 1}}, version=6) == {E.STALE_MEMBER_EPOCH}
    assert broker.commit_in_transaction("x", 5, {"t": {0: 1}}) == {E.UNKNOWN_MEMBER_ID}
    assert broker.commit_in_transaction("", 5, {"t": {0: 1}}) == {E.UNKNOWN_MEMBER_ID}
    assert broker.commit_in_transaction("", -1, {"t": {0: 7}}) == {E.NONE}
    assert broker.fetch(None, -1, partitions=[0]) == [-1]
    broker.shard.end_transaction(4_000, committed=True)
    assert broker.fetch(None, -1, partitions=[0]) == [7]


def test_k11_what_is_to_be_given_up_may_still_be_committed():
    """11.7: assigned to or pending revocation."""
    broker = Driver({"t": 2})
    broker.stable("a")
    broker.join("b")
    broker.beat("a", owned={"t": [0, 1]})
    assert broker.pending("a") == {"t": [1]}
    assert broker.commit("a", 2, {"t": {0: 1, 1: 1}}) == {E.NONE}
    broker.beat("a", owned={"t": [0]})
    assert broker.commit("a", 2, {"t": {0: 2}}) == {E.NONE}
    assert broker.commit("a", 2, {"t": {1: 2}}) == {E.STALE_MEMBER_EPOCH}


def test_k11_below_version_9_a_member_cannot_say_its_epoch():
    """K11: UNSUPPORTED_VERSION; an unknown member comes first."""
    broker = Driver()
    broker.stable("a")
    assert broker.commit("a", 2, {"t": {0: 1}}, version=8) == {E.UNSUPPORTED_VERSION}
    assert broker.commit("x", 2, {"t": {0: 1}}, version=8) == {E.UNKNOWN_MEMBER_ID}


def test_k65_nobody_may_commit_to_a_group_that_has_members():
    """K65."""
    broker = Driver()
    broker.stable("a")
    assert broker.commit("", -1, {"t": {0: 1}}) == {E.UNKNOWN_MEMBER_ID}
    broker.leave("a")
    assert broker.commit("whoever", -1, {"t": {0: 1}}, instance_id="x") == {E.NONE}
    assert broker.commit("a", 2, {"t": {0: 1}}) == {E.UNKNOWN_MEMBER_ID}


def test_a_commit_says_nothing_about_life():
    """11.7: the session goes on."""
    broker = Driver()
    broker.stable("a")
    broker.advance(1_000)
    left = broker.timer_in("heartbeat", "a")
    broker.commit("a", 2, {"t": {0: 1}})
    assert broker.timer_in("heartbeat", "a") == left


def test_k64_who_may_read():
    """K64."""
    broker = Driver()
    broker.stable("a")
    broker.commit("a", 2, {"t": {0: 7}})
    assert broker.fetch(None, -1) == [7]
    assert broker.fetch("a", 2) == [7]
    assert broker.fetch("", -1) == E.UNKNOWN_MEMBER_ID
    assert broker.fetch("x", 2) == E.UNKNOWN_MEMBER_ID
    assert broker.fetch(None, 2) == E.UNKNOWN_MEMBER_ID
    assert broker.fetch("a", 1) == E.STALE_MEMBER_EPOCH
    assert broker.fetch("a", 3) == E.STALE_MEMBER_EPOCH
    assert broker.fetch("a", -1) == E.STALE_MEMBER_EPOCH


def test_a_refused_commit_leaves_the_group_alone():
    """D3: the group is no business of a commit's."""
    broker = Driver()
    broker.stable("a")
    before = broker.group
    broker.fail_appends(E.KAFKA_STORAGE_ERROR)
    assert broker.commit("a", 2, {"t": {0: 7}}) == {E.NOT_COORDINATOR}
    assert broker.group is before
    assert broker.fetch(None, -1) == [-1]


def test_e10_offsets_of_an_empty_group_expire_by_their_own_age():
    """E10: whenever the group became empty; the last one takes the group with it."""
    broker = Driver({"t": 2})
    broker.stable("a")
    broker.commit("a", 2, {"t": {0: 7}})
    broker.checks = False  # the driver's log has no clock for commits
    broker.now_ms += 3 * DAYS
    broker.commit("a", 2, {"t": {1: 7}})
    broker.now_ms += 5 * DAYS
    broker.feed(ExpireOffsets("g"))
    assert broker.fetch(None, -1, partitions=[0, 1]) == [7, 7]  # subscribed
    broker.leave("a")
    broker.feed(ExpireOffsets("g"))
    assert broker.fetch(None, -1, partitions=[0, 1]) == [-1, 7]
    broker.now_ms += 2 * DAYS
    broker.feed(ExpireOffsets("g"))
    assert not broker.shard.all_keys()


def test_all_of_a_group_s_offsets_by_a_member():
    """11.7: the check is the same for a fetch of everything."""
    broker = Driver()
    broker.stable("a")
    broker.commit("a", 2, {"t": {0: 7}})
    answer = broker.ask(FetchOffsets("g", None, False, True, None, member_id="a", member_epoch=2))
    assert [part.committed_offset for topic in answer.topics for part in topic.partitions] == [7]
