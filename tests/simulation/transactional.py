"""Transactional clients as generators: producers of both generations, and a read_committed reader; all write a diary.

A producer keeps to Kafka's rules for clients: it repeats what it got no answer to, waits out what passes, and begins
anew (InitProducerId) after what is fatal. What it knows of each transaction's fate goes into the diary.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.records.batch import Record, encode_batch, iterate_headers, iterate_records
from tests.anomalies.history import Fate, Operation, Partition, Polled, Sent
from tests.simulation.clients import Asking, Client
from tests.simulation.world import Connect, Lost, Process, Sleep

E = ErrorCode
PASSING = frozenset(
    {
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.CONCURRENT_TRANSACTIONS,
        E.NOT_LEADER_OR_FOLLOWER,
        E.KAFKA_STORAGE_ERROR,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.NOT_ENOUGH_REPLICAS,
        E.REQUEST_TIMED_OUT,
        E.UNSTABLE_OFFSET_COMMIT,
    }
)
TIMEOUT_MS = 6_000


class Fenced(Exception):
    """The transaction cannot go on: the producer begins anew, or is replaced by another one."""

    def __init__(self, code: int) -> None:
        super().__init__(E(code).name)


class Diary:
    """What all clients of a history did, on one clock."""

    def __init__(self) -> None:
        self._clock = itertools.count()
        self.operations: list[Operation] = []
        self.ended: dict[Fate, int] = dict.fromkeys(Fate, 0)

    def now(self) -> int:
        """A moment of its own."""
        return next(self._clock)


class Draft:
    """A transaction that goes on."""

    def __init__(self, process: str, begun_at: int) -> None:
        self.process = process
        self.begun_at = begun_at
        self.sent: list[Sent] = []
        self.polled: list[Polled] = []
        self.commit_asked_at: int | None = None
        self.fate = Fate.ABORTED  # until a commit is asked for nobody will commit it

    def written_down(self) -> Operation:
        return Operation(
            self.process, self.begun_at, self.fate, tuple(self.sent), tuple(self.polled), self.commit_asked_at
        )


class TransactionalClient(Client):
    """One process with a transactional id, until it is stopped or killed."""

    def __init__(self, name: str, seed: int, transactional_id: str, diary: Diary) -> None:
        super().__init__(name, seed)
        self.transactional_id = transactional_id
        self.diary = diary
        self.stopping = False
        self.newest = self.random.random() < 0.5  # of version 2 of the protocol (KIP-890)
        self.producer_id = self.epoch = -1
        self.sequences: dict[Partition, int] = {}
        self.draft: Draft | None = None
        self.connected = False
        self.count = 0
        pick = self.random.randint
        for request, version in (
            (FindCoordinatorRequest, pick(1, 2)),
            (InitProducerIdRequest, pick(3, 5)),
            (AddPartitionsToTxnRequest, pick(0, 3)),
            (AddOffsetsToTxnRequest, pick(0, 4)),
            (ProduceRequest, 12 if self.newest else pick(7, 11)),
            (TxnOffsetCommitRequest, 5 if self.newest else pick(2, 4)),
            (EndTxnRequest, 5 if self.newest else pick(1, 4)),
            (FetchRequest, pick(4, 12)),
            (OffsetFetchRequest, 8),
        ):
            self._versions[request.API_KEY or 0] = version

    def life(self) -> Process:
        """Transaction after transaction."""
        try:
            while not self.stopping:
                try:
                    if self.epoch < 0:
                        yield from self.begin_anew()
                    yield from self.transact()
                    yield Sleep(self.random.choice([1, 50, 400]))
                except Fenced:
                    self.write_down()
                    self.epoch = -1
                    yield Sleep(self.random.randrange(50, 500))
        finally:
            self.write_down()

    def transact(self) -> Process:
        """One transaction."""
        raise NotImplementedError

    def write_down(self) -> None:
        """The transaction is over, as far as this process knows."""
        draft, self.draft = self.draft, None
        if draft is not None:
            self.diary.operations.append(draft.written_down())
            self.diary.ended[draft.fate] += 1

    # -- asking ------------------------------------------------------------------------------------------

    def connection(self) -> Asking:
        while not self.connected:
            try:
                self.channel = yield Connect()
                self.connected = True
            except Lost:
                yield Sleep(self.random.randrange(50, 500))

    def patiently(self, request: Any) -> Asking:
        """(the answer, how often it was asked): again over a new connection when there was none."""
        for attempt in itertools.count(1):
            yield from self.connection()
            try:
                return (yield from self.ask(request)), attempt
            except Lost:
                self.connected = False
                yield Sleep(self.random.randrange(20, 500))
        raise AssertionError

    def until_passed(self, request: Any, code_of: Any) -> Asking:
        """(the answer, how often it was asked), once it says nothing that passes. Raises: Fenced."""
        asked = 0
        for _ in range(2_000):
            answer, attempts = yield from self.patiently(request)
            asked += attempts
            code = code_of(answer)
            if code == E.NONE:
                return answer, asked
            if code not in PASSING:
                raise Fenced(code)
            yield Sleep(self.random.choice([20, 100]))
        raise AssertionError(f"{self.name} waits for ever: {request} was answered {E(code).name}")

    def begin_anew(self) -> Asking:
        yield from self.until_passed(
            FindCoordinatorRequest(key=self.transactional_id, key_type=1), lambda answer: answer.error_code
        )
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        answer, _ = yield from self.until_passed(request, lambda answer: answer.error_code)
        self.take_over(answer.producer_id, answer.producer_epoch)

    def take_over(self, producer_id: int, epoch: int) -> None:
        """Each epoch has sequences of its own."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences = {}
        self.producer_id, self.epoch = producer_id, epoch

    # -- the parts of a transaction ----------------------------------------------------------------------

    def begin(self) -> Draft:
        self.count += 1
        self.draft = Draft(self.name, self.diary.now())
        return self.draft

    def add(self, partitions: list[Partition]) -> Asking:
        """From version 2 on the first batch does it."""
        if self.newest:
            return
        topics = [
            AddPartitionsToTxnTopic(name=name, partitions=[index for topic, index in partitions if topic == name])
            for name in sorted({topic for topic, _ in partitions})
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        yield from self.until_passed(
            request,
            lambda answer: max(
                (
                    partition.partition_error_code
                    for topic in answer.results_by_topic_v3_and_below
                    for partition in topic.results_by_partition
                ),
                default=0,
            ),
        )

    def send(self, partition: Partition, values: list[bytes]) -> Asking:
        """One batch; what its answer says goes into the draft."""
        assert self.draft is not None
        places = range(len(self.draft.sent), len(self.draft.sent) + len(values))
        self.draft.sent += [Sent(partition, value) for value in values]
        answer, _ = yield from self.until_passed(
            self.batch(partition, values), lambda answer: answer.responses[0].partition_responses[0].error_code
        )
        base = answer.responses[0].partition_responses[0].base_offset
        for at, place in enumerate(places):
            self.draft.sent[place] = self.draft.sent[place]._replace(offset=base + at)
        self.sequences[partition] = self.sequences.get(partition, 0) + len(values)

    def batch(self, partition: Partition, values: list[bytes]) -> ProduceRequest:
        """The next batch for a partition, as it is sent."""
        records = [Record(at, 1_700_000_000_000, b"k", value) for at, value in enumerate(values)]
        data = encode_batch(
            records,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences.get(partition, 0),
            transactional=True,
        )
        made = PartitionProduceData(index=partition[1], records=bytes(data))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name=partition[0], partition_data=[made])],
        )

    def end(self, *, commit: bool) -> Asking:
        """Commit or abort, and be sure of it, or Fenced."""
        draft = self.draft
        assert draft is not None
        if commit:
            draft.commit_asked_at = self.diary.now()
            draft.fate = Fate.UNKNOWN
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer, _ = yield from self.until_passed(request, lambda answer: answer.error_code)
        draft.fate = Fate.COMMITTED if commit else Fate.ABORTED
        self.write_down()
        if self.newest:
            self.take_over(answer.producer_id, answer.producer_epoch)


