"""Random histories of one KIP-848 group: members that mostly do what they should, beside all that they should not.

What is sent follows from the seed and from what was answered; so two brokers that answer alike are asked alike.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.reference.judge import members
from tests.reference.judge.members import T1, T2
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_consumer import beat, describe
from tests.support.consumer_protocol import subscription

STEPS = 40
TIMEOUT = {"rebalance_timeout_ms": 1_200_000}  # longer than any run: who is slow to revoke is not put out
NAMES, CLASSIC = "abcde", "fg"  # in the order in which they lie in Kafka's hash maps
PARTITIONS = {T1: 4, T2: 2}
# With two topics `uniform` deals out by the order of their ids, which each broker makes up: there all ask for `range`.
SUBSCRIPTIONS = {1: ([T1], [T1], [T1], [T1, "nosuch"], []), 2: ([T1], [T2], [T1, T2], [T1, T2], [T2, "nosuch"], [])}
STEADY = "h"
"""The member that never leaves a mixed group: with none of the new protocol left, joins are parked for a time."""


@dataclass(slots=True)
class Known:
    """What a member was told last."""

    epoch: int = 0
    present: bool = False  # for all that it knows
    instance: str | None = None
    assigned: dict[str, list[int]] = field(default_factory=dict)


class History:
    """One group and everybody who knows of it."""

    def __init__(self, script: Script, seed: int) -> None:
        self.s = script
        self.seed = seed
        self.random = random.Random(f"consumer {seed}")
        self.subscriptions = SUBSCRIPTIONS[self.random.choice([1, 1, 2])]
        # One for all who have a preference: of two with as many votes Kafka names now the one and now the other.
        self.assignor = self.random.choice(["uniform", "range"]) if self.subscriptions is SUBSCRIPTIONS[1] else "range"
        # A classic member is told its topics in an order that follows from their ids.
        self.mixed = self.subscriptions is SUBSCRIPTIONS[1] and self.random.random() < 0.4
        self.known: dict[str, Known] = {}
        # A member keeps its instance id, and does not join anew while it has that: docs/unsupported.md, K39.
        self.instances = {name: self.random.choice(["i", "j", None, None, None]) for name in NAMES}
        self.away: dict[str, str] = {}
        self.classic: dict[str, members.Member] = {}
        self.topics = {bytes(script.topic_id(topic)): topic for topic in (T1, T2)}

    def play(self) -> None:
        if self.mixed:
            self.known[STEADY] = Known()
            self.join(STEADY, bare=True)
        acts = [self.come, self.say, self.say, self.say, self.say, self.settle, self.go, self.commit, self.fetch]
        acts += [self.look, self.administer]
        acts += [self.classic_turn] * 3 if self.mixed else []
        for step in range(STEPS):
            # Its own numbers for each step: where one is answered otherwise, the next is not another one for that.
            self.random = random.Random(f"consumer {self.seed} {step}")
            self.random.choice(acts)()
        describe(self.s)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def somebody(self) -> str:
        return self.random.choice(sorted(self.known) or [*NAMES])

    # Members of the new protocol

    def heard(self, name: str, answer: Any) -> None:
        known = self.known.setdefault(name, Known())
        if answer is None:
            return
        if answer.error_code == ErrorCode.NONE:
            known.epoch, known.present = answer.member_epoch, True
            if answer.assignment is not None:
                told = answer.assignment.topic_partitions
                # In the order of their names: that of the answer follows from ids, which each broker makes up.
                by_name = sorted((self.topics[bytes(one.topic_id)], sorted(one.partitions)) for one in told)
                known.assigned = dict(by_name)
        elif answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            known.epoch, known.assigned = 0, {}
            known.present = answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH

    def join(self, name: str, *, bare: bool = False) -> None:
        known = self.known.setdefault(name, Known())
        # Who joins with no topics makes Kafka take everything from everybody: docs/unsupported.md, Groups.
        wanted = [names for names in self.subscriptions if names]
        more: dict[str, Any] = {**TIMEOUT, "subscribed_topic_names": self.random.choice(wanted)}
        if self.subscriptions is SUBSCRIPTIONS[2]:
            more["server_assignor"] = "range"
        owned: dict[str, list[int]] = {}
        if not bare:
            known.instance = self.instances.get(name)
            if known.instance is not None and (known.present or self.away.get(known.instance) == name):
                return
            if self.chance(0.25):
                more["server_assignor"] = self.assignor if self.chance(0.8) else "foo"
            if self.chance(0.15):
                more["rack_id"] = self.random.choice(["r", "q"])
            if self.chance(0.05):
                owned = {T1: [0]}
            if self.chance(0.05):
                more.pop(self.random.choice(sorted(more)))
        version = 1 if bare or self.chance(0.8) else 0
        self.heard(name, beat(self.s, name, 0, owned=owned, instance_id=known.instance, version=version, **more))

    def come(self) -> None:
        self.join(self.random.choice(NAMES))

    def say(self) -> None:
        """A heartbeat with anything in it."""
        name = self.somebody()
        known = self.known.setdefault(name, Known())
        epoch = known.epoch
        more: dict[str, Any] = {}
        if name != STEADY and self.chance(0.2):
            epoch += self.random.choice([-1, -1, -1, 1, 2])
        owned = self.random.choice([None, known.assigned, known.assigned, self.part(known), self.too_much(known)])
        if self.chance(0.2):
            more["subscribed_topic_names"] = self.random.choice(self.subscriptions)
        if self.chance(0.1):
            more["server_assignor"] = self.assignor
        if self.chance(0.1):
            more |= TIMEOUT
        if known.instance is not None:
            more["instance_id"] = known.instance
        if epoch <= 0:
            self.join(name)
            return
        self.heard(name, beat(self.s, name, epoch, owned=owned, **more))

    def part(self, known: Known) -> dict[str, list[int]]:
        return {topic: [p for p in held if self.chance(0.6)] for topic, held in known.assigned.items()}

    def too_much(self, known: Known) -> dict[str, list[int]]:
        topic = self.random.choice([T1, T2])
        return known.assigned | {topic: self.random.sample(range(PARTITIONS[topic]), 2)}

    def settle(self) -> None:
        """Everybody says what it has, until nothing changes: as real members do."""
        for _ in range(3):
            for name, known in self.known.items():
                if known.epoch > 0:
                    more = {"instance_id": known.instance} if known.instance else {}
                    self.heard(name, beat(self.s, name, known.epoch, owned=known.assigned, **more))

    def go(self) -> None:
        name = self.somebody()
        if name == STEADY:
            return
        known = self.known.setdefault(name, Known())
        epoch = -2 if known.instance and self.chance(0.6) else -1
        if self.chance(0.1):
            epoch = -3 - epoch
        more = {"instance_id": known.instance} if known.instance else {}
        answer = beat(self.s, name, epoch, **more)
        if answer is not None and answer.error_code == ErrorCode.NONE:
            known.epoch, known.present, known.assigned = 0, False, {}
            if epoch == -2 and known.instance:
                self.away[known.instance] = name

    # Offsets

    def places(self) -> tuple[str, list[int]]:
        topic = self.random.choice([T1, T2])
        return topic, sorted(self.random.sample(range(PARTITIONS[topic]), self.random.randint(1, 2)))

    def identity(self) -> tuple[str, int]:
        name = self.somebody()
        if self.chance(0.1):
            return "", -1
        return name, max(self.known.get(name, Known()).epoch + self.random.choice([0, 0, 0, 0, -1, 1]), -1)

    def commit(self) -> None:
        (topic, partitions), (member, epoch) = self.places(), self.identity()
        said = [
            OffsetCommitRequestPartition(partition_index=one, committed_offset=self.random.randrange(100))
            for one in partitions
        ]
        request = OffsetCommitRequest(
            group_id=self.s.name(),
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=topic, topic_id=self.s.topic_id(topic), partitions=said)],
        )
        self.s.client(member or "nobody").call(request, self.random.choice([7, 8, 9, 9, 10, 10]))

    def fetch(self) -> None:
        (topic, partitions), (member, epoch) = self.places(), self.identity()
        wanted = OffsetFetchRequestTopics(name=topic, topic_id=self.s.topic_id(topic), partition_indexes=partitions)
        asked = OffsetFetchRequestGroup(
            group_id=self.s.name(), member_id=member or None, member_epoch=epoch, topics=[wanted]
        )
        self.s.client().call(OffsetFetchRequest(groups=[asked]), self.random.choice([9, 10]))

    # Administration

    def look(self) -> None:
        describe(self.s, self.random.choice([0, 1]))
        if self.chance(0.2):
            self.s.client("admin").call(DescribeGroupsRequest(groups=[self.s.name()]), 6)

    def administer(self) -> None:
        if self.chance(0.4) and not self.mixed:
            self.s.client("admin").call(DeleteGroupsRequest(groups_names=[self.s.name()]), 2)
        elif self.chance(0.4):
            topic, partitions = self.places()
            members.delete_offsets(self.s, self.s.name(), {topic: partitions})
        else:
            names = [name for name in sorted(self.known) if name != STEADY] or ["nobody"]
            gone = [(self.random.choice(names), None)]
            if self.chance(0.3):
                gone = [("", self.random.choice(["i", "j"]))]
            members.leave(self.s, self.s.name(), *gone)

    # Members of the classic protocol in the same group

    def classic_turn(self) -> None:
        name = self.random.choice(CLASSIC)
        member = self.classic.get(name)
        if member is None:
            topics = self.random.choice([wanted for wanted in self.subscriptions if wanted])
            member = members.Member(
                self.s,
                name,
                version=self.random.choice([5, 7, 9]),
                instance=self.random.choice([None, None, name]),
                protocols=[("range", subscription(*topics))],
            )
            self.classic[name] = member
            member.id = name  # who names an id is known by it; made up, it would decide who gets what
            answer = member.join()
            if answer is not None and not answer.error_code:
                member.sync()
            return
        turn = self.random.random()
        if turn < 0.4:
            answer = member.heartbeat()
            if answer is not None and answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                member.join()
                member.sync()
        elif turn < 0.6:
            member.commit({T1: [(0, self.random.randrange(100))]})
        elif turn < 0.75:
            member.sync()
        elif turn < 0.85:
            member.join()
        else:
            member.leave()
            del self.classic[name]


def play(script: Script, seed: int) -> None:
    """The history of this seed."""
    History(script, seed).play()
