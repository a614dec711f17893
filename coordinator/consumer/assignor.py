"""What computes a target assignment: its input, its result, and the shape of the computation.

An assignor is a pure function. It is written as a generator that yields nothing, now and then, and returns the target:
a group of ten thousand members is computed piece by piece, between which others are served, and a small one at once
(`compute`). Between two yields lies no more than some milliseconds of work.

Source: KIP-848; Kafka's ConsumerGroupPartitionAssignor, GroupSpec, SubscribedTopicDescriber.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple, Protocol

from coordinator.values import value

Partitions = Mapping[bytes, tuple[int, ...]]
"""Topic id -> partitions, ascending; a topic without partitions is not in it."""

Target = Mapping[str, Partitions]
"""Member id -> what it shall own. A member left out owns nothing."""


class TopicToAssign(NamedTuple):
    """A topic that somebody subscribes to and that exists. Its partitions are 0 to `partition_count`, exclusive."""

    partition_count: int
    racks: tuple[frozenset[str], ...] = ()  # of the replicas of each partition; empty when no broker has a rack


@value
class MemberToAssign:
    """One member of the group, as an assignor sees it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[bytes]  # subscribed topics that exist: all are in `AssignmentSpec.topics`
    target: Partitions  # as last computed; may name topics that are gone, and partitions of topics unsubscribed since


@value
class AssignmentSpec:
    """All that a target depends on. Nothing in it is changed while an assignor looks at it."""

    # By member id. Of members that Kafka's hash tables cannot tell apart, the order of this mapping decides: that in
    # which they joined.
    members: Mapping[str, MemberToAssign]
    topics: Mapping[bytes, TopicToAssign]  # by topic id
    homogeneous: bool  # every member subscribes to every topic, as far as the group can tell without counting
    newcomer: str | None = None  # the member whose first heartbeat asks for this target: Kafka comes upon it last


Steps = Generator[None, None, Target]


class Assignor(Protocol):
    """`name` is what members ask for and what `group.consumer.assignors` lists."""

    name: str

    def steps(self, spec: AssignmentSpec) -> Steps:
        """The target, in pieces. It has an entry for every member that gets anything; others may be left out."""


def compute(assignor: Assignor, spec: AssignmentSpec) -> Target:
    """The target, at once: for groups that are small."""
    steps = assignor.steps(spec)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            target: Target = done.value
            return target
