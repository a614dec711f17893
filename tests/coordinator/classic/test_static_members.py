"""Static membership, KIP-345 and KIP-814 (M01-M14)."""

from __future__ import annotations

import pytest

from coordinator.classic.answers import join_error, sync_error
from coordinator.group import GroupState
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from tests.coordinator.driver import RANGE, REBALANCE, SESSION, D, Driver

STABLE = GroupState.STABLE
PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE
BOTH = (("range", b"m"), ("rr", b"x"))


def static_group(**options) -> tuple[Driver, str, str]:
    """A leader and a follower with instance ids `l` and `f`, Stable at generation 1."""
    broker = Driver()
    leader, follower = broker.stable_group("l", "f", static=("l", "f"), **options)
    broker.log.clear()
    return broker, leader, follower


def test_m01_a_static_member_needs_no_second_join():
    """M01: added with id `<instanceId>-<uuid>`."""
    broker = Driver()

    join = broker.join(instance_id="i", client_id="app")
    broker.advance(D)

    assert join.response.member_id == f"i-{1:036d}"
    assert broker.live.static_members == {"i": join.response.member_id}


def test_m02_a_restarted_follower_takes_its_place_without_a_rebalance():
    """M02: new id, same generation, one group record, the leader's id."""
    broker, leader, follower = static_group()

    join = broker.join(instance_id="f")

    new_id = join.response.member_id
    assert join.response == JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader,
        member_id=new_id,
    )
    assert new_id != follower
    assert (broker.state, list(broker.live.members)) == (STABLE, [leader, new_id])
    [(_, record)] = broker.log
    assert [(member.member_id, member.assignment) for member in record.members] == [(leader, b"l"), (new_id, b"f")]
    assert broker.kinds() == ["member_replaced"]
    assert broker.timer_in("heartbeat", follower) is None
    assert broker.timer_in("heartbeat", new_id) == SESSION


@pytest.mark.parametrize(
    ("client", "told"),
    [
        (("f", "/127.0.0.1"), None),
        (("other", "/127.0.0.1"), ("other", "/127.0.0.1")),
        (("f", "/10.0.0.1"), ("f", "/10.0.0.1")),
    ],
)
def test_who_acts_for_a_static_member_is_kept_when_it_is_another_process(client, told):
    """By its client id or by its host alone; whoever asks Kafka's way is told the first one's all the same."""
    broker, _, _ = static_group()
    join = broker.join(instance_id="f", client_id=client[0], client_host=client[1])

    member = broker.live.members[join.response.member_id]
    assert (member.successor, member.acting) == (told, client)
    assert member.acted_for_by(*client) == told
    assert (member.client_id, member.client_host) == ("f", "/127.0.0.1")


