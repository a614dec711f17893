"""Who comes for the first time: member ids, the initial delay, protocols (J01-J16, J29, J30)."""

from __future__ import annotations

import pytest

from coordinator.classic.answers import join_error, without_null_protocol
from coordinator.group import GroupState
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.records.group_records import GroupMetadataKey, GroupMetadataValue
from tests.coordinator.driver import RANGE, REBALANCE, SESSION, D, Driver

EMPTY = GroupState.EMPTY


@pytest.mark.parametrize("version", [4, 5, 9])
def test_j01_a_first_join_is_sent_back_for_a_member_id(version):
    """J01: MEMBER_ID_REQUIRED with `<clientId>-<uuid>`, group Empty at generation 0, one empty-group record."""
    broker = Driver()

    join = broker.join(client_id="app", version=version)

    member_id = f"app-{1:036d}"
    assert join.response == join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    assert (broker.live.state, broker.live.generation) == (EMPTY, 0)
    assert broker.live.pending_members.keys() == {member_id}
    created = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=broker.now_ms,
        members=[],
    )
    assert broker.log == [(GroupMetadataKey("g"), created)]
    assert broker.timer_in("heartbeat", member_id) == SESSION


def test_j02_with_its_id_it_is_parked_and_leads_generation_1_after_the_initial_delay():
    """J02"""
    broker = Driver()
    member_id = broker.join().response.member_id

    join = broker.join(member_id)
    broker.advance(D - 1)
    assert join.response is None
    broker.advance(1)

    assert join.response == JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=member_id,
        member_id=member_id,
        members=[JoinGroupResponseMember(member_id=member_id, group_instance_id=None, metadata=b"m")],
    )
    assert len(broker.log) == 1, "a join phase that ends with members writes nothing"


def test_j03_below_version_4_a_first_join_is_parked_at_once():
    """J03"""
    broker = Driver()

    join = broker.join(version=3)

    assert join.response is None
    assert broker.live.parked_join_count == 1
    assert len(broker.log) == 1


def test_j04_an_unknown_group_is_not_created_by_a_member_id():
    """J04"""
    broker = Driver()

    assert broker.join("ghost").response == join_error(ErrorCode.UNKNOWN_MEMBER_ID, "ghost")
    assert broker.group is None
    assert broker.log == []


def test_j05_a_pending_id_is_forgotten_after_its_session_timeout():
    """J05"""
    broker = Driver()
    member_id = broker.join().response.member_id

    broker.advance(SESSION)

    assert not broker.live.pending_members
    assert broker.join(member_id).response == join_error(ErrorCode.UNKNOWN_MEMBER_ID, member_id)


