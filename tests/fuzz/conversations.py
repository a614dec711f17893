"""Three clients of one broker in virtual time: what they say, in an order of Hypothesis.

Ids, generations, epochs and sequences are those of earlier answers, or a little beside them. Some steps are parts of a
transaction, and some of them make sense in their order, so that transactions end with records and offsets in them. Now
and then a request is large: in elements (each an object, some MB of which are a frame), or in bytes.
"""

from __future__ import annotations

import gc
import io
import os
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.composition import Composition
from broker.config.settings import Settings
from broker.handlers.dispatch import HANDLERS, Routes
from broker.loop import logs
from broker.network.connection import Connection
from broker.network.memory import Shares
from broker.network.server import Server
from protocol.api_keys import ApiKey
from protocol.frames import decode_response, encode_request
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
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
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.records.batch import Record, encode_batch
from tests.fuzz.watched import AGAIN, HELD_S, Peak, WatchedRuntime, collected_as_served
from tests.support.connections import FakeTransport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.handlers.dispatch import Handler
    from protocol.schema import Message

MB = 1 << 20
SHARES = Shares.of(1 << 30, 64 * MB)
"""Of a broker with a gigabyte: requests of 90 MB, and of 10 MB if they are made of many things."""
GROWN_BYTES = 32 * MB
GROWN_FACTOR = 100
"""While one request is handled, memory may rise by this and by so many times its size: of the four bytes of a partition
request and answer make seventy (docs/unsupported.md)."""
KEPT_BYTES = 192 * MB
"""What one conversation may leave behind, holes included."""
CONVERSATIONS = int(os.environ.get("KOHORT_FUZZ_CONVERSATIONS", "15"))
"""How many are played; with more than a hundred of them some requests have 200,000 elements."""
ELEMENTS = (20_000, 20_000, 20_000, 200_000 if CONVERSATIONS > 100 else 2_000)
BYTES = (2 * MB, 2 * MB, 8 * MB)
TIMEOUT_MS = 5_000  # of transactions
MAY_WAIT = {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.FETCH}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "message.max.bytes": str(4 * MB),
}
NOISE = random.Random(1).randbytes(max(BYTES))
CLIENTS = st.integers(0, 2)
WHO = st.integers(0, 5)
GROUPS = st.sampled_from(["g", "h"])
TOPICS = st.sampled_from(["orders", "orders", "payments", "absent"])
TRANSACTIONS = st.sampled_from(["tx", "ty"])
BESIDE = st.sampled_from([0, 0, 0, 0, 1, -1, 2**31 - 1])
"""What an id or a number is changed by: mostly nothing."""
MANY = st.sampled_from([1, *[0] * 35, *ELEMENTS])
"""How many elements; 0: as few as usual."""
LARGE = st.sampled_from([*[0] * 27, *BYTES])
PARTS = st.lists(
    st.sampled_from(["init", "add", "produce", "produce", "add offsets", "commit offsets", "end"]), max_size=7
)
"""Of a transaction, in whatever order."""
IN_ORDER = ["init", "add", "produce", "add offsets", "commit offsets", "end"]


class Producer:
    """One transactional id, as its producer knows it."""

    def __init__(self) -> None:
        self.known: list[tuple[int, int]] = [(-1, -1)]  # (producer id, epoch), the last one is the one it has now
        self.open: set[str] = set()
        """What was let into the transaction that is not ended: records, offsets."""


