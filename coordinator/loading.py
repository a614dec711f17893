"""A shard from its log, in two ways that give the same shard.

`replay_log` takes record after record, as Kafka does: the one to read and to trust. `fold_log` keeps the bytes of the
last value of each key and decodes only those; a log of a million commits to a thousand partitions costs a thousand
decoded records. `load` folds, and falls back to replaying where folding by key bytes is not enough.

A name is a classic group's or a consumer group's (KIP-848), whichever wrote last: a group that moves writes tombstones
for all that it was, but compaction may have taken those while the log was read. Source of that: KAFKA-21117.

A group without a record of its own that has offsets, committed or pending, is a *simple* group; one that has neither is
no group. Both ways end with that rule, so what a loaded shard holds does not depend on what compaction has removed.

Source: Kafka's CoordinatorLoaderImpl, GroupMetadataManager.replay, OffsetMetadataManager.replay.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from coordinator.classic.protocols import topics_of
from coordinator.consumer.fold import GroupContradicted, GroupFold
from coordinator.consumer.group import ConsumerGroup
from coordinator.group import Group, GroupState, Member
from coordinator.load_summary import LoadFailed, LoadSummary
from coordinator.log_batches import batches
from coordinator.shard import committed_offset
from coordinator.view import CommittedOffset
from protocol.errors import ProtocolError
from protocol.records.batch_header import CONTROL, TRANSACTIONAL
from protocol.records.batch_reader import iterate_records, read_keys_values
from protocol.records.control_records import ControlType, control_type
from protocol.records.errors import UnparsableRecord
from protocol.records.group_records import (
    EMPTY_WITH_ID,
    EMPTY_WITH_ID_BYTES,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
)
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from coordinator.shard import OffsetTable, Shard
    from protocol.records.batch_header import BatchHeader


def load(shard: Shard, chunks: Callable[[], Iterable[bytes]]) -> LoadSummary:
    """Fill an empty shard from its log. `chunks()` reads it from start to end: whole batches, back to back.

    Raises: LoadFailed.
    """
    try:
        return fold_log(shard, chunks())
    except _NotFoldable:
        return replay_log(shard, chunks())


def replay_log(shard: Shard, chunks: Iterable[bytes]) -> LoadSummary:
    """Record after record. Raises: LoadFailed."""
    loaded = LoadSummary()
    folds: dict[str, GroupFold] = {}
    for buffer, position, header in batches(chunks):
        loaded.end_offset = header.next_offset
        loaded.record_count += header.record_count
        if header.is_control:
            _end_transaction(shard, buffer, position, header)
            continue
        producer_id = header.producer_id if header.is_transactional else -1
        for record in iterate_records(buffer, position):
            _load_record(shard, folds, loaded, record.key, record.value, producer_id, record.offset)
    _finish(shard, folds)
    return loaded


def fold_log(shard: Shard, chunks: Iterable[bytes]) -> LoadSummary:
    """The last value of each key, then those decoded. Raises: LoadFailed."""
    fold = _Fold()
    loaded = LoadSummary()
    update, pending = fold.newest.update, fold.pending
    for buffer, position, header in batches(chunks):
        loaded.end_offset = header.base_offset + header.last_offset_delta + 1
        loaded.record_count += header.record_count
        attributes = header.attributes
        if attributes & CONTROL:
            marker = _marker(buffer, position, header)
            if marker is not None:
                fold.end_transaction(header.producer_id, committed=marker)
            continue
        offsets, keys, values = read_keys_values(buffer, position, header=header)
        if attributes & TRANSACTIONAL:
            fold.add_transactional(header.producer_id, offsets, keys, values)
        elif pending:
            fold.add(offsets, keys, values)
        else:
            update(zip(keys, values, strict=True))
        if None in values:
            fold.ended.update(_ends(keys, values))
    folds: dict[str, GroupFold] = {}
    fold.give(shard, folds, loaded)
    _finish(shard, folds)
    return loaded


class _NotFoldable(Exception):
    """The last value of each key does not tell: one partition's offset stands under two different keys, or a consumer
    group's records contradict each other unless one knows their order."""


