"""Clients as generators: what all have in common, idempotent producers, an administrator.

Each speaks its own mix of versions, and sometimes sends several requests ahead.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import Record, encode_batch
from protocol.registry import APIS
from tests.simulation.world import Call, Channel, Connect, Lost, Process, Sleep

Asking = Generator[Any, Any, Any]
# A partition that recovers, or whose log failed and heals.
PASSING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Client:
    """What all have: a connection, a mix of versions, chance."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.random = random.Random(f"{name} {seed}")
        self.channel: Channel
        self.impatience = 0.03
        self.oldest: dict[str, int] = {}  # by API: the least version that says what the client needs
        self.newest: dict[str, int] = {}  # by API: the last version that the client speaks
        self.topic_ids: dict[str, bytes] = {}  # as Metadata said last; since its version 10
        self._versions: dict[int, int] = {}

    def version(self, request: Any) -> int:
        """The client's version of an API."""
        key = request.API_KEY
        if key not in self._versions:
            first, last = APIS[key].served
            first = max(first, self.oldest.get(APIS[key].name, 0))
            last = min(last, self.newest.get(APIS[key].name, last))
            self._versions[key] = last if self.random.random() < 0.5 else self.random.randint(first, last)
        return self._versions[key]

    def ask(self, request: Any, timeout_ms: int = 8_000) -> Asking:
        """The answer to a request. Raises: Lost."""
        [answer] = yield from self.ask_all([request], timeout_ms)
        return answer

    def ask_all(self, requests: list[Any], timeout_ms: int = 8_000) -> Asking:
        """The answers to requests that are sent one behind the other. Raises: Lost."""
        if self.random.random() < self.impatience:
            timeout_ms = self.random.randrange(1, 10)  # it hangs up too early, and the broker has done it all the same
        return (yield Call(self.channel, [(request, self.version(request)) for request in requests], timeout_ms))

    def partitions_of(self, topic: str) -> Asking:
        """How many partitions a topic has. Raises: Lost."""
        topics = [MetadataRequestTopic(name=topic)]
        answer = yield from self.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True))
        self.topic_ids[topic] = answer.topics[0].topic_id
        return len(answer.topics[0].partitions)


class Producer(Client):
    """Writes numbered records, each once, and tries again for ever."""

    def __init__(self, name: str, seed: int, topic: str) -> None:
        super().__init__(name, seed)
        self.topic = topic
        self.stopping = False
        # From Produce 13 on ids stand for names, and Metadata 10 is the first to tell them.
        self.oldest = {"Produce": 3, "Metadata": 10}
        self.producer_id = self.epoch = -1
        self.sequences: dict[int, int] = {}
        self._number = 0

    def life(self) -> Process:
        """Produce until stopped; what is on its way is finished first."""
        unsent: tuple[int, bytes, int] | None = None  # partition, batch, records in it
        connected = False
        while not (self.stopping and unsent is None):
            try:
                if not connected:
                    self.channel = yield Connect()
                    connected = True
                if self.producer_id < 0:
                    answer = yield from self.ask(InitProducerIdRequest(transactional_id=None))
                    if answer.error_code != ErrorCode.NONE:
                        yield Sleep(100)
                        continue
                    self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                if unsent is None:
                    unsent = self.batch((yield from self.partitions_of(self.topic)))
                if (yield from self.send(*unsent)):
                    unsent = None
                yield Sleep(self.random.randrange(50, 400))
            except Lost:
                connected = False
                yield Sleep(self.random.randrange(50, 1_000))

    def batch(self, partitions: int) -> tuple[int, bytes, int]:
        """The next records."""
        partition, count = self.random.randrange(partitions), self.random.randrange(1, 4)
        records = [
            Record(at, 1_700_000_000_000, b"k", b"%s %d" % (self.name.encode(), self._number + at))
            for at in range(count)
        ]
        self._number += count
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + count
        data = encode_batch(records, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence)
        return partition, bytes(data), count

    def send(self, partition: int, data: bytes, count: int) -> Asking:
        """Whether it is acknowledged."""
        del count
        made = PartitionProduceData(index=partition, records=data)
        topic = TopicProduceData(name=self.topic, topic_id=self.topic_ids[self.topic], partition_data=[made])
        answer = yield from self.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]))
        code = answer.responses[0].partition_responses[0].error_code
        assert code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, *PASSING), ErrorCode(code).name
        return code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class Administrator(Client):
    """Creates the topics, lets them grow, looks at groups."""

    def __init__(self, name: str, seed: int, topics: dict[str, int]) -> None:
        super().__init__(name, seed)
        self.topics = dict(topics)
        self.ready = False
        self.stopping = False

    def life(self) -> Process:
        """Until stopped."""
        while not self.stopping:
            try:
                self.channel = yield Connect()
                while not self.ready:
                    yield from self.create()
                while not self.stopping:
                    yield Sleep(self.random.randrange(500, 3_000))
                    yield from self.random.choice([self.look, self.look, self.look, self.grow])()
            except Lost:
                yield Sleep(200)

    def create(self) -> Asking:
        """Create the topics, in one request."""
        wanted = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in self.topics.items()
        ]
        answer = yield from self.ask(CreateTopicsRequest(topics=wanted, timeout_ms=5_000))
        self.ready = all(
            topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) for topic in answer.topics
        )

    def look(self) -> Asking:
        """ListGroups, and DescribeGroups of what there is."""
        listed = yield from self.ask(ListGroupsRequest())
        groups = [group.group_id for group in listed.groups]
        described = yield from self.ask(DescribeGroupsRequest(groups=groups))
        assert [group.group_id for group in described.groups] == groups

    def grow(self) -> Asking:
        """One more partition for a topic, now and then."""
        name = self.random.choice(list(self.topics))
        if self.topics[name] < 5:
            wanted = CreatePartitionsTopic(name=name, count=self.topics[name] + 1, assignments=None)
            answer = yield from self.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=5_000))
            if answer.results[0].error_code == ErrorCode.NONE:
                self.topics[name] += 1
