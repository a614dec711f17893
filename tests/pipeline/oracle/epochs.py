"""KIP-848 groups: rebalances and ownership, folded from their records.

A rebalance is over when the target assignment has the group's epoch and every member is stable there. The records of
one append have one time and a fixed order, and count together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.pipeline.oracle.records import Row

Place = tuple[str, int]


class Group:
    """One group, record by record."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.rebalances: list[Row] = []
        self.spans: list[Row] = []
        self.reborn = False
        self.forget()

    def forget(self) -> None:
        """As before its first record."""
        self.epoch: int | None = None
        self.target_epoch: int | None = None
        self.began_at: int | None = None
        self.done: int | None = None
        self.done_members: dict[str, str | None] = {}
        self.done_owners: dict[Place, str] = {}
        self.members: dict[str, Row] = {}
        self.epochs: dict[str, int] = {}
        self.moving: set[str] = set()  # members that still revoke or wait
        self.targets: dict[str, set[Place]] = {}
        self.owned: dict[str, dict[Place, Row]] = {}
        self.let_go: list[Row] = []

    def append(self, rows: list[Row]) -> None:
        """The rows of consumer_group_records that were written together, in log order."""
        told = [row for row in rows if self._take(row)]
        if told:
            self._finish(told[-1])

    def _take(self, row: Row) -> bool:
        kind, member = row["record_type"].removeprefix("consumer_group_"), row["member_id"]
        if kind == "metadata":
            self._metadata(row)
        elif kind == "member_metadata":
            if row["tombstone"]:
                self.members.pop(member, None)
                self.epochs.pop(member, None)
                self.moving.discard(member)
                if not self.members:
                    for span in self.let_go:
                        span["ended_by"] = "group_empty"
            else:
                self.members[member] = row
                self.epochs.setdefault(member, 0)
        elif kind == "target_assignment_metadata":
            self.target_epoch = row["target_epoch"]
        elif kind == "target_assignment_member":
            self.targets.pop(member, None)
            if not row["tombstone"]:
                self.targets[member] = places(row["partitions"])
        elif kind == "current_member_assignment":
            self._current(row)
        else:
            return False
        return True

    def _metadata(self, row: Row) -> None:
        if row["tombstone"]:
            for span in self.let_go:
                if span["owned_to"] == row["logged_at"]:
                    span["ended_by"] = "group_removed"
            for member in list(self.owned):
                self._end_all(member, row, "group_removed")
            self.forget()
            self.reborn = True
            return
        if self.epoch != row["group_epoch"] and self.began_at is None:
            self.began_at = row["logged_at"]
        self.epoch = row["group_epoch"]

    def _current(self, row: Row) -> None:
        member = row["member_id"]
        if row["tombstone"]:
            self.let_go += self._end_all(member, row, "reassigned")
            return
        self.let_go = []
        self.epochs[member] = row["member_epoch"]
        self.moving.discard(member)
        if row["member_state"] != "Stable":
            self.moving.add(member)
        person = self.members.get(member, {})
        now = places(row["partitions"]) | places(row["pending_revocation"])
        mine = self.owned.setdefault(member, {})
        for place in set(mine) - now:
            self._end(mine.pop(place), row, "reassigned")
        for place in now:
            span = mine.setdefault(
                place,
                {
                    "group_id": self.group_id,
                    "topic": place[0],
                    "partition": place[1],
                    "member_id": member,
                    "from_generation": row["member_epoch"],
                    "to_generation": None,
                    "owned_from": row["logged_at"],
                    "owned_to": None,
                    "ended_by": None,
                    "source": "epoch",
                },
            )
            span["_last"] = row["member_epoch"]
            span["group_instance_id"] = person.get("instance_id")
            span["client_id"] = person.get("client_id") or ""
            span["client_host"] = person.get("client_host") or ""

    def _end_all(self, member: str, row: Row, why: str) -> list[Row]:
        spans = list(self.owned.pop(member, {}).values())
        for span in spans:
            self._end(span, row, why)
        return spans

    def _end(self, span: Row, row: Row, why: str) -> None:
        span.update(to_generation=span["_last"], owned_to=row["logged_at"], ended_by=why)
        self.spans.append(span)

    def _finish(self, row: Row) -> None:
        epoch = self.epoch
        if epoch is None and self.members and {self.epochs[member] for member in self.members} == {1}:
            epoch = 1  # a new group's
        if epoch is None or epoch == self.done:
            return
        if self.members and (self.target_epoch or 1) < epoch:
            return
        if self.moving or any(self.epochs[member] < epoch for member in self.members):
            return
        people = {member: fields["instance_id"] for member, fields in self.members.items()}
        owners = {place: people.get(m) or m for m, mine in self.targets.items() for place in mine}
        if self.done is not None or self.reborn:
            self.rebalances.append(self._rebalance(epoch, row, people, owners))
        self.done, self.done_members, self.done_owners = epoch, people, owners
        self.reborn, self.began_at = False, None

    def _rebalance(self, epoch: int, row: Row, people: dict[str, str | None], owners: dict[Place, str]) -> Row:
        return {
            "group_id": self.group_id,
            "source": "epoch",
            "from_generation": self.done,
            "to_generation": epoch,
            "missing_generations": 0 if self.done is None else max(epoch - self.done - 1, 0),
            "started_at": self.began_at,
            "finished_at": row["logged_at"],
            "duration_ms": None if self.began_at is None else row["logged_at"] - self.began_at,
            "sync_ms": None,
            "trigger": None,
            "reason": None,
            "members_before": None if self.done is None else len(self.done_members),
            "members_after": len(people),
            "joined": strangers(people, self.done_members),
            "left": strangers(self.done_members, people),
            "leader_changed": False,
            "protocol": None,
            "partitions_total": len(owners),
            "partitions_moved": len({place for place, _ in owners.items() ^ self.done_owners.items()}),
            "stopped_ms": None,
            "slowest_member": None,
            "log_offset": row["log_offset"],
        }


