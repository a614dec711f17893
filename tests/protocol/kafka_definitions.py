"""A codec that interprets Kafka's own message definitions, as kafka-python ships them: the JSON files of Apache Kafka.

It shares nothing with `protocol/`, and is written for plainness: one function each way, one branch for each type.
Values are dicts by Kafka's field names.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from io import BytesIO
from struct import pack, unpack
from typing import Any

_FORMATS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}


def is_shipped(name: str) -> bool:
    """Whether kafka-python knows the message; of KIP-848 it has none."""
    return (files("kafka.protocol.schemas") / "resources" / f"{name}.json").is_file()


@cache
def definition(name: str) -> dict[str, Any]:
    """The definition of a message, such as JoinGroupRequest."""
    text = (files("kafka.protocol.schemas") / "resources" / f"{name}.json").read_text()
    parsed: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return parsed


def in_range(version: int, versions: str | None) -> bool:
    """Whether `version` lies in a range such as 3, 3+, 3-5 or none."""
    if versions is None or versions == "none":
        return False
    first, _, last = versions.replace("+", "-999").partition("-")
    return int(first) <= version <= int(last or first)


def default(field: dict[str, Any]) -> Any:
    """The default of a field, given or implied."""
    kind, given = field["type"], field.get("default")
    if given == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "string":
        return given or ""
    if kind == "bool":
        return str(given).lower() == "true"
    if kind in {"bytes", "records"}:
        return b""
    if kind == "uuid":
        return bytes(16)
    if kind in _FORMATS:
        return int(str(given or 0), 0)
    return {inner["name"]: default(inner) for inner in field["fields"]}


class Codec:
    """Encodes and decodes one version of one message."""

    def __init__(self, name: str, version: int) -> None:
        self.definition = definition(name)
        self.version = version
        self.flexible = in_range(version, self.definition["flexibleVersions"])
        self.common = {struct["name"]: struct["fields"] for struct in self.definition.get("commonStructs", [])}

    def encode(self, values: dict[str, Any]) -> bytes:
        """The bytes of a message."""
        return self._encode_struct(self.definition["fields"], values)

    def decode(self, data: bytes) -> dict[str, Any]:
        """The values of a message; every byte must belong to it."""
        stream = BytesIO(data)
        values = self._decode_struct(self.definition["fields"], stream)
        assert not stream.read(), "bytes left over"
        return values

    def _split(self, fields: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[int, dict[str, Any]]]:
        here = [field for field in fields if in_range(self.version, field["versions"])]
        tagged = {field["tag"]: field for field in here if in_range(self.version, field.get("taggedVersions"))}
        return [field for field in here if field not in tagged.values()], tagged

    def _nullable(self, field: dict[str, Any]) -> bool:
        return in_range(self.version, field.get("nullableVersions"))

    def _encode_struct(self, fields: list[dict[str, Any]], values: dict[str, Any]) -> bytes:
        plain, tagged = self._split(fields)
        out = b"".join(self._encode(field["type"], field, values[field["name"]]) for field in plain)
        if not self.flexible:
            return out
        changed = [tag for tag in sorted(tagged) if values[tagged[tag]["name"]] != default(tagged[tag])]
        out += _varint(len(changed))
        for tag in changed:
            content = self._encode(tagged[tag]["type"], tagged[tag], values[tagged[tag]["name"]])
            out += _varint(tag) + _varint(len(content)) + content
        return out

    def _encode(self, kind: str, field: dict[str, Any], value: Any) -> bytes:
        if kind in _FORMATS:
            return pack(_FORMATS[kind], value)
        if kind == "uuid":
            return bytes(value)
        if kind == "string":
            content = None if value is None else value.encode()
            return self._length(content, ">h") + (content or b"")
        if kind in {"bytes", "records"}:
            return self._length(value, ">i") + (value or b"")
        if kind.startswith("[]"):
            return self._length(value, ">i") + b"".join(self._encode(kind[2:], field, v) for v in value or ())
        if not field["type"].startswith("[]") and self._nullable(field):
            return b"\xff" if value is None else b"\x01" + self._encode_struct(self._fields(kind, field), value)
        return self._encode_struct(self._fields(kind, field), value)

    def _length(self, content: Any, form: str) -> bytes:
        if self.flexible:
            return _varint(0 if content is None else len(content) + 1)
        return pack(form, -1 if content is None else len(content))

    def _fields(self, kind: str, field: dict[str, Any]) -> list[dict[str, Any]]:
        fields: list[dict[str, Any]] = field.get("fields") or self.common[kind]
        return fields

    def _decode_struct(self, fields: list[dict[str, Any]], stream: BytesIO) -> dict[str, Any]:
        plain, tagged = self._split(fields)
        values = {field["name"]: default(field) for field in fields}
        for field in plain:
            values[field["name"]] = self._decode(field["type"], field, stream)
        if self.flexible:
            for _ in range(_read_varint(stream)):
                field = tagged[_read_varint(stream)]
                content = BytesIO(stream.read(_read_varint(stream)))
                values[field["name"]] = self._decode(field["type"], field, content)
                assert not content.read(), "a tagged field is longer than its content"
        return values

    def _decode(self, kind: str, field: dict[str, Any], stream: BytesIO) -> Any:
        if kind in _FORMATS:
            return unpack(_FORMATS[kind], stream.read(len(pack(_FORMATS[kind], 0))))[0]
        if kind == "uuid":
            return stream.read(16)
        if kind in {"string", "bytes", "records"}:
            length = self._read_length(stream, ">h" if kind == "string" else ">i")
            content = None if length is None else stream.read(length)
            return content.decode() if content is not None and kind == "string" else content
        if kind.startswith("[]"):
            count = self._read_length(stream, ">i")
            return None if count is None else [self._decode(kind[2:], field, stream) for _ in range(count)]
        if not field["type"].startswith("[]") and self._nullable(field) and stream.read(1) == b"\xff":
            return None
        return self._decode_struct(self._fields(kind, field), stream)

    def _read_length(self, stream: BytesIO, form: str) -> int | None:
        if self.flexible:
            length = _read_varint(stream) - 1
        else:
            (length,) = unpack(form, stream.read(2 if form == ">h" else 4))
        return None if length < 0 else length


def _varint(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def _read_varint(stream: BytesIO) -> int:
    value = shift = 0
    while (byte := stream.read(1)[0]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
    return value | byte << shift
