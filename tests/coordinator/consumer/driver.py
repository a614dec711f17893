"""Drives a shard with consumer groups as a partition leader would, with a clock that only moves when told to.

    broker = Driver({"t": 4})
    a = broker.join("a", ["t"])            # the answer
    broker.beat("a", owned={"t": [0, 1]})  # at the epoch that the last answer gave it

After every input the driver holds two things: the group is what both ways of loading make of the log, and a refused
write leaves nothing behind. Tasks are carried out at once; `hold_tasks()` keeps them until `run_tasks()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator.classic import inputs as classic
from coordinator.consumer import inputs
from coordinator.consumer.assignor import AssignmentSpec, Assignor, Steps
from coordinator.consumer.epoch_rebalance import NO_TRACKING
from coordinator.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.consumer.regexes import matching
from coordinator.consumer.target import computed
from coordinator.loading import load, replay_log
from coordinator.offsets import inputs as offset_inputs
from coordinator.outcome import Appended, AppendFailed, CancelTimer, Input, Outcome, SetTimer, Work
from coordinator.shard import Shard
from coordinator.values import altered
from coordinator.view import ConsumerSettings, GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequestTopics
from protocol.records.batch_encoder import encode_pairs
from protocol.records.batch_header import stamp
from protocol.records.group_records import encode_key, encode_value
from tests.support.views import check_views

INTERVAL = 5_000
SESSION = 45_000
REBALANCE = 30_000


class Topics:
    """Topics of a moment. Ids are the name, padded."""

    def __init__(self, partitions: Mapping[str, int], version: int = 1, created_version: int = 1) -> None:
        self.partitions = dict(partitions)
        self.version = version
        self.created_version = created_version

    def partition_count(self, name: str) -> int | None:
        return self.partitions.get(name)

    def topic_id(self, name: str) -> bytes | None:
        return tid(name) if name in self.partitions else None

    def topic_name(self, topic_id: bytes) -> str | None:
        name = topic_id.rstrip(b"\0").decode()
        return name if name in self.partitions else None

    def names(self) -> list[str]:
        return sorted(self.partitions)


def tid(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


class Dealer:
    """A plain assignor: each topic's partitions in runs to its subscribers by id; or what `plan` says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.plan: dict[str, dict[str, list[int]]] | None = None
        self.asked = 0

    def steps(self, spec: AssignmentSpec) -> Steps:
        self.asked += 1
        yield
        if self.plan is not None:
            return {
                member: {tid(topic): tuple(partitions) for topic, partitions in topics.items() if partitions}
                for member, topics in self.plan.items()
            }
        target: dict[str, dict[bytes, tuple[int, ...]]] = {}
        for topic_id, topic in spec.topics.items():
            members = sorted(member for member, said in spec.members.items() if topic_id in said.topic_ids)
            share, extra = divmod(topic.partition_count, len(members))
            start = 0
            for index, member in enumerate(members):
                end = start + share + (index < extra)
                if end > start:
                    target.setdefault(member, {})[topic_id] = tuple(range(start, end))
                start = end
        return target


@dataclass(eq=False)
class Request:
    """A request on its way."""

    responses: list[Any] = field(default_factory=list)

    def answer(self, response: Any) -> None:
        self.responses.append(response)
        assert len(self.responses) == 1, "answered twice"

    @property
    def response(self) -> Any:
        return self.responses[0] if self.responses else None


@dataclass
class Answer:
    """A heartbeat's answer as tests read it. `assigned` None: as before."""

    error: ErrorCode
    epoch: int
    assigned: dict[str, list[int]] | None
    member_id: str | None = None
    interval_ms: int = 0
    message: str | None = None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return (self.epoch, self.assigned) == other and self.error is ErrorCode.NONE
        if isinstance(other, ErrorCode):
            return self.error is other
        return self is other

    __hash__ = None  # type: ignore[assignment]


