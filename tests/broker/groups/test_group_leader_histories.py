"""Random histories of one partition: whatever happens, nobody is forgotten and nothing acknowledged is lost.

Auditors look after every step: no request is answered twice; what memory holds of offsets is what the log says; a
Stable group is what its record says; every acknowledged commit is in the log. A failed history prints its seed.
"""

import random
from typing import Any

import pytest

from broker.coordinators.batches import LeaderState
from broker.groups.groups import expire_offsets, forget_topics
from coordinator.classic.inputs import Leave, Leaver
from coordinator.group import GroupState
from coordinator.offsets.inputs import CommitOffsets, DeleteGroup, DescribeGroup
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.records.group_records import OffsetCommitKey
from tests.support.group_leader_fixture import FakePartition, Leading
from tests.support.heard import Heard

GROUPS = ("g", "h")
REFUSALS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Once(Heard):
    """An answer that minds being given twice."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def complete(self, response: Any) -> None:
        assert not self.done, f"{self.what} was answered twice"
        super().complete(response)


class History:
    """One leader, some clients, and what they remember."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        settings = GroupSettings(
            initial_rebalance_delay_ms=self.random.choice([0, 3_000]), offsets_retention_ms=200_000
        )
        self.broker = Leading(FakePartition(max_message_bytes=2_000), topics={"t": 9, "u": 9}, settings=settings)
        self.broker.new_answer = lambda: self.ask("request")
        self.requests: list[Once] = []
        self.commits: dict[int, tuple[Once, tuple[str, str, int]]] = {}
        self.members: dict[str, set[str]] = {group: set() for group in GROUPS}
        self.next_offset = 0

    def ask(self, what: str) -> Once:
        request = Once(what)
        self.requests.append(request)
        return request

    def commit(self) -> None:
        group, topic, partition = self.random.choice(GROUPS), self.random.choice("tu"), self.random.randrange(3)
        member, generation = self.someone(group)
        self.next_offset += 1
        stored = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=self.next_offset,
            committed_metadata="x" * self.random.choice([0, 0, 0, 300, 3_000]),
        )
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[stored])]
        answer = self.ask("commit")
        self.commits[self.next_offset] = answer, (group, topic, partition)
        self.broker.leader.submit(CommitOffsets(group, member, None, generation, topics, 8, -1, answer))

    def someone(self, group: str) -> tuple[str, int]:
        live = self.broker.leader.shard.groups.get(group)
        if live is None or not live.members or self.random.random() < 0.2:
            return "", -1
        return self.random.choice(sorted(live.members)), live.generation

    def join(self) -> None:
        group = self.random.choice(GROUPS)
        member, _ = self.someone(group)
        instance = self.random.choice([None, None, "i", "j"]) if not member else None
        live = self.broker.leader.shard.groups.get(group)
        if member and live is not None:
            instance = live.members[member].instance_id
        metadata = self.random.choice([b"m", b"n"])
        answer = self.broker.join(
            member, group_id=group, instance_id=instance, protocols=(("range", metadata),), version=5
        )
        if answer.done and answer.response.error_code == ErrorCode.MEMBER_ID_REQUIRED and self.random.random() < 0.8:
            self.broker.join(answer.response.member_id, group_id=group, version=5)

    def sync(self) -> None:
        group = self.random.choice(GROUPS)
        member, generation = self.someone(group)
        live = self.broker.leader.shard.groups.get(group)
        plan = None
        if live is not None and member == live.leader_id:
            plan = {name: name.encode() for name in live.members}
        self.broker.sync(member, generation, plan, group)

    def heartbeat(self) -> None:
        group = self.random.choice(GROUPS)
        member, generation = self.someone(group)
        self.broker.heartbeat(member, generation, group)

    def leave(self) -> None:
        group = self.random.choice(GROUPS)
        self.broker.leader.submit(Leave(group, [Leaver(self.someone(group)[0])], 3, self.ask("leave")))

    def look(self) -> None:
        group = self.random.choice(GROUPS)
        self.broker.fetch(group, topic="t", stable=self.random.random() < 0.5)
        self.broker.leader.submit(DescribeGroup(group, 5, self.ask("describe")))

    def delete(self) -> None:
        self.broker.leader.submit(DeleteGroup(self.random.choice(GROUPS), self.ask("delete")))

    def expire(self) -> None:
        expire_offsets(self.broker.leader)

    def forget(self) -> None:
        if self.random.random() < 0.3:
            forget_topics(self.broker.leader, {"u": b"u".ljust(16, b"\0")})

    def wait(self) -> None:
        self.broker.runtime.advance(self.random.choice([1, 500, 3_000, 9_000, 40_000]))

    def refuse(self) -> None:
        self.broker.partition.refusals = [self.random.choice(REFUSALS)]

    def hold(self) -> None:
        self.broker.partition.hold = True

    def release(self) -> None:
        self.broker.partition.hold = False
        self.broker.partition.commit()

    def crash_of_the_log(self) -> None:
        if self.random.random() < 0.7:
            return
        partition = self.broker.partition
        partition.fail()
        if self.random.random() < 0.5:
            self.broker.turn()
        partition.hold = False
        partition.recover()
        self.broker.leader.recovered(partition)  # type: ignore[arg-type]  # a fake of what it uses

    STEPS = (
        *[commit] * 6,
        *[join] * 4,
        *[sync] * 4,
        *[heartbeat] * 2,
        leave,
        look,
        delete,
        expire,
        forget,
        *[wait] * 3,
        refuse,
        hold,
        *[release] * 2,
        crash_of_the_log,
    )

    def step(self) -> None:
        self.random.choice(self.STEPS)(self)
        if self.random.random() < 0.5:
            self.broker.turn()

    # Auditors

    def audit(self) -> None:
        leader, partition = self.broker.leader, self.broker.partition
        assert leader.state is LeaderState.ACTIVE
        read = Leading(partition).leader.shard
        if leader.effects._open is None:
            assert _offsets(leader.shard) == _offsets(read)
            for group_id, group in leader.shard.groups.items():
                if group.state is GroupState.STABLE:
                    written = read.groups[group_id]
                    assert (group.generation, group.leader_id) == (written.generation, written.leader_id)
                    assert {m.member_id: m.assignment for m in group.members.values()} == {
                        m.member_id: m.assignment for m in written.members.values()
                    }
        in_log = {value.offset for key, value in partition.records() if isinstance(key, OffsetCommitKey) and value}
        for offset, (answer, _) in self.commits.items():
            if answer.done and answer.response.topics[0].partitions[0].error_code == ErrorCode.NONE:
                assert offset in in_log, f"commit {offset} was acknowledged"

    def end(self) -> None:
        """Give the partition up: nobody waits any more, and nothing happens later."""
        self.release()
        self.broker.leader.close()
        self.broker.turn()
        assert all(request.done for request in self.requests)
        events = len(self.broker.events)
        # Ids that were given out for a group that was deleted still have theirs; they find nobody.
        self.broker.runtime.advance(400_000)
        assert len(self.broker.events) == events
        assert len(self.broker.runtime.timers) == 0


def _offsets(shard: Any) -> Any:
    return {group: {key: c.offset for key, c in table.items()} for group, table in shard.offsets.items()}


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_forgotten(seed: int):
    history = History(seed)
    for _ in range(60):
        history.step()
        history.audit()
    history.end()
