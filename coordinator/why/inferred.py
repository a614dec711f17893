"""Rebalances as the generations in `__consumer_offsets` tell them, where nobody kept a ledger.

A generation leaves one record: who was in it, and when its assignment was made. Why it came, how long it took and who
was waited for is not in there, so those fields are null; a generation between two records left none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coordinator.classic.ownership import by_topic, holdings
from coordinator.group import Group, Member
from coordinator.loading import group_of
from protocol.records.errors import UnparsableRecord
from protocol.records.group_records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    UnknownKey,
    decode_key,
    decode_value,
)
from protocol.records.ledger import spans

Record = dict[str, Any]


def generations(group_id: str, log: Iterable[tuple[bytes | None, bytes | None]]) -> list[Record]:
    """Records of the kinds `rebalance_ended` and `group_removed`, the oldest first; `log`: keys and values in order.

    Of a consumer group (KIP-848): the epochs that a target was computed for, with who had come and gone by then.
    """
    found: list[Record] = []
    before: Group | None = None
    epochs = _Epochs(group_id)
    for key_bytes, value_bytes in log:
        try:
            key = decode_key(key_bytes)
            if isinstance(key, (OffsetCommitKey, UnknownKey)) or key.group != group_id:
                continue
            value = decode_value(key, value_bytes)
        except UnparsableRecord:
            continue
        if not isinstance(key, GroupMetadataKey):
            epoch = epochs.follow(key, value)
            if epoch is not None:
                if found and found[-1]["kind"] == "group_removed":
                    found.pop()  # it went over to the other protocol
                found.append(epoch)
            continue
        if value is None:
            if before is not None:
                found.append(_record("group_removed", before) | {"by": "expired"})
            before = None
            continue
        assert isinstance(value, GroupMetadataValue)
        group = group_of(group_id, value)
        if group.generation > 0 and (before is None or group.generation != before.generation):
            found.append(_generation(before, group))
        before = group
    return found


class _Epochs:
    """Who is in a consumer group, and which epoch it has a target for."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._members: dict[str, Record] = {}
        self._told: dict[str, Record] = {}  # as of the last target
        self._epoch: int | None = None
        self._at_ms = 0

    def follow(self, key: Any, value: Any) -> Record | None:
        """Take one record over; an epoch, if it tells of one."""
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            if value is None:
                self._members.pop(key.member, None)
            else:
                self._members[key.member] = {
                    "member_id": key.member,
                    "instance_id": value.instance_id,
                    "client_id": value.client_id,
                    "client_host": value.client_host,
                    "partitions": None,
                }
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey) and value is not None:
            return self._reached(value.assignment_epoch, value.assignment_timestamp)
        return None

    def _reached(self, epoch: int, at_ms: int) -> Record | None:
        at_ms = self._at_ms = at_ms or self._at_ms  # that of an empty group is not told: not before the last one
        before, was = self._epoch, self._told
        if epoch == before:
            return None
        self._epoch, self._told = epoch, dict(self._members)
        instances = {one["instance_id"] for one in was.values()} - {None}
        members = [
            {**one, "change": "stayed" if id_ in was else "replaced" if one["instance_id"] in instances else "joined"}
            for id_, one in self._members.items()
        ]
        here = {one["instance_id"] for one in self._members.values()} - {None}
        gone = [one for id_, one in was.items() if id_ not in self._members and one["instance_id"] not in here]
        members += [{**one, "change": "left"} for one in gone]
        common = {"version": 1, "kind": "rebalance_ended", "at_ms": at_ms, "group_id": self._group_id}
        return {
            **common,
            "group_type": "consumer",
            "generation": epoch,
            **_of_generation(before, epoch, "stable" if self._members else "empty"),
            "protocol": None,
            "protocol_type": "consumer",
            "members": members,
        }


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
    return {
        **_record("rebalance_ended", group),
        **_of_generation(reached, group.generation, outcome),
        "protocol": group.protocol_name,
        "protocol_type": group.protocol_type,
        "members": members,
    }


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
