"""Known members that join again, and how a join phase ends (J17-J28, J31-J34, J36)."""

from __future__ import annotations

import pytest

from coordinator.classic.answers import join_error, sync_error
from coordinator.group import Group, GroupState
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from tests.coordinator.driver import RANGE, REBALANCE, SESSION, D, Driver

EMPTY, STABLE = GroupState.EMPTY, GroupState.STABLE
PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


def generation_1(member_id: str, leader: str, members: list[JoinGroupResponseMember]) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader,
        member_id=member_id,
        members=members,
    )


def test_j17_an_unchanged_follower_is_answered_at_once():
    """J17: the same generation, no members, no rebalance."""
    broker = Driver()
    a, b = broker.stable_group("a", "b")
    before = broker.group

    assert broker.join(b).response == generation_1(b, a, [])
    assert broker.group == before


def test_j18_the_leader_starts_a_rebalance_even_unchanged():
    """J18"""
    broker = Driver()
    a, b = broker.stable_group("a", "b")

    join = broker.join(a)

    assert join.response is None
    assert broker.state is PREPARING
    assert broker.timer_in("join") == REBALANCE
    assert broker.last("rebalance_began").facts["trigger"] == "leader_rejoined"
    assert broker.heartbeat(b, 1) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    "protocols",
    [(("range", b"other"), ("rr", b"x")), (("rr", b"x"), ("range", b"m"))],
    ids=["other metadata", "another order"],
)
def test_j19_a_changed_follower_starts_a_rebalance(protocols):
    """J19"""
    broker = Driver()
    _, b = broker.stable_group("a", "b", protocols=(("range", b"m"), ("rr", b"x")))

    assert broker.join(b, protocols=protocols).response is None
    assert broker.state is PREPARING
    assert broker.last("rebalance_began").facts["trigger"] == "subscription_changed"


def test_j20_a_repeated_join_is_answered_with_the_generation_that_waits_for_its_assignment():
    """J20: members only for the leader."""
    broker = Driver()
    a, b = broker.completing_group("a", "b")
    everybody = [
        JoinGroupResponseMember(member_id=member_id, group_instance_id=None, metadata=b"m") for member_id in (a, b)
    ]

    assert broker.join(a).response == generation_1(a, a, everybody)
    assert broker.join(b).response == generation_1(b, a, [])
    assert broker.state is COMPLETING


def test_j21_a_newcomer_while_the_leader_plans_sends_everybody_back():
    """J21: parked syncs get REBALANCE_IN_PROGRESS, assignments are cleared, sessions restart."""
    broker = Driver()
    _, b = broker.completing_group("a", "b")
    sync = broker.sync(b, 1)
    assert sync.response is None

    broker.join(version=3)

    assert sync.response == sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
    assert broker.state is PREPARING
    assert not broker.live.pending_sync()
    assert {member.assignment for member in broker.live.members.values()} == {b""}
    assert broker.timer_in("sync") is None
    assert broker.timer_in("heartbeat", b) == SESSION


def test_j22_who_is_silent_until_the_rebalance_timeout_is_out():
    """J22: B is dropped, the generation rises, A leads."""
    broker = Driver()
    b, a = broker.stable_group("b", "a", session_timeout_ms=60_000)
    join = broker.join(a, protocols=(("range", b"new"),), session_timeout_ms=60_000)

    broker.advance(REBALANCE - 1)
    assert join.response is None
    broker.advance(1)

    assert (join.response.generation_id, join.response.leader) == (2, a)
    assert list(broker.live.members) == [a]
    assert broker.timer_in("heartbeat", b) is None
    [cause] = broker.live.rebalance.further_causes
    assert (cause.trigger, cause.member_id) == ("join_timeout", b)


def test_j23_the_longest_rebalance_timeout_counts():
    """J23: B's 10 s and A's 30 s."""
    broker = Driver()
    a_join = broker.join(version=3, rebalance_timeout_ms=30_000, session_timeout_ms=60_000)
    b_join = broker.join(version=3, rebalance_timeout_ms=10_000, session_timeout_ms=60_000)
    broker.advance(2 * D)
    a, b = a_join.response.member_id, b_join.response.member_id
    broker.sync(a, 1, {})
    broker.sync(b, 1)

    broker.join(a, rebalance_timeout_ms=30_000, session_timeout_ms=60_000)

    assert broker.timer_in("join") == 30_000


@pytest.mark.parametrize("how", ["joins", "leaves", "expires", "times out"])
def test_j24_completion_waits_for_a_pending_id(how):
    """J24: until that id joins, leaves or expires, or the timeout."""
    broker = Driver()
    [a] = broker.stable_group("a", session_timeout_ms=60_000)
    timeout = 20_000 if how == "expires" else 60_000
    pending = broker.join(session_timeout_ms=timeout).response.member_id
    join = broker.join(a, session_timeout_ms=60_000)
    assert join.response is None

    match how:
        case "joins":
            broker.join(pending)
        case "leaves":
            broker.leave(pending)
        case "expires":
            broker.advance(20_000)
        case "times out":
            broker.advance(REBALANCE)

    assert join.response.generation_id == 2
    assert (pending in broker.live.members) == (how == "joins")


def test_j25_a_leader_that_does_not_rejoin_is_succeeded():
    """J25: a re-joined member leads and receives the member list."""
    broker = Driver()
    _, b, c = broker.stable_group("a", "b", "c", session_timeout_ms=60_000)
    broker.join(version=3)
    joins = [broker.join(c), broker.join(b)]

    broker.advance(REBALANCE)

    assert {join.response.leader for join in joins} == {b}
    assert [len(join.response.members) for join in joins] == [0, 3]


