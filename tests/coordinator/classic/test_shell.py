"""What comes before and around the rules: routing, refused requests, taking over and giving up (R01-R11)."""

from __future__ import annotations

import pytest

from coordinator.append_errors import error_for_client
from coordinator.classic.answers import join_error, sync_error
from coordinator.classic.inputs import GroupLoaded, Heartbeat, Join, Leave, Leaver, Sync, SyncTimedOut, Unload
from coordinator.classic.leadership import unserved
from coordinator.classic.leave import refused
from coordinator.group import GroupState
from coordinator.routing import java_hash, partition_for
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse
from tests.coordinator.driver import RANGE, REBALANCE, SESSION, Driver

LOADING, NOT_HERE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("group_id", "hashed", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("group", 98629247, 47),
        ("test-group", 627841412, 12),
        ("console-consumer-12345", 158455506, 6),
        ("my-group", -1906497762, 12),
        ("polygenelubricants", -2147483648, 0),
        ("é", 233, 33),
        ("\U0001f600", 1772899, 49),
        ("spark-kafka-source-", -1438315301, 1),
    ],
)
def test_r01_r02_groups_are_spread_as_java_spreads_them(group_id, hashed, partition):
    """R01: the smallest integer gives 0. R02: both halves of a surrogate pair count. (1.1)"""
    assert java_hash(group_id) == hashed
    assert partition_for(group_id, 50) == partition


def test_a_lone_surrogate_is_hashed_like_any_code_unit():
    """1.1: Java strings may hold one."""
    assert java_hash("\ud83d") == 0xD83D


def join(group_id: str = "g", session_timeout_ms: int = SESSION) -> Join:
    return Join(group_id, "m", None, "consumer", RANGE, session_timeout_ms, REBALANCE, 5, "", "c", "/127.0.0.1", "to")


def sync(group_id: str = "g", version: int = 4) -> Sync:
    return Sync(group_id, "m", None, 1, None, None, {}, version, "to")


def leave(group_id: str = "g") -> Leave:
    return Leave(group_id, [Leaver("m")], 4, "to")


def test_r06_r07_requests_to_a_partition_that_is_not_here_or_still_loads():
    """R06, R07: a heartbeat is fine meanwhile, a sync sends back to joining."""
    settings = GroupSettings()
    answers = {
        error: [
            unserved(request, error, settings).response
            for request in (join(), sync(), Heartbeat("g", "m", None, 1, "to"), leave())
        ]
        for error in (LOADING, NOT_HERE)
    }

    assert answers[LOADING] == [
        join_error(LOADING),
        sync_error(ErrorCode.REBALANCE_IN_PROGRESS),
        HeartbeatResponse(error_code=ErrorCode.NONE),
        refused(LOADING),
    ]
    assert answers[NOT_HERE] == [
        join_error(NOT_HERE),
        sync_error(NOT_HERE),
        HeartbeatResponse(error_code=NOT_HERE),
        refused(NOT_HERE),
    ]


def test_what_is_wrong_with_a_request_comes_before_where_it_went():
    """2.1: rows 3 and 4 come before rows 5 and 6."""
    settings = GroupSettings()
    for error in (LOADING, NOT_HERE):
        assert unserved(join(""), error, settings).response == join_error(ErrorCode.INVALID_GROUP_ID, "m")
        invalid = join_error(ErrorCode.INVALID_SESSION_TIMEOUT, "m")
        assert unserved(join("g", 1), error, settings).response == invalid
        assert unserved(sync(""), error, settings).response == sync_error(ErrorCode.INVALID_GROUP_ID)
        shapeless = sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        assert unserved(sync("", version=5), error, settings).response == shapeless
        assert unserved(leave(""), error, settings).response == refused(ErrorCode.INVALID_GROUP_ID)
        heartbeat = unserved(Heartbeat("", "m", None, 1, "to"), error, settings)
        assert heartbeat.response == HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)


