"""Names of the records of `__consumer_offsets`, and the plain-Python road through the ones that are rare or odd.

Offset commits of the usual shapes never come here (`group_rows`). What does comes row by row: the other record
types, and keys and values that are cut, too long, of an unknown version or carry unknown tagged fields.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from coordinator.why.terms import plural
from protocol.errors import ProtocolError
from protocol.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from protocol.records.errors import CorruptBatch
from protocol.records.group_metadata import GroupMetadataValue
from protocol.records.varint import decode_uvarint
from protocol.schema import Message

OFFSET_COMMIT = "offset_commit"
UNKNOWN = "unknown"

RECORD_TYPES = {
    0: OFFSET_COMMIT,
    1: OFFSET_COMMIT,
    2: "group_metadata",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}
"""What Kafka 4.3 writes, by key type. Source: CoordinatorRecordType."""

_WITH_MEMBER = frozenset({5, 7, 8, 10, 13, 14, 19, 21, 22})
_WITH_REGEX = frozenset({16})

VALUES: dict[int, type[Message]] = {
    2: GroupMetadataValue,
    3: ConsumerGroupMetadataValue,
    4: ConsumerGroupPartitionMetadataValue,
    5: ConsumerGroupMemberMetadataValue,
    6: ConsumerGroupTargetAssignmentMetadataValue,
    7: ConsumerGroupTargetAssignmentMemberValue,
    8: ConsumerGroupCurrentMemberAssignmentValue,
    16: ConsumerGroupRegularExpressionValue,
}
"""The values that are decoded; share and streams groups keep their bytes."""

_LAST_VERSION = {0: 0, 1: 4, 2: 4} | dict.fromkeys((3, 4, 5, 6, 7, 8, 16), 0)
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_EPOCH = struct.Struct(">qi")


class Undecodable(Exception):
    """Why a key or a value is not what its type says; the text goes into the column `problem`."""


class Strings(NamedTuple):
    """Where in a key its strings lie: (position, size) each, or None."""

    group: tuple[int, int] | None = None
    second: tuple[int, int] | None = None  # topic, member or regex
    partition: int = -1


def member_of(key_type: int) -> bool:
    """Whether the key's second string is a member id."""
    return key_type in _WITH_MEMBER


def read_key(key_type: int, key: bytes) -> tuple[Strings, str | None]:
    """What a key of a known type holds, and what is wrong with it."""
    group: tuple[int, int] | None = None
    second: tuple[int, int] | None = None
    try:
        group, at = _string(key, 2, "group")
        if key_type <= 1:
            second, at = _string(key, at, "topic")
            if at + 4 > len(key):
                raise Undecodable(f"truncated at byte {len(key)}")
            partition, at = _INT32.unpack_from(key, at)[0], at + 4
        else:
            partition = -1
            if key_type in _WITH_MEMBER or key_type in _WITH_REGEX:
                second, at = _string(key, at, "member" if key_type in _WITH_MEMBER else "regex")
        if at != len(key):
            raise Undecodable(f"{plural(len(key) - at, 'byte')} left over")
    except Undecodable as error:
        return Strings(group), str(error)
    return Strings(group, second, partition), None


def _string(data: bytes, at: int, what: str) -> tuple[tuple[int, int], int]:
    if at + 2 > len(data):
        raise Undecodable(f"truncated at byte {len(data)}")
    size = _INT16.unpack_from(data, at)[0]
    if size < 0:
        raise Undecodable(f"{what} has the length {size}")
    if at + 2 + size > len(data):
        raise Undecodable(f"truncated at byte {len(data)}")
    try:
        data[at + 2 : at + 2 + size].decode()
    except UnicodeDecodeError:
        raise Undecodable(f"invalid UTF-8 in {what}") from None
    return (at + 2, size), at + 2 + size


class Commit(NamedTuple):
    """The value of an offset commit; metadata and topic id as positions in it. -1 and None stand for absent."""

    offset: int
    leader_epoch: int
    metadata_at: int
    metadata_size: int
    commit_timestamp: int
    expire_timestamp: int
    topic_id_at: int | None


def check_version(key_type: int, version: int) -> None:
    """Raises: Undecodable for a version that this type does not have."""
    if not 0 <= version <= _LAST_VERSION[key_type]:
        raise Undecodable(f"unknown value version {version} of {RECORD_TYPES[key_type]}")


def read_commit(version: int, value: bytes) -> Commit:
    """An offset commit of any version, with any tagged fields. Raises: Undecodable."""
    try:
        if version >= 3:
            offset, epoch = _OFFSET_EPOCH.unpack_from(value, 2)
            at = 14
        else:
            offset, epoch, at = _INT64.unpack_from(value, 2)[0], -1, 10
        if version == 4:
            size, at = decode_uvarint(value, at)
            size -= 1
        else:
            size, at = _INT16.unpack_from(value, at)[0], at + 2
        if size < 0:
            raise Undecodable(f"metadata has the length {size}")
        metadata_at, at = at, at + size
        commit_timestamp = _INT64.unpack_from(value, at)[0]
        at += 8
        expire_timestamp, topic_id_at = -1, None
        if version == 1:
            expire_timestamp, at = _INT64.unpack_from(value, at)[0], at + 8
        if version == 4:
            topic_id_at, at = _tags(value, at)
    except (struct.error, IndexError, CorruptBatch):
        raise Undecodable(f"truncated at byte {len(value)}") from None
    if at != len(value):
        raise Undecodable(f"{plural(len(value) - at, 'byte')} left over")
    try:
        value[metadata_at : metadata_at + size].decode()
    except UnicodeDecodeError:
        raise Undecodable("invalid UTF-8 in metadata") from None
    return Commit(offset, epoch, metadata_at, size, commit_timestamp, expire_timestamp, topic_id_at)


def _tags(value: bytes, at: int) -> tuple[int | None, int]:
    topic_id_at = None
    count, at = decode_uvarint(value, at)
    for _ in range(count):
        tag, at = decode_uvarint(value, at)
        size, at = decode_uvarint(value, at)
        if at + size > len(value):
            raise Undecodable(f"truncated at byte {len(value)}")
        if tag == 0:
            if size != 16:
                raise Undecodable(f"topic id of {plural(size, 'byte')}")
            topic_id_at = at
        at += size
    return topic_id_at, at


def read_value(key_type: int, value: bytes) -> Message:
    """The value of one of `VALUES`. Raises: Undecodable."""
    if len(value) < 2:
        raise Undecodable(f"truncated at byte {len(value)}")
    version = _INT16.unpack_from(value)[0]
    check_version(key_type, version)
    try:
        message, end = VALUES[key_type].decoder(version)(value, 2)
    except UnicodeDecodeError:
        raise Undecodable("invalid UTF-8 in the value") from None
    except (struct.error, IndexError, ProtocolError):
        raise Undecodable(f"truncated at byte {len(value)}") from None
    if end != len(value):
        raise Undecodable(f"{plural(len(value) - end, 'byte')} left over")
    return message
