"""What one record of a shard's log loads: an offset, a classic group, or a part of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.classic.protocols import topics_of
from coordinator.consumer.fold import GroupContradicted, GroupFold
from coordinator.consumer.group import ConsumerGroup
from coordinator.group import Group, GroupState, Member
from coordinator.load_summary import LoadFailed, LoadSummary
from protocol.records.errors import UnparsableRecord
from protocol.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    UnknownKey,
    decode_key,
    decode_value,
)

if TYPE_CHECKING:
    from coordinator.shard import Shard


def decoded_record(key_bytes: bytes, value_bytes: bytes | None, offset: int) -> tuple[Any, Any | None]:
    """Key and value; None for a tombstone, and for a key that nobody knows. Raises: LoadFailed."""
    try:
        key = decode_key(key_bytes)
        return key, None if isinstance(key, UnknownKey) else decode_value(key, value_bytes)
    except UnparsableRecord as error:
        raise LoadFailed(f"record at offset {offset}: {error}") from error


def load_record(
    shard: Shard,
    folds: dict[str, GroupFold],
    loaded: LoadSummary,
    key_bytes: bytes | None,
    value_bytes: bytes | None,
    producer_id: int,
    offset: int,
) -> None:
    """What it says, into `shard`; of consumer groups into `folds`. Raises: LoadFailed."""
    if key_bytes is None:
        raise LoadFailed(f"a record without a key at offset {offset}")
    key, value = decoded_record(key_bytes, value_bytes, offset)
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
