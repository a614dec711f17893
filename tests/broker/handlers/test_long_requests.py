"""One request that asks for very much: others have their turns meanwhile, and nobody multiplies a megabyte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.handlers import configs, groups, offsets, topics
from broker.handlers.context import CloseConnection, Deferred, RequestContext
from broker.handlers.dispatch import HANDLERS, Route, most_elements
from broker.handlers.dividing import Divided
from broker.handlers.gathering import MAX_REPETITIONS
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode, LongMessage
from protocol.frames import encode_request, read_request_header
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.handlers.test_topic_handlers import Desk
from tests.support.groups_fixture import GroupBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.virtual_runtime import VirtualRuntime

MANY = 2_000
STEP_NS = 100_000


def turns_of_others(runtime: VirtualRuntime, deferred: Deferred) -> int:
    """How often somebody else has a turn before the answer is there."""
    turns = 0

    def mine() -> None:
        nonlocal turns
        if not deferred.done:
            turns += 1
            runtime.next_turn(mine)

    runtime.next_turn(mine)
    runtime.turn()
    assert deferred.done
    return turns


def named(names: list[str]) -> dict[str, tuple[Callable[..., Any], Any, int]]:
    """Requests about groups that name these, with their handlers and versions."""
    fetched = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    return {
        "describe": (groups.describe_groups, DescribeGroupsRequest(groups=names), 5),
        "delete": (groups.delete_groups, DeleteGroupsRequest(groups_names=names), 2),
        "find": (groups.find_coordinator, FindCoordinatorRequest(key_type=0, coordinator_keys=names), 4),
        "fetch": (offsets.offset_fetch, OffsetFetchRequest(groups=fetched), 8),
    }


@pytest.mark.parametrize("what", ["describe", "delete", "find", "fetch"])
def test_a_request_for_many_groups_leaves_turns_to_others_and_answers_each_in_its_order(what: str) -> None:
    broker: Any = GroupBroker()
    broker.runtime.step_ns = STEP_NS
    names = [f"group-{number}" for number in range(MANY)]
    handle, request, version = named(names)[what]

    deferred = handle(broker, RequestContext(version=version), request)

    assert turns_of_others(broker.runtime, deferred) >= 5
    response = deferred.response
    results = getattr(response, {"describe": "groups", "delete": "results", "find": "coordinators"}.get(what, "groups"))
    assert [getattr(result, "key", None) or result.group_id for result in results] == names
    assert response.encode(version)


@pytest.mark.parametrize("what", ["describe", "fetch"])
def test_who_names_one_group_again_and_again_is_answered_a_hundred_times_and_no_more(what: str) -> None:
    broker: Any = GroupBroker()
    broker.runtime.step_ns = STEP_NS
    handle, request, version = named(["g"] * (MAX_REPETITIONS + 1))[what]
    deferred = handle(broker, RequestContext(version=version), request)
    broker.runtime.turn()
    assert [group.group_id for group in deferred.response.groups] == ["g"] * (MAX_REPETITIONS + 1)

    handle, request, version = named(["g"] * (MAX_REPETITIONS + 2))[what]
    with pytest.raises(CloseConnection, match="101 of 102 entries"):
        handle(broker, RequestContext(version=version), request)


def test_the_partitions_of_one_group_may_be_spread_over_many_entries() -> None:
    broker: Any = GroupBroker()
    broker.runtime.step_ns = STEP_NS
    asked = [
        OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[number % 4])]
        )
        for number in range(MANY)
    ]
    deferred = offsets.offset_fetch(broker, RequestContext(version=8), OffsetFetchRequest(groups=asked))
    broker.runtime.turn()
    assert [group.topics[0].partitions[0].partition_index for group in deferred.response.groups] == [
        number % 4 for number in range(MANY)
    ]


def test_what_is_left_of_a_long_request_is_given_up_when_its_client_goes() -> None:
    broker: Any = GroupBroker()
    broker.runtime.step_ns = STEP_NS
    handle, request, version = named([f"group-{number}" for number in range(MANY)])["describe"]
    deferred = handle(broker, RequestContext(version=version), request)
    deferred.abandon()
    broker.runtime.turn()
    assert not deferred.done


def test_configs_of_many_topics_leave_turns_to_others(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.runtime.step_ns = STEP_NS
    asked = [DescribeConfigsResource(resource_type=2, resource_name=f"t{number}") for number in range(MANY)]

    deferred = configs.describe_configs(desk.broker, RequestContext(version=4), DescribeConfigsRequest(resources=asked))

    assert isinstance(deferred, Deferred)
    assert turns_of_others(desk.driver.runtime, deferred) >= 5
    assert [result.resource_name for result in deferred.response.results] == [one.resource_name for one in asked]
    with pytest.raises(CloseConnection, match="101 of 102 entries"):
        configs.describe_configs(
            desk.broker, RequestContext(version=4), DescribeConfigsRequest(resources=asked[:1] * 102)
        )


def test_one_topic_to_be_deleted_that_is_named_very_often_leaves_turns_to_others(tmp_path: Path) -> None:
    """It is answered once; counting its names is the work."""
    desk = Desk(tmp_path)
    desk.driver.runtime.step_ns = STEP_NS
    request = DeleteTopicsRequest(topic_names=["t"] * 100_000, timeout_ms=1_000)

    deferred = topics.delete_topics(desk.broker, RequestContext(version=5), request)

    assert turns_of_others(desk.driver.runtime, deferred) >= 5
    (result,) = deferred.response.responses
    assert (result.name, ErrorCode(result.error_code)) == ("t", ErrorCode.INVALID_REQUEST)


def test_many_entries_that_ask_one_thing_leave_turns_to_others_before_they_are_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    runtime = desk.driver.runtime
    runtime.step_ns = STEP_NS
    asked = [DescribeConfigsResource(resource_type=2, resource_name="t")] * 100_000
    deferred = configs.describe_configs(desk.broker, RequestContext(version=4), DescribeConfigsRequest(resources=asked))
    assert isinstance(deferred, Deferred)
    turns = 0

    def mine() -> None:
        nonlocal turns
        turns += 1
        if turns < 200:
            try:
                deferred.raise_failure()
            except CloseConnection:
                return
            runtime.next_turn(mine)

    runtime.next_turn(mine)
    runtime.turn()
    assert 5 <= turns < 200


def test_many_new_topics_leave_turns_to_others_and_share_what_is_said_of_their_configs(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.runtime.step_ns = STEP_NS
    asked = [
        CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for number in range(MANY)
    ]
    request = CreateTopicsRequest(topics=asked, timeout_ms=1_000, validate_only=True)

    deferred = topics.create_topics(desk.broker, RequestContext(version=7), request)

    assert turns_of_others(desk.driver.runtime, deferred) >= 5
    made = deferred.response.topics
    assert [topic.name for topic in made] == [topic.name for topic in asked]
    assert {topic.error_code for topic in made} == {ErrorCode.NONE}
    assert len({id(topic.configs) for topic in made}) == 1
    assert len(made[0].configs) > 20


def test_many_topics_that_are_made_and_deleted_are_done_round_by_round(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.runtime.step_ns = STEP_NS
    names = [f"t{number}" for number in range(MANY)]
    asked = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    request = CreateTopicsRequest(topics=asked, timeout_ms=1_000, validate_only=False)
    made = topics.create_topics(desk.broker, RequestContext(version=7), request)
    gone = topics.delete_topics(
        desk.broker, RequestContext(version=5), DeleteTopicsRequest(topic_names=names[:600], timeout_ms=1_000)
    )
    while not gone.done:
        desk.driver.runtime.turn()

    assert {topic.error_code for topic in made.response.topics} == {ErrorCode.NONE}
    assert {topic.error_code for topic in gone.response.responses} == {ErrorCode.NONE}
    assert set(desk.driver.catalogue.image.names()) == set(names[600:])
    rounds = [len(delta.created) for delta in desk.driver.folders.prepared if delta.created]
    assert sum(rounds) == MANY
    assert max(rounds) <= 256


def test_what_the_leader_of_two_thousand_members_is_told_and_says_needs_no_thread() -> None:
    join, sync = (Route(key, 5, HANDLERS[key]) for key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP))

    def told(count: int, data: bytes) -> None:
        members = [JoinGroupResponseMember(member_id=f"m{index}", metadata=data) for index in range(count)]
        assert len(b"".join(join.encode(JoinGroupResponse(members=members), 1))) > 5 * count

    def said(count: int, data: bytes) -> None:
        plan = [SyncGroupRequestAssignment(member_id=f"m{index}", assignment=data) for index in range(count)]
        request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m0", assignments=plan)
        frame = encode_request(request, 5, 1)
        assert sync.decode(frame, read_request_header(frame)[4]) == (request, len(frame))

    assert groups.MEMBERS_AT_ONCE >= MANY
    for way in (told, said):
        way(groups.MEMBERS_AT_ONCE, b"")
        way(1_000, bytes(256))
        for count, data in ((groups.MEMBERS_AT_ONCE + 1, b""), (1_000, bytes(1_024))):
            with pytest.raises(LongMessage):
                way(count, data)


def test_of_all_others_no_more_elements_than_512_are_read_or_written_on_the_loop() -> None:
    most = {key: most_elements(key, HANDLERS[key]) for key in HANDLERS}
    assert most.pop(ApiKey.JOIN_GROUP) == (512, groups.MEMBERS_AT_ONCE)
    assert most.pop(ApiKey.SYNC_GROUP) == (groups.MEMBERS_AT_ONCE, 512)
    for key, (asked, answered) in most.items():
        handler = HANDLERS[key]
        assert asked == (min(handler.most, 512) if isinstance(handler, Divided) else 512), key
        assert answered == 512, key
