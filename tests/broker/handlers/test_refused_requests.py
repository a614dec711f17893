"""A request that was refused is gone when its answer is: nothing of it waits for the garbage collector."""

from __future__ import annotations

from contextlib import contextmanager
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from broker.catalogue import topic_changes
from broker.handlers.context import CloseConnection, Deferred
from broker.loop import logs
from broker.partitions.errors import PartitionFailed
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.schema.declaration import Struct
from tests.broker.handlers.test_produce import REFUSED
from tests.fuzz import target
from tests.fuzz.frames import Frames
from tests.support.connections import Harness
from tests.support.data_plane import DataPlane, batch
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.garbage import collected_by_nobody, waiting_for_the_collector

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def nothing_left_to_collect(*kinds: type) -> Iterator[None]:
    """Fails when what runs inside leaves some of these in reference cycles, or messages, frames and their like."""
    with collected_by_nobody():
        yield
        found = [
            thing
            for thing in waiting_for_the_collector()
            if isinstance(thing, (FrameType, Struct, Deferred, *kinds)) or type(thing).__name__.endswith("_env")
        ]  # the variables of a native function are in its `_env`, where its nested functions use them
    assert not found


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("acks", [-1, 0])
def test_a_refused_produce_is_gone_with_its_answer(tmp_path: Path, what: str, acks: int) -> None:
    """Its frame knew the error, the error its traceback, and that the frame: 20 MB stayed until the collector came."""
    plane = DataPlane(tmp_path / "data")
    plane.create("t", max_message_bytes="1000")
    with nothing_left_to_collect(FetchResponse, Deferred):
        try:
            plane.produce_request("t", REFUSED[what][0], acks=acks)
        except CloseConnection:
            assert acks == 0


def test_a_transactional_produce_that_nobody_answers_is_gone_when_it_is_refused(tmp_path: Path) -> None:
    """The error that ends its connection knew the frames that hold the promise, which knew the error."""
    plane = DataPlane(tmp_path / "data")
    plane.create("t")
    plane.broker.verifier.coordinator = FakeCoordinator()
    records = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    with nothing_left_to_collect(Deferred):
        refused = plane.produce_request("t", records, version=11, acks=0, transactional_id="tx")
        assert isinstance(plane.answer(refused), CloseConnection)
        del refused


def test_a_transactional_produce_is_gone_with_its_answer(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path / "data")
    plane.create("t")
    plane.broker.verifier.coordinator = coordinator = FakeCoordinator()
    coordinator.begin("tx", 7, 0, ("t", 0))
    records = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    with nothing_left_to_collect():
        answer = plane.answer(plane.produce_request("t", records, version=11, transactional_id="tx"))
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        del answer


def test_an_error_that_a_partition_keeps_does_not_keep_who_met_it(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path / "data")
    plane.create("t")
    partition = plane.partition("t")
    partition.error = kept = PartitionFailed("t", 0, "the disk is gone")
    assert plane.produce("t", batch(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.list_offset("t", -1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert kept.__traceback__ is None


def test_an_error_raised_afresh_says_the_same(tmp_path: Path) -> None:
    error = PartitionFailed("t", 0, "the disk is gone")
    error.note = "kept"  # type: ignore[attr-defined]
    again = error.afresh()
    assert (type(again), str(again), again.code) == (PartitionFailed, "t-0: the disk is gone", error.code)
    assert again.note == "kept"  # type: ignore[attr-defined]
    assert again is not error


def test_what_a_parked_fetch_has_read_is_gone_with_its_answer(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path / "data")
    plane.create("t")
    with nothing_left_to_collect(FetchResponse, Deferred):
        parked = plane.fetch_request("t", 0, max_wait_ms=10_000)
        assert isinstance(parked, Deferred)
        assert not parked.done
        plane.produce("t", batch(b"a"))
        plane.runtime.turn()
        assert parked.done
        del parked
        plane.runtime.advance(20_000)  # its timer is forgotten when its moment has come
    assert len(plane.runtime.timers) == 0


def test_a_frame_that_is_too_large_does_not_keep_its_connection() -> None:
    harness = Harness()
    connection, _ = harness.connect()
    with nothing_left_to_collect(FetchResponse, Deferred):
        connection.data_received(b"\x7f\xff\xff\xff")
        assert connection.closed
        connection.connection_lost(None)
        del connection, _


def test_no_handler_leaves_its_frame_to_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every API, valid requests and mutilated ones, answered, refused or ended with their connection."""
    monkeypatch.setattr(topic_changes, "MAX_PARTITIONS", topic_changes.MAX_PARTITIONS)  # which a target lowers
    monkeypatch.setattr(target, "gc", SimpleNamespace(collect=int))  # it cleans up
    monkeypatch.setattr(target, "collected_as_served", lambda *_: int)
    fed = target.Target(tmp_path, Frames(1))
    with nothing_left_to_collect():
        fed.run(3_000)
    logs.configure()
    assert min(fed.answers, fed.closed) > 500


def test_a_promise_that_ends_the_connection_at_once_does_not_keep_the_request() -> None:
    def promised(*_: Any) -> Deferred:
        deferred = Deferred()
        deferred.complete(CloseConnection("acks=0 and no such topic"))
        return deferred

    harness = Harness({ApiKey.HEARTBEAT: promised})
    with nothing_left_to_collect():
        harness.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 1)
    assert harness.transport.closed
