"""The handlers of the group APIs, in the shapes of their versions. Ids are those of docs/scenarios."""

import os
from functools import partial
from typing import Any

import pytest

from broker.catalogue.internal_topics import OFFSETS_TOPIC
from broker.catalogue.requests import Result
from broker.coordinators.batches import LeaderState
from broker.groups.groups import log_event
from broker.handlers import consumer_groups
from broker.handlers import groups as group_handlers
from broker.handlers import offsets as offset_handlers
from broker.handlers.authorizer import Operation, ResourceType
from broker.handlers.context import RequestContext
from broker.handlers.dispatch import HANDLERS, Routes
from broker.loop import uuids
from coordinator.cause import Cause
from coordinator.events import GroupEvent, MemberJoined, MemberLeft, Who
from coordinator.routing import partition_for
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import TopicPartitions
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.group_leader_fixture import FakePartition
from tests.support.groups_fixture import FakePartitions, GroupBroker, topic

NONE = ErrorCode.NONE
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def commit(
    group_id: str = "g", *, topic: str = "t", partition: int = 0, offset: int = 1, generation: int = -1, **more: Any
) -> OffsetCommitRequest:
    stored = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
    named = OffsetCommitRequestTopic(name=topic, topic_id=more.pop("topic_id", bytes(16)), partitions=[stored])
    return OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=generation, topics=[named], **more)


def commit_error(response: Any) -> int:
    (error,) = [partition.error_code for topic in response.topics for partition in topic.partitions]
    return error


def join(group_id: str = "g", member_id: str = "", **more: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=more.pop("session_timeout_ms", 10_000),
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        **more,
    )


def forbid(monkeypatch: pytest.MonkeyPatch, operation: Operation, kind: ResourceType, *names: str) -> None:
    """An authorizer that says no to these."""

    def authorize(context: RequestContext, asked: int, resource: int, name: str = "kafka-cluster") -> bool:
        return not (asked == operation and resource == kind and name in names)

    for module in (group_handlers, offset_handlers):
        monkeypatch.setattr(module, "authorize", authorize)
        monkeypatch.setattr(module, "probe", authorize)
    monkeypatch.setattr(
        offset_handlers,
        "authorize_by_name",
        lambda context, asked, resource: partial(authorize, context, asked, resource),
    )


# -- FindCoordinator ---------------------------------------------------------------------------------------------


def test_r01_r02_groups_belong_to_the_partition_of_their_hash():
    broker = GroupBroker()
    for group_id, index in (("polygenelubricants", 0), ("\U0001f600", 49), ("my-group", 12), ("", 0)):
        assert broker.groups.leader_of(group_id).index == index


