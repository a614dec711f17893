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
from protocol.records.group_records import GroupMetadataKey, GroupMetadataValue, decode_key, decode_value
from protocol.records.ledger import spans

Record = dict[str, Any]


def generations(group_id: str, log: Iterable[tuple[bytes | None, bytes | None]]) -> list[Record]:
    """Records of the kinds `rebalance_ended` and `group_removed`, the oldest first; `log`: keys and values in order."""
    found: list[Record] = []
    before: Group | None = None
    for key_bytes, value_bytes in log:
        try:
            key = decode_key(key_bytes)
            if not isinstance(key, GroupMetadataKey) or key.group != group_id:
                continue
            value = decode_value(key, value_bytes)
        except UnparsableRecord:
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
    return _record("rebalance_ended", group) | {
        "source": "inferred",
        "from_generation": before.generation if before is not None else None,
        "to_generation": group.generation,
        "outcome": "stable" if group.members else "empty",
        "rebalance_id": None,
        "first_cause": None,
        "further_causes": [],
        "duration_ms": None,
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
