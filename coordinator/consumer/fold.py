"""A consumer group from its records: one function, for the record that has just been written and for one read back.

What a rule decides it says in records, and what they do to the group is here and nowhere else. So the group in memory
is what the log says, after every input.

A tombstone for what is not there is no error: compaction removes values before their tombstones. A member whose two
values have not both come is one whose other half has its defaults.

Source: KIP-848; Kafka's GroupMetadataManager.replay, ConsumerGroup.updateMember, Utils.assignmentFromTopicPartitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from coordinator.consumer.group import (
    NO_REGEX,
    NOTHING,
    ClassicProtocol,
    ConsumerGroup,
    ConsumerMember,
    EpochPartitions,
    ResolvedRegex,
)
from coordinator.layered import changeable
from coordinator.values import altered
from protocol.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    classic_of,
)
from protocol.records.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

    from coordinator.consumer.assignor import Partitions
    from protocol.records.consumer_group_records import CurrentTopicPartitions

K = TypeVar("K")

CONSUMER_KEYS = frozenset(
    {
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMetadataKey,
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupRegularExpressionKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
    }
)
"""The types of the records that make a consumer group."""


class GroupContradicted(Exception):
    """A record says what cannot be, such as that a group is gone which has members."""


class GroupFold:
    """A group while records are applied to it. `group()` is what it has become; the group it began with is untouched.

    The group is copied when it is first changed, and so is each of its mappings; until `group()` the copy is this
    fold's alone, and is changed in place. Nearly every heartbeat of a rebalance writes something.
    """

    __slots__ = ("_now", "_owned", "before", "group_id", "is_gone")

    def __init__(self, group: ConsumerGroup) -> None:
        self.before = group
        self.group_id = group.group_id
        self.is_gone = False  # by the tombstone of the group itself
        self._now = group
        self._owned: set[str] = set()

    @property
    def now(self) -> ConsumerGroup:
        """The group as it is so far. To be read, and only until the next record."""
        return self._now

    def group(self) -> ConsumerGroup | None:
        """What the records have made; None when the group is gone. The fold must not be used after this."""
        return None if self.is_gone else self._now

    def group_with(self, soft: Mapping[str, Any]) -> ConsumerGroup:
        """As `group()` of one that is not gone, with these fields of it that are in no record."""
        self._set(**soft)
        return self._now

    def apply(self, key: Any, value: Any | None) -> None:
        """Take over one record of this group. Raises: GroupContradicted."""
        kind = type(key)
        if kind is ConsumerGroupCurrentMemberAssignmentKey:
            self._current(key.member, value)
        elif kind is ConsumerGroupMemberMetadataKey:
            self._member(key.member, value)
        elif kind is ConsumerGroupTargetAssignmentMemberKey:
            self._target(key.member, value)
        elif kind is ConsumerGroupTargetAssignmentMetadataKey:
            epoch, timestamp_ms = (-1, 0) if value is None else (value.assignment_epoch, value.assignment_timestamp)
            self.is_gone = self.is_gone and value is None
            self._set(target_epoch=epoch, target_timestamp_ms=timestamp_ms)
        elif kind is ConsumerGroupRegularExpressionKey:
            self._regex(key.regex, value)
        elif kind is ConsumerGroupPartitionMetadataKey:
            self._set(has_partition_metadata=value is not None)
        else:
            assert kind is ConsumerGroupMetadataKey
            self._epoch(value)

    def take_at_its_word(self, key: Any) -> None:
        """Let a tombstone that `apply` refused take along what should have been gone before it."""
        if type(key) is ConsumerGroupMetadataKey:
            self._end()
        else:
            self._current(key.member, None)
            self._target(key.member, None)
            self._member(key.member, None)

    def apply_targets(self, targets: Mapping[str, Partitions]) -> None:
        """As `apply` of the record of each of these targets, without taking the records apart again."""
        if targets:
            self.is_gone = False
            self._own("targets").update(targets)

    # Group

    def _epoch(self, value: Any | None) -> None:
        group = self._now
        if value is not None:
            self.is_gone = False
            self._set(epoch=value.epoch, metadata_hash=value.metadata_hash)
            return
        if group.members or group.targets:
            raise GroupContradicted(f"group {self.group_id!r} has {len(group.members)} members, and a tombstone")
        self._end()

    def _end(self) -> None:
        self.is_gone = True
        self._now = ConsumerGroup(self.group_id)
        self._owned.clear()

    def _regex(self, regex: str, value: Any | None) -> None:
        regexes = self._own("regexes")
        if value is None:
            regexes.pop(regex, None)
        else:
            self.is_gone = False
            regexes[regex] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)

    # Members

    def _put(self, old: ConsumerMember | None, new: ConsumerMember) -> None:
        self.is_gone = False
        self._own("members")[new.member_id] = new
        self._count(old, -1)
        self._count(new, 1)

    def _count(self, member: ConsumerMember | None, by: int) -> None:
        if member is None:
            return
        if member.names:
            counts = self._own("name_counts")
            for name in member.names:
                _add(counts, name, by)
        if member.regex:
            _add(self._own("regex_counts"), member.regex, by)
        if member.classic is not None:
            self._set(classic_count=self._now.classic_count + by)

    def _member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        old = self._now.members.get(member_id)
        if value is None:
            if old is None:
                return
            if old.epoch != LEFT or member_id in self._now.targets:
                raise GroupContradicted(
                    f"member {member_id!r} of group {self.group_id!r} is gone, and has an assignment"
                )
            del self._own("members")[member_id]
            self._count(old, -1)
            if old.instance_id is not None and self._now.static_members.get(old.instance_id) == member_id:
                del self._own("static_members")[old.instance_id]
            return
        classic = classic_of(value)
        new = altered(
            old or ConsumerMember(member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            names=tuple(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or NO_REGEX,
            assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicProtocol(
                classic.session_timeout_ms,
                tuple([(protocol.name, protocol.metadata) for protocol in classic.supported_protocols]),
            ),
        )
        if old is None or old.instance_id != new.instance_id:
            if old is not None and old.instance_id is not None:
                self._own("static_members").pop(old.instance_id, None)
            if new.instance_id is not None:
                self._own("static_members")[new.instance_id] = member_id
        if old is not None and old.names == new.names and old.regex == new.regex and old.classic == new.classic:
            self._own("members")[member_id] = new
        else:
            self._put(old, new)

    def _current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        old = self._now.members.get(member_id)
        if value is None:
            if old is None:
                return
            new = altered(old, epoch=LEFT, previous_epoch=LEFT, assigned=NOTHING, pending=NOTHING)
        else:
            new = altered(
                old or ConsumerMember(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=value.state,
                assigned=_with_epochs(value.assigned_partitions, value.member_epoch),
                pending=_with_epochs(value.partitions_pending_revocation, value.member_epoch),
            )
        self.is_gone = False
        self._own("members")[member_id] = new
        if old is None or old.assigned != new.assigned or old.pending != new.pending:
            self._pass_on(old, new)

    def _pass_on(self, old: ConsumerMember | None, new: ConsumerMember) -> None:
        owners = self._own("owners")
        member_id = new.member_id
        if old is not None:
            for held in (old.assigned, old.pending):
                for topic_id, partitions in held.items():
                    for partition in partitions:
                        if owners.get((topic_id, partition)) == member_id:
                            del owners[topic_id, partition]
        for held in (new.assigned, new.pending):
            for topic_id, partitions in held.items():
                for partition in partitions:
                    owners[topic_id, partition] = member_id

    def _target(self, member_id: str, value: Any | None) -> None:
        targets = self._own("targets")
        if value is None:
            targets.pop(member_id, None)
            return
        self.is_gone = False
        targets[member_id] = {topic.topic_id: tuple(sorted(topic.partitions)) for topic in value.topic_partitions}

    def _own(self, name: str) -> MutableMapping[Any, Any]:
        """One of the group's mappings, to be changed in place."""
        mapping: MutableMapping[Any, Any] = getattr(self._now, name)
        if name not in self._owned:
            self._owned.add(name)
            mapping = changeable(mapping)
            self._set(**{name: mapping})
        return mapping

    def _set(self, **changes: Any) -> None:
        if self._now is self.before:
            self._now = altered(self._now, **changes)
            return
        for name, now in changes.items():
            setattr(self._now, name, now)


LEFT = -1
"""The epoch of a member whose current assignment has its tombstone."""


def _add(counts: MutableMapping[str, int], name: str, by: int) -> None:
    count = counts.get(name, 0) + by
    if count:
        counts[name] = count
    else:
        counts.pop(name, None)


def _with_epochs(topics: Iterable[CurrentTopicPartitions], member_epoch: int) -> EpochPartitions:
    """Records of before 4.3 have no epochs: those partitions count as got at the epoch of the member."""
    at = max(member_epoch, 0)
    found: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs or ()
        held = found.setdefault(topic.topic_id, {})
        for index, partition in enumerate(topic.partitions):
            held[partition] = epochs[index] if index < len(epochs) else at
    return found
