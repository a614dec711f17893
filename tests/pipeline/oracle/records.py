"""The records of `__consumer_offsets`, field by field from the tables of their layouts.

Source: Kafka's *Key.json and *Value.json of group-coordinator; KIP-848. Consumer protocol bytes: kio.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any

from kio.schema.consumer_protocol_assignment import v0 as assignment_v0
from kio.schema.consumer_protocol_subscription import v0 as subscription_v0
from kio.schema.consumer_protocol_subscription import v1 as subscription_v1
from kio.schema.consumer_protocol_subscription import v2 as subscription_v2
from kio.schema.consumer_protocol_subscription import v3 as subscription_v3
from kio.serial import entity_reader

from tests.pipeline.oracle.files import Record

Row = dict[str, Any]

# What the key has after the group, and the newest value version. () : a group alone.
_OFFSET, _MEMBER, _REGEX = ("topic", "partition"), ("member_id",), ("regex",)
TYPES: dict[int, tuple[str, tuple[str, ...], int]] = {
    0: ("offset_commit", _OFFSET, 0),
    1: ("offset_commit", _OFFSET, 4),
    2: ("group_metadata", (), 4),
    3: ("consumer_group_metadata", (), 0),
    4: ("consumer_group_partition_metadata", (), 0),
    5: ("consumer_group_member_metadata", _MEMBER, 0),
    6: ("consumer_group_target_assignment_metadata", (), 0),
    7: ("consumer_group_target_assignment_member", _MEMBER, 0),
    8: ("consumer_group_current_member_assignment", _MEMBER, 0),
    10: ("share_group_member_metadata", _MEMBER, -1),
    11: ("share_group_metadata", (), -1),
    12: ("share_group_target_assignment_metadata", (), -1),
    13: ("share_group_target_assignment_member", _MEMBER, -1),
    14: ("share_group_current_member_assignment", _MEMBER, -1),
    15: ("share_group_state_partition_metadata", (), -1),
    16: ("consumer_group_regular_expression", _REGEX, 0),
    17: ("streams_group_metadata", (), -1),
    19: ("streams_group_member_metadata", _MEMBER, -1),
    20: ("streams_group_target_assignment_metadata", (), -1),
    21: ("streams_group_target_assignment_member", _MEMBER, -1),
    22: ("streams_group_current_member_assignment", _MEMBER, -1),
    23: ("streams_group_topology", (), -1),
}


class Bad(Exception):
    """Bytes that are no record of their type; the message is what `problem` says."""


class Reader:
    """Big-endian fields from the front of some bytes. `compact`: the encodings of flexible versions."""

    def __init__(self, data: bytes, what: str, compact: bool = False) -> None:
        self.data, self.at, self.what, self.compact = data, 0, what, compact

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise Bad(f"truncated at byte {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def uvarint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def length(self, size: int) -> int:
        return self.uvarint() - 1 if self.compact else self.number(size)

    def text(self) -> str | None:
        length = self.length(2)
        if length < 0:
            return None
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise Bad(f"invalid UTF-8 in {self.what}") from None

    def blob(self) -> bytes:
        return self.take(max(self.length(4), 0))

    def array(self, element: Callable[[], Any]) -> list[Any]:
        return [element() for _ in range(max(self.length(4), 0))]

    def tags(self) -> dict[int, bytes]:
        if not self.compact:
            return {}
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(self.uvarint())}

    def uuid(self) -> str:
        return uuid_text(self.take(16))

    def end(self) -> None:
        if self.at < len(self.data):
            raise Bad(f"{(left := len(self.data) - self.at):,} {'byte' if left == 1 else 'bytes'} left over")


def uuid_text(raw: bytes) -> str:
    """As Kafka prints it: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def group_records(records: Iterable[Record]) -> list[Row]:
    """Rows as decoding gives them, the value under `fields` (None for tombstones and what cannot be decoded)."""
    return [group_record(record) for record in records]


