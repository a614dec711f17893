"""Heartbeats of consumer groups as their members would send them, and what a seeded mutator makes of them.

They come from members that are there, at their epochs, with what they have; then some fields say something else, and
then some bytes.
"""

from __future__ import annotations

from typing import Any

from protocol.frames import encode_request
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.fuzz.frames import Frames

GROUPS = ("g0", "g1")
TOPICS = ("orders", "payments", "compacted", "nowhere")
REGEXES = (None, "", "o.*", "(pay|ord).+", ".*", "[", "(a+)+b", "(?=x)", "\\", "x{1001}", "ü", "a" * 300)


class Heartbeats(Frames):
    """An endless source of them, all made from `seed` and from who is there."""

    def next(self) -> bytes:
        """The next frame: a tenth as they should be, half with fields that should not be, the rest with bytes too."""
        rng = self.random
        version = rng.choice((0, 1, 1, 1))
        request = self._join() if not self.consumers or rng.random() < 0.1 else self._beat()
        draw = rng.random()
        if draw > 0.1:
            for _ in range(rng.choice((1, 1, 2, 4))):
                self._twist(request)
        frame = encode_request(request, version, rng.getrandbits(31), "fuzz")
        return self._mutilated(frame) if draw > 0.6 else frame

    def _join(self) -> ConsumerGroupHeartbeatRequest:
        rng = self.random
        return ConsumerGroupHeartbeatRequest(
            group_id=rng.choice(GROUPS),
            member_id=rng.choice(("a", "b", "c", "d", "e", "f")),
            member_epoch=0,
            instance_id=rng.choice((None, None, None, "i", "j")),
            rebalance_timeout_ms=rng.choice((100, 10_000)),
            subscribed_topic_names=rng.sample(TOPICS, rng.randrange(3)),
            topic_partitions=[],
        )

    def _beat(self) -> ConsumerGroupHeartbeatRequest:
        rng = self.random
        group_id, member = rng.choice(self.consumers)
        gone = rng.random() < 0.03
        return ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member.member_id,
            member_epoch=-1 if gone else member.epoch,
            instance_id=member.instance_id,
            subscribed_topic_names=None if rng.random() < 0.7 else rng.sample(TOPICS, rng.randrange(3)),
            topic_partitions=None if rng.random() < 0.3 else self._owned(member),
        )

    def _owned(self, member: Any) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=topic_id, partitions=[*held]) for topic_id, held in member.assigned.items()]

    def _twist(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """One field says something else."""
        rng = self.random
        how = rng.randrange(10)
        if how == 0:
            request.member_epoch = min(max(request.member_epoch, 0), 1_000_000) + rng.choice((-2, -1, 1, 7))
        elif how == 1:
            request.member_epoch = rng.choice((0, 0, -1, -2, -3, -(2**31), 2**31 - 1))
        elif how == 2:
            request.member_id = rng.choice((*"abcdef", "", " ", "x" * 300))
        elif how == 3:
            request.instance_id = rng.choice((None, "", " ", "i", "j", "k"))
        elif how == 4:
            request.rebalance_timeout_ms = rng.choice((-1, 0, 1, 10_000, 2**31 - 1, -(2**31)))
        elif how == 5:
            request.subscribed_topic_names = rng.choice((None, [], ["", "bad name"], ["orders"] * 3, [*TOPICS]))
        elif how == 6:
            request.subscribed_topic_regex = rng.choice(REGEXES)
        elif how == 7:
            request.server_assignor = rng.choice((None, "range", "uniform", "", "nobody's"))
        elif how == 8:
            request.rack_id = rng.choice((None, "", " ", "r"))
        else:
            owned = request.topic_partitions or []
            request.topic_partitions = rng.choice(
                (None, [], owned[:-1], owned * 2, [TopicPartitions(topic_id=bytes(16), partitions=[-1, 2**31 - 1])])
            )
