"""A consumer group of KIP-848 as a value: its epochs, its members, what they own and what they shall own.

Three epochs. The *group epoch* rises by one whenever the input of an assignment changes. The *target epoch* is the
group epoch that the present target was computed for. A *member epoch* is the target epoch that the member has reached;
it is what a member proves itself with.

Always true:
- all but the last fields of a group is what its records say, and changes with them only (`coordinator.consumer.fold`);
- none of the epochs ever falls; -1 and -2 are no epochs but marks of leaving;
- `owners` names, for each partition, the one member that has it assigned or has not given it up yet;
- nothing in a group is changed in place.

Source: KIP-848, KIP-1251; Kafka's ConsumerGroup, ModernGroup, ConsumerGroupMember, MemberState.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator.consumer.epoch_rebalance import NO_TRACKING, RebalanceTracking
from coordinator.consumer.member import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    NO_REGEX,
    NOTHING,
    STABLE,
    UNRELEASED,
    UNREVOKED,
    ClassicProtocol,
    ConsumerMember,
    EpochPartitions,
)
from coordinator.values import value

if TYPE_CHECKING:
    from coordinator.consumer.assignor import Partitions

__all__ = [
    "LEAVE_EPOCH",
    "LEAVE_STATIC_EPOCH",
    "NOTHING",
    "NO_REGEX",
    "STABLE",
    "UNRELEASED",
    "UNREVOKED",
    "ClassicProtocol",
    "ConsumerGroup",
    "ConsumerMember",
    "ConsumerState",
    "EpochPartitions",
    "ResolvedRegex",
]


class ConsumerState(Enum):
    """The states of a group; the value is the name on the wire. None is stored: `ConsumerGroup.state` finds it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"  # never entered


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression stood for when it was last looked at."""

    topics: frozenset[str]
    version: int  # of the topics then, see `Topics.version`
    timestamp_ms: int


@value
class ConsumerGroup:
    """The group. What is said of new groups is what its defaults say: both epochs are 1."""

    group_id: str
    epoch: int = 1
    metadata_hash: int = 0
    target_epoch: int = 1
    target_timestamp_ms: int = 0  # when the target was computed; 0: not known, or it must be computed at once
    members: Mapping[str, ConsumerMember] = field(default_factory=dict)
    targets: Mapping[str, Partitions] = field(default_factory=dict)  # by member id; without empty ones
    static_members: Mapping[str, str] = field(default_factory=dict)  # instance id -> member id
    owners: Mapping[tuple[bytes, int], str] = field(default_factory=dict)  # (topic id, partition) -> member id
    regexes: Mapping[str, ResolvedRegex] = field(default_factory=dict)
    name_counts: Mapping[str, int] = field(default_factory=dict)  # topic -> members that name it
    regex_counts: Mapping[str, int] = field(default_factory=dict)  # expression -> members that use it
    classic_count: int = 0  # members that speak the classic protocol
    has_partition_metadata: bool = False  # a record of before 4.1 is in the log, and wants its tombstone
    # What is not in the log. It begins anew with every load.
    hashed_topics: Any = None  # the `Topics` that the hash was last compared with
    regexes_requested_at_ms: int | None = None  # a refresh is on its way
    computing_epoch: int | None = None  # the group epoch that a target is being computed for, off the loop
    join_timers: Mapping[str, None] = field(default_factory=dict)  # classic members whose join timer runs
    tracking: RebalanceTracking = field(default_factory=lambda: NO_TRACKING)  # what the ledger is told of

    @property
    def state(self) -> ConsumerState:
        """Found anew each time: it follows from the epochs."""
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(member.state == STABLE and member.epoch == self.target_epoch for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """Every topic that a member names, or that a resolved expression of one stands for."""
        found = set(self.name_counts)
        for resolved in self.regexes.values():
            found |= resolved.topics
        return frozenset(found)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What the member subscribes to. An expression that is not resolved yet stands for nothing."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return frozenset(member.names) if resolved is None else resolved.topics.union(member.names)


def plain(partitions: EpochPartitions) -> Partitions:
    """Without the epochs."""
    return {topic_id: tuple(sorted(epochs)) for topic_id, epochs in partitions.items()}
