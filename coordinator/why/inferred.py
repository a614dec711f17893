"""Rebalances as the records of `__consumer_offsets` tell them, where nobody kept a ledger: on any Apache Kafka.

A generation leaves one record: who was in it, who owned what, and when its assignment was made. Why it came and who was
waited for is not in there, so those fields are null; a generation between two records left none. How long it took is
known of consumer groups, whose every step is a record; of others the commits tell how long they paused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coordinator.classic.ownership import Holding, Holdings, by_topic, holdings
from coordinator.group import Group, Member
from coordinator.loading import group_of
from coordinator.why.inferred_departures import departure
from coordinator.why.inferred_pauses import Commits, merged
from protocol.records.errors import UnparsableRecord
from protocol.records.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
)
from protocol.records.ledger import spans

Record = dict[str, Any]


def generations(group_id: str, log: Iterable[tuple[bytes | None, bytes | None, int]]) -> list[Record]:
    """Records as the ledger has them, marked `inferred`, the oldest first; `log`: keys, values and times in order.

    Of a consumer group (KIP-848): the epochs that a target was computed for, with who had come and gone by then.
    """
    found: list[Record] = []
    before: Group | None = None
    epochs = _Epochs(group_id)
    commits = Commits(group_id)
    for key_bytes, value_bytes, at_ms in log:
        try:
            key = decode_key(key_bytes)
            if isinstance(key, UnknownKey) or key.group != group_id:
                continue
            value = decode_value(key, value_bytes)
        except UnparsableRecord:
            continue
        if isinstance(key, OffsetCommitKey):
            offset = value.offset if isinstance(value, OffsetCommitValue) else None
            generation = before.generation if before is not None else epochs.epoch
            # A group that never had a member is a simple consumer's, whose commits are its ordinary work.
            empty = not epochs.members and (before is not None and not before.members) and bool(found)
            changed = commits.follow((key.topic, key.partition), offset, at_ms, empty=empty, generation=generation)
            if changed is not None:
                merged(found, changed)
            continue
        if not isinstance(key, GroupMetadataKey):
            epoch = epochs.follow(key, value, at_ms)
            if epoch is not None:
                if found and found[-1]["kind"] == "group_removed":
                    found.pop()  # it went over to the other protocol
                found.append(epoch)
                commits.began(epoch)
            continue
        if value is None:
            if before is not None:
                gone = {"by": "removed", "source": "inferred", "at_ms": at_ms or before.state_timestamp_ms or 0}
                found.append(_record("group_removed", before) | gone)
            before = None
            continue
        assert isinstance(value, GroupMetadataValue)
        group = group_of(group_id, value)
        if group.generation > 0 and (before is None or group.generation != before.generation):
            found.append(_generation(before, group))
            if before is not None:
                found[-1]["departures"] = _departures(before, group, commits)
            if group.members:
                commits.began(found[-1])
        before = group
    return found


class _Epochs:
    """Who is in a consumer group, and which epoch it has a target for."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
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
            self._arrived(key.member, value, at_ms)
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            if value is None:
                self.members.pop(key.member, None)
            else:
                self.members[key.member] = {
                    "member_id": key.member,
                    "instance_id": value.instance_id,
                    "client_id": value.client_id,
                    "client_host": value.client_host,
                    "partitions": None,
                }
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey) and value is not None:
            return self._begun(value.assignment_epoch, value.assignment_timestamp or at_ms)
        return None

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
        had = {place for held in self._owned.values() for place in held}
        moved = sum(len(held & had - self._owned.get(id_, frozenset())) for id_, held in owned.items())
        began_ms, self._bumped_ms, self._reached = self._bumped_ms or at_ms, None, set()
        made = {
            **common,
            "group_type": "consumer",
            "generation": epoch,
            **_of_generation(before, epoch, "stable" if self.members else "empty"),
            "protocol": None,
            "protocol_type": "consumer",
            "members": members,
            "began_at_ms": began_ms,
            "partitions_moved": moved if before is not None else None,
            "partitions_total": sum(map(len, owned.values())),
        }
        self._owned, self._open = owned, made if self.members else None
        return made


def _of_generation(before: int | None, now: int, outcome: str) -> Record:
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


def _record(kind: str, group: Group) -> Record:
    return {
        "version": 1,
        "kind": kind,
        "at_ms": group.state_timestamp_ms or 0,
        "group_id": group.group_id,
        "group_type": "classic",
        "generation": group.generation,
    }


def _generation(before: Group | None, group: Group) -> Record:
    was = before.members if before is not None else {}
    instances = {member.instance_id for member in was.values() if member.instance_id is not None}
    owned = holdings(group)
    members = []
    for member_id, member in group.members.items():
        back = member.instance_id in instances
        change = "stayed" if member_id in was else "replaced" if back else "joined"
        members.append(_member(member, change, None if owned is None else owned[member_id].partitions))
    here = {member.instance_id for member in group.members.values() if member.instance_id is not None}
    for member_id, member in was.items():
        if member_id not in group.members and (member.instance_id is None or member.instance_id not in here):
            members.append(_member(member, "left", frozenset()))
    reached = before.generation if before is not None else None
    outcome = "stable" if group.members else "empty"
    held = holdings(before) if before is not None else None
    moved = None
    if held is not None and owned is not None:
        had = {place for one in held.values() for place in one.partitions}
        new = {id_: held[id_].partitions if id_ in held else _of_instance(held, one) for id_, one in owned.items()}
        moved = sum(len(one.partitions & had - new[id_]) for id_, one in owned.items())
    return {
        **_record("rebalance_ended", group),
        **_of_generation(reached, group.generation, outcome),
        "protocol": group.protocol_name,
        "protocol_type": group.protocol_type,
        "members": members,
        "partitions_moved": moved,
        "partitions_total": None if owned is None else sum(len(one.partitions) for one in owned.values()),
    }


def _departures(before: Group, group: Group, commits: Commits) -> list[Record]:
    """Members that are gone, with what their commits say of that."""
    held = holdings(before)
    here = {member.instance_id for member in group.members.values()} - {None}
    gone = [
        one for id_, one in before.members.items() if id_ not in group.members and (one.instance_id or "") not in here
    ]
    if held is None or not gone:
        return []
    since_ms = before.state_timestamp_ms or 0
    stayed = [place for id_, one in held.items() if id_ in group.members for place in one.partitions]
    others = commits.of(stayed, since_ms)
    return [
        departure(
            _member(one, "left", None)
            | {"session_timeout_ms": one.session_timeout_ms, "rebalance_timeout_ms": one.rebalance_timeout_ms},
            commits.of(held[one.member_id].partitions, since_ms),
            others,
            group.state_timestamp_ms,
            emptied=not group.members,
        )
        for one in gone
    ]


def _of_instance(held: Holdings, one: Holding) -> frozenset[tuple[str, int]]:
    """What a static member had under its older id."""
    same = [each.partitions for each in held.values() if one.instance_id and each.instance_id == one.instance_id]
    return same[0] if same else frozenset()


def _member(member: Member, change: str, partitions: frozenset[tuple[str, int]] | None) -> Record:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "change": change,
        "partitions": None
        if partitions is None
        else {topic: spans(found) for topic, found in by_topic(partitions).items()},
    }
