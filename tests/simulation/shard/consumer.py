"""A member of the new consumer protocol (KIP-848): it heartbeats, gives up what it must, takes what it is told to."""

from __future__ import annotations

from typing import Any

from coordinator.consumer.group import ConsumerGroup, ConsumerState, plain
from coordinator.consumer.inputs import ConsumerHeartbeat
from coordinator.offsets.inputs import FetchOffsets
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequestTopics
from tests.simulation.shard.clients import Client
from tests.simulation.shard.world import GROUP, IDS, TOPICS, Request, by_topic, numbered

REBALANCE_MS = 2_500
BEAT_MS = 1_000
_NONE = ErrorCode.NONE
BEGIN_ANEW = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


class ConsumerMember(Client):
    """ConsumerGroupHeartbeat, version 1: it makes its member id itself."""

    names: tuple[str, ...] = TOPICS[:1]
    prompt = False  # whether it gives up in time what it must
    mixed = False  # whether members of its group subscribe to different topics
    assignor: str | None = None

    def start(self) -> None:
        """Join."""
        self.epoch = 0
        self._said: tuple[str, ...] | None = None  # what it has said that it subscribes to
        self.assigned: set[int] = set()  # what it was last told
        self.held: set[int] = set()  # what it has taken and not given up
        self._era = 0  # of its membership
        self._tell_all = True  # the last answer may be lost
        self._reported: set[int] = set()  # what it last said that it holds
        self._revoking = False
        self._asking = False
        self._plan = 0
        self._beat()
        self.later(100, self._work)

    def leave(self) -> None:
        """For good, or for a while."""
        epoch = -1 if self.instance_id is None else -2
        names = self.names
        self.ask(lambda to: self._request(to, epoch, names, full=False, owned=None), lambda _: None)
        self.die()

    def settled_with(self, group: Any) -> str | None:
        """It has what the group says that it has, and what it shall have."""
        if not isinstance(group, ConsumerGroup) or group.state is not ConsumerState.STABLE:
            return f"the group is {group and group.state}"
        member = group.members.get(self.member_id)
        if member is None or member.names != self.names:
            return f"{self.name} is not a member, or wants something else"
        held = numbered(plain(member.assigned))
        target = numbered(group.targets.get(self.member_id, {}))
        if not self.epoch == member.epoch == group.epoch or not self.owned.keys() == held == target:
            return f"{self.name} is at {self.epoch} with {self.owned}, at {member.epoch} with {held} for the group"
        return None

    # Heartbeats

    def _request(
        self, to: Request, epoch: int, names: tuple[str, ...], *, full: bool, owned: set[int] | None
    ) -> ConsumerHeartbeat:
        return ConsumerHeartbeat(
            GROUP,
            self.member_id,
            epoch,
            self.instance_id,
            None,
            REBALANCE_MS if full else -1,
            names if full or names != self._said else None,
            None,
            self.assignor if full else None,
            None if owned is None else {IDS[topic]: frozenset(some) for topic, some in by_topic(owned).items()},
            1,
            "",
            self.name,
            "/127.0.0.1",
            to,
        )

    def _schedule(self, delay_ms: int) -> None:
        """The next heartbeat, and no other."""
        self._plan += 1
        plan = self._plan
        self.later(delay_ms, lambda: self._beat() if plan == self._plan else None)

    def _beat(self) -> None:
        if self._asking:
            return
        self._asking = True
        era, epoch, names = self._era, self.epoch, self.names
        full = self._tell_all or epoch == 0
        owned = set(self.held) if full or self.held != self._reported else None

        def answered(answer: Any) -> None:
            self._asking = False
            if era == self._era:
                if answer is not None and answer.error_code == _NONE:
                    self._said = names
                self._heard(answer, owned)
            else:
                self._schedule(0)

        # What it subscribes to is what it did when it sent this, not when it arrives.
        self.ask(lambda to: self._request(to, epoch, names, full=full, owned=owned), answered)

    def _heard(self, answer: Any, owned: set[int] | None) -> None:
        error = None if answer is None else ErrorCode(answer.error_code)
        if error is ErrorCode.FENCED_INSTANCE_ID or (self.hung and error is not _NONE):
            self.die()
        elif self.hung:
            self._schedule(BEAT_MS)
        elif error in BEGIN_ANEW:
            self._begin_anew()
        elif error is not _NONE:
            self._tell_all = True
            self._schedule(self.random.randrange(50, 400))
        else:
            self._tell_all = False
            if owned is not None:
                self._reported = owned
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = numbered(
                    {topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions}
                )
                self._reconcile()
            self._schedule(BEAT_MS if self.held == self._reported else 0)

    def _begin_anew(self) -> None:
        self._era += 1
        self.epoch = 0
        self.owned.clear()
        self.dirty.clear()
        self.assigned, self.held, self._reported = set(), set(), set()
        self._revoking = False
        self._schedule(self.random.randrange(0, 100))

    # What it owns

    def _reconcile(self) -> None:
        """Give up first, after a last commit; then take."""
        if self._revoking:
            return
        if self.held <= self.assigned:
            self._take()
            return
        self._revoking = True
        era = self._era

        def given_up() -> None:
            if era == self._era and not self.hung:
                self._revoking = False
                self._take()
                self._schedule(0)

        # Some take their time, and some take more than they have.
        delay_ms = self.random.choice((0, 0, 50, 400, 400 if self.prompt else 3_000))
        self.commit(lambda _: self.later(delay_ms, given_up))

    def _take(self) -> None:
        self.held = set(self.assigned)
        for partition in self.owned.keys() - self.held:
            del self.owned[partition]
        era = self._era
        for partition in self.held - self.owned.keys():
            self.take_up({partition}, lambda p=partition: era == self._era and p in self.held and p not in self.owned)

    def fetch(self, to: Request, named: list[OffsetFetchRequestTopics]) -> FetchOffsets:
        """As a member."""
        return FetchOffsets(GROUP, named, False, False, to, (), self.member_id, self.epoch)

    def _work(self) -> None:
        if self.hung:
            return
        self.read()
        self.commit(lambda _: self.later(self.random.randrange(200, 600), self._work))

    def change(self) -> None:
        """It subscribes to something else, or joins again under the id it has, as a client does that was told to."""
        others = [names for names in (TOPICS, TOPICS[:1], TOPICS[1:]) if names != self.names]
        if self.mixed and self.random.random() < 0.7:
            self.names = self.random.choice(others)
            self._schedule(0)
        else:
            self._begin_anew()