def test_m03_the_old_id_is_fenced():
    """M03: with its instance id FENCED_INSTANCE_ID, without UNKNOWN_MEMBER_ID."""
    broker, _, follower = static_group()
    broker.join(instance_id="f")

    assert broker.heartbeat(follower, 1, "f") is ErrorCode.FENCED_INSTANCE_ID
    assert broker.sync(follower, 1, instance_id="f").error is ErrorCode.FENCED_INSTANCE_ID
    assert broker.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.sync(follower, 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.kinds().count("member_fenced") == 2
    assert broker.last("member_fenced").facts["refused_member_id"] == follower


@pytest.mark.parametrize("version", [5, 8])
def test_m04_up_to_version_8_a_restarted_leader_is_told_its_old_id(version):
    """M04: so that it takes itself for a follower."""
    broker, leader, _ = static_group()

    answer = broker.join(instance_id="l", version=version).response

    assert (answer.leader, answer.members, answer.skip_assignment) == (leader, [], False)
    assert broker.live.leader_id == answer.member_id != leader


def test_m05_from_version_9_a_restarted_leader_skips_the_assignment():
    """M05: its own new id, all members, and its stored assignment when it syncs."""
    broker, _, follower = static_group()

    answer = broker.join(instance_id="l", version=9).response

    new_id = answer.member_id
    assert (answer.leader, answer.skip_assignment) == (new_id, True)
    assert [member.member_id for member in answer.members] == [new_id, follower]
    assert broker.sync(new_id, 1, instance_id="l").response.assignment == b"l"


def test_m06_a_restart_that_changes_the_selected_protocol_starts_a_rebalance():
    """M06"""
    broker, _, _ = static_group(protocols=BOTH)

    join = broker.join(instance_id="f", protocols=(("rr", b"x"),))

    assert (join.response, broker.state) == (None, PREPARING)
    assert broker.last("rebalance_began").facts["trigger"] == "static_replaced"
    assert broker.log == []


def test_m07_changed_metadata_alone_is_written_down_without_a_rebalance():
    """M07"""
    broker, _, _ = static_group()

    broker.join(instance_id="f", protocols=(("range", b"new"),))

    [(_, record)] = broker.log
    assert [member.subscription for member in record.members] == [b"m", b"new"]
    assert broker.state is STABLE


def test_m08_a_restart_while_the_leader_plans_starts_the_join_phase_again():
    """M08: the plan would name an id that is gone."""
    broker = Driver()
    _, follower, other = broker.completing_group("l", "f", "o", static=("l", "f"))
    waiting = broker.sync(other, 1)

    join = broker.join(instance_id="f")

    assert waiting.response == sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
    assert (join.response, broker.state) == (None, PREPARING)
    assert follower not in broker.live.members


def test_m09_a_duplicate_fences_the_one_that_waits_to_join():
    """M09"""
    broker, leader, follower = static_group()
    broker.join(leader, instance_id="l", protocols=(("range", b"new"),))
    broker.join(version=3)
    first = broker.join(follower, instance_id="f")
    assert first.response.error_code == ErrorCode.NONE  # all had come
    broker.join(version=3)
    waits = broker.join(follower, instance_id="f")

    duplicate = broker.join(instance_id="f")

    assert waits.response == join_error(ErrorCode.FENCED_INSTANCE_ID, follower)
    assert duplicate.response is None


def test_m10_a_duplicate_fences_the_one_that_waits_for_its_assignment():
    """M10"""
    broker = Driver()
    _, follower = broker.completing_group("l", "f", static=("l", "f"))
    waits = broker.sync(follower, 1, instance_id="f")

    broker.join(instance_id="f")

    assert waits.response == sync_error(ErrorCode.FENCED_INSTANCE_ID)


@pytest.mark.parametrize("instance", ["l", "f"])
def test_m11_a_replacement_that_cannot_be_written_is_taken_back(instance):
    """M11: the joiner gets NOT_COORDINATOR with member id "", the old id works again."""
    broker, leader, follower = static_group()
    before = broker.group
    old_id = {"l": leader, "f": follower}[instance]
    broker.fail_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    join = broker.join(
        instance_id=instance,
        protocols=(("range", b"new"),),
        session_timeout_ms=20_000,
        rebalance_timeout_ms=40_000,
    )

    expected = join_error(ErrorCode.NOT_COORDINATOR)
    expected.generation_id, expected.leader = 1, leader
    expected.protocol_type, expected.protocol_name = "consumer", "range"
    assert join.response == expected
    assert broker.group == before
    assert broker.heartbeat(old_id, 1, instance) is ErrorCode.NONE
    assert broker.timer_in("heartbeat", old_id) == SESSION


def test_two_replacements_in_one_refused_batch_are_both_taken_back():
    """3.6: the last first, so that the id that was there before them holds again."""
    broker, _, follower = static_group()
    before = broker.group
    broker.hold_appends()
    joins = [broker.join(instance_id="f") for _ in range(2)]

    broker.release_appends(refused=2)

    assert broker.group == before
    assert [join.error for join in joins] == [ErrorCode.NOT_COORDINATOR] * 2
    assert broker.heartbeat(follower, 1, "f") is ErrorCode.NONE


def test_a_refused_replacement_gives_way_to_a_later_one_that_was_written():
    """3.6: the first of two is refused, the second committed: the log names the second."""
    broker, _, follower = static_group()
    broker.hold_appends()
    first, second = broker.join(instance_id="f"), broker.join(instance_id="f")

    broker.release_appends(refused=1)

    assert (first.error, second.error) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)
    assert broker.live.static_members["f"] == second.response.member_id == broker.log[-1][1].members[1].member_id
    assert broker.heartbeat(follower, 1, "f") is ErrorCode.FENCED_INSTANCE_ID


def test_who_synced_under_an_id_that_was_refused_has_synced():
    """3.6: the old id has the place of the new one, and nobody is waited for twice."""
    broker = Driver()
    leader, _, late = broker.completing_group("a", "b", "c", static=("a", "b", "c"))
    broker.sync(leader, 1, {}, instance_id="a")
    broker.hold_appends()
    broker.join(instance_id="b", version=9)
    broker.sync(broker.live.static_members["b"], 1, instance_id="b")

    broker.release_appends(refused=1)

    assert [member.member_id for member in broker.live.pending_sync()] == [late]
    assert broker.live.pending_sync_count == 1
    broker.sync(late, 1, instance_id="c")
    assert broker.last("rebalance_ended").facts["outcome"] == "stable"


def test_m12_a_wrong_pair_of_ids_is_refused():
    """M12: instance i of another id: FENCED_INSTANCE_ID; unknown instance: UNKNOWN_MEMBER_ID."""
    broker, leader, _ = static_group()

    fenced = broker.join("someone", instance_id="l")
    unknown = broker.join(leader, instance_id="j")

    assert fenced.response == join_error(ErrorCode.FENCED_INSTANCE_ID, "someone")
    assert unknown.response == join_error(ErrorCode.UNKNOWN_MEMBER_ID, leader)


def test_m13_a_static_follower_that_misses_a_rebalance_is_still_a_member():
    """M13: listed to the leader, refused at its old generation, removed by the sync or session timeout."""
    broker, leader, follower = static_group(session_timeout_ms=600_000)
    join = broker.join(leader, instance_id="l", session_timeout_ms=600_000)
    broker.advance(REBALANCE)

    assert [member.group_instance_id for member in join.response.members] == ["l", "f"]
    assert broker.heartbeat(follower, 1, "f") is ErrorCode.ILLEGAL_GENERATION
    broker.sync(leader, 2, {}, instance_id="l")
    broker.advance(REBALANCE)
    assert list(broker.live.members) == [leader]


def test_m14_every_restart_has_another_id():
    """M14"""
    broker, _, _ = static_group()

    ids = [broker.join(instance_id="f").response.member_id for _ in range(5)]

    assert len(set(ids)) == 5
    assert broker.live.static_members["f"] == ids[-1]
    assert broker.live.members[ids[-1]].protocols == RANGE
