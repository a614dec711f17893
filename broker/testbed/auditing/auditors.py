"""What must be true of everything that goes over the wire, whoever fails meanwhile.

- Generations only grow; the answers of one generation name one leader, and who syncs was named to it.
- Nobody is told that it is well, or that its commit counts, after a later generation was handed out, or after it left.
- An assignment is what the leader of that generation sent, and gives no partition to two members, nor one that another
  member of that generation has brought with it (cooperative rebalances).
- A committed offset is the last that was acknowledged, or a later one whose answer nobody got. A deletion commits
  nothing: what it took never comes back.
- A record that was acknowledged or read is there for ever at its offset.

What the broker had not acknowledged when it died, or when its log failed, may be there or not, so a generation that was
handed out and never synced may be handed out again.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from coordinator.routing import partition_for
from protocol.errors import ErrorCode
from protocol.records.batch import iterate_headers, iterate_records
from protocol.records.consumer_protocol import assigned_partitions, owned_partitions

if TYPE_CHECKING:
    from broker.testbed.auditing.exchange import Exchange

TopicPartition = tuple[str, int]  # topic, partition
_ANY_TIME = 1 << 60
OffsetKey = tuple[str, str, int]  # group, topic, partition
# After any other error a commit may have come into the log.
REFUSED = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
)


class Generation:
    """One generation of a group, as its members were told."""

    def __init__(self, first_tick: int) -> None:
        self.first_tick = first_tick  # of the first answer that handed it out
        self.members: set[str] = set()
        self.leaders: set[str] = set()
        self.led_before: set[str] = set()  # its leaders before it was forgotten
        self.listed: set[str] = set()  # the leader was told of these
        self.plans: list[dict[str, bytes]] = []  # what leaders sent
        self.owners: dict[TopicPartition, str] = {}  # instance id, else member id
        self.brought: dict[TopicPartition, str] = {}  # what cooperative members had when they joined
        self.synced = False


class Commit:
    """One attempt to commit an offset."""

    def __init__(self, arrived: int, offset: int, order: int) -> None:
        self.arrived, self.offset, self.order = arrived, offset, order
        self.acknowledged: int | None = None  # tick
        self.refused = False


class Everything:
    """All auditors in one; raises AssertionError at the first thing that must not be."""

    def __init__(self, *, fresh: bool = True, topic_name: Callable[[bytes], str | None] = lambda _: None) -> None:
        """`fresh`: everything that the broker has was seen. `topic_name` is the broker's, by topic id."""
        self.fresh = fresh
        self.topic_name = topic_name
        self.groups: dict[str, dict[int, Generation]] = defaultdict(dict)
        self.forgotten: dict[tuple[str, int], Generation] = {}
        self.commits: dict[tuple[str, str, int], list[Commit]] = defaultdict(list)
        self.records: dict[TopicPartition, dict[int, bytes | None]] = defaultdict(dict)
        self.acknowledged: dict[TopicPartition, dict[int, bytes | None]] = defaultdict(dict)
        self.read: dict[tuple[str, str, int], set[int]] = defaultdict(set)
        self.gone: dict[tuple[str, str], int] = {}  # (group, member) -> tick at which it was told that it left
        self.counts: dict[str, int] = defaultdict(int)
        self.reborn: set[str] = set()  # groups that may have been deleted: their generations begin anew
        self.mixed: set[str] = set()  # groups of the consumer protocol, whose members have epochs
        self.changed: set[str] = set()  # topics of which somebody has deleted something: what is there may go
        self.instances: set[str] = set()
        self._open: dict[int, list[Commit]] = {}
        self._deleting: dict[int, list[tuple[OffsetKey, Commit]]] = {}
        self._order = itertools.count()

    # the wire

    def arrived(self, exchange: Exchange) -> None:
        """The broker has the whole request."""
        request = exchange.request
        match type(request).__name__:
            case "JoinGroupRequest" if request.group_instance_id:
                self.instances.add(request.group_instance_id)
            case "ConsumerGroupHeartbeatRequest":
                self.mixed.add(request.group_id)
            case "DeleteTopicsRequest":
                self.changed.update(request.topic_names)
                self.changed.update(one.name or self.topic_name(one.topic_id) or "" for one in request.topics)
            case "DeleteRecordsRequest":
                self.changed.update(topic.name for topic in request.topics)
            case "TxnOffsetCommitRequest":
                # It counts when its transaction ends, if it does: perhaps after commits that come later.
                for topic, partition in self._partitions(request):
                    tp = (request.group_id, topic, partition.partition_index)
                    self.commits[tp].append(Commit(exchange.arrived, partition.committed_offset, _ANY_TIME))
            case "SyncGroupRequest" if request.assignments:
                number = request.generation_id
                # A log that failed may hold all that its group knows, and the group goes on as if nothing had been.
                known = self.groups[request.group_id].get(number) or self.forgotten.get((request.group_id, number))
                if known is not None:
                    known.plans.append({one.member_id: bytes(one.assignment) for one in request.assignments})
            case "OffsetCommitRequest":
                made = []
                for topic, partition in self._partitions(request):
                    commit = Commit(exchange.arrived, partition.committed_offset, next(self._order))
                    self.commits[request.group_id, topic, partition.partition_index].append(commit)
                    made.append(commit)
                self._open[id(exchange)] = made
            case "DeleteGroupsRequest":
                self.reborn.update(request.groups_names)
                keys = sorted(tp for tp in self.commits if tp[0] in request.groups_names)
                self._deleting[id(exchange)] = self._delete(keys, exchange)
            case "OffsetDeleteRequest":
                keys = [(request.group_id, topic, one.partition_index) for topic, one in self._partitions(request)]
                self._deleting[id(exchange)] = self._delete(keys, exchange)

    def _delete(self, keys: list[OffsetKey], exchange: Exchange) -> list[tuple[OffsetKey, Commit]]:
        made = [(tp, Commit(exchange.arrived, -1, next(self._order))) for tp in keys]
        for tp, commit in made:
            self.commits[tp].append(commit)
        return made

    def answered(self, exchange: Exchange) -> None:
        """The broker has written the answer."""
        name = type(exchange.request).__name__.removesuffix("Request")
        self.counts[name] += 1
        check: Callable[[Exchange, Any, Any], None] | None = getattr(self, f"_{name.lower()}", None)
        if check is not None:
            check(exchange, exchange.request, exchange.response)

    def broker_died(self, life: int) -> None:
        """What was handed out and not written down may be handed out again."""
        del life
        for group_id in self.groups:
            self._forget(group_id)

    def groups_loaded_anew(self, index: int, partition_count: int) -> None:
        """The log of their partition had failed: what was handed out and not written down may be again."""
        for group_id in self.groups:
            if partition_for(group_id, partition_count) == index:
                self._forget(group_id)

    def _forget(self, group_id: str) -> None:
        """The group was loaded anew."""
        generations = self.groups[group_id]
        for number in [number for number, generation in generations.items() if not generation.synced]:
            self.forgotten[group_id, number] = generations.pop(number)

    def _generation(self, group_id: str, number: int, tick: int) -> Generation:
        """The generation; one that was forgotten may have been in the log after all, and goes on."""
        generations = self.groups[group_id]
        if number not in generations:
            made = generations[number] = Generation(tick)
            before = self.forgotten.pop((group_id, number), None)
            if before is not None:
                made.plans, made.listed = before.plans, before.listed
                made.led_before = before.leaders | before.led_before
        return generations[number]

    # groups

    def _joingroup(self, exchange: Exchange, request: Any, response: Any) -> None:
        if response.error_code != ErrorCode.NONE:
            return
        generations, number = self.groups[request.group_id], response.generation_id
        newest = max(generations, default=0)
        if request.group_id in self.mixed:
            return
        if request.group_id in self.reborn and self._begins_anew(generations, number, response.leader):
            self.reborn.discard(request.group_id)
            generations.clear()
            newest = 0
        assert number >= newest, f"{request.group_id}: generation {number} was handed out after {newest}"
        generation = self._generation(request.group_id, number, exchange.answered)
        generation.members.add(response.member_id)
        generation.leaders.add(response.leader)
        if not request.group_instance_id:
            left = self.gone.get((request.group_id, response.member_id), exchange.arrived)
            assert left >= exchange.arrived, f"{response.member_id} joined after it had left"
        if response.members:
            generation.listed |= {member.member_id for member in response.members}
            assert response.member_id == response.leader, "only the leader is told who is there"
        self._bring(request, response, generation)
        if not self._with_static_members(generation):
            assert len(generation.leaders) == 1, f"generation {number} has the leaders {generation.leaders}"

    def _begins_anew(self, generations: dict[int, Generation], number: int, leader: str) -> bool:
        """Whether no group that lived on would have answered so. One that was deleted in its first generation has
        another leader in its next first one.
        """
        if number < max(generations, default=0):
            return True
        known = generations.get(number)
        if known is None or leader in known.leaders | known.led_before:
            return False
        return not self._with_static_members(known)

    def _with_static_members(self, generation: Generation) -> bool:
        """Whether another leader of it says nothing: one that comes back under its instance id has another id, and
        leads the same generation.
        """
        return any(member.startswith(tuple(self.instances)) for member in generation.leaders | generation.members)

    @staticmethod
    def _of_consumers(request: Any) -> bool:
        """Whether its group divides partitions; Connect's does not. Before version 5 it does not say."""
        return request.protocol_type in (None, "consumer")

    def _bring(self, request: Any, response: Any, generation: Generation) -> None:
        """A cooperative member goes on reading what it has: in this generation that belongs to it."""
        if request.protocol_type != "consumer":
            return
        for tp in owned_partitions(bytes(request.protocols[0].metadata)) or ():
            owner = generation.brought.setdefault(tp, response.member_id)
            assert owner == response.member_id, f"{tp} is kept by {owner} and {response.member_id}"

    def _syncgroup(self, exchange: Exchange, request: Any, response: Any) -> None:
        if response.error_code != ErrorCode.NONE or request.group_id in self.mixed:
            return
        self._current(exchange, request.group_id, request.generation_id, request.member_id)
        generation = self._generation(request.group_id, request.generation_id, exchange.arrived)
        generation.synced = True
        assignment = bytes(response.assignment)
        if not generation.plans and not self.fresh:
            return
        assert generation.plans, "an assignment that nobody made"
        static = request.group_instance_id is not None
        if not static:
            assert request.member_id in generation.listed, f"{request.member_id} was not named to the leader"
            plans = [plan.get(request.member_id, b"") for plan in generation.plans]
        else:
            plans = [one for plan in generation.plans for one in plan.values()]
        assert assignment in plans, f"{request.member_id} was given {assignment!r}"
        if not self._of_consumers(request):
            return
        who = request.group_instance_id or request.member_id
        for tp in assigned_partitions(assignment):
            owner = generation.owners.setdefault(tp, who)
            assert owner == who, f"{tp} belongs to {owner} and {who} in generation {request.generation_id}"
            owner = generation.brought.get(tp, who)
            assert owner == who, f"{tp} is given to {who} while {owner} has it in generation {request.generation_id}"

    def _heartbeat(self, exchange: Exchange, request: Any, response: Any) -> None:
        if response.error_code == ErrorCode.NONE:
            self._current(exchange, request.group_id, request.generation_id, request.member_id)

    def _leavegroup(self, exchange: Exchange, request: Any, response: Any) -> None:
        if exchange.version < 3:
            results = [(request.member_id, response.error_code)]
        else:
            results = [(member.member_id, member.error_code) for member in response.members]
        for member_id, code in results:
            if response.error_code == ErrorCode.NONE and code == ErrorCode.NONE and member_id:
                self.gone[request.group_id, member_id] = exchange.answered

    def _current(self, exchange: Exchange, group_id: str, number: int, member_id: str) -> None:
        """No later generation had been handed out, and the member had not left, when the request came."""
        if group_id in self.mixed:
            return
        for later, generation in self.groups[group_id].items():
            assert later <= number or generation.first_tick > exchange.arrived, (
                f"{member_id} of {group_id} is told that all is well in {number}, after {later} was handed out"
            )
        left = self.gone.get((group_id, member_id))
        assert left is None or left > exchange.arrived, f"{member_id} is told that all is well, after it has left"

    # offsets

    def _offsetcommit(self, exchange: Exchange, request: Any, response: Any) -> None:
        made = iter(self._open.pop(id(exchange)))
        for _, partition in self._partitions(response):
            commit = next(made)
            if partition.error_code == ErrorCode.NONE:
                commit.acknowledged = exchange.answered
                if request.member_id:
                    number = request.generation_id_or_member_epoch
                    self._current(exchange, request.group_id, number, request.member_id)
            elif partition.error_code in REFUSED:
                commit.refused = True

    def _deletegroups(self, exchange: Exchange, request: Any, response: Any) -> None:
        codes = {result.group_id: result.error_code for result in response.results}
        for (group_id, _, _), commit in self._deleting.pop(id(exchange)):
            if codes[group_id] in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                commit.acknowledged = exchange.answered
            commit.refused = codes[group_id] == ErrorCode.NON_EMPTY_GROUP
        self.reborn -= {group_id for group_id, code in codes.items() if code == ErrorCode.NON_EMPTY_GROUP}

    def _offsetdelete(self, exchange: Exchange, request: Any, response: Any) -> None:
        codes = {(topic, one.partition_index): one.error_code for topic, one in self._partitions(response)}
        for (_, topic, partition), commit in self._deleting.pop(id(exchange)):
            code = response.error_code or codes[topic, partition]
            if code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                commit.acknowledged = exchange.answered

    def _offsetfetch(self, exchange: Exchange, request: Any, response: Any) -> None:
        for group_id, source in self._fetched(exchange, request, response):
            for topic, partition in source:
                if partition.error_code == ErrorCode.NONE:
                    tp = (group_id, topic, partition.partition_index)
                    if tp not in self.commits and not self.fresh:
                        continue
                    allowed = self.offsets(tp, exchange.arrived)
                    assert partition.committed_offset in allowed, (
                        f"{tp}: {partition.committed_offset} is not among {allowed}"
                    )

    def offsets(self, tp: tuple[str, str, int], tick: int) -> set[int]:
        """What may be committed at a tick."""
        attempts = self.commits.get(tp, [])
        sure = [one for one in attempts if one.acknowledged is not None and one.acknowledged < tick]
        last = max(sure, key=lambda one: one.order, default=None)
        after = -1 if last is None else last.order
        # An answer that came later than the question, or never: it may have counted by then.
        return {-1 if last is None else last.offset} | {
            one.offset for one in attempts if one.order > after and not one.refused
        }

    def _partitions(self, message: Any) -> Iterator[tuple[str, Any]]:
        for topic in message.topics:
            name = topic.name or self.topic_name(topic.topic_id) or topic.topic_id.hex()
            for partition in topic.partitions:
                yield name, partition

    def _fetched(
        self, exchange: Exchange, request: Any, response: Any
    ) -> Iterator[tuple[str, Iterator[tuple[str, Any]]]]:
        if exchange.version >= 8:
            for group in response.groups:
                yield group.group_id, self._partitions(group)
        else:
            yield request.group_id, self._partitions(response)

    # records

    def _produce(self, exchange: Exchange, request: Any, response: Any) -> None:
        sent = {
            (topic.name, partition.index): bytes(partition.records)
            for topic in request.topic_data
            for partition in topic.partition_data
        }
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        for topic in response.responses:
            for partition in topic.partition_responses:
                if partition.error_code == ErrorCode.NONE:
                    tp = (topic.name or self.topic_name(topic.topic_id) or names[topic.topic_id], partition.index)
                    if partition.base_offset < 0:
                        continue  # it was there already, and nobody knows any more where
                    for at, record in enumerate(iterate_records(sent[tp])):
                        offset = partition.base_offset + at
                        self.acknowledged[tp][offset] = record.value
                        self._seen(tp, offset, record.value)

    def _fetch(self, exchange: Exchange, request: Any, response: Any) -> None:
        names = {topic.topic_id: topic.topic for topic in request.topics}
        for topic in response.responses:
            name = topic.topic or self.topic_name(topic.topic_id) or names.get(topic.topic_id, "")
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE and partition.records:
                    for offset, value in values(bytes(partition.records)):
                        assert offset < partition.high_watermark, "nobody may see what is not committed"
                        self._seen((name, partition.partition_index), offset, value)

    def _seen(self, tp: TopicPartition, offset: int, value: bytes | None) -> None:
        if tp[0] in self.changed or not tp[0]:
            return
        known = self.records[tp].setdefault(offset, value)
        assert known == value, f"{tp}, offset {offset}: {known!r} has become {value!r}"

    # the end

    def log(self, tp: TopicPartition, found: dict[int, bytes | None], start_offset: int = 0) -> None:
        """A partition as it lies there in the end, from `start_offset` on."""
        for offset, value in found.items():
            self._seen(tp, offset, value)
        for offset, value in self.acknowledged[tp].items():
            assert offset < start_offset or (offset in found and found[offset] == value), (
                f"{tp}, offset {offset}: {value!r} was acknowledged"
            )


def values(data: bytes) -> Iterator[tuple[int, bytes | None]]:
    """(offset, value) of every record in some batches."""
    for position, _ in iterate_headers(data):
        for record in iterate_records(data, position):
            yield record.offset, record.value
