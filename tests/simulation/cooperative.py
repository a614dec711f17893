"""A member of a group that rebalances cooperatively: it keeps what it has, and gives up only what it was not given.

It does as Kafka's cooperative-sticky assignor and its ConsumerCoordinator: the leader gives away a partition only after
the member that has it has given it up, which takes a second rebalance. Source: KIP-429.
"""

from __future__ import annotations

from typing import Any

from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.records.consumer_protocol import owned_partitions
from tests.simulation.clients import Asking
from tests.simulation.consumer import Anew, Consumer, Elsewhere, Rejoin
from tests.simulation.world import Sleep
from tests.support.consumer_protocol import assignment, subscription

Place = tuple[str, int]


class CooperativeConsumer(Consumer):
    """What it has are the places of `positions`."""

    protocol = "cooperative-sticky"

    def protocols(self) -> list[JoinGroupRequestProtocol]:
        owned = by_topic(sorted(self.positions))
        return [JoinGroupRequestProtocol(name=self.protocol, metadata=subscription(*self.topics, owned=owned))]

    def forget(self) -> None:
        """What it had may be somebody else's by now."""
        self.positions = {}

    def plan(self, members: list[Any]) -> Asking:
        """Even shares; who has more than its share gives up the rest, and nobody gets it in this generation."""
        self.planned = yield from self._sizes()
        places = [
            (topic, partition)
            for topic, count in zip(self.topics, self.planned, strict=True)
            for partition in range(count)
        ]
        has = {member.member_id: sorted(owned_partitions(bytes(member.metadata)) & set(places)) for member in members}
        least, more = divmod(len(places), len(members))
        given: dict[str, list[Place]] = {}
        for number, member in enumerate(sorted(has, key=lambda one: (-len(has[one]), one))):
            given[member] = has[member][: least + (number < more)]
        taken = {place for kept in has.values() for place in kept}
        free = [place for place in places if place not in taken]
        for number, member in enumerate(sorted(given, key=lambda one: (-len(has[one]), one))):
            while free and len(given[member]) < least + (number < more):
                given[member].append(free.pop())
        if self.random.random() < 0.1:
            yield Sleep(self.random.randrange(3_000))  # a leader that takes its time
        return {member: assignment(by_topic(sorted(mine))) for member, mine in given.items()}

    def resume(self, mine: dict[str, list[int]]) -> Asking:
        """Give up what is no longer mine, and say so by joining again; read on where the others' offsets are."""
        now = {(topic, partition) for topic, numbers in mine.items() for partition in numbers}
        kept = {place: offset for place, offset in self.positions.items() if place in now}
        given_up = len(self.positions) > len(kept)
        self.positions, self.positions_of = kept, self.generation
        new = by_topic(sorted(now - kept.keys()))
        if new:
            try:
                yield from super().resume(new)
            except (Rejoin, Elsewhere):
                self.positions = kept  # what came new was never read: it is joined for again
                raise
            except Anew:
                self.positions = {}
                raise
            self.positions = {**kept, **self.positions}
        if given_up:
            raise Rejoin


def by_topic(places: list[Place]) -> dict[str, list[int]]:
    """topic -> partitions."""
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found