def test_r08_a_group_must_have_a_name():
    """R08: for JoinGroup, SyncGroup, Heartbeat, LeaveGroup; JoinGroup echoes the member id."""
    broker = Driver(group_id="")

    assert broker.join("m").response == join_error(ErrorCode.INVALID_GROUP_ID, "m")
    assert broker.sync("m", 1).response == sync_error(ErrorCode.INVALID_GROUP_ID)
    assert broker.heartbeat("m", 1) is ErrorCode.INVALID_GROUP_ID
    assert broker.leave("m").response == refused(ErrorCode.INVALID_GROUP_ID)


@pytest.mark.parametrize(
    ("session_timeout_ms", "accepted"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)]
)
def test_r09_session_timeouts_have_limits(session_timeout_ms, accepted):
    """R09: both are inclusive."""
    broker = Driver()

    error = broker.join(session_timeout_ms=session_timeout_ms).error

    assert error is (ErrorCode.MEMBER_ID_REQUIRED if accepted else ErrorCode.INVALID_SESSION_TIMEOUT)
    assert (broker.group is not None) == accepted


def test_r10_replies_wait_for_the_records_before_them():
    """R10: here the record of a leader's assignment, and a heartbeat that came after it."""
    broker = Driver()
    [a] = broker.completing_group("a")
    broker.hold_appends()
    broker.sync(a, 1, {})

    assert broker.heartbeat(a, 1) is None
    broker.release_appends()

    assert [request.error for request in broker.requests[-2:]] == [ErrorCode.NONE] * 2


def test_r11_giving_a_group_up_answers_everybody_and_silences_its_timers():
    """R11: parked joins and syncs get NOT_COORDINATOR, no timer is left."""
    broker = Driver()
    a, _ = broker.stable_group("a", "b")
    broker.join()  # a pending id has a timer too
    parked = broker.join(a)
    broker.feed(Unload("g"))
    assert parked.response == join_error(NOT_HERE)
    assert (broker.state, broker.timers) == (GroupState.DEAD, {})

    broker = Driver()
    _, b = broker.completing_group("a", "b")
    parked = broker.sync(b, 1)
    broker.feed(Unload("g"))
    assert parked.response == sync_error(NOT_HERE)
    assert (broker.state, broker.timers) == (GroupState.DEAD, {})


def test_a_timer_that_comes_too_late_does_nothing():
    """2.2: a timer that fires after it was replaced or cancelled does nothing."""
    broker = Driver()
    a, _ = broker.stable_group("a", "b")
    for generation in (0, 1):
        before = broker.group
        broker.feed(SyncTimedOut("g", generation))
        assert broker.group is before
    broker.feed(Unload("g"))
    before = broker.group
    broker.feed(SyncTimedOut("g", 1))
    assert broker.heartbeat(a, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.group is before


def test_a_loaded_group_has_whole_sessions_and_at_most_the_allowed_size():
    """8.4, P11: session timers for all; over `group.max.size` it rebalances at once."""
    broker = Driver()
    ids = broker.stable_group("a", "b", "c")
    broker.timers.clear()

    broker.feed(GroupLoaded("g"))
    assert [broker.timer_in("heartbeat", member_id) for member_id in ids] == [SESSION] * 3
    assert broker.state is GroupState.STABLE

    broker.core.settings = GroupSettings(max_size=2)
    broker.feed(GroupLoaded("g"))
    assert broker.state is GroupState.PREPARING_REBALANCE
    facts = broker.last("rebalance_began").facts
    assert (facts["trigger"], facts["size"], facts["limit"]) == ("over_capacity", 3, 2)

    a, b, c = ids
    broker.join(a)
    broker.join(b)
    assert broker.join(c).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert broker.live.rebalance is not None
    [turned_away] = [cause for cause in broker.live.rebalance.further_causes if cause.member_id == c]
    assert (turned_away.trigger, turned_away.detail) == ("over_capacity", {"size": 3, "limit": 2})


@pytest.mark.parametrize(
    ("storage", "client"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_storage_errors_become_what_clients_understand(storage, client):
    """Kafka's own mapping of log errors."""
    assert error_for_client(storage) is client