class Driver:
    """One partition leader in virtual time."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        group_settings: GroupSettings | None = None,
        interval_ms: int = 0,
        **settings: Any,
    ) -> None:
        self.now_ms = 1_000_000
        self.topics = Topics(topics or {"t": 4})
        self.dealer, self.other_dealer = Dealer("uniform"), Dealer("range")
        assignors: dict[str, Assignor] = {"uniform": self.dealer, "range": self.other_dealer}
        self.settings = ConsumerSettings(assignors=assignors, assignment_interval_ms=interval_ms, **settings)
        self.group_settings = group_settings or GroupSettings()
        self.shard = self.new_shard()
        self.group_id = "g"
        self.log: list[list[tuple[Any, Any]]] = []
        self.timers: dict[tuple[str, ...], SetTimer] = {}
        self.events: list[Any] = []
        self.tasks: list[Work] = []
        self.hidden: dict[Any, set[str]] = {}  # who may not describe which topics
        self.checks = True
        self._holds = False
        self._refusals: list[ErrorCode] = []
        self._said: dict[str, dict[str, Any]] = {}
        self._ids = 0

    def new_shard(self) -> Shard:
        return Shard(self.group_settings, self.topics, lambda _: self.settings)

    # What there is

    @property
    def group(self) -> ConsumerGroup:
        return self.shard.consumer_groups[self.group_id]

    def member(self, member_id: str) -> ConsumerMember:
        return self.group.members[member_id]

    @property
    def state(self) -> str:
        return self.group.state.value

    def held(self, member_id: str) -> dict[str, list[int]]:
        return named(self.member(member_id).assigned)

    def pending(self, member_id: str) -> dict[str, list[int]]:
        return named(self.member(member_id).pending)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def written(self) -> list[str]:
        """What the last batch holds: the type of each record, with a minus for a tombstone."""
        return [("-" if value is None else "") + str(key.record_type) for key, value in self.log[-1]]

    def timer_in(self, name: str, member_id: str) -> int | None:
        timer = self.timers.get((name, self.group_id, member_id))
        return None if timer is None else timer.deadline_ms - self.now_ms

    # Requests

    def join(self, member_id: str, names: Iterable[str] | None = ("t",), **more: Any) -> Answer:
        """A first heartbeat, epoch 0."""
        said = {"names": None if names is None else tuple(sorted(names)), "rebalance_timeout_ms": REBALANCE}
        return self.heartbeat(member_id, 0, owned={}, **{**said, **more})

    def beat(self, member_id: str, epoch: int | None = None, **more: Any) -> Answer:
        """A later one; by default at the epoch that the member has."""
        return self.heartbeat(member_id, self.member(member_id).epoch if epoch is None else epoch, **more)

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        names: Iterable[str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        owned: Mapping[str, Iterable[int]] | None = None,
        version: int = 1,
        client_id: str = "c",
        client_host: str = "/127.0.0.1",
        who: Any = None,
    ) -> Answer:
        self._ids += 1
        request = Request()
        self.feed(
            inputs.ConsumerHeartbeat(
                self.group_id,
                member_id,
                epoch,
                instance_id,
                rack_id,
                rebalance_timeout_ms,
                None if names is None else tuple(sorted(names)),
                regex,
                assignor,
                None if owned is None else {tid(topic): frozenset(held) for topic, held in owned.items()},
                version,
                f"made-{self._ids}",
                client_id,
                client_host,
                request,
                who,
            )
        )
        response = request.response
        assignment = response.assignment
        return Answer(
            ErrorCode(response.error_code),
            response.member_epoch,
            None
            if assignment is None
            else {topic.topic_id.rstrip(b"\0").decode(): topic.partitions for topic in assignment.topic_partitions},
            response.member_id,
            response.heartbeat_interval_ms,
            response.error_message,
        )

    def leave(self, member_id: str, instance_id: str | None = None, epoch: int = -1) -> Answer:
        return self.heartbeat(member_id, epoch, instance_id=instance_id)

    def settle(self, *member_ids: str, rounds: int = 6) -> None:
        """Members heartbeat, owning what they hold, until everybody has what the target says."""
        for _ in range(rounds):
            for member_id in member_ids or list(self.group.members):
                self.beat(member_id, owned=self.held(member_id))
        assert self.state == "Stable"

    def stable(self, *member_ids: str, names: Iterable[str] = ("t",), **more: Any) -> None:
        """A group of these members, stable."""
        for member_id in member_ids:
            self.join(member_id, names, **more)
        self.settle()
        self.events.clear()

    def ask(self, event: Any) -> Any:
        """The answer to a request of any other kind."""
        event.reply_to = request = Request()
        self.feed(event)
        return request.response

    def commit(
        self, member_id: str, epoch: int, offsets: Mapping[str, Mapping[int, int]], version: int = 10, **more: Any
    ) -> set[ErrorCode]:
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=tid(topic),
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in offsets.items()
        ]
        event = offset_inputs.CommitOffsets(
            self.group_id, member_id, more.get("instance_id"), epoch, topics, version, -1, None
        )
        answer = self.ask(event)
        return {ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions}

    def commit_in_transaction(
        self, member_id: str, epoch: int, offsets: Mapping[str, Mapping[int, int]], version: int = 5
    ) -> set[ErrorCode]:
        """By producer 4000. The log of this driver is plain, so nothing is checked by loading it from now on."""
        self.checks = False
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=tid(topic),
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in offsets.items()
        ]
        event = offset_inputs.CommitTransactionalOffsets(
            self.group_id, member_id, None, epoch, topics, version, -1, None, producer_id=4_000, producer_epoch=0
        )
        answer = self.ask(event)
        return {ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions}

    def fetch(self, member_id: str | None, epoch: int, topic: str = "t", partitions: Iterable[int] = (0,)) -> Any:
        asked = [OffsetFetchRequestTopics(name=topic, topic_id=tid(topic), partition_indexes=list(partitions))]
        event = offset_inputs.FetchOffsets(
            self.group_id, asked, False, True, None, member_id=member_id, member_epoch=epoch
        )
        answer = self.ask(event)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return [part.committed_offset for found in answer.topics for part in found.partitions]

    def leave_group(
        self, *leavers: tuple[str, str | None], version: int = 5, reason: str | None = None
    ) -> list[ErrorCode]:
        members = [classic.Leaver(member_id, instance_id, reason) for member_id, instance_id in leavers]
        answer = self.ask(classic.Leave(self.group_id, members, version, None))
        return [ErrorCode(member.error_code) for member in answer.members]

    # Effects

    def feed(self, event: Input) -> Outcome:
        """What a leader does with one input."""
        shard, group_id = self.shard, event.key
        before = shard.consumer_groups.get(group_id)
        looked = repr(before)
        outcome = shard.handle(event, self.now_ms)
        assert repr(before) == looked, "a rule changed the group that it was given"
        shard.install(group_id, outcome)
        assert bool(outcome.records) <= (outcome.token is not None), "records without a token"
        for timer in outcome.timers:
            self.timers.pop(timer.key, None)
            if not isinstance(timer, CancelTimer):
                self.timers[timer.key] = timer
        self.events.extend(outcome.events)
        if outcome.records and self._refusals:
            assert outcome.token is not None
            error = self._refusals.pop(0)
            self.feed(AppendFailed(group_id, outcome.token, error))
            return outcome
        if outcome.records:
            self.log.append(list(outcome.records))
            for key, value in outcome.records:
                producer_id = -1 if outcome.producer is None else outcome.producer[0]
                shard.replay(key, value, producer_id, sum(map(len, self.log)))
        check_views(shard)
        for reply in outcome.replies:
            reply.to.answer(reply.response)
        if outcome.token is not None and outcome.token.resumes:
            self.feed(Appended(group_id, outcome.token))
        self.tasks += outcome.work
        if not self._holds:
            self.run_tasks()
        self.check()
        return outcome

    def hold_tasks(self) -> None:
        self._holds = True

    def run_tasks(self) -> None:
        self._holds = False
        while self.tasks:
            self.feed(self.result_of(self.tasks.pop(0)))

    def result_of(self, task: Work) -> Input:
        if isinstance(task, inputs.ResolveRegexes):
            hidden = self.hidden.get(task.on_behalf_of, set())
            found = {regex: matching(regex, task.topics.names()) - hidden for regex in task.regexes}
            return inputs.RegexesResolved(task.group_id, found, task.topics.version)
        assert isinstance(task, inputs.ComputeTarget)
        steps = computed(task, self.settings.assignors[task.assignor])
        while True:
            try:
                next(steps)
            except StopIteration as done:
                result: inputs.TargetComputed = done.value
                return result

    def fail_appends(self, *errors: ErrorCode) -> None:
        """The next outcomes that have records are refused, one for each error."""
        self._refusals = list(errors)

    def with_topics(self, partitions: Mapping[str, int]) -> None:
        """The topics are these from now on."""
        version = self.topics.version + 1
        created = set(partitions) - set(self.topics.partitions)
        self.topics = Topics(partitions, version, version if created else self.topics.created_version)
        self.shard.topics = self.topics

    # The log

    def data(self) -> bytes:
        """The log as it lies on the disk."""
        data, base = bytearray(), 0
        for batch in self.log:
            pairs = [(encode_key(key), None if value is None else encode_value(value)) for key, value in batch]
            encoded = encode_pairs(pairs, timestamp=1_000, base_sequence=0)
            stamp(encoded, base, 0)
            data += encoded
            base += len(pairs)
        return bytes(data)

    def loaded(self, way: Any = None) -> Shard:
        """As a leader loads it: folded, and replayed where that is not enough; or in one `way`."""
        shard, chunks = self.new_shard(), [self.data()] if self.log else []
        if way is None:
            load(shard, lambda: chunks)
        else:
            way(shard, chunks)
        return shard

    def reload(self) -> None:
        """The broker starts anew on the log."""
        self.shard = self.loaded()
        self.timers.clear()
        for group_id in self.shard.all_keys():
            self.feed(classic.GroupLoaded(group_id))

    def check(self) -> None:
        """The durable part is the fold of the log, whichever way it is read."""
        if not self.checks:
            return
        now = {name: durable(group) for name, group in self.shard.consumer_groups.items()}
        for way in (None, replay_log):
            shard = self.loaded(way)
            assert {name: durable(group) for name, group in shard.consumer_groups.items()} == now, way
            assert set(shard.groups) == set(self.shard.groups), way
        for group in self.shard.consumer_groups.values():
            check_invariants(group)

    # Time

    def advance(self, ms: int) -> None:
        """Let time pass; what is due on the way happens at its moment."""
        end_ms = self.now_ms + ms
        while True:
            due = min(self.timers.values(), key=lambda timer: timer.deadline_ms, default=None)
            if due is None or due.deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due.deadline_ms)
            del self.timers[due.key]
            self.feed(due.then)
        self.now_ms = end_ms


def named(partitions: Mapping[bytes, Iterable[int]]) -> dict[str, list[int]]:
    return {topic_id.rstrip(b"\0").decode(): sorted(held) for topic_id, held in partitions.items()}


def durable(group: ConsumerGroup) -> ConsumerGroup:
    """Without what is not in the log."""
    plain_members = {
        member_id: altered(member, assigned=_plain(member.assigned), pending=_plain(member.pending))
        for member_id, member in group.members.items()
    }
    return altered(
        group,
        members=plain_members,
        hashed_topics=None,
        regexes_requested_at_ms=None,
        computing_epoch=None,
        join_timers={},
        tracking=NO_TRACKING,
    )


def _plain(partitions: Mapping[bytes, Mapping[int, int]]) -> dict[bytes, dict[int, int]]:
    return {topic_id: dict(held) for topic_id, held in partitions.items()}


def check_invariants(group: ConsumerGroup) -> None:
    """What `coordinator.consumer.group` promises is always true."""
    owners: dict[tuple[bytes, int], str] = {}
    for member_id, member in group.members.items():
        assert member.member_id == member_id
        assert member.epoch <= group.target_epoch, "a member is ahead of the target"
        assert member.epoch == 0 or member.previous_epoch <= member.epoch or member.is_away
        for held in (member.assigned, member.pending):
            for topic_id, partitions in held.items():
                assert partitions, "a topic without partitions"
                for partition in partitions:
                    assert owners.setdefault((topic_id, partition), member_id) == member_id, "two owners"
    assert owners == group.owners
    assert group.target_epoch <= group.epoch
    assert set(group.targets) <= set(group.members)
    assert group.static_members == {m.instance_id: m.member_id for m in group.members.values() if m.instance_id}
    assert group.classic_count == sum(member.classic is not None for member in group.members.values())
    assert set(group.regexes) <= set(group.regex_counts)
