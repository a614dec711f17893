"""A consumer as a generator: it does as Kafka's ConsumerCoordinator and Fetcher, and remembers what it read."""

from __future__ import annotations

from typing import Any

from broker.testbed.auditing.auditors import Everything, values
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.records.consumer_protocol import assigned_partitions
from tests.simulation.clients import PASSING, Asking, Client
from tests.simulation.world import Connect, Lost, Process, Sleep
from tests.support.consumer_protocol import assignment, subscription

SESSION_MS = 6_000
REBALANCE_MS = 10_000
_COORDINATOR = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class Rejoin(Exception):
    """Join again, as the member that it is."""


class Anew(Exception):
    """Join again, as a new member."""


class Elsewhere(Exception):
    """Ask who coordinates."""


class Fenced(Exception):
    """Another process has the same instance id."""


def check(code: int) -> None:
    """Do as Kafka's consumer does after each error. Raises: one of the above; AssertionError for any other."""
    if code in _COORDINATOR:
        raise Elsewhere
    if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
        raise Anew
    if code == ErrorCode.REBALANCE_IN_PROGRESS:
        raise Rejoin
    if code == ErrorCode.FENCED_INSTANCE_ID:
        raise Fenced
    assert code == ErrorCode.NONE, ErrorCode(code).name