def group_record(record: Record) -> Row:
    """One row; nothing is dropped."""
    row: Row = {
        "log_partition": record.partition,
        "log_offset": record.offset,
        "logged_at": record.timestamp_ms,
        "record_type": "unknown",
        "key_type": None,
        "value_version": None,
        "tombstone": record.value is None,
        "group_id": None,
        "topic": None,
        "partition": None,
        "committed_offset": None,
        "leader_epoch": None,
        "metadata": None,
        "committed_at": None,
        "expires_at": None,
        "topic_id": None,
        "member_id": None,
        "key": record.key,
        "value": record.value,
        "key_bytes": len(record.key or b""),
        "value_bytes": len(record.value or b""),
        "problem": None,
        "fields": None,
        "regex": None,
        "size_bytes": record.size_bytes,
    }
    key, value = record.key or b"", record.value
    if len(key) < 2:
        row["problem"] = "key too short"
        return row
    row["key_type"] = kind = int.from_bytes(key[:2], "big", signed=True)
    if value is not None and len(value) >= 2:
        row["value_version"] = int.from_bytes(value[:2], "big", signed=True)
    if kind not in TYPES:
        row["problem"] = f"unknown type {kind}"
        return row
    name, parts, newest = TYPES[kind]
    try:
        row.update(_key(key, parts))
        row["record_type"] = name
    except Bad as bad:
        row["problem"] = str(bad)
        return row
    if value is None or newest < 0:
        pass
    else:
        try:
            row["fields"] = _value(kind, name, newest, value)
        except Bad as bad:
            row["problem"] = str(bad)
    if name == "offset_commit" and row["problem"] is None:
        row.update(row["fields"] or {}, key=None, value=None)
    return row


def _key(key: bytes, parts: tuple[str, ...]) -> Row:
    reader = Reader(key, "group")
    reader.at = 2
    fields: Row = {"group_id": reader.text()}
    for part in parts:
        reader.what = part
        fields[part] = reader.number(4) if part == "partition" else reader.text()
    reader.end()
    return fields


def _value(kind: int, name: str, newest: int, value: bytes) -> Row:
    if len(value) < 2:
        raise Bad(f"truncated at byte {len(value)}")
    version = int.from_bytes(value[:2], "big", signed=True)
    if not 0 <= version <= newest:
        raise Bad(f"unknown value version {version} of {name}")
    reader = Reader(value, "value", compact=kind > 2 or version == 4)
    reader.at = 2
    fields = _VALUES[min(kind, 1) if kind < 2 else kind](reader, version)
    reader.end()
    return fields


def _offset_commit(r: Reader, version: int) -> Row:
    row: Row = {"committed_offset": r.number(8), "leader_epoch": r.number(4) if version >= 3 else None}
    row["metadata"], row["committed_at"] = r.text(), r.number(8)
    row["expires_at"] = r.number(8) if version == 1 else None
    topic_id = r.tags().get(0)
    row["topic_id"] = uuid_text(topic_id) if topic_id else None
    return {
        name: None if name in ("leader_epoch", "expires_at") and value == -1 else value for name, value in row.items()
    }


def _group_metadata(r: Reader, version: int) -> Row:
    row: Row = {"protocol_type": r.text() or None, "generation": r.number(4), "protocol": r.text(), "leader": r.text()}
    changed = r.number(8) if version >= 2 else -1
    row["state_changed_at"] = None if changed == -1 else changed

    def member() -> Row:
        one: Row = {"member_id": r.text(), "group_instance_id": r.text() if version >= 3 else None}
        one |= {"client_id": r.text(), "client_host": r.text()}
        one["rebalance_timeout_ms"] = r.number(4) if version >= 1 else -1
        one["session_timeout_ms"] = r.number(4)
        one |= {"subscription": r.blob(), "assignment": r.blob()}
        r.tags()
        return one

    row["members"] = r.array(member)
    r.tags()
    return row


def _epoch(r: Reader, _: int) -> Row:
    epoch, tags = r.number(4), r.tags()
    return {"group_epoch": epoch, "metadata_hash": int.from_bytes(tags[0], "big", signed=True) if 0 in tags else None}


def _partition_metadata(r: Reader, _: int) -> Row:
    def partition() -> None:
        r.number(4), r.array(r.text), r.tags()

    def topic() -> tuple[str, str | None]:
        one = (r.uuid(), r.text())
        r.number(4), r.array(partition), r.tags()
        return one

    names = dict(r.array(topic))
    r.tags()
    return {"topic_names": names}


