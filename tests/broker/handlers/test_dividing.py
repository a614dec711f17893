"""A request of very many partitions is answered as it would be in one go, and others have their turns meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.handlers.context import CloseConnection, Deferred, RequestContext
from broker.handlers.dispatch import HANDLERS
from broker.handlers.dividing import MOST, Divided
from protocol.api_keys import ApiKey
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
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
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.handlers.test_long_requests import turns_of_others
from tests.support.data_plane import DataPlane, batch
from tests.support.groups_fixture import GroupBroker
from tests.support.groups_fixture import topic as a_topic

if TYPE_CHECKING:
    from pathlib import Path

STEP_NS = 200_000
SHAPES = [[10 * MOST], [MOST - 1, 2, MOST + 1, 0, 3 * MOST], [1] * (5 * MOST), [MOST, MOST, MOST]]


def ranges(shape: list[int]) -> dict[str, range]:
    """So many partitions of each topic."""
    return {f"t{number}": range(count) for number, count in enumerate(shape)}


def asked(api: str, shape: list[int]) -> tuple[Any, int]:
    """A request of this shape."""
    topics = ranges(shape)
    if api == "commit":
        wanted = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
                    for index in partitions
                ],
            )
            for name, partitions in topics.items()
        ]
        return OffsetCommitRequest(group_id="g", member_id="", topics=wanted), 7
    if api == "delete":
        return OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
                )
                for name, partitions in topics.items()
            ],
        ), 0
    if api == "leave":
        members = [MemberIdentity(member_id=f"{name}-{at}") for name, range_ in topics.items() for at in range_]
        return LeaveGroupRequest(group_id="g", members=members), 4
    fetched = [OffsetFetchRequestTopics(name=name, partition_indexes=list(of)) for name, of in topics.items()]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=fetched)]), 8


KEYS = {
    "commit": ApiKey.OFFSET_COMMIT,
    "delete": ApiKey.OFFSET_DELETE,
    "leave": ApiKey.LEAVE_GROUP,
    "fetch": ApiKey.OFFSET_FETCH,
}


def answer_of(api: str, shape: list[int], monkeypatch: pytest.MonkeyPatch, most: int) -> tuple[bytes, int]:
    """The answer's bytes, and how many turns others had."""
    broker: Any = GroupBroker(*[a_topic(name, max(len(of), 1)) for name, of in ranges(shape).items()])
    commit, version = asked("commit", [1])
    HANDLERS[KEYS["commit"]](broker, RequestContext(version=version), commit)
    broker.runtime.turn()
    broker.runtime.step_ns = STEP_NS
    handler: Any = HANDLERS[KEYS[api]]
    if isinstance(handler, Divided):
        monkeypatch.setattr(handler, "most", most)
    else:
        monkeypatch.setattr("broker.handlers.offsets._TOPICS.most", most)
    request, version = asked(api, shape)
    answer = handler(broker, RequestContext(version=version), request)
    turns = 0
    if isinstance(answer, Deferred):
        turns = turns_of_others(broker.runtime, answer)
        answer = answer.response
    return answer.encode(version), turns


@pytest.mark.parametrize("shape", SHAPES, ids=["one topic", "odd", "many topics", "even"])
@pytest.mark.parametrize("api", KEYS)
def test_a_divided_request_is_answered_as_in_one_go(
    api: str, shape: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = answer_of(api, shape, monkeypatch, 1 << 30)
    divided, turns = answer_of(api, shape, monkeypatch, MOST)
    assert divided == whole
    assert turns >= (2 if len(shape) != 3 else 1)


def produced(shape: list[int], acks: int = 1) -> ProduceRequest:
    """One record for each partition."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[PartitionProduceData(index=index, records=batch(b"v")) for index in partitions],
            )
            for name, partitions in ranges(shape).items()
        ],
    )


def test_a_produce_to_many_partitions_is_appended_in_steps_and_answered_whole(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path)
    plane.create("t0", partitions=3 * MOST)
    plane.runtime.step_ns = STEP_NS
    answer = HANDLERS[ApiKey.PRODUCE](plane.broker, RequestContext(version=7), produced([4 * MOST, 2]))
    assert isinstance(answer, Deferred)
    assert answer.holds
    assert turns_of_others(plane.runtime, answer) >= 1
    response: Any = answer.response
    codes = [[one.error_code for one in topic.partition_responses] for topic in response.responses]
    assert codes == [[0] * 3 * MOST + [3] * MOST, [3, 3]]
    assert [one.index for one in response.responses[0].partition_responses] == list(range(4 * MOST))


def test_a_produce_without_answer_to_many_partitions_ends_its_connection_over_one_that_is_refused(
    tmp_path: Path,
) -> None:
    plane = DataPlane(tmp_path)
    plane.create("t0", partitions=2 * MOST)
    answer = HANDLERS[ApiKey.PRODUCE](plane.broker, RequestContext(version=7), produced([2 * MOST], acks=0))
    assert plane.answer(answer) is None
    ended: list[Exception] = []

    class Ends:
        def failed(self, _: Any, error: Exception) -> None:
            ended.append(error)

    answer = HANDLERS[ApiKey.PRODUCE](plane.broker, RequestContext(version=7), produced([2 * MOST + 1], acks=0))
    assert isinstance(answer, Deferred)
    answer.connection, answer.route = Ends(), Any  # type: ignore[assignment]
    plane.runtime.turn()
    assert isinstance(ended[0] if ended else answer.response, CloseConnection)


def fetched(partitions: int, **facts: Any) -> FetchRequest:
    """Everything from the beginning."""
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000) for index in range(partitions)]
    return FetchRequest(
        max_bytes=1 << 30, topics=[FetchTopic(topic="t0", partitions=wanted)], **{"min_bytes": 1, **facts}
    )


def test_a_fetch_of_many_partitions_is_read_in_steps_waits_and_is_read_again(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path)
    plane.create("t0", partitions=300)
    plane.runtime.step_ns = STEP_NS
    handle = HANDLERS[ApiKey.FETCH]
    deferred = handle(plane.broker, RequestContext(version=11), fetched(300, max_wait_ms=500))
    assert isinstance(deferred, Deferred)
    plane.runtime.turn()
    assert not deferred.done
    plane.partition("t0", 299).produce(batch(b"late"), plane.runtime.now_ms(), 9)
    assert turns_of_others(plane.runtime, deferred) >= 2
    response: Any = deferred.response
    assert [bool(one.records) for one in response.responses[0].partitions] == [False] * 299 + [True]

    waits = handle(plane.broker, RequestContext(version=11), fetched(300, max_wait_ms=500, min_bytes=1 << 20))
    plane.runtime.turn()
    assert isinstance(waits, Deferred)
    assert not waits.done
    plane.runtime.advance(501)
    assert waits.done
    assert not plane.partition("t0", 299).waiters
