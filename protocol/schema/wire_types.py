"""What a field can be: Kafka's primitive types, and what is built of them; and what a declared field says.

Everything that is derived from a declaration (layouts, decoders, encoders, the construct schema) reads these, and knows
nothing of how a message is declared.

Source: Kafka's message definitions (`clients/src/main/resources/common/message/README.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from protocol.types import ZERO_UUID

Buffer = bytes | bytearray | memoryview
"""Bytes that are passed on as they are. A memoryview's items are bytes too."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A type of one size in every version; `code` is its letter in `struct`."""

    name: str
    code: str
    size: int
    default: Any = 0


@dataclass(frozen=True, slots=True)
class Sized:
    """A type that carries its length: int16 or int32 (`length_code`), in flexible versions an unsigned varint."""

    name: str
    length_code: str
    default: Any


@dataclass(frozen=True, slots=True)
class Array:
    """Any number of one type, which is fixed, a string, bytes or a struct. In memory a list."""

    element: Fixed | Sized | type[Composite]


@dataclass(frozen=True, slots=True)
class Nullable:
    """A type that can be null in every version that has the field."""

    inner: WireType


Bool = Fixed("Bool", "?", 1, default=False)
Int8 = Fixed("Int8", "b", 1)
Int16 = Fixed("Int16", "h", 2)
UInt16 = Fixed("UInt16", "H", 2)
Int32 = Fixed("Int32", "i", 4)
UInt32 = Fixed("UInt32", "I", 4)
Int64 = Fixed("Int64", "q", 8)
Float64 = Fixed("Float64", "d", 8, default=0.0)
Uuid = Fixed("Uuid", "16s", 16, default=ZERO_UUID)

String = Sized("String", "h", "")
Bytes = Sized("Bytes", "i", b"")
Records = Sized("Records", "i", b"")
"""Record batches. Decoded: a memoryview of the frame, which it keeps alive. To be encoded: a buffer of bytes, or a
list of them, none of which is copied."""

MAX_STRING_BYTES = 0x7FFF
"""The longest string, in flexible versions too. Source: Kafka's MessageDataGenerator."""

WireType = Fixed | Sized | Array | Nullable | type["Composite"]

NO_DEFAULT = object()


@dataclass(slots=True)
class Field:
    """One declared field. Versions are inclusive at both ends; `until` None: up to the latest."""

    wire_type: WireType
    since: int
    until: int | None
    default: Any
    nullable_since: int | None  # None: never null
    tag: int | None
    tag_since: int
    name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def has(self, version: int) -> bool:
        """Whether `version` has this field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def default_value(self) -> Any:
        """The default; a list is the caller's own."""
        if self.default is not NO_DEFAULT:
            return self.default.copy() if isinstance(self.default, list) else self.default
        if isinstance(self.wire_type, Array):
            return []
        if isinstance(self.wire_type, type):
            return self.wire_type.shared_default()
        assert not isinstance(self.wire_type, Nullable)  # field() took it off
        return self.wire_type.default


class Composite:
    """What is made of fields: `protocol.schema.declaration.Struct`; and what has versions too: `Message` there."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE_FROM: ClassVar[int | None]

    @classmethod
    def shared_default(cls) -> Composite:
        """The one frozen instance that stands wherever a struct of this class has its default."""
        raise NotImplementedError

    @classmethod
    def flexible(cls, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields (KIP-482)."""
        return cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM
