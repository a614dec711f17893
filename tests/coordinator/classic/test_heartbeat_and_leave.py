"""Heartbeats, silence and departures (H01-H06, L01-L08)."""

from __future__ import annotations

import pytest

from coordinator.classic.answers import join_error, sync_error
from coordinator.classic.inputs import Leaver
from coordinator.classic.leave import refused
from coordinator.group import Group, GroupState
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from protocol.records.group_records import GroupMetadataKey, GroupMetadataValue
from tests.coordinator.driver import SESSION, D, Driver

EMPTY, STABLE = GroupState.EMPTY, GroupState.STABLE
PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


def left(*results: tuple[str, str | None, ErrorCode]) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=error)
            for member_id, instance_id, error in results
        ],
    )


def test_h01_while_the_leader_plans_a_heartbeat_is_fine():
    """H01"""
    broker = Driver()
    a, _ = broker.completing_group("a", "b")

    assert broker.heartbeat(a, 1) is ErrorCode.NONE


def test_h02_a_heartbeat_tells_of_the_rebalance_and_keeps_the_session():
    """H02"""
    broker = Driver()
    a, b = broker.stable_group("a", "b")
    broker.join(a)
    broker.advance(SESSION // 2)

    assert broker.heartbeat(b, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert broker.timer_in("heartbeat", b) == SESSION


def test_h03_an_unknown_member_is_answered_before_its_generation_is_looked_at():
    """H03"""
    broker = Driver()
    [a] = broker.stable_group("a")

    assert broker.heartbeat(a, 7) is ErrorCode.ILLEGAL_GENERATION
    assert broker.heartbeat("ghost", 7) is ErrorCode.UNKNOWN_MEMBER_ID
    assert Driver().heartbeat(a, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_h04_a_member_stays_as_long_as_it_heartbeats():
    """H04"""
    broker = Driver()
    a, b = broker.stable_group("a", "b")
    for _ in range(10):
        broker.advance(SESSION // 2)
        assert [broker.heartbeat(member_id, 1) for member_id in (a, b)] == [ErrorCode.NONE] * 2

    broker.advance(SESSION - 1)
    broker.heartbeat(a, 1)
    assert len(broker.live.members) == 2
    broker.advance(1)

    assert (list(broker.live.members), broker.state) == ([a], PREPARING)
    facts = broker.last("rebalance_began").facts
    assert (facts["trigger"], facts["client_id"], facts["session_timeout_ms"]) == (
        "session_expired",
        "b",
        SESSION,
    )


def test_h05_who_waits_for_an_answer_is_alive():
    """H05: a parked old member does not expire; a parked new one only after 300 s."""
    broker = Driver()
    a, _ = broker.stable_group("a", "b", rebalance_timeout_ms=1_000_000)
    join = broker.join(a, rebalance_timeout_ms=1_000_000)
    newcomer = broker.join(version=3, rebalance_timeout_ms=1_000_000)
    for _ in range(8):
        broker.advance(SESSION - 1)
        broker.heartbeat(broker_second(broker, a), 1)

    assert join.response is newcomer.response is None
    assert len(broker.live.members) == 3

    broker = Driver()
    a, b = broker.completing_group("a", "b", session_timeout_ms=SESSION)
    waits = broker.sync(b, 1)
    for _ in range(2):
        broker.advance(SESSION - D)
        broker.heartbeat(a, 1)
    assert waits.response is None
    assert b in broker.live.members


def broker_second(broker: Driver, first: str) -> str:
    """The old member that has not joined again."""
    return next(m.member_id for m in broker.live.members.values() if m.member_id != first and not m.is_new)


def test_h06_with_its_last_member_the_group_expires_to_empty():
    """H06: generation + 1, an empty-group record."""
    broker = Driver()
    broker.stable_group("a")

    broker.advance(SESSION)

    assert (broker.state, broker.live.generation, broker.live.leader_id) == (EMPTY, 2, None)
    assert broker.log[-1] == (GroupMetadataKey("g"), empty_at(2, broker.live.state_timestamp_ms))
    ended = broker.last("rebalance_ended").facts
    assert (ended["outcome"], ended["from_generation"], ended["to_generation"]) == ("empty", 1, 2)


def empty_at(generation: int, timestamp_ms: int | None) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol=None,
        leader=None,
        current_state_timestamp=timestamp_ms,
        members=[],
    )


def test_l01_when_one_of_two_leaves_the_other_must_rejoin():
    """L01"""
    broker = Driver()
    a, b = broker.stable_group("a", "b")

    leave = broker.leave(Leaver(b, reason="the consumer is being closed"))

    assert leave.response == left((b, None, ErrorCode.NONE))
    assert broker.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    facts = broker.last("rebalance_began").facts
    assert (facts["trigger"], facts["reason"]) == ("member_left", "the consumer is being closed")


def test_l02_with_its_last_member_the_group_is_left_empty():
    """L02: generation + 1, protocol null, protocol type kept."""
    broker = Driver()
    [a] = broker.stable_group("a")

    leave = broker.leave(a)

    assert leave.error is ErrorCode.NONE
    group = broker.live
    assert (group.state, group.generation, group.protocol_name, group.protocol_type) == (EMPTY, 2, None, "consumer")
    assert broker.log[-1] == (GroupMetadataKey("g"), empty_at(2, broker.now_ms))


def test_l03_each_of_a_batch_has_its_own_result():
    """L03: [known, unknown, pending] -> [NONE, UNKNOWN_MEMBER_ID, NONE], one rebalance."""
    broker = Driver()
    _, b, c = broker.stable_group("a", "b", "c")
    pending = broker.join().response.member_id

    leave = broker.leave(b, "ghost", pending, c)

    assert leave.response == left(
        (b, None, ErrorCode.NONE),
        ("ghost", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (pending, None, ErrorCode.NONE),
        (c, None, ErrorCode.NONE),
    )
    assert broker.kinds().count("rebalance_began") == 1
    assert not broker.live.pending_members
    assert broker.timer_in("heartbeat", pending) is None
    assert [cause.member_id for cause in broker.live.rebalance.further_causes] == [c]


def test_l04_an_administrator_removes_a_static_member_by_its_instance_id():
    """L04: the response echoes member id ""."""
    broker = Driver()
    _, s = broker.stable_group("a", "s", static=("s",))

    leave = broker.leave(Leaver("", "s"))

    assert leave.response == left(("", "s", ErrorCode.NONE))
    assert s not in broker.live.members
    facts = broker.last("rebalance_began").facts
    assert (facts["trigger"], facts["by_client_host"]) == ("member_removed", "/127.0.0.9")


def test_l05_a_wrong_pair_of_ids_removes_nobody():
    """L05: another's instance id: FENCED_INSTANCE_ID; an unmapped one: UNKNOWN_MEMBER_ID."""
    broker = Driver()
    a, _ = broker.stable_group("a", "s", static=("s",))

    leave = broker.leave(Leaver(a, "s"), Leaver(a, "nobody"), Leaver(""), Leaver("", "nobody"))

    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert leave.response == left(
        (a, "s", ErrorCode.FENCED_INSTANCE_ID),
        (a, "nobody", unknown),
        ("", None, unknown),
        ("", "nobody", unknown),
    )
    assert broker.state is STABLE


def test_l06_an_unknown_group_is_one_error_below_version_3():
    """L06"""
    assert Driver().leave("a", version=1).response == refused(ErrorCode.UNKNOWN_MEMBER_ID)
    assert Driver().leave("a", version=3).response == left(("a", None, ErrorCode.UNKNOWN_MEMBER_ID))


def test_l07_a_departure_ends_the_join_phase_that_waited_for_it():
    """L07: during an initial delay it does not."""
    broker = Driver()
    a, b = broker.stable_group("a", "b")
    join = broker.join(a)
    broker.leave(b)
    assert (join.response.generation_id, broker.state) == (2, COMPLETING)

    broker = Driver()
    join = broker.join(version=3)
    pending = broker.join().response.member_id
    broker.leave(pending)
    assert (join.response, broker.state) == (None, PREPARING)


def test_l08_a_parked_joiner_that_is_removed_is_told():
    """L08: and so is one whose sync was parked."""
    broker = Driver()
    a, _ = broker.stable_group("a", "b")
    join = broker.join(a)
    broker.leave(a)
    assert join.response == join_error(ErrorCode.UNKNOWN_MEMBER_ID)

    broker = Driver()
    _, b = broker.completing_group("a", "b")
    sync = broker.sync(b, 1)
    broker.leave(b)
    assert sync.response == sync_error(ErrorCode.UNKNOWN_MEMBER_ID)


def test_nobody_leaves_a_dead_group():
    """2.5: COORDINATOR_NOT_AVAILABLE at top level, no members."""
    broker = Driver()
    broker.core.groups["g"] = Group("g", GroupState.DEAD)

    assert broker.leave("a").response == refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize("version", [2, 4])
def test_a_last_member_has_left_even_if_that_cannot_be_written(version):
    """2.2: membership is not rolled back, the request gets the mapped error, others' answers are as they were."""
    broker = Driver()
    a, b = broker.completing_group("a", "b")
    sync = broker.sync(b, 1)
    broker.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)

    if version == 4:
        leave = broker.leave(a, b, version=version)
        assert sync.response == sync_error(ErrorCode.UNKNOWN_MEMBER_ID)
    else:
        broker.leave(a, version=version)
        leave = broker.leave(b, version=version)

    assert leave.response == refused(ErrorCode.NOT_COORDINATOR)
    assert (broker.state, broker.live.generation) == (EMPTY, 2)
    assert broker.last("append_failed").facts["lost"] == "empty group"


def test_when_all_leave_during_the_initial_delay_its_end_finds_an_empty_group():
    """6: the join phase ends with nobody in it."""
    broker = Driver()
    join = broker.join(version=3)
    member_id = next(iter(broker.live.members))
    broker.leave(member_id)
    assert (join.error, broker.state) == (ErrorCode.UNKNOWN_MEMBER_ID, PREPARING)

    broker.advance(D)

    assert (broker.state, broker.live.generation) == (EMPTY, 1)


def test_a_pending_id_keeps_the_last_departure_from_ending_the_phase_at_once():
    """6: the join timer does it, with no members and so at 0 ms."""
    broker = Driver()
    [a] = broker.stable_group("a")
    broker.join()

    broker.leave(a)
    assert (broker.state, broker.timer_in("join")) == (PREPARING, 0)
    broker.advance(0)

    assert (broker.state, broker.live.generation) == (EMPTY, 2)
