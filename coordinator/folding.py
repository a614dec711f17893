"""The records of a shard's log, folded: the bytes of the last value of each key, of which those alone are decoded.

Source: `coordinator.loading`, which says when that is enough.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from coordinator.consumer.fold import GroupFold
from coordinator.consumer.group import ConsumerGroup
from coordinator.load_summary import LoadFailed, LoadSummary
from coordinator.loaded_records import decoded_record, load_record
from coordinator.shard import committed_offset
from coordinator.view import CommittedOffset
from protocol.records.errors import UnparsableRecord
from protocol.records.group_records import (
    EMPTY_WITH_ID,
    EMPTY_WITH_ID_BYTES,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
)
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coordinator.shard import OffsetTable, Shard

_ANY_OFFSET = OffsetCommitKey("", "", 0)
_LEGACY_KEY = b"\x00\x00"
_OFFSET_KEY = b"\x00\x01"
_OFFSET_KEYS = (_OFFSET_KEY, _LEGACY_KEY)
_END_KEY = b"\x00\x03"
_CONSUMER_KEYS = frozenset([record_type.to_bytes(2, "big") for record_type in (3, 4, 5, 6, 7, 8, 16)])


class NotFoldable(Exception):
    """The last value of each key does not tell: one partition's offset stands under two different keys, or a consumer
    group's records contradict each other unless one knows their order."""


class Fold:
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
        """Records of a producer's transaction."""
        for offset, key, value in zip(offsets, keys, values, strict=True):
            if value is None or key is None or key[:2] not in _OFFSET_KEYS:
                self._put(key, value, offset)  # only offsets wait for a transaction's end
            else:
                self.pending.setdefault(producer_id, {})[key] = value, offset

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """What it holds counts from now on, or never."""
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
            raise NotFoldable
        of_consumer_groups: dict[str, list[tuple[Any, Any | None]]] = {}
        for key in others:
            if key is not None and key[:2] in _CONSUMER_KEYS:
                decoded = decoded_record(key, self.newest[key], -1)
                of_consumer_groups.setdefault(decoded[0].group, []).append(decoded)
            else:
                load_record(shard, folds, loaded, key, self.newest[key], -1, -1)
        try:
            # Such a tombstone takes along whoever is still there, also who was written long before it.
            if any(self.newest[key] is not None for key in self.ended):
                raise NotFoldable
            for group_id, records in of_consumer_groups.items():
                fold = _fold_consumer_group(shard, group_id, records)
                if fold is not None:
                    folds[group_id] = fold
        except NotFoldable:
            shard.offsets.clear()
            shard.groups.clear()
            raise
        for producer_id, pending in self.pending.items():
            for key, (value, offset) in pending.items():
                load_record(shard, folds, loaded, key, value, producer_id, offset)


def _fold_consumer_group(shard: Shard, group_id: str, records: list[tuple[Any, Any | None]]) -> GroupFold | None:
    """The group of the newest value of each key; None when all are tombstones. Raises: NotFoldable."""
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
        raise NotFoldable
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
        raise NotFoldable  # whose it is depends on who came last
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


def ended_groups(keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> list[bytes]:
    """The keys of the consumer groups that end here."""
    ended = [key for key, value in zip(keys, values, strict=True) if value is None]
    return [key for key in ended if key is not None and key[:2] == _END_KEY]
