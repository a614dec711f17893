"""Somebody who makes topics, writes and reads them, and deletes them again, under names that come back."""

from __future__ import annotations

from broker.testbed.auditing.auditors import values
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import Record, encode_batch
from tests.simulation.clients import PASSING, Asking, Client
from tests.simulation.world import Connect, Lost, Process, Sleep


class Scratch(Client):
    """Sees that a topic holds what it was given since it was made, and nothing of an earlier one of its name."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self.stopping = False
        self.rounds = 0
        # Topic ids stand for names from the next ones on, and these topics have another one every time.
        self.newest = {"Produce": 12, "Fetch": 12}
        self._number = 0
        self._sure: list[bytes] = []
        self._perhaps: set[bytes] = set()

    def life(self) -> Process:
        """Topic after topic, until stopped."""
        self.channel = yield from self._connected()
        while not self.stopping:
            topic = self.random.choice(["scratch", "scratch.b"])
            yield from self._until_sure(self._create, topic)
            self._sure, self._perhaps = [], set()
            for _ in range(self.random.randrange(1, 6)):
                yield from self._write(topic)
                yield Sleep(self.random.choice([1, 50, 2_000]))
            yield from self._until_sure(self._read, topic)
            yield from self._until_sure(self._delete, topic)
            self.rounds += 1

    def _connected(self) -> Asking:
        while True:
            try:
                return (yield Connect())
            except Lost:
                yield Sleep(self.random.randrange(50, 500))

    def _until_sure(self, step: object, topic: str) -> Asking:
        """Try a step again until it has answered yes."""
        assert callable(step)
        while True:
            try:
                if (yield from step(topic)):
                    return
                yield Sleep(100)
            except Lost:
                self.channel = yield from self._connected()

    def _create(self, topic: str) -> Asking:
        wanted = [CreatableTopic(name=topic, num_partitions=1, replication_factor=1)]
        answer = yield from self.ask(CreateTopicsRequest(topics=wanted, timeout_ms=5_000))
        code = answer.topics[0].error_code
        # It is there already when the answer to an earlier try was lost.
        assert code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, *PASSING), ErrorCode(code).name
        return code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    def _write(self, topic: str) -> Asking:
        self._number += 1
        value = b"%s %d" % (self.name.encode(), self._number)
        data = bytes(encode_batch([Record(0, 1_700_000_000_000, b"k", value)]))
        made = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])
        try:
            answer = yield from self.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[made]))
        except Lost:
            self._perhaps.add(value)
            self.channel = yield from self._connected()
            return
        code = answer.responses[0].partition_responses[0].error_code
        assert code in (ErrorCode.NONE, *PASSING), ErrorCode(code).name
        if code == ErrorCode.NONE:
            self._sure.append(value)
        else:
            self._perhaps.add(value)

    def _read(self, topic: str) -> Asking:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])])
        answer = yield from self.ask(request)
        [partition] = answer.responses[0].partitions
        if partition.error_code != ErrorCode.NONE:
            assert partition.error_code in PASSING, ErrorCode(partition.error_code).name
            return False
        found = [value for _, value in values(bytes(partition.records or b""))]
        assert [value for value in found if value not in self._perhaps] == self._sure, f"{topic} holds {found}"
        return True

    def _delete(self, topic: str) -> Asking:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=topic, topic_id=bytes(16))], topic_names=[topic], timeout_ms=5_000
        )
        answer = yield from self.ask(request)
        code = answer.responses[0].error_code
        return code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