class Conversations(RuleBasedStateMachine):
    """Three clients of one broker in virtual time, each with a connection."""

    handlers: ClassVar[Mapping[int, Handler]] = HANDLERS
    seen: ClassVar[Counter[str]] = Counter()
    """What has come about in all conversations, by what it is."""
    longest_s: ClassVar[float] = 0.0
    """The longest turn in all of them."""

    @initialize()
    def open(self) -> None:
        """Start the broker."""
        self.directory = Path(tempfile.mkdtemp(prefix="kohort-fuzz-"))
        self.log = io.StringIO()
        logs.configure(level="error", stream=self.log)
        self.runtime = WatchedRuntime()
        self.composition = Composition.open(
            Settings({**SETTINGS, "log.dirs": str(self.directory)}),
            self.runtime,
            [("PLAINTEXT", "127.0.0.1", 9092)],
        )
        broker = self.composition.broker
        broker.served = self.handlers.keys()
        self.server = Server(broker, Routes(self.handlers), SHARES)
        self.composition.start()
        self.uncollected = collected_as_served(self.runtime, self.server)
        self.opened: list[tuple[Connection, FakeTransport]] = []
        self.held_s = 0.0
        """The longest turn that came again."""
        self.connections: list[tuple[Connection, FakeTransport] | None] = [None] * 3
        self.members: dict[str, list[tuple[str, int]]] = {"g": [("", 0)], "h": [("", 0)]}  # (member id, generation)
        self.epochs: list[tuple[str, int]] = [("m", 0)]
        self.producers: list[tuple[int, int]] = [(-1, -1)]
        self.sequences: dict[tuple[tuple[int, int], str], int] = {}
        self.transactional = {"tx": Producer(), "ty": Producer()}
        self.peak, self.kept = Peak(), Peak()
        self.kept.forget()
        self.ask(0, CreateTopicsRequest(topics=[topic("orders", 3), topic("payments", 1)], timeout_ms=1_000), 5)
        self.ask(0, FindCoordinatorRequest(key="g"), 2)
        self.ask(0, FindCoordinatorRequest(key="tx", key_type=1), 2)
        self.held_s = 0  # its start is not theirs

    def ask(self, client: int, request: Message, version: int) -> Any:
        """The answer, or None when it waits or the connection was closed."""
        assert request.API_KEY is not None
        connection, transport = self._connected(client)
        frame = encode_request(request, version, 1, f"client-{client}")
        before = len(transport.written)
        if len(frame) > 100_000:
            gc.freeze()  # the client's objects are none of the broker's, and nothing for its collector
        self.peak.forget()
        held_s = self._feed(connection, transport, frame)
        grown = self.peak.grown_bytes()
        for _ in range(AGAIN):
            if held_s < HELD_S:
                break
            held_s = min(held_s, self._feed(*self._new_connection(), frame))
        self.held_s = max(held_s, self.held_s)
        assert grown < GROWN_BYTES + GROWN_FACTOR * len(frame), (
            f"{grown:,} bytes for {len(frame):,} of {request!s:.150}"
        )
        if len(frame) >= MB:
            self.seen[f"{request.API_KEY.name} of a MB"] += 1
        if connection.closed:
            return None
        written = bytes(transport.written[before:])
        if not written:
            waiting = connection.answers.waiting
            assert waiting and waiting[0].route.api_key in MAY_WAIT, f"no answer to {request}"
            return None
        return decode_response(request.API_KEY, version, written[: 4 + int.from_bytes(written[:4])])[1]

    def _connected(self, client: int) -> tuple[Connection, FakeTransport]:
        pair = self.connections[client]
        if pair is not None and (pair[0].closed or pair[0].answers.waiting):
            # What it waits for goes with it: a client that gives up.
            pair[1].closed = True
            if not pair[0].closed:
                pair[0].connection_lost(None)
            pair = None
        if pair is None:
            pair = self.connections[client] = self._new_connection()
        return pair

    def _new_connection(self) -> tuple[Connection, FakeTransport]:
        connection, transport = Connection(self.server, "PLAINTEXT"), FakeTransport()
        transport.protocol = connection
        connection.connection_made(transport)
        self.opened.append((connection, transport))
        return connection, transport

    def _feed(self, connection: Connection, transport: FakeTransport, frame: bytes) -> float:
        """Send it, and wait for its answer; the longest turn meanwhile, in s."""
        before = len(transport.written)
        self.runtime.longest_ns = 0
        self.runtime.receive(connection, frame)
        self.runtime.turn()
        if not connection.closed and len(transport.written) == before:
            self.runtime.advance(12_000)
        return self.runtime.longest_s

    # What members of groups say

    @rule(client=CLIENTS, group=GROUPS, who=WHO, many=MANY, large=LARGE)
    def join(self, client: int, group: str, who: int, many: int, large: int) -> None:
        """With many protocols, or one that is told much about."""
        known = self.members[group]
        answer = self.ask(
            client,
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id=known[who % len(known)][0],
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequestProtocol(name=f"p{number}", metadata=NOISE[:large] or b"x")
                    for number in range(1 if large else many or 1)
                ],
            ),
            5,
        )
        if answer is not None and answer.member_id:
            known.append((answer.member_id, answer.generation_id))

    @rule(client=CLIENTS, group=GROUPS, who=WHO, beside=BESIDE, many=MANY, large=LARGE)
    def sync(self, client: int, group: str, who: int, beside: int, many: int, large: int) -> None:
        """For members that are not there too."""
        member_id, generation = self.members[group][who % len(self.members[group])]
        told = [
            SyncGroupRequestAssignment(member_id=one, assignment=NOISE[:large] if one == member_id else b"a")
            for one, _ in self.members[group]
        ]
        told += [SyncGroupRequestAssignment(member_id=f"m{number}", assignment=b"") for number in range(many)]
        request = SyncGroupRequest(
            group_id=group, generation_id=moved(generation, beside), member_id=member_id, assignments=told
        )
        self.ask(client, request, 3)

    @rule(client=CLIENTS, group=GROUPS, who=WHO, beside=BESIDE)
    def beat(self, client: int, group: str, who: int, beside: int) -> None:
        """In a generation that may be another."""
        member_id, generation = self.members[group][who % len(self.members[group])]
        request = HeartbeatRequest(group_id=group, generation_id=moved(generation, beside), member_id=member_id)
        self.ask(client, request, 3)

    @rule(client=CLIENTS, group=GROUPS, who=WHO, many=MANY)
    def leave(self, client: int, group: str, who: int, many: int) -> None:
        """With others, who are not there."""
        members = [MemberIdentity(member_id=self.members[group][who % len(self.members[group])][0])]
        members += [MemberIdentity(member_id=f"m{number}") for number in range(many)]
        self.ask(client, LeaveGroupRequest(group_id=group, members=members), 3)

    @rule(client=CLIENTS, who=WHO, beside=BESIDE, topic=TOPICS, goes=st.booleans(), many=MANY)
    def consumer_beat(self, client: int, who: int, beside: int, topic: str, goes: bool, many: int) -> None:
        """Of the consumer protocol (KIP-848)."""
        member_id, epoch = self.epochs[who % len(self.epochs)]
        joins = epoch == 0
        owned = [] if joins else [TopicPartitions(topic_id=bytes(16), partitions=list(range(many or 1)))]
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

    @rule(client=CLIENTS, group=GROUPS, who=WHO, topic=TOPICS, many=MANY, large=LARGE)
    def commit(self, client: int, group: str, who: int, topic: str, many: int, large: int) -> None:
        """Of partitions that are there, again and again; with metadata as long as it may be."""
        member_id, generation = self.members[group][who % len(self.members[group])]
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index % 3, committed_offset=index, committed_metadata="x" * (4_096 if large else 0)
            )
            for index in range(large // 4_096 or many or 2)
        ]
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
        )
        self.ask(client, request, 7)

    # What producers say

    @rule(client=CLIENTS)
    def init_producer(self, client: int) -> None:
        """One that is idempotent alone."""
        answer = self.ask(client, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS), 3)
        if answer is not None and not answer.error_code:
            self.producers.append((answer.producer_id, answer.producer_epoch))

    @rule(client=CLIENTS, who=WHO, beside=BESIDE, topic=TOPICS, size=st.sampled_from([1, 2_000]), large=LARGE)
    def produce(self, client: int, who: int, beside: int, topic: str, size: int, large: int) -> None:
        """In a sequence that is the next one, or not; in bytes that are too many, or not."""
        self._produce(client, self.producers[who % len(self.producers)], beside, topic, size, large)

    def _produce(
        self,
        client: int,
        producer: tuple[int, int],
        beside: int,
        topic: str,
        size: int,
        large: int,
        transactional_id: str | None = None,
    ) -> bool:
        """Whether it was let in."""
        size = 1 if large else size
        sequence = moved(self.sequences.get((producer, topic), 0), beside) if producer[0] >= 0 else -1
        records = encode_batch(
            [Record(number, 1_700_000_000_000, b"k", NOISE[:large] or b"v" * 50) for number in range(size)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            compression=3 if size > 1 else 0,
            transactional=transactional_id is not None,
        )
        data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])]
        request = ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=1_000, topic_data=data)
        answer = self.ask(client, request, 7)
        if answer is None or answer.responses[0].partition_responses[0].error_code:
            return False
        self.sequences[producer, topic] = sequence + size
        return True

    # What producers with transactions say

    @rule(client=CLIENTS, tid=TRANSACTIONS, parts=PARTS, who=WHO, beside=BESIDE, topic=TOPICS, group=GROUPS, many=MANY)
    def some_of_a_transaction(
        self,
        client: int,
        tid: str,
        parts: list[str],
        who: int,
        beside: int,
        topic: str,
        group: str,
        many: int,
    ) -> None:
        """Parts of one in whatever order, by a producer that may be fenced by now."""
        for part in parts:
            self.transact(client, tid, part, who=who, beside=beside, topic=topic, group=group, many=many)

    @rule(
        client=CLIENTS,
        tid=TRANSACTIONS,
        without=st.sampled_from([None, None, *IN_ORDER]),
        topic=st.sampled_from(["orders", "payments"]),
        group=GROUPS,
        committed=st.booleans(),
    )
    def most_of_a_transaction(
        self, client: int, tid: str, without: str | None, topic: str, group: str, committed: bool
    ) -> None:
        """All of one in its order, or all but a part."""
        for part in IN_ORDER:
            if part != without:
                self.transact(client, tid, part, topic=topic, group=group, committed=committed)

    def transact(
        self,
        client: int,
        tid: str,
        part: str,
        *,
        who: int = 0,
        beside: int = 0,
        topic: str = "orders",
        group: str = "g",
        many: int = 0,
        committed: bool = True,
    ) -> None:
        """One part; `who` counts producers from the last one backwards."""
        producer = self.transactional[tid]
        known = producer.known[-1 - who % len(producer.known)]
        producer_id, epoch = known[0], max(min(moved(known[1], beside), 32_767), -1)
        if part == "init":
            answer = self.ask(client, InitProducerIdRequest(transactional_id=tid, transaction_timeout_ms=TIMEOUT_MS), 3)
            if answer is not None and not answer.error_code:
                producer.known.append((answer.producer_id, answer.producer_epoch))
                producer.open = set()
        elif part == "add":
            topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(range(many or 1)))]
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=tid,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
            self.ask(client, request, 3)
        elif part == "produce":
            if self._produce(client, (producer_id, epoch), 0, topic, 1, 0, tid):
                producer.open.add("records")
        elif part == "add offsets":
            self.ask(
                client,
                AddOffsetsToTxnRequest(
                    transactional_id=tid, producer_id=producer_id, producer_epoch=epoch, group_id=group
                ),
                3,
            )
        elif part == "commit offsets":
            self._commit_offsets(client, tid, producer, (producer_id, epoch), topic, group, many)
        else:
            request = EndTxnRequest(
                transactional_id=tid, producer_id=producer_id, producer_epoch=epoch, committed=committed
            )
            answer = self.ask(client, request, 3)
            if answer is not None and not answer.error_code:
                for what in producer.open:
                    self.seen[f"{what} {'committed' if committed else 'aborted'}"] += 1
                producer.open = set()

    def _commit_offsets(
        self,
        client: int,
        tid: str,
        producer: Producer,
        known: tuple[int, int],
        topic: str,
        group: str,
        many: int,
    ) -> None:
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index % 3, committed_offset=index, committed_metadata="")
            for index in range(many or 1)
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=tid,
            group_id=group,
            producer_id=known[0],
            producer_epoch=known[1],
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
        )
        answer = self.ask(client, request, 3)
        if answer is not None and not answer.topics[0].partitions[0].error_code:
            producer.open.add("offsets")

    # What others say

    @rule(client=CLIENTS, topic=TOPICS, offset=st.integers(-2, 3_000), level=st.integers(0, 1))
    def fetch(self, client: int, topic: str, offset: int, level: int) -> None:
        """From an offset that may be there."""
        self.read(client, topic, offset, level)

    def read(self, client: int, topic: str, offset: int, level: int) -> Any:
        """The answer about its first partition, or None."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            isolation_level=level,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        answer = self.ask(client, request, 11)
        return None if answer is None else answer.responses[0].partitions[0]

    @rule(client=CLIENTS, gone=st.booleans())
    def topics_come_and_go(self, client: int, gone: bool) -> None:
        """One of them."""
        if gone:
            self.ask(client, DeleteTopicsRequest(topic_names=["payments"], timeout_ms=1_000), 5)
        else:
            self.ask(client, CreateTopicsRequest(topics=[topic("payments", 1)], timeout_ms=1_000), 5)

    @rule(ms=st.sampled_from([10, 3_000, 12_000]))
    def time_passes(self, ms: int) -> None:
        """For nobody's good."""
        self.runtime.advance(ms)

    @invariant()
    def all_is_well(self) -> None:
        """After every step."""
        if not hasattr(self, "kept"):
            return
        assert "Traceback" not in self.log.getvalue(), self.log.getvalue()
        type(self).longest_s = max(self.held_s, self.longest_s)
        assert self.held_s < HELD_S, f"a turn of the loop took {self.held_s:.3f} s of CPU"
        assert self.kept.grown_bytes() < KEPT_BYTES + GROWN_FACTOR * 10 * MB

    def no_transaction_hangs(self) -> None:
        """When nobody says anything any more, all are over in time, and whoever reads what is committed reads on."""
        self.runtime.advance(12 * TIMEOUT_MS)
        for name in ("orders", "payments"):
            found = self.read(0, name, 0, 1)
            if found is not None and not found.error_code:
                assert found.last_stable_offset == found.high_watermark, f"a transaction hangs in {name}"

    def teardown(self) -> None:
        """SIGTERM."""
        if not hasattr(self, "kept"):
            return
        try:
            self.no_transaction_hangs()
            for connection, transport in self.opened:
                if not connection.closed:
                    transport.closed = True
                    connection.connection_lost(None)
        finally:
            self.uncollected()
        ended: list[bool] = []
        self.composition.stop(ended.append)
        self.runtime.turn()
        assert ended == [True], f"no clean end: {self.log.getvalue()}"
        shutil.rmtree(self.directory, ignore_errors=True)
        logs.configure()


def topic(name: str, partitions: int) -> CreatableTopic:
    """As it is asked for."""
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


def moved(number: int, by: int) -> int:
    """A number, or one beside it that still fits."""
    return max(min(number + by, 2**31 - 1), -(2**31))
