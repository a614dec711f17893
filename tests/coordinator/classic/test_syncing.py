"""SyncGroup (S01-S14)."""

from __future__ import annotations

import pytest

from coordinator.classic.answers import sync_error
from coordinator.group import GroupState
from coordinator.loaded_records import group_of
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupResponse
from protocol.records.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tests.coordinator.driver import REBALANCE, SESSION, Driver

EMPTY, STABLE = GroupState.EMPTY, GroupState.STABLE
PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


def assigned(assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE, protocol_type="consumer", protocol_name="range", assignment=assignment
    )


def test_s01_a_follower_that_comes_after_the_leader_is_answered_at_once():
    """S01"""
    broker = Driver()
    a, b = broker.completing_group("a", "b")
    assert broker.sync(a, 1, {a: b"A", b: b"B"}).response == assigned(b"A")

    assert broker.sync(b, 1).response == assigned(b"B")
    assert broker.state is STABLE
    assert broker.kinds() == ["assignment_received", "rebalance_ended"]


def test_s02_followers_wait_for_the_leaders_record():
    """S02: all are answered together, once the append is committed."""
    broker = Driver()
    a, b, c = broker.completing_group("a", "b", "c")
    broker.log.clear()
    began_ms = broker.live.state_timestamp_ms
    followers = [broker.sync(b, 1), broker.sync(c, 1)]
    broker.hold_appends()
    leader = broker.sync(a, 1, {a: b"A", b: b"B", c: b"C"})
    assert [request.response for request in (*followers, leader)] == [None] * 3
    assert broker.state is COMPLETING

    broker.release_appends()

    answers = [request.response for request in (leader, *followers)]
    assert answers == [assigned(b"A"), assigned(b"B"), assigned(b"C")]
    member = MemberMetadata(
        member_id="",
        group_instance_id=None,
        client_id="",
        client_host="/127.0.0.1",
        rebalance_timeout=REBALANCE,
        session_timeout=SESSION,
        subscription=b"m",
        assignment=b"",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=a,
        current_state_timestamp=began_ms,
        members=[
            _with(member, member_id=member_id, client_id=client, assignment=client.upper().encode())
            for member_id, client in zip((a, b, c), "abc", strict=True)
        ],
    )
    assert broker.log == [(GroupMetadataKey("g"), value)]


def _with(member: MemberMetadata, **changes: object) -> MemberMetadata:
    fields = ("group_instance_id", "client_host", "rebalance_timeout", "session_timeout", "subscription")
    return MemberMetadata(**{name: getattr(member, name) for name in fields}, **changes)


def test_s03_a_member_that_the_leader_forgot_gets_empty_bytes():
    """S03"""
    broker = Driver()
    a, b = broker.completing_group("a", "b")
    forgotten = broker.sync(b, 1)

    broker.sync(a, 1, {a: b"A"})

    assert forgotten.response == assigned(b"")
    assert [member.assignment for member in broker.log[-1][1].members] == [b"A", b""]


def test_s04_an_assignment_to_a_stranger_is_ignored():
    """S04"""
    broker = Driver()
    [a] = broker.completing_group("a")

    assert broker.sync(a, 1, {a: b"A", "stranger": b"S"}).response == assigned(b"A")
    assert [member.member_id for member in broker.log[-1][1].members] == [a]


def test_s05_a_refused_record_sends_everybody_back():
    """S05: all parked syncs get COORDINATOR_NOT_AVAILABLE, the group is PreparingRebalance."""
    broker = Driver()
    a, b = broker.completing_group("a", "b")
    records = len(broker.log)
    follower = broker.sync(b, 1)
    broker.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)

    leader = broker.sync(a, 1, {a: b"A", b: b"B"})

    refused = sync_error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (leader.response, follower.response) == (refused, refused)
    assert broker.state is PREPARING
    assert {member.assignment for member in broker.live.members.values()} == {b""}
    assert len(broker.log) == records
    assert broker.last("rebalance_began").facts["trigger"] == "append_failed"
    assert broker.timer_in("heartbeat", a) == broker.timer_in("heartbeat", b) == SESSION


@pytest.mark.parametrize("refused", [0, 1])
def test_s06_a_record_that_comes_too_late_changes_nothing(refused):
    """S06: a member joined meanwhile; parked syncs were answered REBALANCE_IN_PROGRESS."""
    broker = Driver()
    a, b = broker.completing_group("a", "b")
    syncs = [broker.sync(b, 1)]
    broker.hold_appends()
    syncs.append(broker.sync(a, 1, {a: b"A"}))
    newcomer = broker.join(version=3)
    before = broker.group

    broker.release_appends(refused=refused)

    assert [sync.response for sync in syncs] == [sync_error(ErrorCode.REBALANCE_IN_PROGRESS)] * 2
    assert newcomer.response is None
    assert broker.group is before


def test_an_assignment_of_an_earlier_generation_is_not_taken_for_the_current_one():
    """4: same group, same state, but the generation of the late record is over."""
    broker = Driver()
    [a] = broker.completing_group("a")
    broker.hold_appends()
    broker.sync(a, 1, {a: b"old"})
    broker.join(a, protocols=(("range", b"changed"),))  # alone, so generation 2 begins at once
    assert (broker.state, broker.live.generation) == (COMPLETING, 2)
    broker.sync(a, 2, {a: b"new"})

    broker.release_appends()

    assert [member.assignment for member in broker.live.members.values()] == [b"new"]
    assert broker.requests[-1].response == assigned(b"new")