class _Fold:
    """The bytes of the last value of each key, and what open transactions hold."""

    __slots__ = ("ended", "newest", "offsets", "pending")

    def __init__(self) -> None:
        self.newest: dict[bytes | None, bytes | None] = {}
        self.ended: set[bytes] = set()  # keys of consumer groups that had a tombstone, if only for a while
        self.pending: dict[int, dict[bytes | None, tuple[bytes | None, int]]] = {}  # by producer: (value, log offset)
        # Log offsets of what was written while a transaction was open: all else is older than what it holds.
        self.offsets: dict[bytes | None, int] = {}

    def add(self, offsets: Iterable[int], keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> None:
        """Records outside transactions, while some transaction is open."""
        for offset, key, value in zip(offsets, keys, values, strict=True):
            self._put(key, value, offset)

    def _put(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        self.newest[key] = value
        self.offsets[key] = offset
        if value is None:
            for producer_id in [producer_id for producer_id, held in self.pending.items() if key in held]:
                del self.pending[producer_id][key]
                self._forget_if_empty(producer_id)

    def add_transactional(
        self,
        producer_id: int,
        offsets: Iterable[int],
        keys: Iterable[bytes | None],
        values: Iterable[bytes | None],
    ) -> None:
        for offset, key, value in zip(offsets, keys, values, strict=True):
            if value is None or key is None or key[:2] not in _OFFSET_KEYS:
                self._put(key, value, offset)  # only offsets wait for a transaction's end
            else:
                self.pending.setdefault(producer_id, {})[key] = value, offset

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        held = self.pending.pop(producer_id, {})
        if committed:
            for key, (value, offset) in held.items():
                # A tombstone would have taken the pending offset with it: what is newest here is older, or a value.
                if self.newest.get(key) is None or offset > self.offsets.get(key, -1):
                    self.newest[key] = value
                    self.offsets[key] = offset
        if not self.pending:
            self.offsets.clear()

    def _forget_if_empty(self, producer_id: int) -> None:
        if not self.pending[producer_id]:
            del self.pending[producer_id]

    def _give_offsets(self, shard: Shard, log_offsets: Mapping[bytes | None, int]) -> list[bytes | None]:
        """Decode the committed offsets into `shard`; return the keys that are something else, in their order.

        The common key and value are taken apart here: each call that is saved is a second in ten million offsets.
        """
        others: list[bytes | None] = []
        known: dict[bytes, tuple[OffsetTable, str]] = {}  # all of a key but the partition
        new, from_bytes, unpack = tuple.__new__, int.from_bytes, EMPTY_WITH_ID.unpack
        table: OffsetTable
        for key, value in self.newest.items():
            if key is None or value is None:
                if key is None or key[:2] != _OFFSET_KEY:
                    others.append(key)
                continue
            place = known.get(key[:-4])
            if place is None:
                if key[:2] != _OFFSET_KEY:
                    others.append(key)
                    continue
                table, topic, partition = _place(shard, known, key)
            else:
                table, topic = place
                partition = from_bytes(key[-4:], signed=True)
            if len(value) == EMPTY_WITH_ID_BYTES:
                version, offset, epoch, length, timestamp_ms, tags, tag, size, topic_id = unpack(value)
                if version == 4 and length == 1 and tags == 1 and tag == 0 and size == 16 and topic_id != ZERO_UUID:
                    at = log_offsets.get(key, -1) if log_offsets else -1
                    stored = (offset, epoch, "", timestamp_ms, None, topic_id, at)
                    table[topic, partition] = new(CommittedOffset, stored)
                    continue
            try:
                decoded = decode_value(_ANY_OFFSET, value)
            except UnparsableRecord as error:
                raise LoadFailed(str(error)) from error
            assert isinstance(decoded, OffsetCommitValue)
            table[topic, partition] = committed_offset(decoded, log_offsets.get(key, -1))
        return others

    def give(self, shard: Shard, folds: dict[str, GroupFold], loaded: LoadSummary) -> None:
        """Decode what is left into `shard` and `folds`."""
        offsets = self.offsets if self.pending else {}
        others = self._give_offsets(shard, offsets)
        if any(key is not None and key.startswith(_LEGACY_KEY) for key in chain(others, *self.pending.values())):
            shard.offsets.clear()
            raise _NotFoldable
        of_consumer_groups: dict[str, list[tuple[Any, Any | None]]] = {}
        for key in others:
            if key is not None and key[:2] in _CONSUMER_KEYS:
                decoded = _decode(key, self.newest[key], -1)
                of_consumer_groups.setdefault(decoded[0].group, []).append(decoded)
            else:
                _load_record(shard, folds, loaded, key, self.newest[key], -1, -1)
        try:
            # Such a tombstone takes along whoever is still there, also who was written long before it.
            if any(self.newest[key] is not None for key in self.ended):
                raise _NotFoldable
            for group_id, records in of_consumer_groups.items():
                fold = _fold_consumer_group(shard, group_id, records)
                if fold is not None:
                    folds[group_id] = fold
        except _NotFoldable:
            shard.offsets.clear()
            shard.groups.clear()
            raise
        for producer_id, pending in self.pending.items():
            for key, (value, offset) in pending.items():
                _load_record(shard, folds, loaded, key, value, producer_id, offset)


def _fold_consumer_group(shard: Shard, group_id: str, records: list[tuple[Any, Any | None]]) -> GroupFold | None:
    """The group of the newest value of each key; None when all are tombstones. Raises: _NotFoldable."""
    values = [(key, value) for key, value in records if value is not None]
    if not values:
        return None
    kinds: dict[type, set[Any]] = {}
    for key, _ in values:
        kinds.setdefault(type(key), set()).add(getattr(key, "member", None))
    members = kinds.get(ConsumerGroupMemberMetadataKey, set())
    is_sound = (
        group_id not in shard.groups
        and (ConsumerGroupMetadataKey(group_id), None) not in records
        and kinds.get(ConsumerGroupCurrentMemberAssignmentKey, set()) == members
        and kinds.get(ConsumerGroupTargetAssignmentMemberKey, set()) <= members
    )
    if not is_sound:
        raise _NotFoldable
    fold = GroupFold(ConsumerGroup(group_id))
    for key, value in values:
        fold.apply(key, value)
    held = sum(
        len(partitions)
        for member in fold.now.members.values()
        for topics in (member.assigned, member.pending)
        for partitions in topics.values()
    )
    if held != len(fold.now.owners):
        raise _NotFoldable  # whose it is depends on who came last
    return fold


def _place(shard: Shard, known: dict[bytes, tuple[OffsetTable, str]], key: bytes) -> tuple[OffsetTable, str, int]:
    """The table, topic and partition of an offset's key; told to `known` when others may differ in nothing else."""
    try:
        decoded = decode_key(key)
    except UnparsableRecord as error:
        raise LoadFailed(str(error)) from error
    assert isinstance(decoded, OffsetCommitKey)
    group_id, topic, partition, _ = decoded
    table = shard.offsets.get(group_id)
    if table is None:
        table = shard.offsets[group_id] = {}
    # With bytes behind the partition, which readers overlook, the last four are something else.
    if encode_key(decoded) == key:
        known[key[:-4]] = table, topic
    return table, topic, partition


def _ends(keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> list[bytes]:
    """The keys of the consumer groups that end here."""
    ended = [key for key, value in zip(keys, values, strict=True) if value is None]
    return [key for key in ended if key is not None and key[:2] == _END_KEY]


_ANY_OFFSET = OffsetCommitKey("", "", 0)
_LEGACY_KEY = b"\x00\x00"
_OFFSET_KEY = b"\x00\x01"
_OFFSET_KEYS = (_OFFSET_KEY, _LEGACY_KEY)
_END_KEY = b"\x00\x03"
_CONSUMER_KEYS = frozenset([record_type.to_bytes(2, "big") for record_type in (3, 4, 5, 6, 7, 8, 16)])


def _decode(key_bytes: bytes, value_bytes: bytes | None, offset: int) -> tuple[Any, Any | None]:
    try:
        key = decode_key(key_bytes)
        return key, None if isinstance(key, UnknownKey) else decode_value(key, value_bytes)
    except UnparsableRecord as error:
        raise LoadFailed(f"record at offset {offset}: {error}") from error


def _load_record(
    shard: Shard,
    folds: dict[str, GroupFold],
    loaded: LoadSummary,
    key_bytes: bytes | None,
    value_bytes: bytes | None,
    producer_id: int,
    offset: int,
) -> None:
    if key_bytes is None:
        raise LoadFailed(f"a record without a key at offset {offset}")
    key, value = _decode(key_bytes, value_bytes, offset)
    kind = type(key)
    if kind is UnknownKey:
        if not key.is_assigned:
            loaded.skipped_types[key.record_type] = loaded.skipped_types.get(key.record_type, 0) + 1
    elif kind is GroupMetadataKey:
        if value is None:
            shard.groups.pop(key.group, None)
        else:
            folds.pop(key.group, None)
            shard.groups[key.group] = group_of(key.group, value)
    elif kind is LegacyOffsetCommitKey:
        shard.replay(OffsetCommitKey(key.group, key.topic, key.partition), value, producer_id, offset)
    elif kind is OffsetCommitKey:
        shard.replay(key, value, producer_id, offset)
    else:
        try:
            _load_consumer_record(shard, folds, key, value)
        except GroupContradicted as error:
            # A power loss may take a batch that was not flushed and leave later ones. Whoever is gone stays gone.
            loaded.contradictions.append(f"record at offset {offset}: {error}")
            folds[key.group].take_at_its_word(key)


def _load_consumer_record(shard: Shard, folds: dict[str, GroupFold], key: Any, value: Any | None) -> None:
    """Raises: GroupContradicted."""
    fold = folds.get(key.group)
    if fold is None:
        if value is None:
            return  # of what compaction has removed already, or of what a classic group has taken the place of
        shard.groups.pop(key.group, None)
        fold = folds[key.group] = GroupFold(ConsumerGroup(key.group))
    fold.apply(key, value)


def group_of(group_id: str, value: GroupMetadataValue) -> Group:
    """The group that a record describes: Stable if it has members, else Empty.

    Of each member's protocols the record holds the selected one only. Members without a rebalance timeout (records
    before version 1) get their session timeout.
    """
    protocol_type = value.protocol_type or None
    members = {
        member.member_id: Member(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout,
            session_timeout_ms=member.session_timeout,
            protocol_type=value.protocol_type,
            protocols=((value.protocol or "", member.subscription),),
            assignment=member.assignment,
        )
        for member in value.members
    }
    state = GroupState.STABLE if members else GroupState.EMPTY
    timestamp_ms = value.current_state_timestamp
    return Group(
        group_id,
        state,
        state,
        None if timestamp_ms == -1 else timestamp_ms,
        protocol_type,
        value.protocol,
        value.generation,
        value.leader,
        members,
        {member.instance_id: member.member_id for member in members.values() if member.instance_id is not None},
        protocol_votes={value.protocol or "": len(members)} if members else {},
        subscribed_topics=topics_of(protocol_type, value.protocol, members),
    )


def _finish(shard: Shard, folds: Mapping[str, GroupFold]) -> None:
    for group_id, fold in folds.items():
        group = fold.group()
        if group is not None:
            shard.consumer_groups[group_id] = group
    for group_id in (*shard.offsets, *shard.pending):
        if group_id not in shard.groups and group_id not in shard.consumer_groups:
            shard.groups[group_id] = Group(group_id)
    shard.states.update(shard.groups)
    shard.states.update(shard.consumer_groups)


def _end_transaction(shard: Shard, buffer: bytes, position: int, header: BatchHeader) -> None:
    marker = _marker(buffer, position, header)
    if marker is not None:
        shard.end_transaction(header.producer_id, committed=marker)


def _marker(buffer: bytes, position: int, header: BatchHeader) -> bool | None:
    """True: COMMIT, False: ABORT, None: something else, or a control batch that compaction has emptied."""
    if not header.record_count:
        return None
    try:
        kind = control_type(next(iterate_records(buffer, position)).key)
    except ProtocolError as error:
        raise LoadFailed(f"control batch at offset {header.base_offset}: {error}") from error
    return {ControlType.COMMIT: True, ControlType.ABORT: False}.get(kind) if kind is not None else None