def test_j26_static_members_that_do_not_rejoin_keep_the_phase_open():
    """J26: nobody is removed, the generation stays, the timer is set again."""
    broker = Driver()
    s, d = broker.stable_group("s", "d", static=("s",), session_timeout_ms=120_000)
    broker.leave(d)
    assert broker.state is PREPARING

    broker.advance(REBALANCE)

    assert (list(broker.live.members), broker.live.generation) == ([s], 1)
    assert broker.timer_in("join") == REBALANCE
    broker.advance(REBALANCE)
    assert (list(broker.live.members), broker.state) == ([s], PREPARING)


@pytest.mark.parametrize("rebalance_timeout_ms", [0, -5])
def test_a_stalled_phase_without_a_timeout_does_not_spin(rebalance_timeout_ms):
    """3.5: the timer is set again, but not in every turn of the loop."""
    broker = Driver()
    s, d = broker.stable_group("s", "d", static=("s",))
    broker.join(s, instance_id="s", rebalance_timeout_ms=rebalance_timeout_ms)
    broker.join(d, rebalance_timeout_ms=rebalance_timeout_ms)
    broker.sync(s, 2, {})
    broker.sync(d, 2)
    broker.leave(d)
    broker.advance(0)

    assert (broker.state, broker.timer_in("join")) == (PREPARING, 1_000)


def test_j27_a_newcomer_does_not_wait_for_ever():
    """J27: after 300 s its join gets UNKNOWN_MEMBER_ID with member id ""."""
    broker = Driver()
    broker.stable_group("a", session_timeout_ms=1_000_000, rebalance_timeout_ms=1_000_000)
    join = broker.join(version=3)

    broker.advance(299_999)
    assert join.response is None
    broker.advance(1)

    assert join.response == join_error(ErrorCode.UNKNOWN_MEMBER_ID)
    assert len(broker.live.members) == 1


def test_j28_an_answered_newcomer_has_an_ordinary_session():
    """J28: the 300 s timer was replaced."""
    broker = Driver()
    [a] = broker.completing_group("a")
    assert broker.timer_in("heartbeat", a) == SESSION - D  # answered at D, D ago

    broker.advance(SESSION)

    assert (broker.state, broker.live.generation) == (EMPTY, 2)


def test_j31_a_full_group_turns_newcomers_away():
    """J31: unknown or pending; members may come again."""
    broker = Driver(GroupSettings(max_size=2))
    _, b = broker.stable_group("a", "b")
    full = join_error(ErrorCode.GROUP_MAX_SIZE_REACHED)

    assert broker.join(version=3).response == full
    assert broker.join().response == full
    assert broker.join(b).error is ErrorCode.NONE

    broker = Driver(GroupSettings(max_size=2))
    [a] = broker.stable_group("a")
    pending = [broker.join().response.member_id for _ in range(2)]
    broker.join(pending[0])
    broker.join(a)  # with two parked joins the group is full
    assert broker.join(pending[1]).response == full
    assert not broker.live.pending_members
    assert broker.state is COMPLETING, "it was the last that the others waited for"


def test_j32_of_too_many_the_last_to_rejoin_are_turned_away():
    """J32: a group of 12, then at most 10."""
    broker = Driver()
    names = [f"m{n}" for n in range(12)]
    ids = broker.stable_group(*names)
    broker.core.settings = GroupSettings(max_size=10)

    joins = [broker.join(member_id) for member_id in ids]

    assert [join.error for join in joins] == [ErrorCode.NONE] * 10 + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2
    assert list(broker.live.members) == ids[:10]
    assert joins[10].response.member_id == ""


def test_j33_pending_ids_do_not_fill_a_group():
    """J33"""
    broker = Driver(GroupSettings(max_size=1))

    assert [broker.join().error for _ in range(3)] == [ErrorCode.MEMBER_ID_REQUIRED] * 3


@pytest.mark.parametrize("member_id", ["", "m"])
def test_j34_a_dead_group_is_not_available(member_id):
    """J34"""
    broker = Driver()
    broker.core.groups["g"] = Group("g", GroupState.DEAD)

    assert broker.join(member_id).response == join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)


def test_j36_the_newer_of_two_joins_is_the_one_that_waits():
    """J36: the older is answered REBALANCE_IN_PROGRESS at once, or the newer would wait for it on one connection."""
    broker = Driver()
    a, _ = broker.stable_group("a", "b", session_timeout_ms=60_000)

    older = broker.join(a)
    newer = broker.join(a, protocols=(("range", b"newest"),))

    assert older.response == join_error(ErrorCode.REBALANCE_IN_PROGRESS, a)
    assert newer.response is None
    broker.advance(REBALANCE)
    assert newer.response.members[0].metadata == b"newest"


def test_an_unchanged_join_of_a_member_that_the_group_waits_for_is_no_cause():
    """Ledger 3: a rebalance has one first cause; those that merely rejoin add none."""
    broker = Driver()
    a, b = broker.stable_group("a", "b")
    broker.join(version=3, client_id="c")
    broker.join(a)
    broker.join(b)

    began, ended = broker.last("rebalance_began"), broker.live.rebalance
    assert (began.facts["trigger"], began.facts["client_id"]) == ("member_joined", "c")
    assert ended.further_causes == ()
    assert broker.live.members[a].protocols == RANGE