class TransactionalProducer(TransactionalClient):
    """Writes to some partitions, and commits most of the time."""

    def __init__(self, name: str, seed: int, transactional_id: str, diary: Diary, partitions: list[Partition]) -> None:
        super().__init__(name, seed, transactional_id, diary)
        self.partitions = partitions

    def transact(self) -> Process:
        self.begin()
        chosen = self.random.sample(self.partitions, self.random.randint(1, len(self.partitions)))
        yield from self.add(chosen)
        for batch in range(self.random.randrange(1, 4)):
            partition = self.random.choice(chosen)
            values = [
                b"%s-%d-%d-%d" % (self.name.encode(), self.count, batch, at)
                for at in range(self.random.randrange(1, 4))
            ]
            yield from self.send(partition, values)
            if self.random.random() < 0.1:
                yield Sleep(self.random.choice([300, TIMEOUT_MS + 3_000]))  # the coordinator may end it meanwhile
        commit = self.random.random() < 0.75
        # Clients wait for their batches before they commit; only of what they abort something may be on its way still.
        late = None if commit or self.random.random() < 0.5 else self.late_batch(chosen)
        yield from self.end(commit=commit)
        if late is not None:
            yield Sleep(self.random.choice([1, 20, 200]))
            yield from self.patiently(late)
            if not self.newest:
                self.epoch = -1  # its sequence was used, perhaps (KIP-360)

    def late_batch(self, chosen: list[Partition]) -> ProduceRequest:
        """A batch that was on its way when the transaction ended: nobody waits for it, and it must not count."""
        partition, value = self.random.choice(chosen), b"late %s-%d" % (self.name.encode(), self.count)
        sent = Sent(partition, value)
        self.diary.operations.append(Operation(self.name, self.diary.now(), Fate.ABORTED, (sent,)))
        return self.batch(partition, [value])