def test_s07_version_5_must_name_type_and_protocol():
    """S07: version 4 has no such fields."""
    broker = Driver()
    [a] = broker.stable_group("a")

    inconsistent = sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert broker.sync(a, 1, version=5, protocol_type="consumer").response == inconsistent
    assert broker.sync(a, 1, version=5, protocol_name="range").response == inconsistent
    assert broker.sync(a, 1, version=4).response == assigned(b"a")


def test_s08_a_wrong_type_or_protocol_is_refused_but_a_wrong_generation_first():
    """S08"""
    broker = Driver()
    [a] = broker.stable_group("a")

    def error(generation: int, protocol_type: str, protocol_name: str) -> ErrorCode | None:
        return broker.sync(a, generation, version=5, protocol_type=protocol_type, protocol_name=protocol_name).error

    assert error(1, "connect", "range") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error(1, "consumer", "rr") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error(2, "connect", "rr") is ErrorCode.ILLEGAL_GENERATION
    assert error(1, "consumer", "range") is ErrorCode.NONE


def test_s09_when_nobody_syncs_all_are_out():
    """S09: even if they heartbeat; the group ends Empty."""
    broker = Driver()
    ids = broker.completing_group("a", "b")

    for _ in range(4):
        broker.advance(REBALANCE // 4 - 1)
        assert [broker.heartbeat(member_id, 1) for member_id in ids] == [ErrorCode.NONE] * 2
    broker.advance(4)

    assert (broker.state, broker.live.generation) == (EMPTY, 2)
    assert broker.log[-1][1].members == []


def test_s10_followers_that_never_sync_are_expelled():
    """S10: the leader's next heartbeat gets REBALANCE_IN_PROGRESS, theirs UNKNOWN_MEMBER_ID."""
    broker = Driver()
    a, b, c = broker.completing_group("a", "b", "c", session_timeout_ms=60_000)
    broker.sync(a, 1, {})
    assert broker.state is STABLE

    broker.advance(REBALANCE)

    assert broker.timer_in("heartbeat", b) is broker.timer_in("heartbeat", c) is None
    assert broker.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert broker.heartbeat(b, 1) is broker.heartbeat(c, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    began = broker.last("rebalance_began")
    assert began.facts["trigger"] == "sync_timeout"
    assert broker.last("rebalance_ended").facts["outcome"] == "superseded"
    assert [cause.member_id for cause in broker.live.rebalance.further_causes] == [c]


def test_s11_a_leader_that_never_syncs_is_expelled():
    """S11: its followers' syncs get REBALANCE_IN_PROGRESS."""
    broker = Driver()
    a, b, c = broker.completing_group("a", "b", "c", session_timeout_ms=60_000)
    syncs = [broker.sync(b, 1), broker.sync(c, 1)]

    broker.advance(REBALANCE)

    assert [sync.response for sync in syncs] == [sync_error(ErrorCode.REBALANCE_IN_PROGRESS)] * 2
    assert a not in broker.live.members
    assert (broker.live.leader_id, broker.state) == (b, PREPARING)


def test_s12_when_everybody_synced_the_deadline_passes_unnoticed():
    """S12"""
    broker = Driver()
    broker.stable_group("a", "b", session_timeout_ms=60_000)
    before = broker.group
    assert broker.timer_in("sync") is None

    broker.advance(REBALANCE)

    assert broker.group is before


def test_s13_a_leader_that_dies_before_it_planned_is_succeeded():
    """S13: parked followers get REBALANCE_IN_PROGRESS and rejoin under a new leader."""
    broker = Driver()
    _, b, c = broker.completing_group("a", "b", "c")
    syncs = [broker.sync(b, 1), broker.sync(c, 1)]

    broker.advance(SESSION)

    assert [sync.response for sync in syncs] == [sync_error(ErrorCode.REBALANCE_IN_PROGRESS)] * 2
    joins = [broker.join(c), broker.join(b)]
    assert {(join.response.leader, join.response.generation_id) for join in joins} == {(b, 2)}


def test_s14_nobody_syncs_in_an_empty_or_unknown_group():
    """S14"""
    broker = Driver()
    assert broker.sync("a", 0).response == sync_error(ErrorCode.UNKNOWN_MEMBER_ID)
    assert broker.group is None

    [a] = broker.stable_group("a")
    broker.leave(a)
    assert broker.sync(a, 2).response == sync_error(ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_repeated_sync_takes_the_place_of_the_one_that_waits():
    """4: the older is answered, or the newer would wait for it on one connection; the plan is written once."""
    broker = Driver()
    a, b = broker.completing_group("a", "b")
    records = len(broker.log)
    older = broker.sync(b, 1)
    newer = broker.sync(b, 1)
    broker.hold_appends()
    first = broker.sync(a, 1, {a: b"1"})
    second = broker.sync(a, 1, {a: b"2"})

    broker.release_appends()

    in_progress = sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
    assert [request.response for request in (older, newer, first, second)] == [
        in_progress,
        assigned(b""),
        in_progress,
        assigned(b"1"),
    ]
    assert len(broker.log) == records + 1


def test_a_sync_in_a_stable_group_restarts_the_session():
    """As Kafka's coordinator did up to 3.9."""
    broker = Driver()
    [a] = broker.stable_group("a")
    broker.advance(SESSION - 1)

    broker.sync(a, 1)

    assert broker.timer_in("heartbeat", a) == SESSION


def test_a_member_of_a_group_that_was_loaded_is_told_its_assignment_again():
    """Nobody is waited for in it: the log says that all had theirs."""
    before = Driver()
    _, b = before.stable_group("a", "b")
    broker = Driver()
    loaded = broker.core.groups["g"] = group_of("g", before.log[-1][1])
    assert not loaded.pending_sync()

    assert broker.sync(b, 1).response == assigned(b"b")
    assert broker.live is loaded
    assert broker.timer_in("heartbeat", b) == SESSION
