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


class MetadataError(Exception):
    """The bytes are no subscription or assignment of the consumer protocol."""


def subscribed_topics(metadata: bytes) -> list[str]:
    """The topics of a subscription, in its order.

    Raises: MetadataError.
    """
    return _Reader(metadata).topics()


def owned_partitions(metadata: bytes) -> frozenset[tuple[str, int]] | None:
    """What the member said it owns when it joined; None before version 1, which does not say.

    Raises: MetadataError.
    """
    reader = _Reader(metadata)
    reader.topics()
    reader.skip_bytes()  # user data
    return reader.partitions() if reader.version >= 1 else None


def assigned_partitions(assignment: bytes) -> frozenset[tuple[str, int]]:
    """The partitions of an assignment; an empty one, which a member left out by its leader gets, has none.

    Raises: MetadataError.
    """
    return _Reader(assignment).partitions() if assignment else frozenset()


class Subscription(NamedTuple):
    """What a member says about itself. `owned` is None before version 1, which does not say."""

    version: int
    topics: list[str]
    owned: frozenset[tuple[str, int]] | None
    rack_id: str | None


def subscription(metadata: bytes) -> Subscription:
    """All of a subscription but its user data and generation.

    Raises: MetadataError.
    """
    reader = _Reader(metadata)
    topics = reader.topics()
    reader.skip_bytes()  # user data
    owned = reader.partitions() if reader.version >= 1 else None
    rack_id = None
    if reader.version >= 3:
        reader.skip_number()  # generation
        rack_id = reader.nullable_string()
    return Subscription(reader.version, topics, owned, rack_id)


def has_user_data(assignment: bytes) -> bool:
    """Whether an assignor has put more into an assignment than partitions.

    Raises: MetadataError.
    """
    if not assignment:
        return False
    reader = _Reader(assignment)
    reader.partitions()
    return reader.has_bytes()


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
        self.version = self._number(_INT16)
        if self.version < 0:
            raise MetadataError(f"version {self.version}")

    def topics(self) -> list[str]:
        return [self._string() for _ in range(self._count())]

    def partitions(self) -> frozenset[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for _ in range(self._count()):
            topic = self._string()
            found.update((topic, self._number(_INT32)) for _ in range(self._count()))
        return frozenset(found)

    def skip_bytes(self) -> None:
        length = self._number(_INT32)
        if length > 0:
            self._take(length)

    def has_bytes(self) -> bool:
        return self._number(_INT32) > 0

    def skip_number(self) -> None:
        self._number(_INT32)

    def nullable_string(self) -> str | None:
        length = self._number(_INT16)
        if length < 0:
            return None
        self._position -= _INT16.size
        return self._string()

    def _count(self) -> int:
        count = self._number(_INT32)
        # Every element takes a byte at least: a larger count is a lie, not a reason to loop for long.
        if not 0 <= count <= len(self._data):
            raise MetadataError(f"{count} elements in {len(self._data)} bytes")
        return count

    def _number(self, layout: struct.Struct) -> int:
        start = self._take(layout.size)
        number: int = layout.unpack_from(self._data, start)[0]
        return number

    def _string(self) -> str:
        length = self._number(_INT16)
        if length < 0:
            raise MetadataError(f"string of length {length}")
        start = self._take(length)
        try:
            return str(self._data[start : start + length], "utf-8")
        except UnicodeDecodeError as error:
            raise MetadataError(str(error)) from error

    def _take(self, size: int) -> int:
        start = self._position
        if start + size > len(self._data):
            raise MetadataError(f"{size} bytes at {start} of {len(self._data)}")
        self._position = start + size
        return start