def _member(r: Reader, _: int) -> Row:
    row: Row = {"instance_id": r.text(), "rack_id": r.text(), "client_id": r.text(), "client_host": r.text()}
    row |= {"subscribed_topics": r.array(r.text), "subscribed_topic_regex": r.text() or None}
    row |= {"rebalance_timeout_ms": r.number(4), "server_assignor": r.text()}
    classic = r.tags().get(0)
    # A nullable struct in a tag: 1 (0: null), then the struct, whose first field is the session timeout.
    row["classic_session_timeout_ms"] = int.from_bytes(classic[1:5], "big") if classic and classic[0] == 1 else None
    return row


def _target_metadata(r: Reader, _: int) -> Row:
    epoch, tags = r.number(4), r.tags()
    return {"target_epoch": epoch, "assigned_at": int.from_bytes(tags[0], "big") if 0 in tags else None}


def _partitions(r: Reader, default_epoch: int | None = None) -> list[Row]:
    """One row a partition. Where the record does not say since which epoch, Kafka takes the member's."""

    def topic() -> list[Row]:
        topic_id, partitions, epochs = r.uuid(), r.array(lambda: r.number(4)), r.tags().get(0)
        numbers: list[int] = []
        if epochs:
            numbers = Reader(epochs, "epochs", compact=True).array(lambda: 0)
            inner = Reader(epochs, "epochs", compact=True)
            numbers = inner.array(lambda: inner.number(4))
        known = numbers if len(numbers) == len(partitions) else [default_epoch] * len(partitions)
        return [
            {"topic_id": topic_id, "partition": partition, "assignment_epoch": epoch}
            for partition, epoch in zip(partitions, known, strict=True)
        ]

    return [partition for part in r.array(topic) for partition in part]


def _target(r: Reader, _: int) -> Row:
    row = {"partitions": _partitions(r)}
    r.tags()
    return row


def _current(r: Reader, _: int) -> Row:
    row: Row = {"member_epoch": r.number(4), "previous_member_epoch": r.number(4)}
    row["member_state"] = {0: "Stable", 1: "UnrevokedPartitions", 2: "UnreleasedPartitions"}.get(r.number(1), "Unknown")
    default = max(row["member_epoch"], 0)
    row |= {"partitions": _partitions(r, default), "pending_revocation": _partitions(r, default)}
    r.tags()
    return row


def _regex(r: Reader, _: int) -> Row:
    row = {"subscribed_topics": r.array(r.text)}
    r.number(8), r.number(8), r.tags()
    return row


_VALUES: dict[int, Callable[[Reader, int], Row]] = {
    0: _offset_commit,
    1: _offset_commit,
    2: _group_metadata,
    3: _epoch,
    4: _partition_metadata,
    5: _member,
    6: _target_metadata,
    7: _target,
    8: _current,
    16: _regex,
}

_SUBSCRIPTIONS = [
    subscription_v0.ConsumerProtocolSubscription,
    subscription_v1.ConsumerProtocolSubscription,
    subscription_v2.ConsumerProtocolSubscription,
    subscription_v3.ConsumerProtocolSubscription,
]


def subscription(data: bytes) -> Row:
    """What a member subscribes to, by its protocol metadata. Higher versions than 3 are read as 3."""
    version = min(int.from_bytes(data[:2], "big"), 3)
    read: Any = entity_reader(_SUBSCRIPTIONS[version])(data, 2)[0]
    owned = getattr(read, "owned_partitions", None)
    return {
        "subscribed_topics": list(read.topics),
        "user_data": read.user_data,
        "owned": None if version < 1 else _flat(owned),
        "rack_id": getattr(read, "rack_id", None),
    }


def assignment(data: bytes) -> list[Row]:
    """The partitions in a member's assignment; none in no bytes."""
    if not data:
        return []
    read: Any = entity_reader(assignment_v0.ConsumerProtocolAssignment)(data, 2)[0]
    return _flat(read.assigned_partitions)


def _flat(topics: Any) -> list[Row]:
    return [{"topic": topic.topic, "partition": int(partition)} for topic in topics for partition in topic.partitions]
