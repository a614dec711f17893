"""Members of the consumer protocol in a life, and a group in which they and classic ones come and go.

Each says what a client would: epoch 0 first, then the epoch that it was told, with the partitions that it was told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.consumer.inputs import ConsumerHeartbeat, RegexesResolved, ResolveRegexes
from coordinator.consumer.regexes import matching
from coordinator.offsets.inputs import CommitOffsets, DeleteGroup
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.records.consumer_protocol import encode_assignment
from tests.support.consumer_protocol import subscription
from tests.support.topics import Topics

if TYPE_CHECKING:
    from tests.replay.life import Answer, Life
    from tests.support.heard import Heard

GROUPS = ("n", "m")
"""Of the consumer protocol alone, and of both."""
MIGRATING = "m"
INSTANCES = {"c": "i"}  # of the members that are static
EVERYTHING = {"t": range(3), "u": range(3)}


class Members:
    """Those of one life. What they know they have been told."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.told: dict[tuple[str, str], tuple[int, dict[bytes, frozenset[int]]]] = {}
        self._asked: list[tuple[tuple[str, str], Answer]] = []

    def beat(self, number: int) -> None:
        """One of three heartbeats; the second sometimes by an expression, the third with an instance id."""
        group_id, name = GROUPS[number % 2], "abc"[number // 2 % 3]
        epoch, owned = self.told.get((group_id, name), (0, {}))
        names: tuple[str, ...] | None = ("t", "u")[: number // 6 % 2 + 1]
        regex = "[tu]" if name == "b" and number // 12 % 2 else ""
        if epoch > 0 and number // 24 % 2:
            names = regex = None  # type: ignore[assignment]  # as before
        self._ask(group_id, name, epoch, names=names, regex=regex, owned=owned)

    def go(self, number: int) -> None:
        """One of them leaves, for good or for a while."""
        group_id, name = GROUPS[number % 2], "abc"[number // 2 % 3]
        self._ask(group_id, name, -2 if name in INSTANCES and number // 6 % 2 else -1)
        self.told.pop((group_id, name), None)

    def _ask(self, group_id: str, name: str, epoch: int, **more: Any) -> None:
        answer = self.life.answer()
        self.life.leader.submit(
            ConsumerHeartbeat(
                group_id,
                name,
                epoch,
                INSTANCES.get(name),
                None,
                20_000 if epoch == 0 else -1,
                more.get("names"),
                more.get("regex"),
                None,
                more.get("owned"),
                1,
                "",
                "c",
                "/127.0.0.1",
                answer,
            )
        )
        if epoch >= 0:
            self._asked.append(((group_id, name), answer))

    def hear(self) -> None:
        """What was answered counts for whoever asked."""
        asked, self._asked = self._asked, []
        for who, answer in asked:
            if not answer.done:
                continue
            response = answer.response
            if response.error_code != ErrorCode.NONE:
                self.told.pop(who, None)
                continue
            owned = self.told.get(who, (0, {}))[1]
            if response.assignment is not None:
                owned = {one.topic_id: frozenset(one.partitions) for one in response.assignment.topic_partitions}
            self.told[who] = response.member_epoch, owned

    def resolve(self, number: int) -> None:
        """Expressions are looked up, at last."""
        del number
        work, self.life.broker.work[:] = list(self.life.broker.work), []
        for one in work:
            assert isinstance(one, ResolveRegexes)
            found = {regex: matching(regex, one.topics.names()) for regex in one.regexes}
            self.life.leader.submit(RegexesResolved(one.group_id, found, one.topics.version))
            self.life.broker.turn()

    def classic(self, number: int) -> None:
        """Members of the classic protocol join the group of both, with one more or without; whoever leads plans."""
        broker, shard = self.life.broker, self.life.leader.shard
        mixed, group = shard.consumer_groups.get(MIGRATING), shard.groups.get(MIGRATING)
        known = [] if group is None else [(m.member_id, m.instance_id) for m in group.members.values()]
        if mixed is not None:
            known += [(m.member_id, m.instance_id) for m in mixed.members.values() if m.classic is not None]
        protocols = (("range", subscription(*EVERYTHING, owned={})),)
        fresh = [("", (None, "i")[number // 2 % 2])] if number % 2 or not known else []
        joins: list[Heard] = [
            broker.join(
                member_id, group_id=MIGRATING, instance_id=instance, version=5 if instance else 3, protocols=protocols
            )
            for member_id, instance in [*fresh, *known]
        ]
        broker.turn()
        broker.runtime.advance(1)
        told = [join.response for join in joins if join.done and join.response.error_code == ErrorCode.NONE]
        leader = next((one for one in told if one.leader == one.member_id), None)
        if leader is not None:
            ids = [one.member_id for one in leader.members]
            plan = {
                member_id: encode_assignment(
                    1, {topic: list(all_of)[at :: len(ids)] for topic, all_of in EVERYTHING.items()}
                )
                for at, member_id in enumerate(ids)
            }
            broker.sync(leader.member_id, leader.generation_id, plan, MIGRATING)
        for one in told:
            if one is not leader:
                broker.sync(one.member_id, one.generation_id, None, MIGRATING)

    def commit_as(self, number: int) -> None:
        """One of the members commits, at the epoch that it was told."""
        group_id, name = GROUPS[number % 2], "abc"[number // 2 % 3]
        epoch, _ = self.told.get((group_id, name), (-1, {}))
        self.life.next_offset += 1
        stored = OffsetCommitRequestPartition(partition_index=number // 6 % 3, committed_offset=self.life.next_offset)
        topics = [OffsetCommitRequestTopic(name="t", topic_id=Topics(EVERYTHING).topic_id("t"), partitions=[stored])]  # type: ignore[arg-type]
        answer = self.life.answer()
        self.life.leader.submit(CommitOffsets(group_id, name, None, epoch, topics, 9, -1, answer))
        self.life.committing(answer)

    def delete(self, number: int) -> None:
        """One of the two groups, which is refused while it has members."""
        self.life.leader.submit(DeleteGroup(GROUPS[number % 2], self.life.answer()))
