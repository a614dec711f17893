"""DescribeProducers and WriteTxnMarkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.handlers.context import CloseConnection, RequestContext
from broker.handlers.partition_transactions import describe_producers, write_txn_markers
from protocol.errors import ErrorCode
from protocol.messages import describe_producers as producers_api
from protocol.messages import write_txn_markers as markers_api
from tests.support.data_plane import NOW_MS, DataPlane, batch

if TYPE_CHECKING:
    from pathlib import Path

    from broker.handlers.context import Deferred

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    made = DataPlane(tmp_path / "data")
    made.create("t", partitions=2)
    return made


def described(plane: DataPlane, name: str, *indexes: int) -> Any:
    wanted = producers_api.DescribeProducersTopicRequest(name=name, partition_indexes=list(indexes))
    request = producers_api.DescribeProducersRequest(topics=[wanted])
    return describe_producers(plane.broker, RequestContext(), request).topics[0].partitions


def test_a_partition_that_is_named_in_many_entries_closes_the_connection(plane: DataPlane) -> None:
    """A megabyte of one partition's name would be told of all its producers a hundred thousand times."""
    wanted = [producers_api.DescribeProducersTopicRequest(name="t", partition_indexes=[0]) for _ in range(102)]
    with pytest.raises(CloseConnection, match="101 of 102 entries"):
        describe_producers(plane.broker, RequestContext(), producers_api.DescribeProducersRequest(topics=wanted))


def state(producer_id: int, epoch: int, sequence: int, timestamp: int, coordinator_epoch: int, first: int) -> Any:
    return producers_api.ProducerState(
        producer_id=producer_id,
        producer_epoch=epoch,
        last_sequence=sequence,
        last_timestamp=timestamp,
        coordinator_epoch=coordinator_epoch,
        current_txn_start_offset=first,
    )


def marker(producer_id: int, *topics: tuple[str, list[int]], commit: bool = False, **facts: Any) -> Any:
    facts = {"producer_epoch": 0, "coordinator_epoch": 0, "transaction_version": 0, **facts}
    return markers_api.WritableTxnMarker(
        producer_id=producer_id,
        transaction_result=commit,
        topics=[markers_api.WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics],
        **facts,
    )


def ask(plane: DataPlane, *markers: Any) -> Deferred:
    return write_txn_markers(
        plane.broker, RequestContext(version=2), markers_api.WriteTxnMarkersRequest(markers=list(markers))
    )


def written(plane: DataPlane, *markers: Any) -> dict[tuple[int, str, int], int]:
    """The code of each (producer id, topic, index)."""
    response = plane.answer(ask(plane, *markers))
    return {
        (one.producer_id, topic.name, partition.partition_index): partition.error_code
        for one in response.markers
        for topic in one.topics
        for partition in topic.partitions
    }


def opened(plane: DataPlane, producer_id: int = 7, index: int = 0, count: int = 2) -> None:
    sent = batch(*[b"a"] * count, producer_id=producer_id, producer_epoch=3, base_sequence=4, transactional=True)
    plane.partition("t", index).append(bytearray(sent))


def test_what_a_partition_knows_of_its_producers(plane: DataPlane) -> None:
    """-1 where nothing is known or open."""
    plane.produce("t", batch(b"x", producer_id=9, producer_epoch=0, base_sequence=0))
    opened(plane)
    assert described(plane, "t", 0)[0].active_producers == [
        state(9, 0, 0, NOW_MS, -1, -1),
        state(7, 3, 5, NOW_MS, -1, 1),
    ]
    written(plane, marker(7, ("t", [0]), producer_epoch=4, coordinator_epoch=8))
    assert described(plane, "t", 0)[0].active_producers[1] == state(7, 4, -1, NOW_MS, 8, -1)


def test_what_cannot_be_described(plane: DataPlane) -> None:
    """Topics are refused with a message, partitions without, as Kafka does."""
    assert [(one.error_code, bool(one.error_message)) for one in described(plane, "t", 0, 2)] == [
        (0, False),
        (UNKNOWN, False),
    ]
    assert [(one.error_code, bool(one.error_message)) for one in described(plane, "gone", 0)] == [(UNKNOWN, True)]
    invalid = described(plane, "no/name", 0)
    assert [(one.error_code, bool(one.error_message)) for one in invalid] == [(ErrorCode.INVALID_TOPIC_EXCEPTION, True)]


def test_tx67_an_operator_ends_a_hanging_transaction(plane: DataPlane) -> None:
    """With the epoch that it has, and coordinator epoch 0 where none is known: `kafka-transactions.sh abort`."""
    opened(plane)
    found = described(plane, "t", 0)[0].active_producers[0]
    assert written(plane, marker(7, ("t", [0]), producer_epoch=found.producer_epoch)) == {(7, "t", 0): 0}
    got = plane.fetch("t", 0, isolation_level=1)[0]
    assert (got.last_stable_offset, got.aborted) == (3, [(7, 0)])


def test_tx69_each_partition_of_each_marker_has_its_answer(plane: DataPlane) -> None:
    opened(plane)
    opened(plane, 8, 1)
    assert written(
        plane,
        marker(7, ("t", [0, 5]), ("gone", [0]), producer_epoch=2),
        marker(8, ("t", [1]), producer_epoch=3, commit=True),
    ) == {
        (7, "t", 0): ErrorCode.INVALID_PRODUCER_EPOCH,
        (7, "t", 5): UNKNOWN,
        (7, "gone", 0): UNKNOWN,
        (8, "t", 1): 0,
    }
    assert plane.partition("t", 1).last_stable_offset == 3


def test_an_empty_list_gets_an_empty_answer(plane: DataPlane) -> None:
    assert written(plane) == {}
    assert written(plane, marker(7)) == {}


def test_the_answer_waits_for_the_last_marker_to_be_committed(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path / "data", eager_workers=False)
    plane.create("t", partitions=2, flush_messages="1")
    deferred = ask(plane, marker(7, ("t", [0, 1])))
    plane.runtime.turn()
    assert not deferred.done
    plane.runtime.run_works()
    assert deferred.done
