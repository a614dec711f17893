"""Markers in a partition: their bytes, which are refused, and what readers see once they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.partitions import Marker
from broker.partitions.marker import marker_batch
from protocol.errors import ErrorCode
from storage.log.partition_log import PartitionLog
from tests.support.data_plane import NOW_MS, DataPlane, batch

if TYPE_CHECKING:
    from pathlib import Path

NONE = ErrorCode.NONE

# Written by a running Kafka: commit of producer 5 at epoch 4, abort at epoch 3, both of coordinator epoch 0.
GOLDEN = {
    "0000000000000007 00000042 00000000 02 5ef1bfee 0030 00000000 000001a1fd6f5930 000001a1fd6f5930 0000000000000005 "
    "0004 ffffffff 00000001 20 00 00 00 08 00000001 0c 0000 00000000 00": (Marker(5, 4, True, 0), 7, 0x1A1FD6F5930),
    "0000000000000004 00000042 00000000 02 7ee6a189 0030 00000000 000001a1fd6f5860 000001a1fd6f5860 0000000000000005 "
    "0003 ffffffff 00000001 20 00 00 00 08 00000000 0c 0000 00000000 00": (Marker(5, 3, False, 0), 4, 0x1A1FD6F5860),
}


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    made = DataPlane(tmp_path / "data")
    made.create("t")
    return made


def opened(plane: DataPlane, *, epoch: int = 0, producer_id: int = 7, name: str = "t") -> int:
    """Put a batch of a transaction into the log, however that was allowed; its offset."""
    sent = batch(b"a", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
    return plane.partition(name).append(bytearray(sent)).base_offset


def write(plane: DataPlane, marker: Marker, name: str = "t", index: int = 0) -> ErrorCode:
    codes: list[ErrorCode] = []
    plane.broker.markers.write(name, index, marker, codes.append)
    plane.runtime.turn()
    assert len(codes) == 1
    return codes[0]


@pytest.mark.parametrize("golden", GOLDEN)
def test_a_marker_is_kafkas_bytes(plane: DataPlane, golden: str) -> None:
    marker, offset, now_ms = GOLDEN[golden]
    log: PartitionLog = plane.partition("t").log
    log.append(bytearray(batch(*[b"x"] * offset)), leader_epoch=0)
    log.append(marker_batch(marker, now_ms), leader_epoch=0)
    assert log.read(offset, 1_000, copied=True).buffers == [bytes.fromhex(golden)]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_moves_the_last_stable_offset(plane: DataPlane, commit: bool) -> None:
    """TX57: before it read_committed stops at the transaction; after it, all is read, and aborted ones are named."""
    opened(plane)
    assert plane.fetch("t", 0, isolation_level=1)[0].values == []
    assert write(plane, Marker(7, 0, commit, 0)) == NONE
    found = plane.fetch("t", 0, isolation_level=1)[0]
    assert (found.last_stable_offset, found.base_offsets) == (2, [0, 1])
    assert found.aborted == ([] if commit else [(7, 0)])


def test_tx83_a_marker_that_is_written_twice_changes_nothing_for_readers(plane: DataPlane) -> None:
    """KAFKA-19999: the coordinator repeats a marker whose answer was lost, and refusing it would hang it for ever."""
    opened(plane)
    for version in (0, 2):
        marker = Marker(7, 1, False, 0, version)
        assert write(plane, marker) == write(plane, marker) == NONE
    found = plane.fetch("t", 0, isolation_level=1)[0]
    assert (found.last_stable_offset, found.aborted) == (5, [(7, 0)])
    assert len(plane.partition("t").log.aborted_transactions(0, 5)) == 1


def test_tx56_a_late_marker_does_not_end_the_next_transaction(plane: DataPlane) -> None:
    """Version 2: the marker of transaction n, with the epoch that transaction n + 1 now uses."""
    opened(plane, epoch=1)
    assert write(plane, Marker(7, 1, True, 0, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert plane.partition("t").last_stable_offset == 0
    assert write(plane, Marker(7, 2, True, 0, 2)) == NONE
    assert plane.partition("t").last_stable_offset == 2


def test_tx69_what_a_partition_refuses(plane: DataPlane) -> None:
    opened(plane, epoch=3)
    assert write(plane, Marker(7, 3, True, 5)) == NONE
    assert write(plane, Marker(7, 3, True, 4)) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert write(plane, Marker(7, 2, True, 5)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(plane, Marker(7, -1, True, 5)) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert write(plane, Marker(7, 3, True, 5), index=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write(plane, Marker(7, 3, True, 5), "gone") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write(plane, Marker(99, 0, True, 0)) == NONE
    assert plane.partition("t").log_end_offset == 3


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_done_once_it_is_committed(tmp_path: Path, commit: bool) -> None:
    """Under `flush.messages=1` after its fsync; only then do readers see the transaction."""
    plane = DataPlane(tmp_path / "data", eager_workers=False)
    plane.create("t", flush_messages="1")
    opened(plane)
    plane.runtime.turn()
    plane.runtime.run_work()
    codes: list[ErrorCode] = []
    plane.broker.markers.write("t", 0, Marker(7, 0, commit, 0), codes.append)
    plane.runtime.turn()
    assert (codes, plane.partition("t").last_stable_offset) == ([], 0)
    plane.runtime.run_work()
    assert (codes, plane.partition("t").last_stable_offset) == ([NONE], 2)


def test_tx60_a_fetch_parked_on_the_last_stable_offset_is_answered_by_the_marker(plane: DataPlane) -> None:
    opened(plane)
    parked = plane.fetch_request("t", 0, isolation_level=1, max_wait_ms=10_000)
    plane.runtime.turn()
    assert not parked.done
    assert write(plane, Marker(7, 0, True, 0)) == NONE
    assert parked.done


def test_a_partition_that_failed_is_to_be_asked_again(plane: DataPlane) -> None:
    """Nothing that passes may look like a topic that is gone: the coordinator would complete without the marker."""
    opened(plane)
    plane.partition("t").fail("the disk")
    assert write(plane, Marker(7, 0, True, 0)) == ErrorCode.KAFKA_STORAGE_ERROR
    plane.runtime.advance(2_000)
    assert write(plane, Marker(7, 0, True, 0)) == NONE
    assert plane.partition("t").last_stable_offset == 2


def test_a_topic_whose_markers_go_elsewhere(plane: DataPlane) -> None:
    """As those of `__consumer_offsets` do. Where there is no such partition nobody is asked."""
    seen: list[Any] = []
    plane.broker.markers.routes["t"] = lambda index, marker, done: (seen.append((index, marker)), done(NONE))[0]
    assert write(plane, Marker(7, 0, True, 0)) == NONE
    assert seen == [(0, Marker(7, 0, True, 0))]
    assert plane.partition("t").log_end_offset == 0
    assert write(plane, Marker(7, 0, True, 0), index=3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_tx61_offsets_are_listed_up_to_the_open_transaction(plane: DataPlane) -> None:
    plane.produce("t", batch(b"before", timestamp=NOW_MS - 10))
    opened(plane)
    assert plane.list_offset("t", -1, isolation_level=1).offset == 1
    assert plane.list_offset("t", -1).offset == 2
    for timestamp in (-3, NOW_MS - 5):
        assert plane.list_offset("t", timestamp, version=7).offset == 1
        assert plane.list_offset("t", timestamp, isolation_level=1, version=7).offset == -1
    assert write(plane, Marker(7, 0, False, 0)) == NONE
    assert plane.list_offset("t", -1, isolation_level=1).offset == 3


def test_tx62_records_are_deleted_into_an_open_transaction(plane: DataPlane) -> None:
    """To the high watermark; the transaction stays open, and its end is indexed from its first offset on."""
    plane.produce("t", batch(*[b"x"] * 10))
    opened(plane)
    assert plane.delete_records("t", -1) == (0, 11)
    partition = plane.partition("t")
    assert (partition.log_start_offset, partition.last_stable_offset) == (11, 11)
    assert write(plane, Marker(7, 0, False, 0)) == NONE
    assert plane.fetch("t", 11, isolation_level=1)[0].aborted == [(7, 10)]
    assert partition.last_stable_offset == 12


def test_tx15_sequences_are_known_when_all_records_of_a_producer_were_deleted(plane: DataPlane) -> None:
    opened(plane)
    assert plane.delete_records("t", -1) == (0, 1)
    sent = batch(b"b", producer_id=7, producer_epoch=0, base_sequence=5, transactional=True)
    code = plane.produce("t", sent, version=11, transactional_id="tx").error_code
    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_tx13_a_producer_with_an_open_transaction_never_expires(plane: DataPlane) -> None:
    """By the timestamps of its records it is long gone."""
    opened(plane)
    opened(plane, producer_id=8)
    assert write(plane, Marker(8, 0, True, 0)) == NONE
    producers = plane.partition("t").log.producers
    producers.expire(plane.runtime.now_ms() + 10_000_000, 1_000)
    assert list(producers.entries) == [7]
