"""Random groups for assignors, each from a seed; in a history what one step assigns is the next one's target."""

from __future__ import annotations

import random
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any

from coordinator.consumer.assignor import AssignmentSpec, MemberToAssign, Partitions, Target, TopicToAssign, compute
from coordinator.consumer.assignors import ASSIGNORS

RACKS = ("a", "b", "c")


class RandomGroup:
    """A group that changes; `spec` is what it is now."""

    def __init__(self, seed: str) -> None:
        """`seed` is all that its history hangs on."""
        self.random = random.Random(seed)
        self.assignor = self.random.choice(("uniform", "uniform", "uniform", "range"))
        self.mixed = self.random.random() < 0.6  # whether members subscribe to different topics
        self.flagged = self.random.random() < 0.2  # heterogeneous by name only, as regexes make it
        self.racks = self.random.random() < 0.3
        self.id_style = self.random.choice(("uuid", "short", "strange", "client"))
        self.largest = self.random.choice((3, 10, 40))
        self.topics: dict[bytes, TopicToAssign] = {}
        self.members: dict[str, MemberToAssign] = {}
        self.newcomer: str | None = None
        self.numbers = 0
        for _ in range(self.random.choice((1, 1, 2, 3, 5, 8, 17))):
            self.new_topic()
        for _ in range(self.random.randint(1, self.random.choice((3, 8, 30)))):
            self.join()
        if self.random.random() < 0.4:
            self.deal_wildly()

    @property
    def spec(self) -> AssignmentSpec:
        """The group as an assignor sees it."""
        sets = {member.topic_ids for member in self.members.values()}
        subscribed = frozenset().union(*sets) & self.topics.keys()
        members = {
            member_id: self.with_topics(member, frozenset(member.topic_ids & self.topics.keys()))
            for member_id, member in self.members.items()
        }
        return AssignmentSpec(
            members,
            {topic_id: self.topics[topic_id] for topic_id in subscribed},
            len(sets) == 1 and not self.flagged,
            self.newcomer if self.newcomer in members else None,
        )

    @staticmethod
    def with_topics(member: MemberToAssign, topic_ids: frozenset[bytes]) -> MemberToAssign:
        return MemberToAssign(member.member_id, member.instance_id, member.rack_id, topic_ids, member.target)

    def assigned(self, target: Target) -> None:
        """What was computed is what members have now."""
        for member_id, member in self.members.items():
            self.set_target(member, target.get(member_id, {}))

    def set_target(self, member: MemberToAssign, target: Partitions) -> None:
        self.members[member.member_id] = MemberToAssign(
            member.member_id, member.instance_id, member.rack_id, member.topic_ids, target
        )

    def change(self) -> None:
        """Whatever bumps a group's epoch; often several things, since there is an interval between two targets."""
        self.newcomer = None
        for _ in range(self.random.choice((1, 1, 1, 2, 5))):
            self.random.choice(self.CHANGES)(self)

    # What changes

    def new_topic(self) -> None:
        count = self.random.randint(1, self.largest)
        racks = (
            tuple(frozenset(self.random.sample(RACKS, self.random.randint(1, 3))) for _ in range(count))
            if self.racks
            else ()
        )
        self.topics[self.random.randbytes(16)] = TopicToAssign(count, racks)

    def grow_topic(self) -> None:
        topic_id = self.random.choice(list(self.topics))
        self.topics[topic_id] = TopicToAssign(self.topics[topic_id].partition_count + self.random.randint(1, 5))

    def delete_topic(self) -> None:
        if len(self.topics) > 1:
            del self.topics[self.random.choice(list(self.topics))]

    def subscription(self) -> frozenset[bytes]:
        everything = list(self.topics)
        if not self.mixed:
            return next((member.topic_ids for member in self.members.values()), frozenset(everything))
        return frozenset(self.random.sample(everything, self.random.randint(0, len(everything))))

    def join(self) -> None:
        member_id = self.new_id()
        instance_id = f"static-{self.random.randrange(10**6)}" if self.random.random() < 0.2 else None
        rack_id = self.random.choice(RACKS) if self.racks else None
        self.members[member_id] = MemberToAssign(member_id, instance_id, rack_id, self.subscription(), {})
        self.newcomer = self.random.choice((member_id, None))

    def leave(self) -> None:
        if len(self.members) > 1:
            del self.members[self.random.choice(list(self.members))]

    def resubscribe(self) -> None:
        if self.mixed:
            member = self.random.choice(list(self.members.values()))
            self.members[member.member_id] = self.with_topics(member, self.subscription())

    def many_join(self) -> None:
        for _ in range(self.random.randint(2, 12)):
            self.join()

    def many_leave(self) -> None:
        for _ in range(len(self.members) // 2):
            self.leave()

    def deal_wildly(self) -> None:
        """A target that no assignor made: other software's, or another assignor's, or that of a group now changed."""
        ids = list(self.members)
        few = self.random.sample(ids, self.random.randint(1, len(ids)))
        dealt: dict[str, dict[bytes, list[int]]] = {}
        for topic_id, topic in (*self.topics.items(), (self.random.randbytes(16), TopicToAssign(3))):
            share = self.random.random()
            for partition in range(topic.partition_count):
                if self.random.random() < share:
                    dealt.setdefault(self.random.choice(few), {}).setdefault(topic_id, []).append(partition)
        self.assigned(
            {
                member_id: {topic_id: tuple(partitions) for topic_id, partitions in owned.items()}
                for member_id, owned in dealt.items()
            }
        )

    def new_id(self) -> str:
        self.numbers += 1
        if self.id_style == "uuid":
            return urlsafe_b64encode(self.random.randbytes(16)).decode().rstrip("=")
        if self.id_style == "short":
            return f"m{self.numbers}"
        if self.id_style == "client":
            return f"consumer-{self.numbers}-{uuid.UUID(bytes=self.random.randbytes(16))}"
        letters = "aß☃\U0001f600\ue000\uffff"
        return "".join(self.random.choices(letters, k=self.random.randint(1, 6))) + str(self.numbers)

    CHANGES = (join, join, leave, leave, resubscribe, new_topic, grow_topic, delete_topic, many_join, many_leave,
               deal_wildly)  # fmt: skip


def history(seed: str, length: int) -> Iterator[tuple[RandomGroup, AssignmentSpec, Target]]:
    """A group's changes, each with the target that follows from it."""
    group = RandomGroup(seed)
    for _ in range(length):
        spec = group.spec
        target = compute(ASSIGNORS[group.assignor], spec)
        yield group, spec, target
        group.assigned(target)
        group.change()


def as_json(assignor: str, spec: AssignmentSpec) -> dict[str, Any]:
    """What `kafka/Assignors.java` reads."""
    named = {topic_id for member in spec.members.values() for topic_id in member.target} | spec.topics.keys()
    at = {topic_id: index for index, topic_id in enumerate(sorted(named, key=_signed))}
    gone = TopicToAssign(-1)
    return {
        "assignor": assignor,
        "homogeneous": spec.homogeneous,
        "newcomer": spec.newcomer,
        "topics": [
            [urlsafe_b64encode(topic_id).decode().rstrip("="), topic.partition_count, [sorted(r) for r in topic.racks]]
            for topic_id in at
            for topic in [spec.topics.get(topic_id, gone)]
        ],
        "members": [
            [
                member.member_id,
                member.instance_id,
                member.rack_id,
                sorted(at[topic_id] for topic_id in member.topic_ids),
                sorted([at[topic_id], list(partitions)] for topic_id, partitions in member.target.items()),
            ]
            for member in spec.members.values()
        ],
    }


def from_json(answer: dict[str, dict[str, list[int]]], asked: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    """Kafka's target by topic id as `as_json` wrote it, without members that got nothing."""
    names = [topic[0] for topic in asked["topics"]]
    return {
        member_id: {names[int(index)]: partitions for index, partitions in owned.items()}
        for member_id, owned in answer.items()
        if owned
    }


def readable(target: Target) -> dict[str, dict[str, list[int]]]:
    """Ours in the same shape."""
    return {
        member_id: {
            urlsafe_b64encode(topic_id).decode().rstrip("="): list(partitions) for topic_id, partitions in owned.items()
        }
        for member_id, owned in target.items()
    }


def _signed(topic_id: bytes) -> tuple[int, int]:
    return int.from_bytes(topic_id[:8], signed=True), int.from_bytes(topic_id[8:], signed=True)
