"""Consumer groups: who is in them, what they have committed, why they rebalance, and what may happen to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.testing import given
from kohort.testing.errors import Refused
from kohort.testing.waiting import Missed, Span, wait, wait_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from kohort.testing.life import Life


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group. `partitions` are (topic, partition); empty while a classic group rebalances."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    partitions: frozenset[tuple[str, int]]


class Group:
    """One group, classic or of KIP-848, by its id. It need not be there yet."""

    def __init__(self, life: Life, group_id: str) -> None:
        given.text("group", group_id)
        self.group_id = group_id
        self._life = life

    # --- what there is

    @property
    def state(self) -> str:
        """As Kafka names it: Empty, PreparingRebalance, Stable, ... Raises: Refused when there is no such group."""
        return str(self._told()["state"])

    @property
    def generation(self) -> int:
        """The generation, or the group epoch."""
        return int(self._told()["generation"])

    @property
    def members(self) -> list[Member]:
        """Those that are in it now. Raises: Refused when there is no such group."""
        return [_member(one) for one in self._told()["members"]]

    def committed(self, topic: str | None = None) -> dict[tuple[str, int], int]:
        """(topic, partition) -> offset, of what it has committed; of one topic."""
        told = self._life.ask("committed", group=self.group_id)
        return {(name, index): offset for name, index, offset, _ in told if topic in (None, name)}

    def lag(self, topic: str | None = None) -> int:
        """Records that it has not committed, in partitions of which it has committed anything; of one topic."""
        return sum(lag for name, _, lag in self._life.ask("lag", group=self.group_id) if topic in (None, name))

    def why(self) -> str:
        """Its history: every rebalance, who caused it and why, what moved, who was fenced or refused."""
        return str(self._life.ask("why", group=self.group_id))

    # --- waiting

    def wait_stable(self, members: int | None = None, within: Span = 10) -> list[Member]:
        """Wait until it is Stable, with so many members; who they are. Raises: AssertionError with its history."""
        return wait(self._stable(members), within)

    async def await_stable(self, members: int | None = None, within: Span = 10) -> list[Member]:
        """As `wait_stable`, in a coroutine."""
        return await wait_async(self._stable(members), within)

    def wait_committed(self, topic: str, offset: int, partition: int = 0, within: Span = 10) -> None:
        """Wait until it has committed this offset, or a later one. Raises: AssertionError."""
        wait(self._has_committed(topic, offset, partition), within)

    async def await_committed(self, topic: str, offset: int, partition: int = 0, within: Span = 10) -> None:
        """As `wait_committed`, in a coroutine."""
        await wait_async(self._has_committed(topic, offset, partition), within)

    # --- what may happen to it

    def expire(self, member: str) -> str:
        """Its coordinator gives up a member, by member id, instance id or client id, as if its session were over."""
        return str(self._life.ask("expire", group=self.group_id, member=member))

    def lose_assignment(self, member: str | None = None) -> set[tuple[str, int]]:
        """All members, or one, lose their partitions at once without being asked; what they had.

        As after a pause that was too long: the next heartbeat or commit is refused, the client says that its partitions
        are lost (`on_lost`, `onPartitionsLost`), and joins again.
        """
        told = self._life.ask("lose_assignment", group=self.group_id, member=member)
        return {(topic, index) for _, topic, index in told}

    def fence(self, instance_id: str) -> str:
        """Somebody else joins with the instance id of a static member, which is fenced; the rival's member id.

        The rival says nothing more: its session ends as any other, or by `expire`.
        """
        return str(self._life.ask("fence", group=self.group_id, instance=instance_id))

    def rebalance(self) -> None:
        """A member comes and goes again at once, so that everybody else rejoins, with the next heartbeat."""
        self._life.ask("rebalance", group=self.group_id)

    def move_coordinator(self) -> None:
        """Its coordinator gives it up and reads it anew: who waits is told NOT_COORDINATOR, and looks for it again."""
        self._life.ask("move_coordinator", group=self.group_id)

    # ---

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = self._life.ask("group", group=self.group_id)
        return told

    def _stable(self, members: int | None) -> Callable[[], list[Member]]:
        given.number("members", members)

        def look() -> list[Member]:
            try:
                told = self._told()
            except Refused as refused:
                raise Missed(str(refused)) from None
            found = [_member(one) for one in told["members"]]
            if told["state"] != "Stable" or members not in (None, len(found)):
                wanted = "" if members is None else f" with {members} members"
                raise Missed(f"group {self.group_id} is not stable{wanted}\n{self.why()}")
            return found

        return look

    def _has_committed(self, topic: str, offset: int, partition: int) -> Callable[[], None]:
        given.number("offset", offset)

        def look() -> None:
            found = self.committed().get((topic, partition))
            if found is None or found < offset:
                raise Missed(f"group {self.group_id} has committed {found} of {topic}-{partition}, not {offset}")

        return look


def _member(told: dict[str, Any]) -> Member:
    partitions = frozenset((topic, index) for topic, index in told["partitions"])
    return Member(told["member_id"], told["instance_id"], told["client_id"], partitions)
