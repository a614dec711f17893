"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, InitProducerId and DescribeLogDirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.handlers.context import RequestContext
from broker.handlers.list_offsets import list_offsets
from broker.handlers.log_dirs import describe_log_dirs
from broker.handlers.producer_ids import init_producer_id
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.records.batch import Record, encode_batch
from tests.support.data_plane import NOW_MS, DataPlane, batch, marker

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    made = DataPlane(tmp_path / "data")
    made.create("t")
    return made


def timed(*timestamps: int, codec: int = 0) -> bytes:
    records = [Record(at, timestamp, None, b"v") for at, timestamp in enumerate(timestamps)]
    return bytes(encode_batch(records, compression=codec))


def found(plane: DataPlane, timestamp: int, **facts: Any) -> tuple[int, int, int]:
    result = plane.list_offset("t", timestamp, **facts)
    return result.error_code, result.offset, result.timestamp


# -- ListOffsets -------------------------------------------------------------------------------------------------------


def test_the_marks_of_an_empty_partition(plane: DataPlane) -> None:
    assert [found(plane, mark) for mark in (-1, -2, -3, -4, -5)] == [
        (0, 0, -1),
        (0, 0, -1),
        (0, -1, -1),
        (0, 0, -1),
        (0, -1, -1),
    ]
    assert found(plane, 0) == (0, -1, -1)


def test_the_marks_of_a_partition(plane: DataPlane) -> None:
    """Latest is the high watermark, earliest the log start; both without a timestamp, but with their leader epoch."""
    plane.produce("t", timed(NOW_MS, NOW_MS + 1))
    plane.produce("t", timed(NOW_MS))
    plane.delete_records("t", 1)
    assert [found(plane, mark) for mark in (-1, -2, -4)] == [(0, 3, -1), (0, 1, -1), (0, 1, -1)]
    assert plane.list_offset("t", -1).leader_epoch == 0
    assert plane.list_offset("t", -2).leader_epoch == 0


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_time_is_looked_up_inside_batches(plane: DataPlane, codec: int) -> None:
    """Trap 10: the first record at or after the time, compressed or not, and its real timestamp."""
    plane.produce("t", timed(100, 300, 200, codec=codec))
    plane.produce("t", timed(400, codec=codec))
    assert found(plane, 50) == (0, 0, 100)
    assert found(plane, 101) == (0, 1, 300)
    assert found(plane, 301) == (0, 3, 400)
    assert found(plane, 401) == (0, -1, -1)
    assert found(plane, -3) == (0, 3, 400)


def test_the_largest_timestamp_is_found_in_the_middle_of_a_batch(plane: DataPlane) -> None:
    """The first record that has it."""
    plane.produce("t", timed(100, 300, 200))
    plane.produce("t", timed(300))
    assert found(plane, -3) == (0, 1, 300)


@pytest.mark.parametrize(("mark", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11), (-100, 10)])
def test_marks_that_the_version_does_not_have(plane: DataPlane, mark: int, version: int) -> None:
    assert found(plane, mark, version=version) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


