"""Why a message could not be encoded: the path to the value that does not fit its field."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from protocol.errors import EncodeError
from protocol.schema.layout import Layout, message_layout
from protocol.schema.wire_types import MAX_STRING_BYTES, Array, Fixed, Nullable

if TYPE_CHECKING:
    from protocol.schema.wire_types import Composite, WireType


def explain(cls: type[Composite], message: Composite, version: int, error: Exception) -> EncodeError:
    """The error to raise for what `struct` or Python said while encoding `message`."""
    fault = _fault_in_struct(message_layout(cls, version), message, "")
    return EncodeError(f"{cls.__name__} v{version}: {fault or error}")


def _fault_in_struct(at: Layout, value: Any, path: str) -> str | None:
    if not isinstance(value, at.cls):
        return f"{path.rstrip('.') or 'the message'} is {value!r}, not a {at.cls.__name__}"
    for field in at.plain + at.tagged:
        fault = _fault(at, field.wire_type, getattr(value, field.name), path + field.name, at.nullable(field))
        if fault:
            return fault
    return None


def _fault(at: Layout, wire_type: WireType, value: Any, path: str, nullable: bool) -> str | None:
    assert not isinstance(wire_type, Nullable)
    if value is None:
        return None if nullable else f"{path} is None, and cannot be null in this version"
    if isinstance(wire_type, Array):
        if not hasattr(value, "__iter__"):
            return f"{path} is {value!r}, not a list"
        elements = (_fault(at, wire_type.element, e, f"{path}[{i}]", nullable=False) for i, e in enumerate(value))
        return next(filter(None, elements), None)
    if isinstance(wire_type, type):
        return _fault_in_struct(at.of(wire_type), value, f"{path}.")
    if isinstance(wire_type, Fixed):
        return _fault_in_fixed(wire_type, value, path)
    if wire_type.name == "String":
        return _fault_in_string(value, path)
    accepted = (bytes, bytearray, memoryview, list) if wire_type.name == "Records" else (bytes, bytearray, memoryview)
    return None if isinstance(value, accepted) else f"{path} is {value!r}, not bytes"


def _fault_in_fixed(wire_type: Fixed, value: Any, path: str) -> str | None:
    try:
        struct.pack(f">{wire_type.code}", value)
    except struct.error as error:
        return f"{path} is {value!r}, not {wire_type.name}: {error}"
    if wire_type.name == "Uuid" and len(value) != wire_type.size:
        return f"{path} is {value!r}, not a uuid of 16 bytes"
    return None


def _fault_in_string(value: Any, path: str) -> str | None:
    if not isinstance(value, str):
        return f"{path} is {value!r}, not a string"
    try:
        length = len(value.encode())
    except UnicodeEncodeError as error:
        return f"{path} is not text: {error}"
    return f"{path} has {length} bytes, more than {MAX_STRING_BYTES}" if length > MAX_STRING_BYTES else None
