"""Whole conversations: what clients say to each other's groups, transactions and topics, in an order of Hypothesis.

Unlike single frames (`test_fuzz.py`) these get far: ids, generations, epochs and sequences are those of earlier
answers, or a little beside them, and now and then a request is large. Watched are answers (everything is answered or
the connection closes), traces, memory, and how long one request holds the loop, in CPU time. `make fuzz` plays more.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from broker.composition import Composition
from broker.config.settings import Settings
from broker.handlers.dispatch import HANDLERS, Routes
from broker.loop import logs
from broker.network.connection import Connection
from broker.network.server import Server
from protocol.api_keys import ApiKey
from protocol.frames import decode_response, encode_request
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.records.batch import Record, encode_batch
from tests.support.connections import FakeTransport
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from protocol.schema import Message

CONVERSATIONS = int(os.environ.get("KOHORT_FUZZ_CONVERSATIONS", "15"))
STEPS = 40
LARGE = 20_000
HELD_S = 0.5  # of CPU, at the most, by one request: a traced, cold interpreter is some ten times slower than a broker
GROWN_BYTES = 256 << 20
MAY_WAIT = {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.FETCH}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
GROUPS = st.sampled_from(["g", "h"])
TOPICS = st.sampled_from(["orders", "orders", "payments", "absent"])
SIZES = st.sampled_from([1, 2_000])
BESIDE = st.sampled_from([0, 0, 0, 0, 1, -1, 2**31 - 1])
"""What an id or a number is changed by: mostly nothing."""


class Conversations(RuleBasedStateMachine):
    """Three clients of one broker in virtual time, each with a connection."""

    @initialize()
    def open(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kohort-fuzz-"))
        self.log = io.StringIO()
        logs.configure(level="error", stream=self.log)
        self.runtime = VirtualRuntime()
        self.composition = Composition.open(
            Settings({**SETTINGS, "log.dirs": str(self.directory)}),
            self.runtime,
            [("PLAINTEXT", "127.0.0.1", 9092)],
        )
        broker = self.composition.broker
        broker.served = HANDLERS.keys()
        self.server = Server(broker, Routes(HANDLERS))
        self.composition.start()
        self.connections: list[tuple[Connection, FakeTransport] | None] = [None] * 3
        self.members: dict[str, list[tuple[str, int]]] = {"g": [("", 0)], "h": [("", 0)]}  # (member id, generation)
        self.epochs: list[tuple[str, int]] = [("m", 0)]
        self.producers: list[tuple[int, int]] = [(-1, -1)]
        self.sequences: dict[tuple[int, int], int] = {}
        self.longest_s = 0.0
        self.before_bytes = memory_bytes()
        self.ask(0, CreateTopicsRequest(topics=[topic("orders", 3), topic("payments", 1)], timeout_ms=1_000), 5)
        self.ask(0, FindCoordinatorRequest(key="g"), 2)

    def ask(self, client: int, request: Message, version: int) -> Any:
        """The answer, or None when it waits or the connection was closed."""
        assert request.API_KEY is not None
        pair = self.connections[client]
        if pair is not None and (pair[0].closed or pair[0].answers.waiting):
            # What it waits for goes with it: a client that gives up.
            pair[1].closed = True
            if not pair[0].closed:
                pair[0].connection_lost(None)
            pair = None
        if pair is None:
            connection, transport = Connection(self.server, "PLAINTEXT"), FakeTransport()
            transport.protocol = connection
            connection.connection_made(transport)
            pair = self.connections[client] = connection, transport
        connection, transport = pair
        frame = encode_request(request, version, 1, f"client-{client}")
        before = len(transport.written)
        began = time.thread_time()
        connection.data_received(frame)
        self.longest_s = max(self.longest_s, time.thread_time() - began)
        self.runtime.turn()
        written = bytes(transport.written[before:])
        if connection.closed:
            return None
        if not written:
            self.runtime.advance(12_000)
            written = bytes(transport.written[before:])
        if not written:
            waiting = connection.answers.waiting
            assert connection.closed or (waiting and waiting[0].route.api_key in MAY_WAIT), f"no answer to {request}"
            return None
        return decode_response(request.API_KEY, version, written[: 4 + int.from_bytes(written[:4])])[1]

    # What clients say

    @rule(client=st.integers(0, 2), group=GROUPS, who=st.integers(0, 5), many=st.booleans())
    def join(self, client: int, group: str, who: int, many: bool) -> None:
        known = self.members[group]
        count = LARGE if many and who == 5 else 1
        answer = self.ask(
            client,
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id=known[who % len(known)][0],
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name=f"p{number}", metadata=b"x") for number in range(count)],
            ),
            5,
        )
        if answer is not None and answer.member_id:
            known.append((answer.member_id, answer.generation_id))

    @rule(client=st.integers(0, 2), group=GROUPS, who=st.integers(0, 5), beside=BESIDE, many=st.booleans())
    def sync(self, client: int, group: str, who: int, beside: int, many: bool) -> None:
        member_id, generation = self.members[group][who % len(self.members[group])]
        told = [SyncGroupRequestAssignment(member_id=one, assignment=b"a") for one, _ in self.members[group]]
        if many and who == 5:
            told += [SyncGroupRequestAssignment(member_id=f"m{number}", assignment=b"") for number in range(LARGE)]
        request = SyncGroupRequest(
            group_id=group, generation_id=moved(generation, beside), member_id=member_id, assignments=told
        )
        self.ask(client, request, 3)

    @rule(client=st.integers(0, 2), group=GROUPS, who=st.integers(0, 5), beside=BESIDE)
    def beat(self, client: int, group: str, who: int, beside: int) -> None:
        member_id, generation = self.members[group][who % len(self.members[group])]
        self.ask(
            client,
            HeartbeatRequest(group_id=group, generation_id=moved(generation, beside), member_id=member_id),
            3,
        )

    @rule(client=st.integers(0, 2), group=GROUPS, who=st.integers(0, 5))
    def leave(self, client: int, group: str, who: int) -> None:
        member_id = self.members[group][who % len(self.members[group])][0]
        self.ask(client, LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)]), 3)

    @rule(client=st.integers(0, 2), who=st.integers(0, 5), beside=BESIDE, topic=TOPICS, goes=st.booleans())
    def consumer_beat(self, client: int, who: int, beside: int, topic: str, goes: bool) -> None:
        member_id, epoch = self.epochs[who % len(self.epochs)]
        joins = epoch == 0
        owned = [] if joins else [TopicPartitions(topic_id=bytes(16), partitions=list(range(LARGE if who == 5 else 1)))]
        answer = self.ask(
            client,
            ConsumerGroupHeartbeatRequest(
                group_id="k",
                member_id=member_id,
                member_epoch=-1 if goes and who == 4 else moved(epoch, beside),
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=[topic] if joins else None,
                topic_partitions=owned,
            ),
            0,
        )
        if answer is not None and answer.member_id:
            self.epochs.append((answer.member_id, answer.member_epoch))

    @rule(client=st.integers(0, 2), group=GROUPS, who=st.integers(0, 5), topic=TOPICS, many=st.booleans())
    def commit(self, client: int, group: str, who: int, topic: str, many: bool) -> None:
        member_id, generation = self.members[group][who % len(self.members[group])]
        partitions = [
            OffsetCommitRequestPartition(partition_index=index % 3, committed_offset=index, committed_metadata="")
            for index in range(LARGE if many and who == 5 else 2)
        ]
        topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
        self.ask(
            client,
            OffsetCommitRequest(
                group_id=group, generation_id_or_member_epoch=generation, member_id=member_id, topics=topics
            ),
            7,
        )

    @rule(client=st.integers(0, 2), tid=st.sampled_from([None, "tx"]))
    def init_producer(self, client: int, tid: str | None) -> None:
        answer = self.ask(client, InitProducerIdRequest(transactional_id=tid, transaction_timeout_ms=5_000), 3)
        if answer is not None and not answer.error_code:
            self.producers.append((answer.producer_id, answer.producer_epoch))

    @rule(
        client=st.integers(0, 2), who=st.integers(0, 5), beside=BESIDE, topic=TOPICS, size=st.sampled_from([1, 2_000])
    )
    def produce(self, client: int, who: int, beside: int, topic: str, size: int) -> None:
        pair = self.producers[who % len(self.producers)]
        sequence = moved(self.sequences.get(pair, 0), beside) if pair[0] >= 0 else -1
        records = encode_batch(
            [Record(number, 1_700_000_000_000, b"k", b"v" * 50) for number in range(size)],
            producer_id=pair[0],
            producer_epoch=pair[1],
            base_sequence=sequence,
            compression=3 if size > 1 else 0,
        )
        data = [PartitionProduceData(index=0, records=records)]
        answer = self.ask(
            client,
            ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]),
            7,
        )
        if answer is not None and not answer.responses[0].partition_responses[0].error_code:
            self.sequences[pair] = sequence + size

    @rule(client=st.integers(0, 2), who=st.integers(0, 5), beside=BESIDE, committed=st.booleans())
    def end_transaction(self, client: int, who: int, beside: int, committed: bool) -> None:
        producer_id, epoch = self.producers[who % len(self.producers)]
        epoch = max(min(moved(epoch, beside), 32_767), -1)
        self.ask(
            client,
            EndTxnRequest(transactional_id="tx", producer_id=producer_id, producer_epoch=epoch, committed=committed),
            3,
        )

    @rule(client=st.integers(0, 2), topic=TOPICS, offset=st.integers(-2, 3_000), level=st.integers(0, 1))
    def fetch(self, client: int, topic: str, offset: int, level: int) -> None:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
        self.ask(
            client,
            FetchRequest(
                max_wait_ms=100,
                min_bytes=1,
                isolation_level=level,
                topics=[FetchTopic(topic=topic, partitions=[partition])],
            ),
            11,
        )

    @rule(client=st.integers(0, 2), gone=st.booleans())
    def topics_come_and_go(self, client: int, gone: bool) -> None:
        if gone:
            self.ask(client, DeleteTopicsRequest(topic_names=["payments"], timeout_ms=1_000), 5)
        else:
            self.ask(client, CreateTopicsRequest(topics=[topic("payments", 1)], timeout_ms=1_000), 5)

    @rule(ms=st.sampled_from([10, 3_000, 12_000]))
    def time_passes(self, ms: int) -> None:
        self.runtime.advance(ms)

    @invariant()
    def all_is_well(self) -> None:
        if not hasattr(self, "log"):
            return
        assert "Traceback" not in self.log.getvalue(), self.log.getvalue()
        assert self.longest_s < HELD_S, f"one request held the loop for {self.longest_s:.2f} s of CPU"
        assert memory_bytes() - self.before_bytes < GROWN_BYTES

    def teardown(self) -> None:
        if not hasattr(self, "server"):
            return
        for pair in self.connections:
            if pair is not None and not pair[0].closed:
                pair[1].closed = True
                pair[0].connection_lost(None)
        ended: list[bool] = []
        self.composition.stop(ended.append)
        self.runtime.turn()
        assert ended == [True], f"no clean end: {self.log.getvalue()}"
        shutil.rmtree(self.directory, ignore_errors=True)
        logs.configure()


def topic(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


def moved(number: int, by: int) -> int:
    """A number, or one beside it that still fits."""
    return max(min(number + by, 2**31 - 1), -(2**31))


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True)
def _restore():
    yield
    logs.configure()


def test_conversations_end_in_answers():
    """KOHORT_FUZZ_CONVERSATIONS says how many."""
    run_state_machine_as_test(
        Conversations,
        settings=settings(
            max_examples=CONVERSATIONS,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
