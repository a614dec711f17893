"""Who may read which partition in a group of the consumer protocol (KIP-848), as its members were told.

A member holds what it was told to, until it says that it does not, goes, or is told that it is out. When its partition
is given to somebody else before that, it must be out: from then on no heartbeat and no commit of it is taken. Nor is a
commit of a member that has gone, or of an epoch that has passed, unless its partitions are held since then (KIP-1251).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.testbed.auditing.exchange import Exchange

_COMMITS = ("OffsetCommitRequest", "TxnOffsetCommitRequest")
_OUT = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
TopicPartition = tuple[bytes, int]  # topic id, partition


class Held:
    """What one member holds; `taken_at` is the tick at which somebody else was given some of it."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()
        self.told: set[TopicPartition] = set()  # its last assignment
        self.since: dict[TopicPartition, int] = {}  # the epoch with which it was told to
        self.joined_epoch: int | None = None  # None: it was there before anybody looked
        self.epoch = 0
        self.taken_at: int | None = None
        self.taken: TopicPartition | None = None


class Owners:
    """An auditor, for the API of KIP-848 and commits."""

    def __init__(self, topic_id: Callable[[str], bytes | None] = lambda _: None) -> None:
        """`topic_id` is the broker's, by name."""
        self._topic_id = topic_id
        self._groups: dict[str, dict[str, Held]] = defaultdict(dict)
        self._gone: set[tuple[str, str]] = set()  # (group, member), of which the broker has said so
        # Of commits on their way: what must not count, and why.
        self._stale: dict[int, tuple[set[TopicPartition], str]] = {}

    def arrived(self, exchange: Exchange) -> None:
        """What a member says that it has, that it goes, or how far it is."""
        request = exchange.request
        name = type(request).__name__
        if name in _COMMITS:
            self._stale.pop(id(exchange), None)  # of one that was never answered
            if request.member_id and request.generation_id_or_member_epoch >= 0:
                self._judge(exchange)
        elif name == "JoinGroupRequest":
            self._gone.discard((request.group_id, request.member_id))
        elif name == "ConsumerGroupHeartbeatRequest":
            members = self._groups[request.group_id]
            if request.member_epoch <= 0:
                members.pop(request.member_id, None)
                self._gone.discard((request.group_id, request.member_id))
            elif request.topic_partitions is not None and request.member_id in members:
                held, owned = members[request.member_id], _partitions_of(request.topic_partitions)
                held.partitions &= owned
                # It may not have begun yet with what it was told to hold.
                for tp in held.since.keys() - held.told - owned:
                    del held.since[tp]

    def _judge(self, exchange: Exchange) -> None:
        """What of a commit must not count, whatever comes before its answer."""
        request = exchange.request
        group_id, member_id, epoch = request.group_id, request.member_id, request.generation_id_or_member_epoch
        held = self._groups.get(group_id, {}).get(member_id)
        partitions = {self._partition_of(topic, one) for topic in request.topics for one in topic.partitions}
        if (group_id, member_id) in self._gone:
            self._stale[id(exchange)] = partitions, "has gone"
        elif held is not None and held.joined_epoch is not None and held.joined_epoch <= epoch < held.epoch:
            stale = {tp for tp in partitions if tp[0] and held.since.get(tp, held.epoch) > epoch}
            self._stale[id(exchange)] = stale, f"is at epoch {held.epoch}"

    def _partition_of(self, topic: Any, partition: Any) -> TopicPartition:
        topic_id: bytes = topic.topic_id if any(topic.topic_id) else self._topic_id(topic.name) or b""
        return topic_id, partition.partition_index

    def answered(self, exchange: Exchange) -> None:
        """What a member is told that it has."""
        request, response = exchange.request, exchange.response
        name = type(request).__name__
        if name == "ConsumerGroupHeartbeatRequest" and request.member_epoch >= 0:
            members = self._groups[request.group_id]
            member_id = response.member_id or request.member_id
            if response.error_code in _OUT:
                members.pop(member_id, None)
            elif response.error_code == ErrorCode.NONE:
                self._check(exchange, request.group_id, member_id)
                held = members.setdefault(member_id, Held())
                held.epoch = response.member_epoch
                if not request.member_epoch:
                    held.joined_epoch = held.epoch
                if response.assignment is not None:
                    self._give(exchange, members, member_id, _partitions_of(response.assignment.topic_partitions))
        elif name == "ConsumerGroupHeartbeatRequest" and response.error_code == ErrorCode.NONE:
            self._gone.add((request.group_id, request.member_id))
        elif name in _COMMITS:
            self._committed(exchange, request, response)

    def _committed(self, exchange: Exchange, request: Any, response: Any) -> None:
        # The answer has them in the order of the request.
        requested = [self._partition_of(topic, one) for topic in request.topics for one in topic.partitions]
        codes = [one.error_code for topic in response.topics for one in topic.partitions]
        taken = {tp for tp, code in zip(requested, codes, strict=False) if code == ErrorCode.NONE}
        stale, why = self._stale.pop(id(exchange), (set(), ""))
        assert not taken & stale, (
            f"{request.member_id} of {request.group_id}, which {why}, commits partition {min(taken & stale)[1]} "
            f"at epoch {request.generation_id_or_member_epoch}, and that is taken"
        )
        if taken and request.member_id in self._groups.get(request.group_id, ()):
            self._check(exchange, request.group_id, request.member_id)

    def _give(
        self, exchange: Exchange, members: dict[str, Held], member_id: str, partitions: set[TopicPartition]
    ) -> None:
        for other_id, other in members.items():
            taken = other.partitions & partitions
            if other_id != member_id and taken and other.taken_at is None:
                other.taken_at, other.taken = exchange.answered, min(taken)
        held = members[member_id]
        held.told = partitions
        for tp in partitions:
            held.since.setdefault(tp, held.epoch)
        held.partitions = partitions | held.partitions  # what it has to give up is its own until it has said so

    def _check(self, exchange: Exchange, group_id: str, member_id: str) -> None:
        held = self._groups[group_id].get(member_id)
        if held is not None and held.taken_at is not None:
            assert held.taken_at > exchange.arrived, (
                f"{member_id} of {group_id} is told that all is well at epoch {held.epoch}, after somebody else was "
                f"given partition {held.taken[1] if held.taken else '?'} of what it holds"
            )


def _partitions_of(topics: Any) -> set[TopicPartition]:
    return {(topic.topic_id, index) for topic in topics for index in topic.partitions}
