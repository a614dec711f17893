"""What consumers tell each other through the coordinator: the embedded protocol of protocol type `consumer`.

The coordinator hands these bytes on untouched. It looks inside only to know which topics a group reads, and to say why
a group rebalanced, so anything it cannot read is `MetadataError`, never a refused request.

Source: Kafka's ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json (versions 0 to 3). Each version
begins with the fields of the one before, so version 0's layout reads the beginning of all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


TopicPartition = tuple[str, int]


class MetadataError(Exception):
    """The bytes are no subscription or assignment of the consumer protocol; the text says where they stop being one."""


def subscribed_topics(metadata: bytes) -> list[str]:
    """The topics of a subscription, in its order.

    Raises: MetadataError.
    """
    return _Reader(metadata).topics()


def owned_partitions(metadata: bytes) -> frozenset[TopicPartition] | None:
    """What the member said it owns when it joined; None before version 1, which does not say.

    Raises: MetadataError.
    """
    reader = _Reader(metadata)
    reader.topics()
    reader.user_data()
    return frozenset(reader.partitions()) if reader.version >= 1 else None


def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions of an assignment; an empty one, which a member left out by its leader gets, has none.

    Raises: MetadataError.
    """
    return frozenset(_Reader(assignment).partitions()) if assignment else frozenset()


class Subscription(NamedTuple):
    """What a member says about itself. What its version does not have is None; `generation` -1 stands for unknown."""

    version: int
    topics: list[str]
    user_data: bytes | None
    owned: list[TopicPartition] | None
    generation: int | None
    rack_id: str | None


class Assignment(NamedTuple):
    """What a member was given."""

    version: int
    partitions: list[TopicPartition]
    user_data: bytes | None


def subscription(metadata: bytes) -> Subscription:
    """All of a subscription, in its order. A version above 3 is read as 3, and what follows is left.

    Raises: MetadataError.
    """
    reader = _Reader(metadata)
    topics, user_data = reader.topics(), reader.user_data()
    owned = reader.partitions() if reader.version >= 1 else None
    generation = reader.number(_INT32) if reader.version >= 2 else None
    rack_id = reader.nullable_string() if reader.version >= 3 else None
    return Subscription(reader.version, topics, user_data, owned, generation, rack_id)


def subscription_version(metadata: bytes) -> int:
    """The version alone, whatever follows.

    Raises: MetadataError.
    """
    return _Reader(metadata).version


def whole_assignment(assignment: bytes) -> Assignment:
    """All of an assignment, in its order; no bytes at all are an empty one.

    Raises: MetadataError.
    """
    if not assignment:
        return Assignment(0, [], None)
    reader = _Reader(assignment)
    return Assignment(reader.version, reader.partitions(), reader.user_data())


def has_user_data(assignment: bytes) -> bool:
    """Whether an assignor has put more into an assignment than partitions.

    Raises: MetadataError.
    """
    if not assignment:
        return False
    reader = _Reader(assignment)
    reader.partitions()
    return reader.number(_INT32) > 0


def encode_assignment(version: int, partitions: Mapping[str, Iterable[int]]) -> bytes:
    """An assignment without user data."""
    parts = [_INT16.pack(version), _INT32.pack(len(partitions))]
    for topic, numbers in partitions.items():
        name, held = topic.encode(), list(numbers)
        parts += (_INT16.pack(len(name)), name, _INT32.pack(len(held)), *map(_INT32.pack, held))
    parts.append(_INT32.pack(-1))
    return b"".join(parts)


class _Reader:
    """Reads one message; every length is checked against its end."""

    __slots__ = ("_data", "_position", "version")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.version = self.number(_INT16)
        if self.version < 0:
            raise MetadataError(f"version {self.version}")

    def topics(self) -> list[str]:
        return [self._string() for _ in range(self._count())]

    def partitions(self) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for _ in range(self._count()):
            topic = self._string()
            found += [(topic, self.number(_INT32)) for _ in range(self._count())]
        return found

    def user_data(self) -> bytes | None:
        length = self.number(_INT32)
        if length < 0:
            return None
        start = self._take(length)
        return self._data[start : start + length]

    def nullable_string(self) -> str | None:
        length = self.number(_INT16)
        if length < 0:
            return None
        self._position -= _INT16.size
        return self._string()

    def _count(self) -> int:
        count = self.number(_INT32)
        # Every element takes two bytes at least: a larger count is a lie, not a reason to loop for long.
        if not 0 <= count * 2 <= len(self._data) - self._position:
            raise MetadataError(f"an array of {count} elements")
        return count

    def number(self, layout: struct.Struct) -> int:
        start = self._take(layout.size)
        number: int = layout.unpack_from(self._data, start)[0]
        return number

    def _string(self) -> str:
        length = self.number(_INT16)
        if length < 0:
            raise MetadataError(f"a string of {length} bytes")
        start = self._take(length)
        try:
            return str(self._data[start : start + length], "utf-8")
        except UnicodeDecodeError:
            raise MetadataError("invalid UTF-8") from None

    def _take(self, size: int) -> int:
        start = self._position
        if start + size > len(self._data):
            raise MetadataError(f"truncated at byte {len(self._data)}")
        self._position = start + size
        return start