def test_r03_several_keys_are_answered_one_by_one_in_their_order(monkeypatch):
    forbid(monkeypatch, Operation.DESCRIBE, ResourceType.GROUP, "b")

    response = GroupBroker().tell(FindCoordinatorRequest(coordinator_keys=["a", "b", "a"]), 4)

    assert [(c.key, c.node_id, c.error_code) for c in response.coordinators] == [
        ("a", 7, NONE),
        ("b", -1, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("a", 7, NONE),
    ]
    assert [c.error_message for c in response.coordinators] == ["", "", ""]


@pytest.mark.parametrize("version", [0, 3, 4])
def test_r04_without_its_topic_the_coordinator_is_not_available_and_the_topic_is_made(version: int):
    broker = GroupBroker(offsets_topic=False)
    request = FindCoordinatorRequest(key="g", coordinator_keys=["g"])

    response = broker.tell(request, version)

    found = response.coordinators[0] if version >= 4 else response
    assert (found.node_id, found.host, found.port) == (-1, "", -1)
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    ((wish, answer),) = broker.catalogue.wishes
    assert (wish.name, wish.partition_count) == (OFFSETS_TOPIC, 50)
    assert wish.configs["cleanup.policy"] == "compact"

    broker.tell(request, version)
    assert len(broker.catalogue.wishes) == 1  # it is on its way
    made = topic(OFFSETS_TOPIC, 50)
    broker.publish(created=(made,))
    answer(Result(value=made))
    response = broker.tell(request, version)
    found = response.coordinators[0] if version >= 4 else response
    assert found.error_code == NONE
    assert commit_error(broker.tell(commit(), 8)) == NONE


def test_a_topic_that_could_not_be_made_is_tried_again():
    broker = GroupBroker(offsets_topic=False)
    broker.tell(FindCoordinatorRequest(key="g"), 3)
    broker.catalogue.wishes[0][1](Result(ErrorCode.KAFKA_STORAGE_ERROR, "disk full"))
    broker.tell(FindCoordinatorRequest(key="g"), 3)
    assert len(broker.catalogue.wishes) == 2


def test_r05_unknown_kinds_of_keys():
    broker = GroupBroker()
    one = broker.tell(FindCoordinatorRequest(key="k", key_type=7), 3)
    assert (one.error_code, one.error_message) == (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message)
    many = broker.tell(FindCoordinatorRequest(key_type=7, coordinator_keys=["k", "l"]), 4)
    assert [c.error_code for c in many.coordinators] == [ErrorCode.INVALID_REQUEST] * 2
    share = broker.tell(FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"]), 6)
    assert [(c.error_code, c.error_message) for c in share.coordinators] == [(ErrorCode.INVALID_REQUEST, "")]


@pytest.mark.parametrize("version", [0, 1, 3, 4, 6])
def test_r12_success_says_none_or_nothing(version: int):
    broker = GroupBroker()
    answer = broker.ask(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version, listener="EXTERNAL").response
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.node_id, found.host, found.port) == (7, "external.example", 9092)
    if version >= 1:
        assert found.error_message == ("" if version >= 4 else "NONE")


# -- the life of a member --------------------------------------------------------------------------------------


def test_a_group_from_first_join_to_last_leave():
    broker = GroupBroker()
    required = broker.tell(join(), 9)
    assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
    member_id = required.member_id
    assert member_id.startswith("client-")
    assert len(member_id) == len("client-") + 36

    joining = broker.ask(join(member_id=member_id), 9)
    broker.runtime.advance(10)
    joined = joining.response
    assert (joined.generation_id, joined.leader, joined.protocol_type) == (1, member_id, "consumer")
    assert [member.member_id for member in joined.members] == [member_id]

    assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[assignment],
    )
    synced = broker.tell(sync, 5)
    assert (synced.error_code, synced.assignment, synced.protocol_name) == (NONE, b"all", "range")
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert broker.tell(beat, 4).error_code == NONE

    described = broker.tell(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 6).groups[0]
    assert (described.group_state, described.members[0].client_host) == ("Stable", "/127.0.0.1")
    assert described.authorized_operations > 0
    left = broker.tell(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)]), 5)
    assert (left.error_code, left.members[0].error_code) == (NONE, NONE)
    assert broker.tell(beat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(10))
def test_every_version_of_join_group_is_answered(version: int):
    """No protocol is "" below version 7 and null from there on; version 0 has no rebalance timeout."""
    broker = GroupBroker()
    refused = broker.tell(join(session_timeout_ms=1), version)
    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert refused.protocol_name == ("" if version < 7 else None)
    assert (refused.generation_id, refused.leader) == (-1, "")

    joining = broker.ask(join(), version)
    if version >= 4:
        joining = broker.ask(join(member_id=joining_id(broker, joining)), version)
    broker.runtime.advance(10)
    assert joining.response.error_code == NONE
    (member,) = broker.groups.leader_of("g").shard.groups["g"].members.values()
    assert member.rebalance_timeout_ms == (10_000 if version == 0 else 30_000)


def joining_id(broker: GroupBroker, answer: Any) -> str:
    broker.runtime.turn()
    assert answer.response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return str(answer.response.member_id)


