"""The records of `__consumer_offsets`, as typed keys and values.

A key says its type in its last field, so that keys of different types never compare equal; keys can be hashed. The
two records that a coordinator reads and writes by the hundred thousand, OffsetCommit key and value, are coded by
hand here; the others are declared.

Source: Kafka's CoordinatorRecordType, GroupCoordinatorRecordSerde, GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.errors import EncodeError, ProtocolError
from protocol.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from protocol.records.errors import UnparsableRecord
from protocol.records.group_metadata import GroupMetadataValue, MemberMetadata
from protocol.records.varint import decode_uvarint, encode_uvarint
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from protocol.schema import Message

__all__ = [
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "GroupKey",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "GroupValue",
    "LegacyOffsetCommitKey",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "UnknownKey",
    "UnparsableRecord",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
]


class LegacyOffsetCommitKey(NamedTuple):
    """An offset committed by a very old broker; means the same as an `OffsetCommitKey`. Never written."""

    group: str
    topic: str
    partition: int
    record_type: int = 0


class OffsetCommitKey(NamedTuple):
    """Whose offset of which partition."""

    group: str
    topic: str
    partition: int
    record_type: int = 1


class GroupMetadataKey(NamedTuple):
    """A classic group."""

    group: str
    record_type: int = 2


class ConsumerGroupMetadataKey(NamedTuple):
    """A KIP-848 group: its epoch."""

    group: str
    record_type: int = 3


class ConsumerGroupPartitionMetadataKey(NamedTuple):
    """What a KIP-848 group knew of its topics; since 4.1 only tombstones are written."""

    group: str
    record_type: int = 4


class ConsumerGroupMemberMetadataKey(NamedTuple):
    """A member of a KIP-848 group: its subscription."""

    group: str
    member: str
    record_type: int = 5


class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    """A KIP-848 group: the epoch of its target assignment."""

    group: str
    record_type: int = 6


class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    """A member of a KIP-848 group: what it shall own."""

    group: str
    member: str
    record_type: int = 7


class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    """A member of a KIP-848 group: what it owns."""

    group: str
    member: str
    record_type: int = 8


class ConsumerGroupRegularExpressionKey(NamedTuple):
    """A KIP-848 group: the topics that a regular expression stood for."""

    group: str
    regex: str
    record_type: int = 16


class UnknownKey(NamedTuple):
    """A record to be skipped: of a type nobody has defined, or of share and streams groups."""

    record_type: int

    @property
    def is_assigned(self) -> bool:
        """Whether Kafka 4.3 gives this type a meaning; of the others one warns."""
        return self.record_type in _SHARE_AND_STREAMS


class OffsetCommitValue(NamedTuple):
    """One committed offset. Timestamps in ms; -1 and the zero uuid stand for absent."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    topic_id: bytes = ZERO_UUID


