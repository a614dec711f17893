"""The language that messages are declared in, and what is derived from a declaration."""

from protocol.schema.declaration import Field, Message, Struct, field, message, struct
from protocol.schema.wire_types import (
    Array,
    Bool,
    Buffer,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Nullable,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
)

__all__ = [
    "Array",
    "Bool",
    "Buffer",
    "Bytes",
    "Field",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Message",
    "Nullable",
    "Records",
    "String",
    "Struct",
    "UInt16",
    "UInt32",
    "Uuid",
    "field",
    "message",
    "struct",
]