def test_r08_the_empty_group_id():
    broker = GroupBroker()
    invalid = ErrorCode.INVALID_GROUP_ID
    assert broker.tell(join(""), 5).error_code == invalid
    assert broker.tell(SyncGroupRequest(group_id="", generation_id=1, member_id="m"), 3).error_code == invalid
    assert broker.tell(HeartbeatRequest(group_id="", generation_id=1, member_id="m"), 3).error_code == invalid
    assert broker.tell(LeaveGroupRequest(group_id="", member_id="m"), 2).error_code == invalid
    partition = OffsetDeleteRequestPartition(partition_index=0)
    delete = OffsetDeleteRequest(group_id="", topics=[OffsetDeleteRequestTopic(name="t", partitions=[partition])])
    assert broker.tell(delete, 0).error_code == invalid

    assert commit_error(broker.tell(commit("", offset=5), 8)) == NONE
    asked = OffsetFetchRequest(group_id="", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    assert broker.tell(asked, 5).topics[0].partitions[0].committed_offset == 5
    assert broker.tell(DescribeGroupsRequest(groups=[""]), 5).groups[0].group_state == "Empty"
    assert broker.tell(DeleteGroupsRequest(groups_names=[""]), 2).results[0].error_code == NONE


def test_s07_the_shape_of_a_sync_is_looked_at_before_everything_else():
    broker = GroupBroker(offsets_topic=False)
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", protocol_type="consumer")
    assert broker.tell(sync, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert broker.tell(sync, 4).error_code == ErrorCode.NOT_COORDINATOR


def test_l06_versions_of_leave_group():
    broker = GroupBroker()
    assert broker.tell(LeaveGroupRequest(group_id="x", member_id="m"), 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    left = broker.tell(LeaveGroupRequest(group_id="x", members=[MemberIdentity(member_id="m")]), 3)
    assert (left.error_code, left.members[0].error_code) == (NONE, ErrorCode.UNKNOWN_MEMBER_ID)


def test_what_a_caller_may_not_do_to_a_group(monkeypatch):
    """2.1: READ, DESCRIBE and DELETE on the group come first, each in the shape of its answer."""
    broker = GroupBroker()
    forbid(monkeypatch, Operation.READ, ResourceType.GROUP, "g")
    forbidden = ErrorCode.GROUP_AUTHORIZATION_FAILED
    joined = broker.tell(join(member_id="m"), 5)
    assert (joined.error_code, joined.member_id) == (forbidden, "m")
    assert broker.tell(SyncGroupRequest(group_id="g", generation_id=1, member_id="m"), 3).error_code == forbidden
    assert broker.tell(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3).error_code == forbidden
    assert broker.tell(LeaveGroupRequest(group_id="g", member_id="m"), 2).error_code == forbidden
    assert commit_error(broker.tell(commit(), 8)) == forbidden

    forbid(monkeypatch, Operation.DELETE, ResourceType.GROUP, "g")
    results = broker.tell(DeleteGroupsRequest(groups_names=["g", "h"]), 2).results
    assert [result.error_code for result in results] == [forbidden, ErrorCode.GROUP_ID_NOT_FOUND]
    assert broker.tell(OffsetDeleteRequest(group_id="g"), 0).error_code == forbidden

    forbid(monkeypatch, Operation.DESCRIBE, ResourceType.GROUP, "g")
    (described,) = broker.tell(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5).groups
    assert (described.error_code, described.authorized_operations) == (forbidden, -(2**31))


# -- offsets ------------------------------------------------------------------------------------------------------


def test_o08_a_request_of_which_nothing_remains_is_answered_without_a_look_at_the_group():
    broker = GroupBroker(offsets_topic=False)
    answer = broker.tell(commit(topic="gone", generation=9, member_id="whoever"), 8)
    assert commit_error(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit_error(broker.tell(commit(generation=9, member_id="m"), 8)) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_of_offset_commit_and_fetch(version: int):
    broker = GroupBroker()
    named = topic("t", 4).topic_id
    request = commit(offset=42, retention_time_ms=-1, topic_id=named)
    assert commit_error(broker.tell(request, version)) == NONE

    shape = OffsetFetchRequestTopics(name="t", topic_id=named, partition_indexes=[0, 1])
    old_shape = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])
    for topics in ((None, None), ([shape], [old_shape])):
        groups = [OffsetFetchRequestGroup(group_id="g", topics=topics[0])]
        answer = broker.tell(OffsetFetchRequest(group_id="g", topics=topics[1], groups=groups), version)
        (found,) = answer.groups[0].topics if version >= 8 else answer.topics
        if version < 10:
            assert found.name == "t"
        else:
            assert found.topic_id == named
        expected = [42] if topics[0] is None else [42, -1]
        assert [partition.committed_offset for partition in found.partitions] == expected
        assert [partition.error_code for partition in found.partitions] == [0] * len(expected)


def test_o21_o22_unknown_topic_ids():
    broker = GroupBroker()
    answer = broker.tell(commit(topic_id=b"?" * 16), 10)
    assert commit_error(answer) == ErrorCode.UNKNOWN_TOPIC_ID
    asked = OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[0, 1])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[asked])])
    (found,) = broker.tell(request, 10).groups[0].topics
    assert found.topic_id == b"?" * 16
    assert [(p.committed_offset, p.error_code) for p in found.partitions] == [(-1, ErrorCode.UNKNOWN_TOPIC_ID)] * 2


def test_o14_each_group_of_a_fetch_has_its_own_result(monkeypatch):
    broker = GroupBroker()
    broker.tell(commit("ok", offset=3), 8)
    forbid(monkeypatch, Operation.DESCRIBE, ResourceType.GROUP, "secret")
    asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=asked) for name in ("ok", "secret", "unknown")]

    ok, secret, unknown = broker.tell(OffsetFetchRequest(groups=groups), 8).groups

    assert (ok.group_id, ok.error_code, ok.topics[0].partitions[0].committed_offset) == ("ok", NONE, 3)
    assert (secret.error_code, secret.topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
    assert (unknown.error_code, unknown.topics[0].partitions[0].committed_offset) == (NONE, -1)
    assert partition_for("ok", 50) != partition_for("unknown", 50)


def test_fetching_all_topics_shows_those_that_the_caller_may_see(monkeypatch):
    broker = GroupBroker(topic("u", 1))
    broker.tell(commit(topic="t"), 8)
    broker.tell(commit(topic="u"), 8)
    forbid(monkeypatch, Operation.DESCRIBE, ResourceType.TOPIC, "t")
    assert [found.name for found in broker.tell(OffsetFetchRequest(group_id="g", topics=None), 5).topics] == ["u"]
    named = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    (refused,) = broker.tell(named, 5).topics
    assert refused.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_o25_where_the_error_of_a_fetch_stands():
    broker = GroupBroker()
    broker.groups.leader_of("g").state = LeaderState.LOADING
    old = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])])
    first = broker.tell(old, 1)
    assert [(p.error_code, p.committed_offset, p.metadata) for p in first.topics[0].partitions] == [
        (LOADING, -1, "")
    ] * 2
    fifth = broker.tell(old, 5)
    assert (fifth.error_code, fifth.topics) == (LOADING, [])
    asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=asked), OffsetFetchRequestGroup(group_id="h", topics=asked)]
    loading, served = broker.tell(OffsetFetchRequest(groups=groups), 8).groups
    assert (loading.error_code, loading.topics, served.error_code) == (LOADING, [], NONE)


