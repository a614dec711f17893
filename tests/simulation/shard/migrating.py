"""A member of the classic protocol in a group that may speak the new one: what it says of itself can be read."""

from __future__ import annotations

from typing import Any

from coordinator.consumer.group import ConsumerGroup, ConsumerState, plain
from protocol.records.consumer_protocol import assigned_partitions, encode_assignment
from tests.simulation.shard.classic import ClassicMember
from tests.simulation.shard.world import TOPICS, by_topic, number, numbered
from tests.support.consumer_protocol import subscription

_SAYINGS = (subscription(TOPICS[0]), subscription(TOPICS[0], owned={}))


def partitions_of(assignment: bytes) -> frozenset[int]:
    """The numbers of the partitions in an assignment."""
    return frozenset([number(*place) for place in assigned_partitions(assignment)])


class MigratingMember(ClassicMember):
    """It reads the first topic, and goes where its group goes."""

    metadata = _SAYINGS[0]

    def encode(self, partitions: range) -> bytes:
        """An assignment, as a leader writes it."""
        return encode_assignment(0, by_topic(partitions))

    def decode(self, assignment: bytes) -> frozenset[int]:
        """What it says."""
        return partitions_of(assignment)

    def settled_with(self, group: Any) -> str | None:
        """In a group of either protocol it has what the group says that it has."""
        if not isinstance(group, ConsumerGroup):
            return super().settled_with(group)
        if group.state is not ConsumerState.STABLE:
            return f"the group is {group.state}"
        member = group.members.get(self.member_id)
        if member is None or not self.stable:
            return f"{self.name} is {'' if self.stable else 'not '}stable, and {'' if member else 'not '}a member"
        held = numbered(plain(member.assigned))
        if not self.epoch == member.epoch == group.epoch or self.owned.keys() != held:
            return f"{self.name} is at {self.epoch} with {self.owned}, at {member.epoch} with {held} for the group"
        return None

    def change(self) -> None:
        """It says something else about itself, and so joins again."""
        if self.stable:
            self.metadata = _SAYINGS[self.metadata == _SAYINGS[0]]
            self._join()