def test_errors_of_list_offsets(plane: DataPlane) -> None:
    plane.partition("t").leader_epoch = 5
    assert plane.list_offset("u", -1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found(plane, -1, current_leader_epoch=4)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert found(plane, -1, current_leader_epoch=6)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert found(plane, -1, current_leader_epoch=5)[0] == 0


def test_read_committed_ends_at_the_last_stable_offset(plane: DataPlane) -> None:
    """TX61."""
    partition = plane.partition("t")
    partition.append(bytearray(timed(100)))
    records = [Record(0, 200, None, b"v")]
    partition.append(encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    assert found(plane, -1, isolation_level=1) == (0, 1, -1)
    assert found(plane, -1, isolation_level=0) == (0, 2, -1)
    assert found(plane, 150, isolation_level=1) == (0, -1, -1)
    assert found(plane, -3, isolation_level=1) == (0, -1, -1)
    assert found(plane, 50, isolation_level=1) == (0, 0, 100)


def test_partitions_that_are_asked_for_twice(plane: DataPlane) -> None:
    """Each is told once that it may not be; the others are answered. Looking for them must not be quadratic: a third of
    a megabyte of them held the loop for nine seconds."""
    asked = [0, *range(1, 10_001), *range(1, 10_001)]
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1) for index in asked]
            ),
            ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=20_000, timestamp=-1)]),
            ListOffsetsTopic(name="t2", partitions=[]),
        ],
    )
    (topic,) = list_offsets(plane.broker, RequestContext(version=5), request).topics
    assert [result.partition_index for result in topic.partitions] == [*range(10_001), 20_000]
    assert [result.error_code for result in topic.partitions] == [
        0,
        *[ErrorCode.INVALID_REQUEST] * 10_000,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


# -- OffsetForLeaderEpoch ----------------------------------------------------------------------------------------------


def test_an_epoch_ends_where_the_next_began(plane: DataPlane) -> None:
    partition = plane.partition("t")
    partition.append(bytearray(batch(b"a", b"b")))
    partition.leader_epoch = 3
    partition.append(bytearray(batch(b"c")))
    ends = [plane.epoch_end("t", epoch) for epoch in (0, 1, 2, 3, 4)]
    assert [(end.leader_epoch, end.end_offset) for end in ends] == [(0, 2), (0, 2), (0, 2), (3, 3), (-1, -1)]


def test_the_current_epoch_of_an_empty_partition_ends_at_its_end(plane: DataPlane) -> None:
    end = plane.epoch_end("t", 0)
    assert (end.error_code, end.leader_epoch, end.end_offset) == (0, 0, 0)


def test_errors_of_offset_for_leader_epoch(plane: DataPlane) -> None:
    assert plane.epoch_end("u", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert plane.epoch_end("t", 0, current=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


# -- DeleteRecords -----------------------------------------------------------------------------------------------------


def test_delete_records_moves_the_log_start(plane: DataPlane) -> None:
    for _ in range(5):
        plane.produce("t", batch(b"a"))
    assert plane.delete_records("t", 2) == (0, 2)
    assert plane.delete_records("t", 1) == (0, 2), "the log start never falls"
    assert plane.delete_records("t", -1) == (0, 5)
    assert plane.produce("t", batch(b"b")).log_start_offset == 5


def test_errors_of_delete_records(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path / "data")
    plane.create("t")
    plane.create("c", cleanup_policy="compact")
    plane.create("__consumer_offsets")
    plane.produce("t", batch(b"a"))
    assert plane.delete_records("t", 2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert plane.delete_records("t", -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert plane.delete_records("t", 0, index=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert plane.delete_records("c", -1) == (ErrorCode.POLICY_VIOLATION, -1)
    assert plane.delete_records("__consumer_offsets", -1) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_delete_records_into_an_open_transaction(plane: DataPlane) -> None:
    """TX62: the last stable offset is never below the log start; the later abort is still listed."""
    partition = plane.partition("t")
    for _ in range(10):
        partition.append(bytearray(batch(b"a")))
    records = [Record(0, NOW_MS, None, b"v")]
    partition.append(encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    assert plane.delete_records("t", -1) == (0, 11)
    assert partition.last_stable_offset == 11
    partition.append(marker(7, commit=False))
    assert plane.fetch("t", 11, isolation_level=1)[0].aborted == [(7, 10)]


# -- InitProducerId ----------------------------------------------------------------------------------------------------


def init(plane: DataPlane, **facts: Any) -> tuple[int, int, int]:
    request = InitProducerIdRequest(**{"transactional_id": None, "transaction_timeout_ms": 0, **facts})
    response = plane.answer(init_producer_id(plane.broker, RequestContext(version=4), request))
    return response.error_code, response.producer_id, response.producer_epoch


def test_producer_ids_differ_and_are_never_given_twice(plane: DataPlane) -> None:
    """TX01: after a restart the next id lies in a new block."""
    assert [init(plane) for _ in range(3)] == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]
    again = DataPlane(plane.directory)
    again.catalogue.next_id = plane.catalogue.next_id
    assert init(again) == (0, 1_000, 0)


def test_the_next_block_is_fetched_before_the_last_id_is_gone(plane: DataPlane) -> None:
    ids = [init(plane)[1] for _ in range(2_500)]
    assert ids == list(range(2_500))
    assert plane.catalogue.next_id == 3_000


def test_without_an_id_in_hand_the_client_is_told_to_come_again(plane: DataPlane) -> None:
    plane.catalogue.fail_ids = True
    assert init(plane) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    plane.catalogue.fail_ids = False
    assert init(plane) == (0, 0, 0)


def test_what_a_plain_producer_sends_along_must_be_whole(plane: DataPlane) -> None:
    """A pair from before is taken, and gets a new id all the same."""
    assert init(plane, producer_id=5, producer_epoch=-1) == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert init(plane, producer_id=-1, producer_epoch=0) == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert init(plane, producer_id=5, producer_epoch=3) == (0, 0, 0)


# -- DescribeLogDirs ---------------------------------------------------------------------------------------------------


def described(plane: DataPlane, topics: list[DescribableLogDirTopic] | None) -> Any:
    response = describe_log_dirs(plane.broker, RequestContext(version=4), DescribeLogDirsRequest(topics=topics))
    assert response.error_code == 0
    return response.results[0]


def test_log_dirs_tell_the_size_of_every_partition(plane: DataPlane) -> None:
    plane.create("u", partitions=2)
    records = batch(b"a" * 100)
    plane.produce("u", records)
    result = described(plane, None)
    sizes = {
        (topic.name, partition.partition_index): (partition.partition_size, partition.offset_lag)
        for topic in result.topics
        for partition in topic.partitions
    }
    assert sizes == {("t", 0): (0, 0), ("u", 0): (len(records), 0), ("u", 1): (0, 0)}
    assert (result.error_code, result.log_dir) == (0, str(plane.directory.absolute()))
    assert result.total_bytes >= result.usable_bytes > 0


def test_log_dirs_leave_out_what_does_not_exist(plane: DataPlane) -> None:
    asked = [DescribableLogDirTopic(topic="t", partitions=[0, 7]), DescribableLogDirTopic(topic="x", partitions=[0])]
    topics = described(plane, asked).topics
    assert [(topic.name, [one.partition_index for one in topic.partitions]) for topic in topics] == [("t", [0])]
    assert described(plane, []).topics == []