def test_an_offset_delete_of_known_and_unknown_topics():
    broker = GroupBroker()
    broker.tell(commit(), 8)
    partition = OffsetDeleteRequestPartition(partition_index=0)
    topics = [OffsetDeleteRequestTopic(name=name, partitions=[partition]) for name in ("t", "gone")]

    answer = broker.tell(OffsetDeleteRequest(group_id="g", topics=topics), 0)

    assert [(t.name, t.partitions[0].error_code) for t in answer.topics] == [
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", NONE),
    ]
    # Unlike a commit it is about the group even when no topic is left.
    nothing = broker.tell(OffsetDeleteRequest(group_id="unknown", topics=topics[1:]), 0)
    assert (nothing.error_code, nothing.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert broker.tell(OffsetDeleteRequest(group_id="", topics=[]), 0).error_code == ErrorCode.INVALID_GROUP_ID


# -- administration ------------------------------------------------------------------------------------------------


def test_o17_deleting_groups_of_several_partitions():
    broker = GroupBroker()
    broker.tell(commit("a"), 8)
    broker.tell(commit("b"), 8)
    broker.ask(join("live"), 3)
    broker.runtime.advance(10)

    answer = broker.tell(DeleteGroupsRequest(groups_names=["a", "live", "unknown", "a"]), 2)

    assert [(result.group_id, result.error_code) for result in answer.results] == [
        ("a", NONE),
        ("live", ErrorCode.NON_EMPTY_GROUP),
        ("unknown", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert [group.group_id for group in broker.tell(ListGroupsRequest(), 0).groups if group.group_id != "live"] == ["b"]


def test_o20_listing_groups_of_all_partitions():
    broker = GroupBroker()
    for name in ("a", "b", "c"):
        broker.tell(commit(name), 8)
    broker.ask(join("live"), 3)
    broker.runtime.advance(10)

    def names(version: int, **filters: Any) -> list[str]:
        return sorted(group.group_id for group in broker.tell(ListGroupsRequest(**filters), version).groups)

    assert names(0) == ["a", "b", "c", "live"]
    assert names(5, states_filter=[" empty "], types_filter=["CLASSIC"]) == ["a", "b", "c"]
    assert names(4, states_filter=["CompletingRebalance"]) == ["live"]
    assert names(5, types_filter=["consumer"]) == []


def test_listing_groups_while_some_are_loading_or_elsewhere():
    """2.1: partitions that are elsewhere are left out; one that is loading makes the whole answer an error."""
    broker = GroupBroker()
    broker.tell(commit("a"), 8)
    broker.tell(commit("b"), 8)
    broker.groups.leader_of("b").close()
    assert [group.group_id for group in broker.tell(ListGroupsRequest(), 4).groups] == ["a"]
    broker.groups.leader_of("b").state = LeaderState.LOADING
    answer = broker.tell(ListGroupsRequest(), 4)
    assert (answer.error_code, answer.groups) == (LOADING, [])
    assert GroupBroker(offsets_topic=False).tell(ListGroupsRequest(), 4).groups == []


def test_only_groups_that_the_caller_may_see_are_listed(monkeypatch):
    broker = GroupBroker()
    broker.tell(commit("a"), 8)
    broker.tell(commit("b"), 8)

    def authorize(context: RequestContext, operation: int, resource: int, name: str = "kafka-cluster") -> bool:
        return name == "a"

    monkeypatch.setattr(group_handlers, "probe", authorize)
    assert [group.group_id for group in broker.tell(ListGroupsRequest(), 4).groups] == ["a"]


# -- all leaders together ------------------------------------------------------------------------------------------


def test_everything_is_there_after_a_restart():
    before = GroupBroker()
    for index in range(100):
        before.tell(commit(f"g{index}", offset=index), 8)

    after = GroupBroker(partitions=before.partitions)

    for index in range(100):
        request = OffsetFetchRequest(group_id=f"g{index}", topics=None)
        assert after.tell(request, 5).topics[0].partitions[0].committed_offset == index


def test_o18_a_topic_that_is_deleted_takes_the_offsets_of_every_group_along():
    gone = topic("u", 2)
    broker = GroupBroker(gone)
    for index in range(20):
        broker.tell(commit(f"g{index}"), 8)
        broker.tell(commit(f"g{index}", topic="u"), 8)

    broker.publish(deleted=(gone,))
    broker.runtime.turn()

    for index in range(20):
        (left,) = broker.tell(OffsetFetchRequest(group_id=f"g{index}", topics=None), 5).topics
        assert left.name == "t"


def test_the_retention_check_comes_round():
    """7.3: first one interval after the load, then every interval; partitions take turns."""
    broker = GroupBroker()
    broker.tell(commit("g"), 8)
    week_ms = broker.settings.offsets_retention_minutes * 60_000
    broker.runtime.advance(week_ms - 1_000)
    assert len(broker.tell(ListGroupsRequest(), 4).groups) == 1
    broker.runtime.advance(broker.settings.offsets_retention_check_interval_ms + 60_000)
    assert broker.tell(ListGroupsRequest(), 4).groups == []
    assert [event.kind for event in broker.events] == ["group_removed"]


def test_a_partition_that_recovers_is_loaded_anew():
    broker = GroupBroker()
    broker.tell(commit("g", offset=3), 8)
    leader = broker.groups.leader_of("g")
    partition: FakePartition = broker.partitions.by_index[leader.index]
    partition.hold = True
    waiting = broker.ask(commit("g", offset=4), 8)
    broker.runtime.turn()
    partition.fail()
    assert commit_error(waiting.response) == ErrorCode.NOT_COORDINATOR
    partition.hold = False
    partition.recover()
    for callback in broker.partitions.on_recovered:
        callback(partition)

    request = OffsetFetchRequest(group_id="g", topics=None)
    assert broker.tell(request, 5).topics[0].partitions[0].committed_offset == 3


def test_without_the_offsets_topic_nobody_is_coordinator():
    broker = GroupBroker(offsets_topic=False)
    assert commit_error(broker.tell(commit(), 8)) == ErrorCode.NOT_COORDINATOR
    broker = GroupBroker()
    broker.publish(deleted=(topic(OFFSETS_TOPIC, 50),))
    assert commit_error(broker.tell(commit(), 8)) == ErrorCode.NOT_COORDINATOR


def test_shutting_down_answers_whoever_waits():
    broker = GroupBroker()
    waiting = broker.ask(join(), 3)
    writing = broker.ask(commit("h"), 8)
    broker.groups.close()
    assert waiting.response.error_code == ErrorCode.NOT_COORDINATOR
    assert commit_error(writing.response) == NONE
    assert len(broker.runtime.timers) == 0


def test_member_ids_are_random_uuids_of_version_4(monkeypatch):
    import uuid

    made = []
    monkeypatch.setattr(uuids, "urandom", lambda size: made.append(os.urandom(size)) or made[-1])
    for _ in range(100):
        assert uuids.random_uuid_text() == str(uuid.UUID(bytes=made[-1], version=4))


def test_events_become_log_lines(capsys):
    log_event(GroupEvent(MemberLeft(Cause(0, "member_left", "m")), "g", 3))
    line = capsys.readouterr().err
    assert "[GroupId g] Dynamic member m has left group" in line
    log_event(GroupEvent(MemberJoined(Who("m", None, "c", "/127.0.0.1")), "g", 3))
    assert capsys.readouterr().err == "", "one for each of a thousand members"
    assert FakePartitions().by_index == {}


def test_r13_versions_that_are_gone_or_not_there_yet_have_no_route():
    """What has no route closes the connection without an answer (test_connection)."""
    routes = Routes(HANDLERS)
    for key, version, served in (
        (ApiKey.OFFSET_COMMIT, 1, False),
        (ApiKey.OFFSET_COMMIT, 2, True),
        (ApiKey.OFFSET_FETCH, 0, False),
        (ApiKey.OFFSET_FETCH, 1, True),
        (ApiKey.OFFSET_FETCH, 11, False),
    ):
        assert (routes.find(key, version) is not None) is served


def test_a_topic_that_a_member_owns_twice_is_owned_as_both_say():
    """Kafka walks over all entries of a heartbeat's TopicPartitions."""
    told = [TopicPartitions(topic_id=b"t" * 16, partitions=[0]), TopicPartitions(topic_id=b"t" * 16, partitions=[1])]
    assert consumer_groups._by_topic(told) == {b"t" * 16: frozenset({0, 1})}