GroupKey = (
    LegacyOffsetCommitKey
    | OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
GroupValue = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

_SHARE_AND_STREAMS = frozenset({10, 11, 12, 13, 14, 15, 17, 19, 20, 21, 22, 23})
_STRING_KEYS: dict[int, tuple[Any, int]] = {
    2: (GroupMetadataKey, 1),
    3: (ConsumerGroupMetadataKey, 1),
    4: (ConsumerGroupPartitionMetadataKey, 1),
    5: (ConsumerGroupMemberMetadataKey, 2),
    6: (ConsumerGroupTargetAssignmentMetadataKey, 1),
    7: (ConsumerGroupTargetAssignmentMemberKey, 2),
    8: (ConsumerGroupCurrentMemberAssignmentKey, 2),
    16: (ConsumerGroupRegularExpressionKey, 2),
}
"""Keys that are made of strings only, and of how many."""

_VALUES: dict[int, type[Message]] = {
    2: GroupMetadataValue,
    3: ConsumerGroupMetadataValue,
    4: ConsumerGroupPartitionMetadataValue,
    5: ConsumerGroupMemberMetadataValue,
    6: ConsumerGroupTargetAssignmentMetadataValue,
    7: ConsumerGroupTargetAssignmentMemberValue,
    8: ConsumerGroupCurrentMemberAssignmentValue,
    16: ConsumerGroupRegularExpressionValue,
}
_WRITTEN_VERSIONS: dict[type, int] = dict.fromkeys(_VALUES.values(), 0) | {GroupMetadataValue: 3}
_VERSION_HEADS = {version: struct.pack(">h", version) for version in range(4)}

_new_tuple = tuple.__new__  # a named tuple's own constructor takes twice as long
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_EPOCH = struct.Struct(">qi")
_VERSION_OFFSET_EPOCH = struct.Struct(">hqi")
_VERSION_OFFSET = struct.Struct(">hq")
# Version 4 with empty metadata, which is nearly every commit: with a topic id as tagged field 0, and without.
EMPTY_WITH_ID = struct.Struct(">hqiBqBBB16s")
EMPTY_WITH_ID_BYTES = EMPTY_WITH_ID.size
_EMPTY_WITHOUT_ID = struct.Struct(">hqiBqB")
_TIME_AND_ID = struct.Struct(">qBBB16s")


class EncodedValue(NamedTuple):
    """A value with the bytes of its record, made when there was time for it."""

    value: GroupValue
    key_bytes: bytes
    value_bytes: bytes


def encode_key(key: GroupKey) -> bytes:
    """The bytes of a key: int16 type, then its fields. Raises: EncodeError on a string over 32,767 bytes."""
    record_type = key.record_type
    head = record_type.to_bytes(2, "big")
    if isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
        return b"".join((head, *_string(key.group), *_string(key.topic), _INT32.pack(key.partition)))
    parts = [head]
    for text in key[: _STRING_KEYS[record_type][1]]:
        assert isinstance(text, str)
        parts += _string(text)
    return b"".join(parts)


def decode_key(data: bytes | None) -> GroupKey | UnknownKey:
    """The typed key. A type that is not read here is an `UnknownKey`, not an error.

    Raises: UnparsableRecord when there is no key, or it is none of its type.
    """
    if data is None or len(data) < 2:
        raise UnparsableRecord("a group record has no key type")
    try:
        record_type = data[0] << 8 | data[1]
        if record_type <= 1:
            end = 4 + (data[2] << 8 | data[3])
            group = data[4:end].decode()
            start = end + 2
            end = start + (data[end] << 8 | data[end + 1])
            topic = data[start:end].decode()
            # Fails, too, when a length above pointed past the end and a slice came out short.
            partition = _INT32.unpack_from(data, end)[0]
            return (OffsetCommitKey if record_type else LegacyOffsetCommitKey)(group, topic, partition)
        if record_type not in _STRING_KEYS:
            return UnknownKey(record_type - 0x10000 if record_type & 0x8000 else record_type)
        key_class, count = _STRING_KEYS[record_type]
        strings = []
        end = 2
        for _ in range(count):
            start = end + 2
            end = start + (data[end] << 8 | data[end + 1])
            strings.append(data[start:end].decode())
        if end > len(data):
            raise UnparsableRecord(f"a key of type {record_type} is cut off")
        key: GroupKey = key_class(*strings)
        return key
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise UnparsableRecord(f"a key of type {data[0] << 8 | data[1]} cannot be read: {error}") from error


def encode_value(value: GroupValue | EncodedValue) -> bytes:
    """The bytes of a value, in the version that Kafka 4.3 writes: OffsetCommit 4, or 1 when it has an expire timestamp
    (which drops leader epoch and topic id), GroupMetadata 3, the others 0.

    Raises: EncodeError when a field does not fit.
    """
    if type(value) is OffsetCommitValue:
        return _encode_offset_commit(value)
    if type(value) is EncodedValue:
        return value.value_bytes
    assert not isinstance(value, (OffsetCommitValue, EncodedValue))
    version = _WRITTEN_VERSIONS[type(value)]
    return _VERSION_HEADS[version] + value.encode(version)


def decode_value(key: GroupKey, data: bytes | None) -> GroupValue | None:
    """The typed value that belongs to `key`; None for a tombstone. Unknown tagged fields are skipped.

    Raises: UnparsableRecord, also on a value version that this type does not have.
    """
    if data is None:
        return None
    record_type = key.record_type
    try:
        if record_type == 1:
            return _decode_offset_commit(data, 4)
        if record_type == 0:
            return _decode_offset_commit(data, 0)
        version = data[0] << 8 | data[1]
        # What lies behind the last field is not looked at, as in Kafka.
        value, _ = _VALUES[record_type].decoder(version)(data, 2)
    except (IndexError, struct.error, UnicodeDecodeError, ProtocolError) as error:
        raise UnparsableRecord(f"the value of {key} cannot be read: {error}") from error
    return value  # type: ignore[return-value]  # mypy cannot follow the table of value classes


def _string(text: str) -> tuple[bytes, bytes]:
    data = text.encode()
    if len(data) > 0x7FFF:
        raise EncodeError(f"a string of {len(data)} bytes is longer than a record can hold")
    return len(data).to_bytes(2, "big"), data


def _encode_offset_commit(value: OffsetCommitValue) -> bytes:
    offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id = value
    if expire_timestamp != -1:
        times = _INT64.pack(commit_timestamp) + _INT64.pack(expire_timestamp)
        return b"".join((_VERSION_OFFSET.pack(1, offset), *_string(metadata), times))
    if not metadata:
        if topic_id == ZERO_UUID:
            return _EMPTY_WITHOUT_ID.pack(4, offset, leader_epoch, 1, commit_timestamp, 0)
        return EMPTY_WITH_ID.pack(4, offset, leader_epoch, 1, commit_timestamp, 1, 0, 16, topic_id)
    text = metadata.encode()
    if len(text) > 0x7FFF:
        raise EncodeError(f"metadata of {len(text)} bytes is longer than a record can hold")
    head = _VERSION_OFFSET_EPOCH.pack(4, offset, leader_epoch) + encode_uvarint(len(text) + 1) + text
    if topic_id == ZERO_UUID:
        return head + _INT64.pack(commit_timestamp) + b"\x00"
    return head + _TIME_AND_ID.pack(commit_timestamp, 1, 0, 16, topic_id)


def _decode_offset_commit(data: bytes, latest: int) -> OffsetCommitValue:
    if latest and len(data) == 42:
        version, offset, leader_epoch, length, commit_timestamp, tags, tag, size, topic_id = EMPTY_WITH_ID.unpack(data)
        # The shape of nearly every value that 4.1 and later write: one unpacking instead of nine steps.
        if version == 4 and length == 1 and tags == 1 and tag == 0 and size == 16:
            return _new_tuple(OffsetCommitValue, (offset, leader_epoch, "", commit_timestamp, -1, topic_id))
    version = data[0] << 8 | data[1]
    if version > latest:
        raise UnparsableRecord(f"an offset has value version {version}, known are 0-{latest}")
    if version >= 3:
        offset, leader_epoch = _OFFSET_EPOCH.unpack_from(data, 2)
        if version == 4:
            length, at = data[14], 15
            if length >= 0x80:
                length, at = decode_uvarint(data, 14)
            length -= 1
        else:
            length, at = data[14] << 8 | data[15], 16
    else:
        offset, leader_epoch = _INT64.unpack_from(data, 2)[0], -1
        length, at = data[10] << 8 | data[11], 12
    end = at + length
    if not 0 <= length <= 0x7FFF:
        raise UnparsableRecord(f"an offset's metadata has the length {length}")
    metadata = data[at:end].decode() if length else ""
    commit_timestamp = _INT64.unpack_from(data, end)[0]  # also fails when `end` lies past the data
    end += 8
    if version == 4:
        if not data[end]:
            return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp)
        return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, -1, _topic_id(data, end))
    if version == 1:
        return OffsetCommitValue(offset, -1, metadata, commit_timestamp, _INT64.unpack_from(data, end)[0])
    return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp)


def _topic_id(data: bytes, at: int) -> bytes:
    """Tagged field 0 of a version 4 value; other tags are skipped."""
    topic_id = ZERO_UUID
    count, at = decode_uvarint(data, at)
    for _ in range(count):
        tag, at = decode_uvarint(data, at)
        size, at = decode_uvarint(data, at)
        end = at + size
        if end > len(data):
            raise UnparsableRecord(f"tagged field {tag} of an offset passes its end")
        if tag == 0:
            if size != 16:
                raise UnparsableRecord(f"an offset's topic id has {size} bytes")
            topic_id = data[at:end]
        at = end
    return topic_id