def test_j06_a_pending_id_is_no_member():
    """J06: heartbeat and sync answer UNKNOWN_MEMBER_ID, in an Empty group and in one with members."""
    broker = Driver()
    pending = broker.join().response.member_id
    assert broker.heartbeat(pending, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.sync(pending, 0).error is ErrorCode.UNKNOWN_MEMBER_ID

    broker = Driver()
    broker.stable_group("a")
    pending = broker.join().response.member_id
    assert broker.heartbeat(pending, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.sync(pending, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_j07_a_pending_id_with_an_instance_id_is_a_server_fault():
    """J07"""
    broker = Driver()
    pending = broker.join().response.member_id

    assert broker.join(pending, instance_id="i").response == join_error(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert broker.live.pending_members.keys() == {pending}


def test_j08_a_lone_first_joiner_waits_out_the_initial_delay():
    """J08"""
    broker = Driver()
    join = broker.join(version=3)

    broker.advance(D - 1)
    assert join.response is None
    broker.advance(1)
    assert join.error is ErrorCode.NONE


def test_j09_a_second_joiner_extends_the_initial_delay():
    """J09: the first at t0 with rebalance timeout 3D, the second at D - 1 ms: complete at t0 + 2D."""
    broker = Driver()
    first = broker.join(version=3, rebalance_timeout_ms=3 * D)
    broker.advance(D - 1)
    second = broker.join(version=3, rebalance_timeout_ms=3 * D)

    broker.advance(D)
    assert first.response is second.response is None
    broker.advance(1)
    assert first.response.generation_id == second.response.generation_id == 1


def test_j10_the_extended_delay_ends_at_the_rebalance_timeout():
    """J10: rebalance timeout 2D, joins at 0, 0 and just after D: all are answered at 2D."""
    broker = Driver()
    joins = [broker.join(version=3, rebalance_timeout_ms=2 * D) for _ in range(2)]
    broker.advance(D + 1)
    joins.append(broker.join(version=3, rebalance_timeout_ms=2 * D))

    broker.advance(D - 2)
    assert all(join.response is None for join in joins)
    broker.advance(1)
    assert [join.error for join in joins] == [ErrorCode.NONE] * 3


def test_j11_no_extension_beyond_a_short_rebalance_timeout():
    """J11"""
    broker = Driver()
    joins = [broker.join(version=3, rebalance_timeout_ms=D) for _ in range(2)]

    broker.advance(D)

    assert [join.error for join in joins] == [ErrorCode.NONE] * 2


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", ())])
def test_j12_an_empty_group_wants_a_type_and_a_protocol(protocol_type, protocols):
    """J12: the group is on record all the same (3.1)."""
    broker = Driver()

    join = broker.join(protocol_type=protocol_type, protocols=protocols)

    assert join.response == join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert broker.state is EMPTY
    assert len(broker.log) == 1


def test_j13_another_protocol_type_is_refused():
    """J13"""
    broker = Driver()
    broker.stable_group("a")

    assert broker.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_j14_a_newcomer_without_a_common_protocol_leaves_the_group_alone():
    """J14"""
    broker = Driver()
    broker.stable_group("a", "b")
    before = broker.group

    join = broker.join(protocols=(("roundrobin", b""),), version=3)

    assert join.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert broker.group == before


def test_a_protocol_that_only_some_members_support_is_not_enough():
    """2.3: one offered name must be supported by all."""
    broker = Driver()
    broker.join(version=3, protocols=(("range", b""), ("rr", b"")))
    broker.join(version=3, protocols=(("range", b""),))

    assert broker.join(version=3, protocols=(("rr", b""),)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_j15_a_sole_member_must_keep_a_protocol_that_the_group_knows():
    """J15"""
    broker = Driver()
    [a] = broker.stable_group("a")

    refused = broker.join(a, protocols=(("roundrobin", b""),))
    accepted = broker.join(a, protocols=(("roundrobin", b""), ("range", b"m")))

    assert refused.response == join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, a)
    # Alone, it is all that the rebalance waits for.
    assert (accepted.error, accepted.response.protocol_name) == (ErrorCode.NONE, "roundrobin")


def test_j16_the_only_common_protocol_is_selected():
    """J16: votes [range, rr], [rr, range], [rr]."""
    offers = [("range", "rr"), ("rr", "range"), ("rr",)]
    broker = Driver()
    joins = [broker.join(version=3, protocols=tuple((name, b"") for name in offer)) for offer in offers]

    broker.advance(2 * D)

    assert [join.response.protocol_name for join in joins] == ["rr"] * 3


def test_the_most_preferred_of_the_common_protocols_is_selected():
    """3.5: of those that all support, most votes win; equal ones go to the oldest member's choice."""
    for offers, selected in [
        ([("range", "rr"), ("rr", "range"), ("rr", "range")], "rr"),
        ([("range", "rr"), ("rr", "range")], "range"),
    ]:
        broker = Driver()
        joins = [broker.join(version=3, protocols=tuple((name, b"") for name in offer)) for offer in offers]
        broker.advance(2 * D)
        assert [join.response.protocol_name for join in joins] == [selected] * len(offers)


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_j29_a_refused_join_names_no_protocol(version, name):
    """J29: the name is `""` up to version 6 and null from 7, the type is null."""
    broker = Driver()
    answer = broker.join("ghost", version=version).response
    if version < 7:
        answer = without_null_protocol(answer)

    decoded = JoinGroupResponse.decode(version, answer.encode(version))

    assert (decoded.protocol_name, decoded.protocol_type) == (name, None)


def test_j30_version_0_has_no_rebalance_timeout():
    """J30"""
    broker = Driver()

    broker.join(version=0, session_timeout_ms=20_000, rebalance_timeout_ms=-1)

    [member] = broker.live.members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (20_000, 20_000)


def test_j35_a_group_that_became_empty_has_its_initial_delay_again():
    """J35: the last member leaves at generation 5 (Empty is 6); who comes next leads generation 7."""
    broker = Driver()
    member_id = broker.stable_group("a")[0]
    for generation in (2, 3, 4, 5):
        broker.join(member_id)
        broker.sync(member_id, generation, {})
    broker.leave(member_id)
    assert (broker.state, broker.live.generation) == (EMPTY, 6)

    join = broker.join(version=3)
    broker.advance(D - 1)
    assert join.response is None
    broker.advance(1)
    assert join.response.generation_id == 7


def test_without_an_initial_delay_the_first_join_completes_on_the_next_tick():
    """3.4: `group.initial.rebalance.delay.ms` = 0."""
    settings = GroupSettings(initial_rebalance_delay_ms=0)
    broker = Driver(settings)

    join = broker.join(version=3)
    assert join.response is None
    broker.advance(0)

    assert join.error is ErrorCode.NONE
    assert broker.timer_in("sync") == REBALANCE


def test_the_extension_flag_does_not_outlive_the_join_phase():
    """3.4: a newcomer of the last initial delay does not extend the next one."""
    broker = Driver()
    joins = [broker.join(version=3, rebalance_timeout_ms=D) for _ in range(2)]
    broker.advance(D)
    broker.leave(*[join.response.member_id for join in joins])
    assert broker.state is EMPTY

    again = broker.join(version=3)
    broker.advance(D)

    assert again.error is ErrorCode.NONE


def test_a_refused_first_record_takes_the_new_group_with_it():
    """3.1: the joiner gets the mapped error, whether it was answered at once or parked; so do those who came after."""
    broker = Driver()
    broker.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    assert broker.join().response == join_error(ErrorCode.NOT_COORDINATOR)
    assert (broker.group, broker.timers, broker.log) == (None, {}, [])

    broker.hold_appends()
    first, second = broker.join(version=3), broker.join(version=3)
    broker.release_appends(refused=1, error=ErrorCode.NOT_ENOUGH_REPLICAS)

    refused = join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (first.response, second.response) == (refused, refused)
    assert (broker.group, broker.timers, broker.log) == (None, {}, [])
    assert broker.join().error is ErrorCode.MEMBER_ID_REQUIRED
