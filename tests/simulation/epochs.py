"""A member of a group of the consumer protocol (KIP-848): it says what it has, and the broker what it may have.

It does as Kafka's ConsumerMembershipManager: what it must give up it commits, gives up, and says so with its next
heartbeat; a connection that is lost costs it nothing, and who is fenced begins anew.
"""

from __future__ import annotations

from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from protocol.messages.offset_commit import OffsetCommitRequest
from tests.simulation.clients import Asking
from tests.simulation.consumer import REBALANCE_MS, Anew, Consumer, check
from tests.simulation.cooperative import Place, by_topic
from tests.simulation.world import Sleep

_BEGIN_ANEW = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


def told(code: int) -> None:
    """As `check`, with what only such groups answer. Raises: Anew and others; AssertionError."""
    if code in _BEGIN_ANEW:
        raise Anew
    check(code)


class EpochConsumer(Consumer):
    """Its generation is its member epoch."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.oldest |= {"Metadata": 10, "OffsetCommit": 9, "ConsumerGroupHeartbeat": 1}
        self.newest |= {"OffsetCommit": 10}
        self.assigned: set[Place] = set()
        self.times = 0
        self.full = False  # the last answer may be lost: all is said again, and told again

    def forget(self) -> None:
        """What it had is somebody else's by now."""
        self.positions, self.assigned = {}, set()

    def join(self) -> Asking:
        """Come with nothing, unless it is there already."""
        if self.generation > 0:
            self.full = True
            return
        yield from self._sizes()
        if not self.member_id:
            self.times += 1
            self.member_id = f"{self.name}-{self.times}"
        self.forget()
        self.generation = 0
        yield Sleep(self.random.randrange(300))  # a group may not be one that it can be in
        yield from self._heed((yield from self.ask(self.heartbeat())))

    def heartbeat(self) -> Any:
        """What it has; of a newcomer, what it wants."""
        joins = self.generation <= 0
        full = joins or self.full
        owned = {} if joins else by_topic(sorted(self.positions))
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=max(self.generation, 0),
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            subscribed_topic_names=list(self.topics) if full else None,
            topic_partitions=[
                TopicPartitions(topic_id=self.topic_ids[topic], partitions=held) for topic, held in owned.items()
            ],
        )

    def _heed(self, answer: Any) -> Asking:
        """Give up what is no longer its own, and read on where the others' offsets are."""
        told(answer.error_code)
        self.generation, self.full = answer.member_epoch, False
        if answer.assignment is not None:
            names = {topic_id: name for name, topic_id in self.topic_ids.items()}
            self.assigned = {
                (names[topic.topic_id], partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            }
        if self.positions.keys() - self.assigned:
            yield from self._commit()
            self.positions = {place: offset for place, offset in self.positions.items() if place in self.assigned}
        new = by_topic(sorted(self.assigned - self.positions.keys()))
        if new:
            kept = self.positions
            try:
                yield from self.resume(new)
            except BaseException:
                self.positions = kept  # they are looked up again after the next heartbeat
                raise
            self.positions = {**kept, **self.positions}

    def work(self) -> Asking:
        """Heartbeat, read and commit until it is to go or is put out."""
        while not self.stopping:
            yield Sleep(self.random.randrange(200, 900))
            requests: list[Any] = [self.heartbeat()]
            if self.positions:
                requests.append(self.fetch())
            answers = yield from self.ask_all(requests)
            if len(answers) > 1:
                self.owes |= self.take(answers[1])
            yield from self._heed(answers[0])
            if self.owes:
                yield from self._commit()

    def _commit(self) -> Asking:
        """What was read; one of an epoch that has passed is made again at the next."""
        if not self.owes or not self.positions:
            return
        answer = yield from self.ask(self.commit())
        codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
        if ErrorCode.STALE_MEMBER_EPOCH in codes:
            return
        for code in codes:
            told(code)
        self.owes = False

    def commit(self, generation: int | None = None) -> OffsetCommitRequest:
        """With the topics' ids too."""
        request = super().commit(generation)
        for topic in request.topics:
            topic.topic_id = self.topic_ids[topic.name]
        return request

    def leave(self) -> Asking:
        """Say goodbye."""
        if self.generation > 0:
            asked = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=-1)
            yield from self.ask(asked)
