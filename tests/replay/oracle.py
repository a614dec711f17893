"""What the records of `__consumer_offsets` say, read in the plainest way: one dict, one record after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.consumer.fold import CONSUMER_KEYS
from coordinator.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    regex_record,
    target_epoch_record,
    target_record,
)
from coordinator.group import Group
from coordinator.shard import Shard
from protocol.records.batch_header import read_header
from protocol.records.batch_reader import iterate_records
from protocol.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberValue,
)
from protocol.records.control_records import ControlType, control_type
from protocol.records.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    decode_key,
    decode_value,
)
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Mapping

State = tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[bytes, bytes], dict[Any, Any]]
"""Committed offsets, pending offsets, classic groups, the bytes of other records, what these say of consumer groups."""

HALVES = (ConsumerGroupMemberMetadataKey, ConsumerGroupCurrentMemberAssignmentKey)
"""The two that make a member."""

PREFIXED = "k"
"""A group that Kafka wrote, of whose records some are missing on purpose."""


class Oracle:
    """Fed with batches in the order of their offsets."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, str, int], tuple[int, Any]] = {}
        self.pending: dict[int, dict[tuple[str, str, int], tuple[int, Any]]] = {}
        self.groups: dict[str, GroupMetadataValue] = {}
        self.others: dict[bytes, bytes] = {}
        self.members: dict[str, dict[Any, Any]] = {}  # the records of each consumer group, by their keys

    def take(self, batch: bytes) -> None:
        """One whole batch."""
        header = read_header(batch)
        for record in iterate_records(batch):
            if header.is_control:
                self._end(header.producer_id, control_type(record.key))
            else:
                producer_id = header.producer_id if header.is_transactional else -1
                self._take(record.key, record.value, producer_id, record.offset)

    def _end(self, producer_id: int, kind: ControlType | None) -> None:
        held = self.pending.pop(producer_id, {})
        if kind is ControlType.COMMIT:
            for key, (offset, value) in held.items():
                if offset > self.offsets.get(key, (-1, None))[0]:
                    self.offsets[key] = offset, value

    def _take(self, key_bytes: bytes, value_bytes: bytes | None, producer_id: int, offset: int) -> None:
        key = decode_key(key_bytes)
        if isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
            at = key.group, key.topic, key.partition
            value = decode_value(key, value_bytes)
            if value is None:
                self.offsets.pop(at, None)
                for held in self.pending.values():
                    held.pop(at, None)
            elif producer_id >= 0:
                self.pending.setdefault(producer_id, {})[at] = offset, value
            else:
                self.offsets[at] = offset, value
        elif isinstance(key, GroupMetadataKey):
            if value_bytes is None:
                self.groups.pop(key.group, None)
            else:
                self.groups[key.group] = decode_value(key, value_bytes)  # type: ignore[assignment]  # by its key
                self.members.pop(key.group, None)
        elif value_bytes is None:
            self.others.pop(key_bytes, None)
        else:
            self.others[key_bytes] = value_bytes
        if type(key) in CONSUMER_KEYS:
            self._take_of_consumer_group(key, decode_value(key, value_bytes))  # type: ignore[arg-type]

    def _take_of_consumer_group(self, key: Any, value: Any | None) -> None:
        """A name is of the protocol that wrote last; who is gone takes along all that was said of it."""
        held = self.members.get(key.group, {})
        if value is not None:
            self.groups.pop(key.group, None)
            self.members.setdefault(key.group, held)[key] = value
            return
        gone: tuple[Any, ...] = (key,)
        if isinstance(key, ConsumerGroupMetadataKey):
            gone = tuple(held)
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            gone = (*[kind(key.group, key.member) for kind in HALVES], ConsumerGroupTargetAssignmentMemberKey(*key[:2]))
        for one in gone:
            held.pop(one, None)
        if not held:
            self.members.pop(key.group, None)

    def consumer_records(self) -> dict[Any, Any]:
        """What consumer groups are by these batches: the newest value of each key, whatever its group.

        Nobody's tombstone does another's work here: a group that ends before its members do is a fault, and is seen.
        """
        found = {}
        for key_bytes, value_bytes in self.others.items():
            key = decode_key(key_bytes)
            if type(key) in CONSUMER_KEYS and key.group != PREFIXED:  # type: ignore[union-attr]  # they have one
                found[key] = _in_order(decode_value(key, value_bytes))  # type: ignore[arg-type]
        return found

    def made_whole(self) -> dict[Any, Any]:
        """The same of a log that a power loss has left holes in, where tombstones and halves stand alone.

        Who ends takes along what is left of it; what is said of nobody is what is said of somebody new. Kafka would
        not load most of these logs.
        """
        found = {}
        for group_id in self.members.keys() - {PREFIXED}:
            default = ConsumerGroup(group_id)
            records = [
                epoch_record(group_id, default.epoch, default.metadata_hash),
                target_epoch_record(group_id, default.target_epoch, default.target_timestamp_ms),
            ]
            for key in self.members[group_id]:
                if isinstance(key, HALVES):
                    member = ConsumerMember(key.member)
                    records += [member_record(group_id, member), current_record(group_id, member)]
            found.update({key: _in_order(value) for key, value in [*records, *self.members[group_id].items()]})
        return found

    def state(self) -> State:
        """What a shard must hold that was loaded from these batches."""
        offsets: dict[Any, Any] = {at: _offset(value) for at, (_, value) in self.offsets.items()}
        pending = {(pid, *at): _offset(value) for pid, held in self.pending.items() for at, (_, value) in held.items()}
        groups: dict[Any, Any] = {group_id: _group(value) for group_id, value in self.groups.items()}
        for group_id in [at[0] for at in offsets] + [at[1] for at in pending]:
            if group_id not in self.members:
                groups.setdefault(group_id, SIMPLE)
        return offsets, pending, groups, dict(self.others), self.consumer_records()