def fold(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """(rebalances of source `epoch`, membership of source `epoch`) from consumer_group_records."""
    appends: dict[str, list[list[Row]]] = {}
    for row in rows:
        mine = appends.setdefault(row["group_id"], [])
        if not mine or when(mine[-1][0]) != when(row) or turn(row) < turn(mine[-1][-1]):
            mine.append([])
        mine[-1].append(row)
    groups: dict[str, Group] = {}
    for group_id, mine in appends.items():
        groups[group_id] = Group(group_id)
        for together in mine:
            groups[group_id].append(together)
    spans = []
    for group in groups.values():
        spans += group.spans + [span for mine in group.owned.values() for span in mine.values()]
    for span in spans:
        span.pop("_last", None)
    return [row for group in groups.values() for row in group.rebalances], spans


def when(row: Row) -> tuple[int, int]:
    """What the records of one append have in common."""
    return row["log_partition"], row["logged_at"]


def turn(row: Row) -> int:
    """When in an append a record has its turn: tombstones, members, epoch, targets, their epoch, current ones."""
    kinds = ("member_metadata", "metadata", "target_assignment_member", "target_assignment_metadata")
    kind = row["record_type"].removeprefix("consumer_group_")
    return 0 if row["tombstone"] else 1 + kinds.index(kind) if kind in kinds else 5


def places(parts: Any) -> set[Place]:
    """(topic, or its id where nobody knows the name, partition)."""
    return {(part["topic"] or part["topic_id"], part["partition"]) for part in parts or ()}


def strangers(these: dict[str, str | None], those: dict[str, str | None]) -> list[str]:
    """The members of `these` that are not in `those`, neither by id nor as a static member under another."""
    instances = {instance for instance in those.values() if instance}
    return sorted(member for member, instance in these.items() if member not in those and instance not in instances)