class Processor(TransactionalClient):
    """Reads one partition, writes a record for each to another, and commits its position with them: exactly once."""

    def __init__(
        self, name: str, seed: int, transactional_id: str, diary: Diary, source: Partition, target: Partition
    ) -> None:
        super().__init__(name, seed, transactional_id, diary)
        self.source, self.target = source, target
        self.group = f"group of {transactional_id}"
        self.position = -1

    def begin_anew(self) -> Asking:
        yield from super().begin_anew()
        yield from self.until_passed(
            FindCoordinatorRequest(key=self.group, key_type=0), lambda answer: answer.error_code
        )
        asked = OffsetFetchRequestGroup(
            group_id=self.group,
            topics=[OffsetFetchRequestTopics(name=self.source[0], partition_indexes=[self.source[1]])],
        )
        answer, _ = yield from self.until_passed(
            OffsetFetchRequest(groups=[asked], require_stable=True),
            lambda answer: answer.groups[0].error_code or answer.groups[0].topics[0].partitions[0].error_code,
        )
        self.position = max(answer.groups[0].topics[0].partitions[0].committed_offset, 0)

    def transact(self) -> Process:
        found, following = yield from fetched(self, self.source, self.position)
        if following == self.position:
            yield Sleep(100)
            return
        self.begin()
        if found:
            yield from self.add([self.target])
            values = [b"%s by %s %d" % (got.value, self.name.encode(), self.count) for got in found]
            yield from self.send(self.target, values)
        yield from self.commit_position(following)
        yield Sleep(self.random.choice([0, 0, 50, 1_000]))
        yield from self.end(commit=True)
        self.position = following

    def commit_position(self, offset: int) -> Asking:
        if not self.newest:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=self.group,
            )
            yield from self.until_passed(request, lambda answer: answer.error_code)
        stored = TxnOffsetCommitRequestPartition(
            partition_index=self.source[1], committed_offset=offset, committed_metadata=""
        )
        yield from self.until_passed(
            TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=self.group,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                member_id="",
                topics=[TxnOffsetCommitRequestTopic(name=self.source[0], partitions=[stored])],
            ),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )


class CommittedReader(TransactionalClient):
    """Reads partitions from their beginning, committed records only, and never stops."""

    def __init__(self, name: str, seed: int, diary: Diary, partitions: list[Partition]) -> None:
        super().__init__(name, seed, "", diary)
        self.positions = dict.fromkeys(partitions, 0)

    def life(self) -> Process:
        """Until stopped."""
        while not self.stopping:
            partition = self.random.choice(list(self.positions))
            begun_at = self.diary.now()
            found, self.positions[partition] = yield from fetched(self, partition, self.positions[partition])
            if found:
                self.diary.operations.append(Operation(self.name, begun_at, Fate.COMMITTED, polled=tuple(found)))
            yield Sleep(self.random.choice([5, 50, 200]))


def fetched(client: TransactionalClient, partition: Partition, offset: int) -> Asking:
    """(the committed records from `offset` on, where to read on)."""
    wanted = FetchPartition(
        partition=partition[1], fetch_offset=offset, partition_max_bytes=client.random.choice([200, 1 << 20])
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=client.random.choice([0, 500]),
        min_bytes=1,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=partition[0], partitions=[wanted])],
    )
    answer, _ = yield from client.until_passed(request, lambda answer: answer.responses[0].partitions[0].error_code)
    part = answer.responses[0].partitions[0]
    at = client.diary.now()
    found = [
        Polled(partition, number, value, at)
        for number, value in committed(bytes(part.records), part.aborted_transactions)
        if number >= offset
    ]
    ends = [header.next_offset for _, header in iterate_headers(bytes(part.records))]
    return found, max([offset, *ends])


def committed(data: bytes, aborted: list[Any]) -> Iterator[tuple[int, bytes]]:
    """(offset, value) of every record that counts, as consumers find out: by the list and the markers."""
    waiting = sorted(aborted or (), key=lambda one: one.first_offset)
    aborting: set[int] = set()
    for position, header in iterate_headers(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborting.add(waiting.pop(0).producer_id)
        if header.is_control:
            if next(iter(iterate_records(data, position))).key == b"\0\0\0\0":
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            for record in iterate_records(data, position):
                assert record.value is not None
                yield record.offset, record.value
