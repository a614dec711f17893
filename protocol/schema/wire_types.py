"""What a field can be: Kafka's primitive types, and what is built of them.

Source: Kafka's message definitions (`clients/src/main/resources/common/message/README.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from protocol.schema.declaration import Struct


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

    element: Fixed | Sized | type[Struct]


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

WireType = Fixed | Sized | Array | Nullable | type["Struct"]
