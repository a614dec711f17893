"""Who may read which partition in a group of the consumer protocol (KIP-848), as its members were told.

A member holds what it was told to, until it says that it does not, goes, or is told that it is out. When its partition
is given to somebody else before that, it must be out: from then on no heartbeat and no commit of it is taken.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.testbed.auditing.exchange import Exchange

_OUT = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
Place = tuple[bytes, int]  # topic id, partition


class Held:
    """What one member holds; `taken_at` is the tick at which somebody else was given some of it."""

    def __init__(self) -> None:
        self.places: set[Place] = set()
        self.epoch = 0
        self.taken_at: int | None = None
        self.taken: Place | None = None


class Owners:
    """An auditor, for the API of KIP-848 and commits."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Held]] = defaultdict(dict)

    def forget(self) -> None:
        """What the broker knew may be lost: members begin anew."""
        self._groups.clear()

    def arrived(self, exchange: Exchange) -> None:
        """What a member says that it has, or that it goes."""
        request = exchange.request
        if type(request).__name__ != "ConsumerGroupHeartbeatRequest":
            return
        members = self._groups[request.group_id]
        if request.member_epoch <= 0:
            members.pop(request.member_id, None)
        elif request.topic_partitions is not None and request.member_id in members:
            members[request.member_id].places &= _places(request.topic_partitions)

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
                if response.assignment is not None:
                    self._give(exchange, members, member_id, _places(response.assignment.topic_partitions))
        elif name == "OffsetCommitRequest" and request.member_id in self._groups.get(request.group_id, ()):
            codes = [one.error_code for topic in response.topics for one in topic.partitions]
            if ErrorCode.NONE in codes:
                self._check(exchange, request.group_id, request.member_id)

    def _give(self, exchange: Exchange, members: dict[str, Held], member_id: str, places: set[Place]) -> None:
        for other_id, other in members.items():
            taken = other.places & places
            if other_id != member_id and taken and other.taken_at is None:
                other.taken_at, other.taken = exchange.answered, min(taken)
        held = members[member_id]
        held.places = places | held.places  # what it has to give up is its own until it has said so

    def _check(self, exchange: Exchange, group_id: str, member_id: str) -> None:
        held = self._groups[group_id].get(member_id)
        if held is not None and held.taken_at is not None:
            assert held.taken_at > exchange.arrived, (
                f"{member_id} of {group_id} is told that all is well at epoch {held.epoch}, after somebody else was "
                f"given partition {held.taken[1] if held.taken else '?'} of what it holds"
            )


def _places(topics: Any) -> set[Place]:
    return {(topic.topic_id, index) for topic in topics for index in topic.partitions}
