"""Requests of one connection, pipelined over a socket: what is begun when (docs/decisions/one-request-at-a-time.md)."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.records.batch import Record, encode_batch, iterate_headers
from tests.support.broker_process import QUICK_GROUPS, Kohort, eventually
from tests.support.wire import Wire


@pytest.fixture(scope="module", params=["os", "always"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kohort]:
    settings = {**QUICK_GROUPS, "kohort.durability": request.param}
    with Kohort(tmp_path_factory.mktemp(f"order-{request.param}"), settings) as running:
        with Wire(running.address) as wire:
            assert wire.create_topic("orders", 1) == 0
            eventually(lambda: wire.coordinator_error("g") == 0)
            eventually(lambda: wire.committed("g", "orders", [0])[0] == 0)
        yield running


def join(wire: Wire, group: str, member_id: str = "") -> None:
    """Send a join in a version that needs no id first."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
    fields = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer"}
    wire.send(JoinGroupRequest(group_id=group, member_id=member_id, protocols=[protocol], **fields), 3)


def commit(wire: Wire, group: str, member_id: str, generation: int, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    wire.send(
        OffsetCommitRequest(
            group_id=group, member_id=member_id, generation_id_or_member_epoch=generation, topics=topics
        ),
        7,
    )


def fetch(wire: Wire, offset: int, wait_ms: int) -> None:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
    topics = [FetchTopic(topic="orders", partitions=[partition])]
    wire.send(FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=100_000, topics=topics), 4)


def produce(wire: Wire) -> None:
    records = bytes(encode_batch([Record(0, 1_000, None, b"value")]))
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])
    wire.send(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 9)


def end_of_log(wire: Wire) -> int:
    return wire.end_offsets("orders", [0])[0][1]


def batches_in(answer: Any) -> list[int]:
    data = answer.responses[0].partitions[0].records
    return [header.base_offset for _, header in iterate_headers(bytes(data or b""))]


def stable_pair(a: Wire, b: Wire, group: str) -> tuple[str, str, int]:
    """Two members that have synced: (id of the leader, id of the other, generation)."""
    join(a, group)
    first = a.receive()
    sync(a, group, first)
    join(b, group)
    eventually(lambda: state(a, group) == "PreparingRebalance")
    join(a, group, first.member_id)
    first, second = a.receive(), b.receive()
    sync(a, group, first)
    sync(b, group, second)
    return first.member_id, second.member_id, first.generation_id


def sync(wire: Wire, group: str, joined: Any) -> None:
    assignments = [SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"") for member in joined.members]
    request = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=assignments
    )
    assert wire.call(request, 3).error_code == 0


def state(wire: Wire, group: str) -> str:
    return str(wire.call(DescribeGroupsRequest(groups=[group]), 0).groups[0].group_state)


def test_a_commit_behind_a_join_is_looked_at_when_the_join_is_answered(broker: Kohort):
    """D7: it comes from the generation before, which is over then. Over another connection it would be taken."""
    group = f"behind-{broker.settings['kohort.durability']}"
    with Wire(broker.address) as a, Wire(broker.address) as b, Wire(broker.address) as other:
        leader, follower, generation = stable_pair(a, b, group)

        join(a, group, leader)
        commit(a, group, leader, generation, 7)
        eventually(lambda: state(other, group) == "PreparingRebalance")
        commit(other, group, leader, generation, 5)
        assert other.receive().topics[0].partitions[0].error_code == ErrorCode.NONE
        join(b, group, follower)

        assert a.receive().generation_id == generation + 1
        assert a.receive().topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
        assert b.receive().generation_id == generation + 1
        assert other.committed(group, "orders", [0])[1] == {0: 5}


def test_whatever_comes_behind_a_sync_that_waits_is_begun_when_the_sync_is_answered(broker: Kohort):
    group = f"sync-{broker.settings['kohort.durability']}"
    with Wire(broker.address) as a, Wire(broker.address) as b:
        leader, follower, generation = stable_pair(a, b, group)
        join(a, group, leader)
        eventually(lambda: state(b, group) == "PreparingRebalance")
        join(b, group, follower)
        led, followed = a.receive(), b.receive()
        assert led.error_code == followed.error_code == 0
        b.send(SyncGroupRequest(group_id=group, generation_id=generation + 1, member_id=follower, assignments=[]), 3)
        b.send_commit(f"{group}-other", "orders", {0: 5})
        b.send(MetadataRequest(topics=[]), 5)
        eventually(lambda: _gauge(broker, "kohort_requests_queued") == 2)
        assert a.committed(f"{group}-other", "orders", [0])[1] == {0: -1}

        sync(a, group, led)
        assert b.receive().error_code == 0
        assert {p.error_code for t in b.receive().topics for p in t.partitions} == {0}
        assert b.receive().topics == []
        assert a.committed(f"{group}-other", "orders", [0])[1] == {0: 5}


def test_a_produce_behind_a_fetch_that_waits_does_not_end_its_wait(broker: Kohort):
    with Wire(broker.address) as wire:
        end = end_of_log(wire)
        fetch(wire, end, 700)
        produce(wire)
        assert batches_in(wire.receive()) == []
        assert wire.receive().responses[0].partition_responses[0].base_offset == end


def test_a_fetch_and_the_end_of_the_log_behind_a_produce_see_what_it_wrote(broker: Kohort):
    """Under `always` the produce waits for its fsync; until then nothing behind it is begun."""
    with Wire(broker.address) as wire:
        end = end_of_log(wire)
        produce(wire)
        fetch(wire, end, 0)
        produce(wire)
        asked = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
        wire.send(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=asked)]), 1)
        assert wire.receive().responses[0].partition_responses[0].base_offset == end
        assert batches_in(wire.receive()) == [end]
        assert wire.receive().responses[0].partition_responses[0].base_offset == end + 1
        assert wire.receive().topics[0].partitions[0].offset == end + 2


def test_a_connection_that_goes_while_a_request_holds_up_others_is_seen_to_go(broker: Kohort):
    before = _gauge(broker, "kohort_connections")
    with Wire(broker.address) as wire:
        fetch(wire, end_of_log(wire), 600_000)
        for _ in range(50):
            wire.send(MetadataRequest(topics=[]), 5)
        eventually(lambda: _gauge(broker, "kohort_requests_queued") == 50)
    eventually(lambda: _gauge(broker, "kohort_requests_queued") == 0)
    eventually(lambda: _gauge(broker, "kohort_connections") <= before)


@pytest.mark.parametrize("durability", ["os", "always"])
def test_sigterm_while_a_request_holds_up_others_ends_the_broker(tmp_path: Path, durability: str):
    with Kohort(tmp_path, {"kohort.durability": durability}) as broker, Wire(broker.address) as wire:
        assert wire.create_topic("orders", 1) == 0
        fetch(wire, end_of_log(wire), 600_000)
        for _ in range(50):
            wire.send(MetadataRequest(topics=[]), 5)
        eventually(lambda: _gauge(broker, "kohort_requests_queued") == 50)
        began = time.monotonic()
        broker.stop()
        assert time.monotonic() - began < broker.stop_within_s


def _gauge(broker: Kohort, name: str) -> float:
    with urllib.request.urlopen(f"{broker.http}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])
