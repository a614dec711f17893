"""Members as they behave: what they ask, what they believe to own, what they commit. Each step is a call.

A client's requests arrive in their order, and so do its answers. A cut connection loses what is on its way, in either
direction; a frozen client hears nothing and believes what it believed. Each reads what it owns and commits it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from coordinator.offsets.inputs import CommitOffsets, FetchOffsets
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequestTopics
from tests.simulation.shard.world import GROUP, IDS, Call, Clock, Leader, Request, by_topic, number

Answered = Callable[[Any], None]


class Client:
    """A process with one connection, and what it has of the topic."""

    epoch = -1  # what it proves itself with: generation, member epoch

    def __init__(self, clock: Clock, leader: Leader, name: str, instance_id: str | None = None) -> None:
        self.clock, self.leader, self.random = clock, leader, clock.random
        self.name = self.member_id = name
        self.instance_id = instance_id
        self.alive = True
        self.hung = False  # it heartbeats, and does nothing else
        self.owned: dict[int, int] = {}  # partition -> where it reads
        self.dirty: set[int] = set()  # read since the last commit
        self.commits = 0  # accepted
        self._frozen_until_ms = 0
        self._inbox: deque[Call] = deque()
        self._asked: dict[int, Answered] = {}
        self._last = 0
        self._arrives_ms = self._returns_ms = 0

    # The connection

    def ask(self, make: Callable[[Request], Any], then: Answered) -> None:
        """Send a request. `then` gets the answer, or None when the connection is lost first."""
        self._last += 1
        asked = self._last
        self._asked[asked] = then
        clock = self.clock
        self._arrives_ms = max(self._arrives_ms + 1, clock.now_ms + self.random.randrange(8))

        def returned(response: Any) -> None:
            self._returns_ms = max(self._returns_ms + 1, clock.now_ms + self.random.randrange(8))
            clock.after(self._returns_ms - clock.now_ms, lambda: self._answer(asked, response))

        def arrived() -> None:
            if asked not in self._asked and self.random.random() < 0.5:
                return  # the connection is gone, and it with it
            if not self.leader.up:
                self._answer(asked, None)
                return
            request = Request(returned)
            request.input = make(request)
            self.leader.submit(request.input)

        clock.after(self._arrives_ms - clock.now_ms, arrived)

    def _answer(self, asked: int, response: Any) -> None:
        then = self._asked.pop(asked, None)
        if then is not None:
            self._do(lambda: then(response))

    def cut(self) -> None:
        """The connection is lost."""
        for asked in list(self._asked):
            self.clock.after(0, lambda asked=asked: self._answer(asked, None))

    # Life

    def later(self, delay_ms: int, call: Call) -> None:
        """Go on then."""
        self.clock.after(delay_ms, lambda: self._do(call))

    def _do(self, call: Call) -> None:
        if not self.alive:
            return
        if self.clock.now_ms < self._frozen_until_ms:
            self._inbox.append(call)
        else:
            call()

    def freeze(self, ms: int) -> None:
        """Stand still, and go on as if nothing had been."""
        until_ms = self._frozen_until_ms = max(self._frozen_until_ms, self.clock.now_ms + ms)
        self.clock.after(
            until_ms - self.clock.now_ms, lambda: self.thaw() if until_ms == self._frozen_until_ms else None
        )

    def thaw(self) -> None:
        """Hear of all that has happened meanwhile, in its order."""
        self._frozen_until_ms = self.clock.now_ms
        while self.alive and self._inbox:
            self._inbox.popleft()()

    def die(self) -> None:
        """Without a word."""
        self.alive = False

    def start(self) -> None:
        """Join."""
        raise NotImplementedError

    def leave(self) -> None:
        """Say so, and end."""
        raise NotImplementedError

    def settled_with(self, group: Any) -> str | None:
        """What is not as it should be when nothing goes wrong any more."""
        raise NotImplementedError

    # Offsets

    def take_up(self, partitions: set[int], still_wanted: Callable[[], bool]) -> None:
        """Own these, from where the group has come to."""
        if not partitions:
            return
        named = [
            OffsetFetchRequestTopics(name=topic, topic_id=IDS[topic], partition_indexes=some)
            for topic, some in by_topic(partitions).items()
        ]

        def fetched(answer: Any) -> None:
            if not still_wanted():
                return
            if answer is None or answer.error_code:
                self.later(self.random.randrange(50, 200), again)
                return
            for topic in answer.topics:
                for partition in topic.partitions:
                    self.owned[number(topic.name, partition.partition_index)] = max(partition.committed_offset, 0)

        def again() -> None:
            if still_wanted():
                self.ask(lambda to: self.fetch(to, named), fetched)

        again()

    def fetch(self, to: Request, named: list[OffsetFetchRequestTopics]) -> FetchOffsets:
        """The request; of members of the new protocol with their epoch."""
        return FetchOffsets(GROUP, named, False, False, to)

    def read(self) -> None:
        """Some records of what it owns."""
        for partition in self.owned:
            count = self.random.choice((0, 0, 1, 3))
            if count:
                self.owned[partition] += count
                self.dirty.add(partition)

    def commit(self, then: Answered) -> None:
        """What was read since the last time. `then` gets the error of the partitions, None when it is not known."""
        partitions = sorted(self.dirty & self.owned.keys())
        self.dirty.clear()
        if not partitions:
            then(ErrorCode.NONE)
            return
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=IDS[topic],
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=self.owned[number(topic, partition)]
                    )
                    for partition in some
                ],
            )
            for topic, some in by_topic(partitions).items()
        ]
        member_id, epoch, instance_id = self.member_id, self.epoch, self.instance_id

        def answered(answer: Any) -> None:
            error = None if answer is None else ErrorCode(answer.topics[0].partitions[0].error_code)
            self.commits += error is ErrorCode.NONE
            if error is not ErrorCode.NONE:
                self.dirty.update(partitions)
            then(error)

        self.ask(lambda to: CommitOffsets(GROUP, member_id, instance_id, epoch, topics, 9, -1, to), answered)