class Consumer(Client):
    """A member of a group, until it is stopped."""

    protocol = "range"

    def __init__(
        self, name: str, seed: int, auditor: Everything, group: str, topics: list[str], instance: str | None = None
    ) -> None:
        super().__init__(name, seed)
        self.auditor = auditor
        self.group, self.topics, self.instance = group, topics, instance
        self.stopping = False
        self.member_id, self.generation = "", -1
        self.owes = False  # a commit: what was read since the last that was acknowledged, also by a rebalance's refusal
        self.positions: dict[tuple[str, int], int] = {}
        self.positions_of = -1  # the generation that they were looked up in
        self.planned: list[int] | None = None  # of a leader: how many partitions each topic had when it planned
        if instance is not None:
            self.oldest = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "OffsetCommit": 7, "LeaveGroup": 3}
        # Topic ids stand for names from these on, and a consumer would have to learn them.
        self.newest = {"Fetch": 12, "OffsetCommit": 9, "OffsetFetch": 9}

    def life(self) -> Process:
        """Join, read and commit."""
        connected = False
        while True:
            try:
                if not connected:
                    self.channel = yield Connect()
                    connected = True
                yield from self.coordinator()
                while not self.stopping:
                    try:
                        yield from self.join()
                        yield from self.work()
                    except Rejoin:
                        pass
                    except Anew:
                        self.member_id, self.generation = "", -1
                        self.forget()
                if self.instance is None:
                    yield from self.leave()
                return
            except Lost:
                connected = False
                yield Sleep(self.random.randrange(50, 1_000))
            except Elsewhere:
                yield Sleep(100)
            except Fenced:
                return

    def coordinator(self) -> Asking:
        """Ask for the coordinator, as often as it takes."""
        while True:
            request = FindCoordinatorRequest(key=self.group, coordinator_keys=[self.group])
            answer = yield from self.ask(request)
            code = answer.coordinators[0].error_code if answer.coordinators else answer.error_code
            if code == ErrorCode.NONE:
                return
            assert code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), code
            yield Sleep(100)

    def forget(self) -> None:
        """The group has gone on without it."""

    def protocols(self) -> list[JoinGroupRequestProtocol]:
        """How it can share, and what it says of itself."""
        return [JoinGroupRequestProtocol(name=self.protocol, metadata=subscription(*self.topics))]

    def join(self) -> Asking:
        """JoinGroup and SyncGroup, then where to read on."""
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=self.protocols(),
            reason=f"{self.name} has its reasons",
        )
        # The generation may be a later one than that of the positions: a join was answered, and its sync was not.
        stale = [self.heartbeat(), self.commit(self.positions_of)]
        joined = yield from self.ask(request, REBALANCE_MS + 5_000)
        if joined.error_code == ErrorCode.NONE and self.positions and self.random.random() < 0.2:
            yield from self.ask_all(
                stale
            )  # what another thread was about to send; nobody minds the answers but auditors
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            raise Rejoin
        check(joined.error_code)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        assignments = []
        self.planned = [] if joined.leader == self.member_id else None
        if joined.leader == self.member_id and not joined.skip_assignment:
            plan = yield from self.plan(joined.members)
            assignments = [SyncGroupRequestAssignment(member_id=one, assignment=plan[one]) for one in plan]
        synced = yield from self.ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocol_name=self.protocol,
                assignments=assignments,
            )
        )
        check(synced.error_code)
        yield from self.resume(read_assignment(bytes(synced.assignment)))

    def plan(self, listed: list[Any]) -> Asking:
        """What the leader gives to whom."""
        members = [member.member_id for member in listed]
        owned: dict[str, dict[str, list[int]]] = {member: {} for member in members}
        self.planned = yield from self._sizes()
        for topic, count in zip(self.topics, self.planned, strict=True):
            for partition in range(count):
                member = sorted(members)[partition % len(members)]
                owned[member].setdefault(topic, []).append(partition)
        if self.random.random() < 0.1:
            yield Sleep(self.random.randrange(3_000))  # a leader that takes its time
        return {member: assignment(topics) for member, topics in owned.items()}

    def resume(self, mine: dict[str, list[int]]) -> Asking:
        """Fetch the committed offsets of what is mine now."""
        names = [OffsetFetchRequestTopics(name=topic, partition_indexes=mine[topic]) for topic in mine]
        older = [OffsetFetchRequestTopic(name=topic, partition_indexes=mine[topic]) for topic in mine]
        groups = [OffsetFetchRequestGroup(group_id=self.group, topics=names)]
        request = OffsetFetchRequest(group_id=self.group, topics=older, groups=groups, require_stable=True)
        answer = yield from self.ask(request)
        source = answer.groups[0] if answer.groups else answer
        check(source.error_code)
        self.positions, self.positions_of = {}, self.generation
        for topic in source.topics:
            for partition in topic.partitions:
                check(partition.error_code)
                self.positions[topic.name, partition.partition_index] = max(partition.committed_offset, 0)

    def work(self) -> Asking:
        """Poll, heartbeat and commit until something else is to be done. Raises: Rejoin, Anew and so on."""
        while not self.stopping:
            yield Sleep(self.random.randrange(200, 900))
            requests: list[Any] = [self.heartbeat()]
            if self.positions:
                requests.append(self.fetch())
            answers = yield from self.ask_all(requests)
            check(answers[0].error_code)
            if len(answers) > 1:
                self.owes |= self.take(answers[1])
            if self.owes:
                ahead = [self.commit()] if self.random.random() < 0.5 else [self.commit(), self.heartbeat()]
                committed, *alive = yield from self.ask_all(ahead)
                for topic in committed.topics:
                    for partition in topic.partitions:
                        check(partition.error_code)
                self.owes = False
                for answer in alive:
                    check(answer.error_code)
            if self.random.random() < 0.1:
                sizes = yield from self._sizes()
                if self.planned not in (None, sizes):
                    raise Rejoin  # a topic has grown since the leader planned

    def _sizes(self) -> Asking:
        sizes = []
        for topic in self.topics:
            sizes.append((yield from self.partitions_of(topic)))
        return sizes

    def heartbeat(self) -> HeartbeatRequest:
        """I am alive."""
        return HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )

    def fetch(self) -> FetchRequest:
        """What comes after what was read."""
        topics = [
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=4_096)
                    for (topic, partition), offset in self.positions.items()
                    if topic == name
                ],
            )
            for name in sorted({topic for topic, _ in self.positions})
        ]
        return FetchRequest(max_wait_ms=self.random.choice([0, 100]), min_bytes=1, topics=topics)

    def take(self, answer: Any) -> bool:
        """Read what came; whether anything did."""
        some = False
        for topic in answer.responses:
            for partition in topic.partitions:
                place = (topic.topic, partition.partition_index)
                if partition.error_code != ErrorCode.NONE:
                    assert partition.error_code in PASSING, ErrorCode(partition.error_code).name
                    continue
                for offset, _ in values(bytes(partition.records or b"")):
                    if offset >= self.positions[place]:
                        assert offset == self.positions[place], f"{self.name} would leave out {place} {offset}"
                        self.auditor.read[self.group, *place].add(offset)
                        self.positions[place] = offset + 1
                        some = True
        return some

    def commit(self, generation: int | None = None) -> OffsetCommitRequest:
        """What was read, in the member's generation if no other is given."""
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
                    for (topic, partition), offset in self.positions.items()
                    if topic == name
                ],
            )
            for name in sorted({topic for topic, _ in self.positions})
        ]
        return OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=topics,
        )

    def leave(self) -> Asking:
        """Say goodbye."""
        me = MemberIdentity(member_id=self.member_id, reason="the consumer is being closed")
        yield from self.ask(LeaveGroupRequest(group_id=self.group, member_id=self.member_id, members=[me]))


def read_assignment(data: bytes) -> dict[str, list[int]]:
    """By topic."""
    owned: dict[str, list[int]] = {}
    for topic, partition in sorted(assigned_partitions(data)):
        owned.setdefault(topic, []).append(partition)
    return owned