def said_by(groups: Mapping[str, ConsumerGroup]) -> dict[Any, Any]:
    """The records that consumer groups would be written down as: what is in memory, in the form of the log.

    A member that has only one half of its records yet has the other one's defaults, and no group does without its own.
    """
    found: dict[Any, Any] = {}
    for group_id, group in groups.items():
        if group_id == PREFIXED:
            continue
        records: list[tuple[Any, Any]] = [
            epoch_record(group_id, group.epoch, group.metadata_hash),
            target_epoch_record(group_id, group.target_epoch, group.target_timestamp_ms),
            *(target_record(group_id, member_id, target) for member_id, target in group.targets.items()),
            *(regex_record(group_id, regex, resolved) for regex, resolved in group.regexes.items()),
        ]
        for member in group.members.values():
            records += [member_record(group_id, member), current_record(group_id, member)]
        found.update({key: _in_order(value) for key, value in records})
    return found


def _in_order(value: Any) -> Any:
    """Topics lie in a record in any order."""
    if isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
        return sorted((topic.topic_id, sorted(topic.partitions)) for topic in value.topic_partitions)
    if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        held = [
            sorted(
                (one.topic_id, sorted(zip(one.partitions, one.assignment_epochs or (), strict=False))) for one in part
            )
            for part in (value.assigned_partitions, value.partitions_pending_revocation)
        ]
        return value.member_epoch, value.previous_member_epoch, value.state, *held
    return value


SIMPLE = (0, None, None, None, None, ())
"""A group without a record of its own."""


def _offset(value: Any) -> tuple[Any, ...]:
    expires_ms = None if value.expire_timestamp == -1 else value.expire_timestamp
    topic_id = None if value.topic_id == ZERO_UUID else value.topic_id
    return value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, expires_ms, topic_id


def _group(value: GroupMetadataValue) -> tuple[Any, ...]:
    members = tuple(
        (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.subscription, m.assignment)
        for m in sorted(value.members, key=lambda m: m.member_id)
    )
    timestamp_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
    return value.generation, value.protocol_type or None, value.protocol, value.leader, timestamp_ms, members


def held_by(shard: Shard, others: dict[bytes, bytes]) -> State:
    """What a shard holds, in the same form. Of a group that is not stable, only a freshly loaded shard tells."""
    offsets = {(group, *at): tuple(c)[:6] for group, table in shard.offsets.items() for at, c in table.items()}
    pending = {
        (pid, group, *at): tuple(c)[:6]
        for group, by_producer in shard.pending.items()
        for pid, table in by_producer.items()
        for at, c in table.items()
    }
    groups = {group_id: held_group(group) for group_id, group in shard.groups.items()}
    return offsets, pending, groups, others, said_by(shard.consumer_groups)


def held_group(group: Group) -> tuple[Any, ...]:
    """A group in memory, in the form of its record."""
    members = tuple(
        (m.member_id, m.instance_id, m.client_id, m.client_host, m.metadata(group.protocol_name), m.assignment)
        for m in sorted(group.members.values(), key=lambda m: m.member_id)
    )
    return (
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        group.state_timestamp_ms,
        members,
    )
