"""Rebalances as the records of `__consumer_offsets` tell them, where nobody kept a ledger: on any Apache Kafka.

A generation leaves one record: who was in it, who owned what, and when its assignment was made. Why it came and who was
waited for is not in there, so those fields are null; a generation between two records left none. How long it took is
known of consumer groups, whose every step is a record; of others the commits tell how long they paused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator.classic.ownership import Holding, Holdings, by_topic, holdings
from coordinator.group import Group, Member
from coordinator.loaded_records import group_of
from coordinator.why.inferred_departures import departure
from coordinator.why.inferred_epochs import Epochs, of_generation
from coordinator.why.inferred_pauses import Commits, merged
from protocol.records.errors import UnparsableRecord
from protocol.records.group_records import (
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


def generations(
    group_id: str,
    log: Iterable[tuple[bytes | None, bytes | None, int]],
    *,
    names: Mapping[bytes, str] | None = None,
    session_ms: int | None = None,
) -> list[Record]:
    """Records as the ledger has them, marked `inferred`, the oldest first; `log`: keys, values and times in order.

    Of a consumer group (KIP-848): the epochs that a target was computed for, with who had come and gone by then. Its
    records know topics by id alone, and no session timeout: `names` of topics by id, `session_ms` as it is now.
    """
    found: list[Record] = []
    before: Group | None = None
    commits = Commits(group_id)
    epochs = Epochs(group_id, commits, names or {}, session_ms)
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
        had = {tp for one in held.values() for tp in one.partitions}
        new = {id_: held[id_].partitions if id_ in held else _of_instance(held, one) for id_, one in owned.items()}
        moved = sum(len(one.partitions & had - new[id_]) for id_, one in owned.items())
    return {
        **_record("rebalance_ended", group),
        **of_generation(reached, group.generation, outcome),
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
    stayed = [tp for id_, one in held.items() if id_ in group.members for tp in one.partitions]
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
