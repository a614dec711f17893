"""What members of classic consumer groups tell each other: subscriptions and assignments.

Layout: int16 version, then topics, user data, and by version owned partitions (1), generation (2), rack (3). A higher
version is read as 3, and what follows is ignored. A version only adds fields at the end, so a reader takes what is
there.

Source: Kafka's ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json, ConsumerProtocol.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from coordinator.why.terms import plural

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

TopicPartition = tuple[str, int]


class BadConsumerProtocol(Exception):
    """The bytes are no subscription or assignment; the text says where they stop being one."""


class Subscription(NamedTuple):
    """What a member wants. What its version does not have is None; `generation` -1 stands for unknown."""

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


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def int16(self) -> int:
        return int(self._number(_INT16))

    def int32(self) -> int:
        return int(self._number(_INT32))

    def _number(self, kind: struct.Struct) -> int:
        try:
            value: int = kind.unpack_from(self.data, self.at)[0]
        except struct.error:
            raise BadConsumerProtocol(f"truncated at byte {len(self.data)}") from None
        self.at += kind.size
        return value

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise BadConsumerProtocol(f"truncated at byte {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise BadConsumerProtocol("invalid UTF-8") from None

    def string(self) -> str:
        return self.text(self.int16())

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size < 0 else self.text(size)

    def nullable_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size < 0 else self.take(size)

    def count(self) -> int:
        count = self.int32()
        # Every element takes two bytes at least, so a wild count is refused before anything is made.
        if count < 0 or count * 2 > len(self.data) - self.at:
            raise BadConsumerProtocol(f"an array of {plural(count, 'element')}")
        return count

    def partitions(self) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for _ in range(self.count()):
            topic = self.string()
            found += [(topic, self.int32()) for _ in range(self.count())]
        return found


def read_subscription(data: bytes) -> Subscription:
    """A member's metadata. Raises: BadConsumerProtocol."""
    reader = _Reader(data)
    version = reader.int16()
    if version < 0:
        raise BadConsumerProtocol(f"version {version}")
    topics = [reader.string() for _ in range(reader.count())]
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else None
    generation = reader.int32() if version >= 2 else None
    rack_id = reader.nullable_string() if version >= 3 else None
    return Subscription(version, topics, user_data, owned, generation, rack_id)


def read_assignment(data: bytes) -> Assignment:
    """A member's assignment; no bytes at all are an empty one. Raises: BadConsumerProtocol."""
    if not data:
        return Assignment(0, [], None)
    reader = _Reader(data)
    version = reader.int16()
    if version < 0:
        raise BadConsumerProtocol(f"version {version}")
    return Assignment(version, reader.partitions(), reader.nullable_bytes())
