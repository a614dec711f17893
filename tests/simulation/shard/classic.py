"""A member of the classic protocol: it stops reading while the group rebalances, as eager consumers do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coordinator.classic.inputs import Heartbeat, Join, Leave, Leaver, Sync
from coordinator.group import Group, GroupState
from protocol.errors import ErrorCode
from tests.simulation.shard.clients import Client
from tests.simulation.shard.world import GROUP, SESSION_MS

REBALANCE_MS = 1_200
_NONE = ErrorCode.NONE


class ClassicMember(Client):
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

    metadata = b"m"
    version = 9
    partitions = staticmethod(lambda: 0)  # how many the leader of the group deals out

    def encode(self, partitions: range) -> bytes:
        """An assignment, as a leader writes it."""
        return bytes(partitions)

    def decode(self, assignment: bytes) -> Iterable[int]:
        """What it says."""
        return assignment

    def start(self) -> None:
        """Join."""
        self.member_id = ""
        self._era = 0  # of what it has joined: answers of an older one mean nothing
        self._ids = 0
        self.stable = False
        self._join()
        self.later(100, self._work)

    def leave(self) -> None:
        """A static member that is stopped says nothing."""
        if self.instance_id is None and self.member_id:
            member_id = self.member_id
            self.ask(lambda to: Leave(GROUP, [Leaver(member_id)], 4, to), lambda _: None)
        self.die()

    def settled_with(self, group: Any) -> str | None:
        """It has what the group says that it has."""
        if not isinstance(group, Group) or group.state is not GroupState.STABLE:
            return f"the group is {group and group.state}"
        member = group.members.get(self.member_id)
        if member is None or not self.stable:
            return f"{self.name} is {'' if self.stable else 'not '}stable, and {'' if member else 'not '}a member"
        if self.epoch != group.generation or self.owned.keys() != set(self.decode(member.assignment)):
            return f"{self.name} is at {self.epoch} with {self.owned}, the group at {group.generation}"
        return None

    # Joining

    def _join(self) -> None:
        self._era += 1
        era = self._era
        self.stable = False
        self.owned.clear()
        self.dirty.clear()
        self._ids += 1
        fresh = f"{self.instance_id or self.name}-{self.name}-{self._ids}"
        protocols = (("range", self.metadata),)
        member_id = self.member_id
        self.ask(
            lambda to: Join(
                GROUP, member_id, self.instance_id, "consumer", protocols, SESSION_MS, REBALANCE_MS, self.version,
                fresh, self.name, "/127.0.0.1", to,
            ),
            lambda answer: self._joined(era, answer),
        )  # fmt: skip

    def _rejoin(self, era: int, error: ErrorCode | None = None) -> None:
        """Begin anew, after a moment unless there is a reason to hurry."""
        if era != self._era:
            return
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.die()
            return
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if self.hung:
            self.die()
            return
        hurry = error in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS)
        self._era += 1
        era = self._era
        self.stable = False
        self.owned.clear()
        self.later(0 if hurry else self.random.randrange(50, 200), lambda: self._join() if era == self._era else None)

    def _joined(self, era: int, answer: Any) -> None:
        if era != self._era:
            return
        error = None if answer is None else ErrorCode(answer.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        if error is not _NONE:
            self._rejoin(era, error)
            return
        self.member_id, self.epoch = answer.member_id, answer.generation_id
        plan: dict[str, bytes] = {}
        self._leads = answer.leader == self.member_id
        self._dealt = self.partitions()
        if self._leads and not answer.skip_assignment:
            ids = sorted(member.member_id for member in answer.members)
            plan = {one: self.encode(range(at, self._dealt, len(ids))) for at, one in enumerate(ids)}
        # Some are slow to plan, and some never ask.
        delay_ms = self.random.choice((0, 0, 0, 100, 1_000))
        self.later(delay_ms, lambda: self._sync(era, plan))

    def _sync(self, era: int, plan: list[tuple[str, bytes]]) -> None:
        if era == self._era and self.hung:
            self.later(0, lambda: self._beat(era))
        elif era == self._era:
            request = (self.member_id, self.instance_id, self.epoch, "consumer", "range", plan, 5)
            self.ask(lambda to: Sync(GROUP, *request, to), lambda answer: self._synced(era, answer))

    def _synced(self, era: int, answer: Any) -> None:
        if era != self._era:
            return
        error = None if answer is None else ErrorCode(answer.error_code)
        if error is not _NONE:
            self._rejoin(era, error)
            return
        self.stable = True
        self.take_up(set(self.decode(answer.assignment)), lambda: era == self._era)
        self.later(self.random.randrange(1_000), lambda: self._beat(era))

    # Being a member

    def _beat(self, era: int) -> None:
        if era == self._era:
            request = (self.member_id, self.instance_id, self.epoch)
            self.ask(lambda to: Heartbeat(GROUP, *request, to), lambda answer: self._heard(era, answer))

    def _heard(self, era: int, answer: Any) -> None:
        if era != self._era:
            return
        error = None if answer is None else ErrorCode(answer.error_code)
        if self.hung:
            if error in (_NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self.later(1_000, lambda: self._beat(era))
            else:
                self.die()
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.commit(lambda _: self._rejoin(era, error))
        elif self._leads and self._dealt != self.partitions():
            self._join()
        elif error in (_NONE, None):
            self.later(1_000 if error is _NONE else 100, lambda: self._beat(era))
        else:
            self._rejoin(era, error)

    def _work(self) -> None:
        if self.hung:
            return
        era = self._era
        self.read()

        def committed(error: ErrorCode | None) -> None:
            self.later(self.random.randrange(200, 600), self._work)
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
                self._rejoin(era, error)

        self.commit(committed)

    def change(self) -> None:
        """It says something else about itself, and so joins again."""
        if self.stable:
            self.metadata = b"n" if self.metadata == b"m" else b"m"
            self._join()
