"""Fetch: which bytes, how many, when they come, and what stands beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.catalogue.topics_image import Topic
from broker.partitions.fetch_sessions import FetchSessions
from protocol.errors import ErrorCode
from protocol.messages import fetch as fetch_api
from tests.support.data_plane import DataPlane, batch, got, marker

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    made = DataPlane(tmp_path / "data")
    made.create("t", partitions=2)
    return made


def size_of(*values: bytes) -> int:
    return len(batch(*values))


def transactional(value: bytes, producer_id: int, sequence: int = 0) -> bytearray:
    return bytearray(
        batch(value, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
    )


# -- what is read ------------------------------------------------------------------------------------------------------


def test_whole_batches_from_the_one_that_holds_the_offset(plane: DataPlane) -> None:
    """Trap 3: the first batch may start before the offset; the client drops what it did not ask for."""
    plane.produce("t", batch(b"a", b"b", b"c"))
    plane.produce("t", batch(b"d"))
    assert plane.fetch("t", 1)[0].base_offsets == [0, 3]
    assert plane.fetch("t", 3)[0].base_offsets == [3]


def test_records_are_never_null(plane: DataPlane) -> None:
    """Trap 2: librdkafka drops an answer whose records are null."""
    response = plane.answer(plane.fetch_request("t", 0, 9, 0))
    encoded = [data.records for data in response.responses[0].partitions]
    assert encoded == [b"", b"", b""]


@pytest.mark.parametrize("offset", [1, -1, 2**40])
def test_an_offset_outside_of_the_log_is_out_of_range(plane: DataPlane, offset: int) -> None:
    """High watermark and last stable offset are -1 beside an error; the log start is told."""
    found = plane.fetch("t", offset)[0]
    assert found.error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (-1, -1, 0)


def test_below_the_log_start_is_out_of_range_too(plane: DataPlane) -> None:
    for _ in range(3):
        plane.produce("t", batch(b"a"))
    plane.delete_records("t", 2)
    assert plane.fetch("t", 1)[0].error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert plane.fetch("t", 1)[0].log_start_offset == 2
    assert plane.fetch("t", 2)[0].base_offsets == [2]


def test_limits_are_soft_for_the_first_batch_only(plane: DataPlane) -> None:
    """max_bytes 1 must still bring one batch, of the first partition that has any; then the limit holds."""
    for index in range(2):
        for _ in range(2):
            plane.partition("t", index).append(bytearray(batch(b"a" * 100)))
    one = size_of(b"a" * 100)
    assert [len(found.data) for found in plane.fetch("t", 0, 0, max_bytes=1)] == [one, 0]
    assert [len(found.data) for found in plane.fetch("t", 2, 0, max_bytes=1)] == [0, one]
    assert [len(found.data) for found in plane.fetch("t", 0, 0, partition_max_bytes=1)] == [one, 0]
    assert [len(found.data) for found in plane.fetch("t", 0, 0, max_bytes=3 * one)] == [2 * one, one]
    assert [len(found.data) for found in plane.fetch("t", 0, 0, partition_max_bytes=one + 5)] == [one, one]


def test_unknown_partitions_and_topics_have_their_errors(plane: DataPlane) -> None:
    assert [found.error for found in plane.fetch("t", 0, 0, 0)] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert plane.fetch("u", 0)[0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = plane.fetch_request("u", 0)
    assert answer.responses[0].partitions[0].aborted_transactions == []  # null only where a log was looked at


def test_topics_go_by_id_from_version_13(plane: DataPlane) -> None:
    topic = plane.catalogue.image.topic("t")
    assert topic is not None
    plane.produce("t", batch(b"a"))
    assert plane.fetch("", 0, version=13, topic_id=topic.topic_id)[0].values == [b"a"]
    assert plane.fetch("", 0, version=13, topic_id=b"?" * 16)[0].error == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(-1, 0), (5, 0), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_leader_epoch_that_is_not_ours_is_refused(plane: DataPlane, epoch: int, error: int) -> None:
    plane.partition("t").leader_epoch = 5
    assert plane.fetch("t", 0, current_leader_epoch=epoch)[0].error == error


def test_a_reader_whose_epoch_ended_earlier_is_told_where(plane: DataPlane) -> None:
    """KIP-595: the answer names the epoch and the offset where the logs part, and holds no records."""
    partition = plane.partition("t")
    partition.append(bytearray(batch(b"a")))
    partition.leader_epoch = 3
    partition.append(bytearray(batch(b"b")))
    response = plane.answer(plane.fetch_request("t", 2, version=12, last_fetched_epoch=1))
    data = response.responses[0].partitions[0]
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 0, 1)
    assert data.records == b""
    assert plane.fetch("t", 1, version=12, last_fetched_epoch=3)[0].values == [b"b"]


def test_what_was_read_in_the_past_comes_from_the_files(tmp_path: Path) -> None:
    """A restart empties the memory of new batches; reads cross segment borders one segment at a time."""
    plane = DataPlane(tmp_path / "data")
    plane.create("t", segment_bytes="1048576")
    for at in range(5):
        plane.produce("t", batch(bytes([at]) * 400_000))
    plane.partition("t").log.close()
    again = DataPlane(tmp_path / "data")
    again.create("t", segment_bytes="1048576")
    offset, seen = 0, []
    while offset < 5:
        found = again.fetch("t", offset)[0]
        assert found.base_offsets[0] == offset
        seen += [value[:1] for value in found.values if value]
        offset += len(found.values)
    assert seen == [bytes([at]) for at in range(5)]


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_a_fetch_waits_for_the_first_record(plane: DataPlane) -> None:
    returned = plane.fetch_request("t", 0, 0, max_wait_ms=500)
    plane.runtime.turn()
    assert not returned.done
    plane.produce("t", batch(b"a"))
    assert not returned.done, "answers leave at the end of the turn, once for all that was appended in it"
    plane.produce("t", batch(b"b"))
    plane.runtime.turn()
    assert got(returned.response)[0].values == [b"a", b"b"]
    assert not plane.partition("t").waiters
    assert not plane.partition("t", 1).waiters
    assert len(plane.runtime.timers) == 0


def test_a_fetch_answers_after_max_wait_with_what_there_is(plane: DataPlane) -> None:
    plane.produce("t", batch(b"a"))
    returned = plane.fetch_request("t", 0, max_wait_ms=500, min_bytes=10_000)
    plane.runtime.advance(499)
    assert not returned.done
    plane.runtime.advance(1)
    assert got(returned.response)[0].values == [b"a"]


def test_min_bytes_counts_all_partitions(plane: DataPlane) -> None:
    returned = plane.fetch_request("t", 0, 0, max_wait_ms=500, min_bytes=2 * size_of(b"a"))
    plane.produce("t", batch(b"a"))
    plane.runtime.turn()
    assert not returned.done
    plane.partition("t", 1).append(bytearray(batch(b"b")))
    plane.runtime.turn()
    assert [found.values for found in got(returned.response)] == [[b"a"], [b"b"]]


def test_min_bytes_beyond_max_bytes_do_not_make_it_wait(plane: DataPlane) -> None:
    plane.produce("t", batch(b"a" * 100))
    found = plane.fetch("t", 0, max_wait_ms=500, min_bytes=10_000, max_bytes=50)[0]
    assert found.values == [b"a" * 100]


@pytest.mark.parametrize("facts", [{"max_wait_ms": 0}, {"min_bytes": 0}, {"max_wait_ms": -1}])
def test_a_fetch_that_must_not_wait_is_answered_at_once(plane: DataPlane, facts: dict[str, int]) -> None:
    returned = plane.fetch_request("t", 0, **{"max_wait_ms": 500, **facts})
    assert isinstance(returned, fetch_api.FetchResponse)


def test_a_fetch_of_nothing_and_one_with_an_error_do_not_wait(plane: DataPlane) -> None:
    assert isinstance(plane.fetch_request("t", max_wait_ms=500), fetch_api.FetchResponse)
    assert isinstance(plane.fetch_request("t", 0, 77, max_wait_ms=500), fetch_api.FetchResponse)


def test_deletion_of_the_topic_wakes_a_parked_fetch(plane: DataPlane) -> None:
    returned = plane.fetch_request("t", 0, max_wait_ms=500)
    plane.delete("t")
    plane.runtime.turn()
    assert got(returned.response)[0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deletion_of_records_wakes_a_parked_fetch(plane: DataPlane) -> None:
    """Its offset may lie below the log start now."""
    plane.produce("t", batch(b"a"))
    plane.produce("t", batch(b"b"))
    returned = plane.fetch_request("t", 1, max_wait_ms=500, min_bytes=10_000)
    plane.delete_records("t", 2)
    plane.runtime.turn()
    assert got(returned.response)[0].error == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_connection_that_goes_takes_its_parked_fetch_along(plane: DataPlane) -> None:
    returned = plane.fetch_request("t", 0, max_wait_ms=500)
    returned.abandon()
    assert not plane.partition("t").waiters
    assert len(plane.runtime.timers) == 0


def test_between_high_watermark_and_log_end_there_is_nothing_yet(tmp_path: Path) -> None:
    """No error, no record, and the fetch waits for the commit."""
    plane = DataPlane(tmp_path / "data", eager_workers=False)
    plane.create("t", flush_messages="1")
    plane.produce_request("t", batch(b"a"))
    returned = plane.fetch_request("t", 0, max_wait_ms=500)
    plane.runtime.turn()
    assert not returned.done
    plane.runtime.run_work()
    assert got(returned.response)[0].values == [b"a"]


# -- transactions, as found in a log -----------------------------------------------------------------------------------


def test_an_open_transaction_holds_back_read_committed(plane: DataPlane) -> None:
    """TX57."""
    partition = plane.partition("t")
    partition.append(transactional(b"open", 7))
    partition.append(bytearray(batch(b"plain")))
    found = plane.fetch("t", 0, isolation_level=1)[0]
    assert (found.data, found.last_stable_offset, found.high_watermark, found.aborted) == (b"", 0, 2, [])
    found = plane.fetch("t", 0)[0]
    assert (found.values, found.last_stable_offset, found.aborted) == ([b"open", b"plain"], 0, None)


def test_aborted_transactions_are_listed_up_to_the_open_one(plane: DataPlane) -> None:
    """CL17, TX58, in the order of their markers."""
    partition = plane.partition("t")
    partition.append(transactional(b"a", 7))
    partition.append(transactional(b"b", 8))
    partition.append(marker(8, commit=False))
    partition.append(marker(7, commit=False))
    partition.append(transactional(b"c", 9))
    found = plane.fetch("t", 0, isolation_level=1)[0]
    assert (found.base_offsets, found.last_stable_offset) == ([0, 1, 2, 3], 4)
    assert found.aborted == [(8, 1), (7, 0)]


def test_a_fetch_from_inside_an_aborted_transaction_lists_it_still(plane: DataPlane) -> None:
    """TX59."""
    partition = plane.partition("t")
    partition.append(transactional(b"a", 7))
    partition.append(transactional(b"b", 7, sequence=1))
    partition.append(marker(7, commit=False))
    partition.append(bytearray(batch(b"plain")))
    assert plane.fetch("t", 1, isolation_level=1)[0].aborted == [(7, 0)]
    assert plane.fetch("t", 3, isolation_level=1)[0].aborted == []


def test_a_marker_wakes_a_fetch_parked_on_the_last_stable_offset(plane: DataPlane) -> None:
    """TX60."""
    partition = plane.partition("t")
    partition.append(transactional(b"a", 7))
    returned = plane.fetch_request("t", 0, max_wait_ms=500, isolation_level=1)
    plane.runtime.turn()
    assert not returned.done
    partition.append(marker(7, commit=True))
    plane.runtime.turn()
    assert got(returned.response)[0].base_offsets == [0, 1]


# -- sessions ----------------------------------------------------------------------------------------------------------


def session(plane: DataPlane, *offsets: int, **facts: Any) -> Any:
    return plane.answer(plane.fetch_request("t", *offsets, **facts))


def told(response: Any) -> list[int]:
    return [data.partition_index for topic in response.responses for data in topic.partitions]


def test_nobody_ends_the_session_of_another() -> None:
    sessions = FetchSessions()
    asked = [fetch_api.FetchTopic(topic="t", partitions=[fetch_api.FetchPartition(partition=0)])]
    begun = sessions.plan(fetch_api.FetchRequest(session_epoch=0, topics=asked), "User:alice", by_id=False, now_ms=0)
    for epoch in (0, -1):
        ending = fetch_api.FetchRequest(session_id=begun.session_id, session_epoch=epoch, topics=[])
        sessions.plan(ending, "User:bob", by_id=False, now_ms=0)
        assert len(sessions) == 1
        sessions.plan(ending, "User:alice", by_id=False, now_ms=0)
        assert len(sessions) == 0
        begun = sessions.plan(
            fetch_api.FetchRequest(session_epoch=0, topics=asked), "User:alice", by_id=False, now_ms=0
        )


def test_a_session_tells_only_what_changed(plane: DataPlane) -> None:
    """KIP-227: the first answer is full and names the session; later ones hold what is new."""
    first = session(plane, 0, 0, session_epoch=0)
    assert first.session_id != 0
    assert told(first) == [0, 1]
    assert told(session(plane, session_id=first.session_id, session_epoch=1)) == []
    plane.produce("t", batch(b"a"))
    second = session(plane, session_id=first.session_id, session_epoch=2)
    assert (second.session_id, told(second)) == (first.session_id, [0])
    third = session(plane, 1, session_id=first.session_id, session_epoch=3)
    assert told(third) == []
    assert told(session(plane, session_id=first.session_id, session_epoch=4)) == []


def test_offsets_that_moved_are_told_without_data(plane: DataPlane) -> None:
    plane.produce("t", batch(b"a"))
    first = session(plane, 1, 0, session_epoch=0)
    plane.delete_records("t", 1)
    assert told(session(plane, session_id=first.session_id, session_epoch=1)) == [0]


def test_a_session_forgets_partitions(plane: DataPlane) -> None:
    first = session(plane, 0, 0, session_epoch=0)
    plane.produce("t", batch(b"a"))
    assert told(session(plane, session_id=first.session_id, session_epoch=1, forgotten=[0])) == []
    assert told(session(plane, session_id=first.session_id, session_epoch=2)) == []


def test_an_error_is_told_as_long_as_it_lasts(plane: DataPlane) -> None:
    first = session(plane, 5, 0, session_epoch=0)
    for epoch in (1, 2):
        again = session(plane, session_id=first.session_id, session_epoch=epoch)
        assert [data.error_code for data in again.responses[0].partitions] == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_a_session_request_waits_like_any_other(plane: DataPlane) -> None:
    first = session(plane, 0, 0, session_epoch=0)
    returned = plane.fetch_request("t", session_id=first.session_id, session_epoch=1, max_wait_ms=500)
    plane.runtime.turn()
    assert not returned.done
    plane.produce("t", batch(b"a"))
    plane.runtime.turn()
    assert told(returned.response) == [0]


def test_what_does_not_fit_its_session_is_refused_as_a_whole(plane: DataPlane) -> None:
    first = session(plane, 0, session_epoch=0)
    cases = [
        ({"session_id": 999, "session_epoch": 1}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session_id": first.session_id, "session_epoch": 7}, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (
            {"session_id": first.session_id, "session_epoch": 1, "version": 13},
            ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ),
    ]
    for facts, error in cases:
        response = session(plane, **facts)
        assert (response.error_code, response.session_id, response.responses) == (error, 0, [])


def test_a_session_ends_when_its_client_says_so(plane: DataPlane) -> None:
    first = session(plane, 0, session_epoch=0)
    last = session(plane, 0, session_id=first.session_id, session_epoch=-1)
    assert (last.session_id, told(last)) == (0, [0])
    assert session(plane, session_id=first.session_id, session_epoch=1).error_code == 70
    assert len(plane.partitions.fetch_sessions) == 0


def test_the_table_of_sessions_has_an_end(plane: DataPlane) -> None:
    """A full table gives session id 0, until one in it has been idle for two minutes."""
    plane.partitions.fetch_sessions.slots = 1
    first = session(plane, 0, session_epoch=0)
    assert session(plane, 0, session_epoch=0).session_id == 0
    plane.runtime.advance(120_000)
    assert session(plane, 0, session_epoch=0).session_id != 0
    assert session(plane, session_id=first.session_id, session_epoch=1).error_code == 70


def test_served_topics_wait_for_the_others(plane: DataPlane) -> None:
    """With a limit of one batch per answer every topic has its turn."""
    plane.create("u")
    topics = [
        fetch_api.FetchTopic(
            topic=name,
            partitions=[fetch_api.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
        )
        for name in ("t", "u")
    ]
    for name in ("t", "u"):
        plane.produce(name, batch(b"a"))
    from broker.handlers.context import RequestContext
    from broker.handlers.fetch import fetch

    def ask(session_id: int, epoch: int, asked: Any) -> Any:
        request = fetch_api.FetchRequest(
            min_bytes=1,
            max_bytes=1,
            max_wait_ms=0,
            isolation_level=0,
            session_id=session_id,
            session_epoch=epoch,
            topics=asked,
        )
        return fetch(plane.broker, RequestContext(version=11), request)

    first = ask(0, 0, topics)
    second = ask(first.session_id, 1, [])
    served = [
        topic.topic
        for response in (first, second)
        for topic in response.responses
        for data in topic.partitions
        if data.records
    ]
    assert served == ["t", "u"]


def test_a_new_topic_of_the_same_name_is_another_one(plane: DataPlane) -> None:
    """A parked fetch by name sees the deletion even if the name is taken again at once."""
    plane.produce("t", batch(b"old"))
    plane.delete("t")
    topic = Topic("t", b"n" * 16, (0,), {})
    plane.publish(topic, "t")
    assert plane.fetch("t", 0)[0].values == []
    assert plane.produce("t", batch(b"new")).base_offset == 0
