"""The layout of a message as a construct: to be read when in doubt about a byte, and the oracle of compiled codecs.

construct interprets, some thirty times slower than the compiled code, and is imported by nothing that the broker runs.
Parsing gives a Container with the fields that the version has; tagged fields that came are in one of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import construct as c

from protocol.schema.layout import Layout, message_layout, min_bytes
from protocol.schema.wire_types import MAX_STRING_BYTES, Array, Fixed, Nullable, Sized

if TYPE_CHECKING:
    from io import BytesIO

    from protocol.schema.wire_types import Composite, Field, WireType

TAGGED_FIELDS = "tagged_fields"

_FIXED = {
    "Bool": c.Flag,
    "Int8": c.Int8sb,
    "Int16": c.Int16sb,
    "UInt16": c.Int16ub,
    "Int32": c.Int32sb,
    "UInt32": c.Int32ub,
    "Int64": c.Int64sb,
    "Float64": c.Float64b,
    "Uuid": c.Bytes(16),
}


def schema(cls: type[Composite], version: int) -> c.Struct:
    """The construct of one version of a message."""
    return _struct(message_layout(cls, version))


def plain(value: Any) -> Any:
    """A message, or a part of one, as construct builds it: dicts and lists. What a version lacks does no harm."""
    if isinstance(value, list):
        return [plain(element) for element in value]
    if hasattr(value, "FIELDS"):
        values = {field.name: plain(getattr(value, field.name)) for field in value.FIELDS}
        return values | {TAGGED_FIELDS: values}
    return value


def _struct(at: Layout) -> c.Struct:
    fields = [field.name / _type(at, field.wire_type, at.nullable(field)) for field in at.plain]
    if at.flexible:
        fields.append(TAGGED_FIELDS / TaggedFields(at))
    return c.Struct(*fields)


def _type(at: Layout, wire_type: WireType, nullable: bool = False) -> c.Construct:
    assert not isinstance(wire_type, Nullable)
    if isinstance(wire_type, Fixed):
        return _FIXED[wire_type.name]
    if isinstance(wire_type, Sized):
        length = CompactLength() if at.flexible else _FIXED["Int16" if wire_type.length_code == "h" else "Int32"]
        return Text(length, nullable) if wire_type.name == "String" else Data(length, nullable)
    if isinstance(wire_type, Array):
        count = CompactLength() if at.flexible else c.Int32sb
        least = max(1, min_bytes(at, wire_type.element))
        return Elements(count, nullable, _type(at, wire_type.element), least)
    inner = _struct(at.of(wire_type))
    return NullableStruct(c.Int8sb, inner) if nullable else inner


class UnsignedVarint(c.Construct):  # type: ignore[misc]  # construct has no types
    """Seven bits a byte, the lowest first; no more than 32 in all."""

    def _parse(self, stream: BytesIO, context: Any, path: str) -> int:
        start = stream.tell()
        value: int = c.VarInt._parse(stream, context, path)
        if value > 0xFFFFFFFF or stream.tell() - start > 5:
            raise c.RangeError("varint longer than 32 bits", path=path)
        return value

    def _build(self, value: int, stream: BytesIO, context: Any, path: str) -> int:
        built: int = c.VarInt._build(value, stream, context, path)
        return built


class CompactLength(c.Construct):  # type: ignore[misc]  # construct has no types
    """A length of flexible versions: a varint of one more, 0 is null (-1). Source: KIP-482."""

    def _parse(self, stream: BytesIO, context: Any, path: str) -> int:
        return UnsignedVarint()._parse(stream, context, path) - 1

    def _build(self, value: int, stream: BytesIO, context: Any, path: str) -> int:
        return UnsignedVarint()._build(value + 1, stream, context, path)


class _Counted(c.Construct):  # type: ignore[misc]  # construct has no types
    """Something with its length or count in front; a negative one is null."""

    def __init__(self, length: c.Construct, nullable: bool) -> None:
        super().__init__()
        self.length, self.nullable = length, nullable

    def _parse(self, stream: BytesIO, context: Any, path: str) -> Any:
        length: int = self.length._parse(stream, context, path)
        if length >= 0:
            return self._content(length, stream, context, path)
        if not self.nullable:
            raise c.RangeError("null, or a negative length", path=path)
        return None

    def _build(self, value: Any, stream: BytesIO, context: Any, path: str) -> Any:
        if value is None and not self.nullable:
            raise c.RangeError("null", path=path)
        content = b"" if value is None else self._bytes(value, context, path)
        self.length._build(-1 if value is None else self._length(value, content), stream, context, path)
        stream.write(content)
        return value

    def _content(self, length: int, stream: BytesIO, context: Any, path: str) -> Any:
        return c.stream_read(stream, length, path)

    def _bytes(self, value: Any, context: Any, path: str) -> bytes:
        return bytes(value)

    def _length(self, value: Any, content: bytes) -> int:
        return len(content)


class Data(_Counted):
    """Bytes, or record batches."""


class Text(_Counted):
    """A string in UTF-8, in flexible versions too no longer than int16 can say."""

    def _content(self, length: int, stream: BytesIO, context: Any, path: str) -> str:
        if length > MAX_STRING_BYTES:
            raise c.RangeError(f"string of {length} bytes", path=path)
        content: bytes = c.stream_read(stream, length, path)
        return content.decode()

    def _bytes(self, value: str, context: Any, path: str) -> bytes:
        return value.encode()


class Elements(_Counted):
    """An array. A count that the rest of the stream cannot hold is refused before anything is read."""

    def __init__(self, count: c.Construct, nullable: bool, element: c.Construct, least_bytes: int) -> None:
        super().__init__(count, nullable)
        self.element, self.least_bytes = element, least_bytes

    def _content(self, length: int, stream: BytesIO, context: Any, path: str) -> list[Any]:
        left = stream.getbuffer().nbytes - stream.tell()
        if length * self.least_bytes > left:
            raise c.RangeError(f"{length} elements in {left} bytes", path=path)
        return [self.element._parsereport(stream, context, path) for _ in range(length)]

    def _bytes(self, value: list[Any], context: Any, path: str) -> bytes:
        return b"".join(self.element.build(element) for element in value)

    def _length(self, value: list[Any], content: bytes) -> int:
        return len(value)


class NullableStruct(c.Construct):  # type: ignore[misc]  # construct has no types
    """A struct behind a mark that says whether it is there: int8, -1 for null; if tagged a varint, 0 for null."""

    def __init__(self, mark: c.Construct, inner: c.Struct) -> None:
        super().__init__()
        self.mark, self.inner = mark, inner
        self.null = -1 if mark is c.Int8sb else 0

    def _parse(self, stream: BytesIO, context: Any, path: str) -> Any:
        mark = self.mark._parse(stream, context, path)
        return None if mark <= self.null else self.inner._parsereport(stream, context, path)

    def _build(self, value: Any, stream: BytesIO, context: Any, path: str) -> Any:
        self.mark._build(self.null if value is None else 1, stream, context, path)
        if value is not None:
            stream.write(self.inner.build(value))
        return value


class TaggedFields(c.Construct):  # type: ignore[misc]  # construct has no types
    """The end of a flexible struct: fields by number, each with its size; unknown ones are skipped. Source: KIP-482."""

    def __init__(self, at: Layout) -> None:
        super().__init__()
        self.fields = {field.tag: (field, self._inner(at, field)) for field in at.tagged if field.tag is not None}

    def _inner(self, at: Layout, field: Field) -> c.Construct:
        if isinstance(field.wire_type, type) and at.nullable(field):
            return NullableStruct(UnsignedVarint(), _struct(at.of(field.wire_type)))
        return _type(at, field.wire_type, at.nullable(field))

    def _parse(self, stream: BytesIO, context: Any, path: str) -> c.Container:
        result = c.Container()
        for _ in range(UnsignedVarint()._parse(stream, context, path)):
            tag = UnsignedVarint()._parse(stream, context, path)
            content = c.stream_read(stream, UnsignedVarint()._parse(stream, context, path), path)
            if tag in self.fields:
                field, inner = self.fields[tag]
                result[field.name] = c.FocusedSeq("value", "value" / inner, c.Terminated).parse(content)
        return result

    def _build(self, value: dict[str, Any], stream: BytesIO, context: Any, path: str) -> Any:
        changed = [
            (tag, inner.build(value[field.name]))
            for tag, (field, inner) in self.fields.items()
            if value[field.name] != plain(field.default_value())
        ]
        UnsignedVarint()._build(len(changed), stream, context, path)
        for tag, content in changed:
            UnsignedVarint()._build(tag, stream, context, path)
            UnsignedVarint()._build(len(content), stream, context, path)
            stream.write(content)
        return value
