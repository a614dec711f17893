"""Produce inside transactions: who is asked before a partition opens one, and what keeps a batch out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.handlers.context import CloseConnection, Deferred
from broker.partitions import Marker
from broker.partitions.verification import ANSWER_WITHIN_MS
from protocol.errors import ErrorCode
from tests.support.data_plane import DataPlane, batch
from tests.support.fake_coordinator import FakeCoordinator

if TYPE_CHECKING:
    from pathlib import Path

TID = "tx"
MATRIX = [10, 11, 12]


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    made = DataPlane(tmp_path / "data")
    made.create("t", partitions=3)
    made.broker.verifier.coordinator = FakeCoordinator()
    return made


@pytest.fixture
def coordinator(plane: DataPlane) -> FakeCoordinator:
    found: FakeCoordinator = plane.broker.verifier.coordinator
    return found


def part(value: bytes = b"a", *, sequence: int = 0, producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch(value, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)


def plain(value: bytes = b"p", *, sequence: int = 0, producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch(value, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def send(plane: DataPlane, *batches: bytes | None, version: int = 11, tid: str | None = TID, **facts: Any) -> list[int]:
    """The codes of the partitions 0 and on."""
    response = plane.answer(plane.produce_request("t", *batches, version=version, transactional_id=tid, **facts))
    return [result.error_code for result in response.responses[0].partition_responses]


def end(plane: DataPlane, *, epoch: int = 0, commit: bool = True, index: int = 0, version: int = 0) -> ErrorCode:
    """Write a marker into a partition."""
    codes: list[ErrorCode] = []
    plane.broker.markers.write("t", index, Marker(7, epoch, commit, 0, version), codes.append)
    plane.runtime.turn()
    return codes[0]


def test_the_coordinator_is_asked_once_for_a_transaction_and_never_by_plain_producers(
    plane: DataPlane, coordinator: FakeCoordinator
) -> None:
    """Also not while the transaction is open, by this request or the next."""
    coordinator.begin(TID, 7, 0, ("t", 0), ("t", 1))
    assert send(plane, plain(producer_id=8), tid=None) == [0]
    assert send(plane, part(), part()) == [0, 0]
    assert send(plane, part(sequence=1), part(sequence=1)) == [0, 0]
    assert coordinator.asked == [(TID, (("t", 0), ("t", 1)), False)]
    assert plane.fetch("t", 0)[0].last_stable_offset == 1


def test_tx33_a_batch_outside_of_any_transaction_is_refused(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    """Each version with the code that its clients know; nothing is written, and nothing holds readers back."""
    assert send(plane, part(), version=10) == [ErrorCode.INVALID_TXN_STATE]
    assert send(plane, part(), version=11) == [ErrorCode.TRANSACTION_ABORTABLE]
    coordinator.begin(TID, 8, 0, ("t", 0))
    assert send(plane, part()) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    coordinator.begin(TID, 7, 1, ("t", 0))
    assert send(plane, part()) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert plane.partition("t").log_end_offset == plane.partition("t").last_stable_offset == 0


def test_tx34_a_transactional_batch_without_a_transactional_id(plane: DataPlane) -> None:
    """Every partition of the request, the plain ones too."""
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert send(plane, part(), plain(), tid=None) == [refused, refused]


def test_tx35_plain_data_of_a_producer_waits_for_the_end_of_its_transaction(
    plane: DataPlane, coordinator: FakeCoordinator
) -> None:
    coordinator.begin(TID, 7, 0, ("t", 0))
    assert send(plane, part()) == [0]
    assert send(plane, plain(sequence=1), tid=None) == [ErrorCode.INVALID_TXN_STATE]
    assert end(plane) == ErrorCode.NONE
    assert send(plane, plain(sequence=1), tid=None) == [0]


def test_two_producers_in_one_request_are_refused(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    """Partitions that are refused for another reason keep that."""
    coordinator.begin(TID, 7, 0, ("t", 0), ("t", 1))
    assert send(plane, part(), part(epoch=1)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert coordinator.asked == []


def test_tx41_from_version_12_on_the_first_batch_adds_its_partition(
    plane: DataPlane, coordinator: FakeCoordinator
) -> None:
    """The second asks nobody."""
    assert send(plane, part(), version=12) == [0]
    assert send(plane, part(sequence=1), version=12) == [0]
    assert coordinator.asked == [(TID, (("t", 0),), True)]


def test_tx42_a_transaction_of_version_2_begins_at_sequence_0(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    """The partition has joined all the same, so that its end writes a marker there."""
    assert send(plane, part(sequence=5), version=12) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert coordinator.open[TID][2] == {("t", 0)}
    assert send(plane, part(sequence=0), version=12) == [0]


def test_tx48_the_end_of_the_transaction_before_is_waited_for(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    """Every 20 ms, for up to 100; then CONCURRENT_TRANSACTIONS, which clients of version 2 try again upon."""
    coordinator.refusal = ErrorCode.CONCURRENT_TRANSACTIONS
    returned = plane.produce_request("t", part(), version=12, transactional_id=TID)
    assert isinstance(returned, Deferred)
    plane.runtime.advance(30)
    assert not returned.done
    coordinator.refusal = ErrorCode.NONE
    plane.runtime.advance(15)
    assert plane.answer(returned).responses[0].partition_responses[0].error_code == 0
    assert len(coordinator.asked) == 3

    coordinator.refusal = ErrorCode.CONCURRENT_TRANSACTIONS
    returned = plane.produce_request("t", None, part(), version=12, transactional_id=TID)
    plane.runtime.advance(99)
    assert not returned.done
    plane.runtime.advance(1)
    assert plane.answer(returned).responses[0].partition_responses[1].error_code == ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("version", [10, 11])
def test_older_clients_hear_of_a_transaction_that_is_ending_as_of_a_lack_of_replicas(
    plane: DataPlane, coordinator: FakeCoordinator, version: int
) -> None:
    """Which all of them try again upon, and none asks for metadata."""
    coordinator.refusal = ErrorCode.CONCURRENT_TRANSACTIONS
    assert send(plane, part(), version=version) == [ErrorCode.NOT_ENOUGH_REPLICAS]


@pytest.mark.parametrize("version", MATRIX)
@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_that_is_not_there_is_a_lack_of_replicas(
    plane: DataPlane, coordinator: FakeCoordinator, version: int, code: int
) -> None:
    coordinator.refusal = ErrorCode(code)
    assert send(plane, part(), version=version) == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_tx52_an_unknown_partition_leaves_its_neighbour_alone(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    plane.create("one")
    response = plane.produce_request("one", part(), part(), version=12, transactional_id=TID)
    codes = [result.error_code for result in plane.answer(response).responses[0].partition_responses]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert coordinator.open[TID][2] == {("one", 0)}


def test_batches_sent_behind_one_another_are_appended_in_order(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    """The second waits for the answer to the first, and then finds the transaction open."""
    coordinator.begin(TID, 7, 0, ("t", 0))
    coordinator.silent = True
    returned = [
        plane.produce_request("t", part(b"%d" % at, sequence=at), version=11, transactional_id=TID) for at in range(3)
    ]
    assert len(coordinator.waiting) == 1
    coordinator.answer_next()
    codes = [plane.answer(one).responses[0].partition_responses[0].error_code for one in returned]
    assert (codes, len(coordinator.asked)) == ([0, 0, 0], 1)
    assert plane.fetch("t", 0)[0].values == [b"0", b"1", b"2"]


def test_an_answer_from_before_a_marker_lets_nothing_in(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    """The transaction that was asked about has ended meanwhile: the batch would open one that nobody ends."""
    coordinator.begin(TID, 7, 0, ("t", 0))
    coordinator.silent = True
    returned = plane.produce_request("t", part(), version=11, transactional_id=TID)
    assert end(plane, commit=False) == ErrorCode.NONE
    coordinator.answer_next()
    assert plane.answer(returned).responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TXN_STATE
    assert plane.partition("t").last_stable_offset == 1


def test_a_zombie_is_refused_without_asking(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    """TX22, TX36: its transaction was ended with a higher epoch."""
    coordinator.begin(TID, 7, 0, ("t", 0))
    assert send(plane, part()) == [0]
    assert end(plane, epoch=1, commit=False) == ErrorCode.NONE
    coordinator.asked.clear()
    assert send(plane, part(sequence=1)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert coordinator.asked == []
    assert plane.partition("t").last_stable_offset == 2


def test_tx67_without_verification_data_opens_a_transaction_that_only_an_operator_ends(
    plane: DataPlane, coordinator: FakeCoordinator
) -> None:
    plane.settings.apply_dynamic(cluster={"transaction.partition.verification.enable": "false"}, broker={})
    assert send(plane, part()) == [0]
    assert coordinator.asked == []
    assert plane.partition("t").last_stable_offset == 0
    assert send(plane, None, part(), version=12)[1] == 0
    assert coordinator.asked == [(TID, (("t", 1),), True)]
    assert end(plane, commit=False) == ErrorCode.NONE
    assert plane.partition("t").last_stable_offset == 2


def test_tx68_one_marker_closes_a_hanging_transaction_and_the_one_that_joined_it(
    plane: DataPlane, coordinator: FakeCoordinator
) -> None:
    plane.settings.apply_dynamic(cluster={"transaction.partition.verification.enable": "false"}, broker={})
    assert send(plane, part()) == [0]
    coordinator.begin(TID, 7, 1, ("t", 0))
    assert send(plane, part(epoch=1)) == [0]
    assert plane.partition("t").last_stable_offset == 0
    assert end(plane, epoch=1, commit=False) == ErrorCode.NONE
    assert plane.fetch("t", 0, isolation_level=1)[0].aborted == [(7, 0)]
    assert plane.partition("t").last_stable_offset == 3


def test_a_repetition_needs_no_transaction(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    """Its first answer was lost, and its transaction has ended since; asked about it is nevertheless."""
    coordinator.begin(TID, 7, 0, ("t", 0))
    assert send(plane, part()) == [0]
    assert end(plane) == ErrorCode.NONE
    coordinator.begin(TID, 7, 0, ("t", 0))
    assert send(plane, part()) == [0]
    assert plane.partition("t").log_end_offset == 2


def test_the_transactional_bit_without_a_producer_id_is_plain_data(
    plane: DataPlane, coordinator: FakeCoordinator
) -> None:
    assert send(plane, batch(b"a", transactional=True)) == [0]
    assert coordinator.asked == []
    assert plane.partition("t").last_stable_offset == 1


def test_what_cannot_be_appended_does_not_join_the_transaction(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    """TX09: two batches for one partition."""
    assert send(plane, part() + part(sequence=1), version=12) == [ErrorCode.INVALID_RECORD]
    assert send(plane, part(), version=12, acks=3) == [ErrorCode.INVALID_REQUIRED_ACKS]
    assert coordinator.asked == []


def test_an_answer_that_never_comes_is_lost_and_holds_nobody_up_for_ever(
    plane: DataPlane, coordinator: FakeCoordinator
) -> None:
    coordinator.begin(TID, 7, 0, ("t", 0))
    coordinator.silent = True
    first = plane.produce_request("t", part(), version=11, transactional_id=TID)
    second = plane.produce_request("t", part(), version=11, transactional_id=TID)
    plane.runtime.advance(ANSWER_WITHIN_MS)
    assert plane.answer(first).responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.answer_next()  # too late
    assert not second.done
    coordinator.answer_next()
    assert plane.answer(second).responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("silent", [False, True])
def test_acks_0_gets_no_answer_and_an_error_ends_the_connection(
    plane: DataPlane, coordinator: FakeCoordinator, silent: bool
) -> None:
    coordinator.silent = silent
    returned = plane.produce_request("t", part(), version=11, acks=0, transactional_id=TID)
    if silent:
        coordinator.answer_next()
    assert isinstance(plane.answer(returned), CloseConnection)
    coordinator.begin(TID, 7, 0, ("t", 0))
    returned = plane.produce_request("t", part(), version=11, acks=0, transactional_id=TID)
    if silent:
        coordinator.answer_next()
    assert plane.answer(returned) is None
    assert plane.partition("t").log_end_offset == 1


def test_a_topic_deleted_while_the_coordinator_is_asked(plane: DataPlane, coordinator: FakeCoordinator) -> None:
    coordinator.begin(TID, 7, 0, ("t", 0))
    coordinator.silent = True
    returned = plane.produce_request("t", part(), version=11, transactional_id=TID)
    plane.delete("t")
    coordinator.answer_next()
    assert plane.answer(returned).responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
