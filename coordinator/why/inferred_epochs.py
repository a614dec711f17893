"""What the records of a consumer group (KIP-848) tell: its epochs, and of members that are gone what their commits say.

A member that leaves, and one whose session is over, leave the same records: its tombstones, and a later epoch. Only the
static one that goes for a while says so, by the epoch -2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.consumer.member import LEAVE_STATIC_EPOCH
from coordinator.view import ConsumerSettings
from coordinator.why.inferred_departures import departure
from coordinator.why.inferred_pauses import Commits, TopicPartition
from protocol.records.consumer_group_records import classic_of
from protocol.records.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

Record = dict[str, Any]

_DEFAULTS = ConsumerSettings()


class Epochs:
    """Who is in a consumer group, and which epoch it has a target for."""

    def __init__(
        self, group_id: str, commits: Commits, names: Mapping[bytes, str], session_ms: int | None = None
    ) -> None:
        self._group_id = group_id
        self._commits = commits
        self._names = names
        self._session_ms = session_ms
        self._held: dict[str, tuple[list[TopicPartition], int]] = {}  # by member: what it reads, and since when
        self._away_ms: dict[str, int] = {}
        self._timeouts: dict[str, Record] = {}
        self._only: dict[str, str] = {}  # the one topic of a member that has named no other
        self._departed: dict[str, Record] = {}  # since the last target
        self.members: dict[str, Record] = {}
        self._targets: dict[str, frozenset[tuple[bytes, int]]] = {}
        self._owned: dict[str, frozenset[tuple[bytes, int]]] = {}  # by the last target
        self._bumped_ms: int | None = None  # when the epoch was, that no target is told of yet
        self._reached: set[str] = set()
        self._open: Record | None = None  # an epoch that not everybody has come to
        self._told: dict[str, Record] = {}  # as of the last target
        self._epoch: int | None = None
        self._at_ms = 0

    @property
    def epoch(self) -> int:
        """Of the last target."""
        return self._epoch or 0

    def follow(self, key: Any, value: Any, at_ms: int) -> Record | None:
        """Take one record over; an epoch, if it tells of one."""
        if isinstance(key, ConsumerGroupMetadataKey) and value is not None:
            self._bumped_ms = self._bumped_ms if self._bumped_ms is not None else at_ms
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            self._targets.pop(key.member, None)
            if value is not None:
                self._targets[key.member] = frozenset(
                    [(topic.topic_id, number) for topic in value.topic_partitions for number in topic.partitions]
                )
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey) and value is not None:
            self._holds(key.member, value, at_ms)
            self._arrived(key.member, value, at_ms)
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            if value is None:
                self._went(key.member, at_ms)
            else:
                self._came(key.member, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey) and value is not None:
            return self._begun(value.assignment_epoch, value.assignment_timestamp or at_ms)
        return None

    def _came(self, member_id: str, value: ConsumerGroupMemberMetadataValue) -> None:
        self.members[member_id] = {
            "member_id": member_id,
            "instance_id": value.instance_id,
            "client_id": value.client_id,
            "client_host": value.client_host,
            "partitions": None,
        }
        classic = classic_of(value)
        self._timeouts[member_id] = {
            "session_timeout_ms": classic.session_timeout_ms
            if classic is not None
            else self._session_ms or _DEFAULTS.session_timeout_ms,
            "session_assumed": classic is None and self._session_ms is None,
            "rebalance_timeout_ms": value.rebalance_timeout_ms,
        }
        if len(value.subscribed_topic_names) == 1:
            self._only[member_id] = value.subscribed_topic_names[0]

    def _went(self, member_id: str, at_ms: int) -> None:
        one, (partitions, since_ms) = self.members.pop(member_id, None), self._held.pop(member_id, ([], 0))
        timeouts, away_since_ms = self._timeouts.pop(member_id, {}), self._away_ms.pop(member_id, None)
        self._only.pop(member_id, None)
        if one is None:
            return
        mine = self._commits.of(partitions, since_ms)
        gone = departure({**one, "change": "left", **timeouts}, mine, mine, at_ms or None, emptied=True)
        if away_since_ms is not None and at_ms:
            gone["away_ms"] = max(at_ms - away_since_ms, 0)
        self._departed[member_id] = gone

    def _holds(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue, at_ms: int) -> None:
        if value.member_epoch == LEAVE_STATIC_EPOCH:
            self._away_ms[member_id] = at_ms
            return
        self._away_ms.pop(member_id, None)
        partitions = [
            (topic, number)
            for one in value.assigned_partitions
            if (topic := self._names.get(one.topic_id) or self._only.get(member_id)) is not None
            for number in one.partitions
        ]
        before, since_ms = self._held.get(member_id, ([], at_ms))
        kept = since_ms if set(before) & set(partitions) else at_ms
        self._held[member_id] = partitions, kept

    def _arrived(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue, at_ms: int) -> None:
        record = self._open
        if record is None or value.state != 0 or value.member_epoch < record["to_generation"]:
            return
        self._reached.add(member_id)
        if self._reached >= self.members.keys():
            record["duration_ms"] = max(at_ms - record["began_at_ms"], 0)
            record["ended_at_ms"] = at_ms
            self._open = None

    def _begun(self, epoch: int, at_ms: int) -> Record | None:
        at_ms = self._at_ms = at_ms or self._at_ms  # that of an empty group is not told: not before the last one
        before, was = self._epoch, self._told
        if epoch == before:
            return None
        self._epoch, self._told = epoch, dict(self.members)
        instances = {one["instance_id"] for one in was.values()} - {None}
        members = [
            {**one, "change": "stayed" if id_ in was else "replaced" if one["instance_id"] in instances else "joined"}
            for id_, one in self.members.items()
        ]
        here = {one["instance_id"] for one in self.members.values()} - {None}
        gone = [one for id_, one in was.items() if id_ not in self.members and one["instance_id"] not in here]
        members += [{**one, "change": "left"} for one in gone]
        common = {"version": 1, "kind": "rebalance_ended", "at_ms": at_ms, "group_id": self._group_id}
        owned = {id_: self._targets.get(id_, frozenset()) for id_ in self.members}
        had = {tp for held in self._owned.values() for tp in held}
        moved = sum(len(held & had - self._owned.get(id_, frozenset())) for id_, held in owned.items())
        began_ms, self._bumped_ms, self._reached = self._bumped_ms or at_ms, None, set()
        made = {
            **common,
            "group_type": "consumer",
            "generation": epoch,
            **of_generation(before, epoch, "stable" if self.members else "empty"),
            "protocol": None,
            "protocol_type": "consumer",
            "members": members,
            "began_at_ms": began_ms,
            "partitions_moved": moved if before is not None else None,
            "partitions_total": sum(map(len, owned.values())),
        }
        self._owned, self._open = owned, made if self.members else None
        departed, self._departed = self._departed, {}
        made["departures"] = [departed[one["member_id"]] for one in gone if one["member_id"] in departed]
        return made


def of_generation(before: int | None, now: int, outcome: str) -> Record:
    """What a step of either kind of group says; why it came is not known."""
    return {
        "source": "inferred",
        "from_generation": before,
        "to_generation": now,
        "outcome": outcome,
        "rebalance_id": None,
        "first_cause": None,
        "further_causes": [],
        "duration_ms": None,
    }
