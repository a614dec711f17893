"""Codecs written ahead: decoders and encoders of hot APIs and of some records, as modules of typed source for mypyc.

They come from the writers that the broker compiles its codecs with when it runs, `protocol.schema.decoder` and
`.encoder`, and differ where native code reads and writes numbers better: each by a call of `librt`, where interpreted
code packs neighbours into one call of `struct`. What is refused, and in which words, is the same; a test holds both
equal on generated and on mutilated bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.schema import decoder, encoder
from protocol.schema.source import Source
from protocol.schema.wire_types import Array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from protocol.registry import Api
    from protocol.schema import Message
    from protocol.schema.layout import Layout
    from protocol.schema.wire_types import WireType

HOT = (
    "produce",
    "fetch",
    "offset_commit",
    "offset_fetch",
    "join_group",
    "sync_group",
    "heartbeat",
    "consumer_group_heartbeat",
)
"""Modules of `protocol.messages`: the APIs whose codecs are written ahead."""

RECORDS = {"group_metadata": "GroupMetadataValue"}
"""Modules of `protocol.records` and their values, the same: a group of a thousand is one record of as many structs."""

_READ = {
    "b": "int8(buffer[{p}])",
    "B": "buffer[{p}]",
    "?": "buffer[{p}] != 0",
    "h": "read_i16_be(buffer, {p})",
    "H": "i64(read_i16_be(buffer, {p})) & 0xFFFF",
    "i": "read_i32_be(buffer, {p})",
    "I": "i64(read_i32_be(buffer, {p})) & 0xFFFFFFFF",
    "q": "read_i64_be(buffer, {p})",
    "d": "read_f64_be(buffer, {p})",
    "16s": "uuid_at(buffer, {p})",
}
_NO_INTEGERS = ("16s", "?", "d")
_SIZES = {"b": 1, "B": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
_WRITE = {
    "b": "{out}.append(checked({value}, -0x80, 0x7F) & 0xFF)",
    "B": "{out}.append({value})",
    "?": "{out}.append(1 if {value} else 0)",
    "h": "write_i16_be({out}, {value})",
    "H": "{out}.write(checked({value}, 0, 0xFFFF).to_bytes(2, 'big'))",
    "i": "write_i32_be({out}, {value})",
    "I": "{out}.write(checked({value}, 0, 0xFFFFFFFF).to_bytes(4, 'big'))",
    "q": "write_i64_be({out}, {value})",
    "d": "write_f64_be({out}, {value})",
    "16s": "{out}.write({value})",
}
_HEAD = '''"""The codecs of {what}, written by `tools/compiled`; not by hand."""

from __future__ import annotations

from struct import error as StructError
from struct import pack as pack_array
from struct import unpack_from as unpack_array
from typing import Any, Final, cast

from librt.strings import (
    BytesWriter,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i64

from protocol.errors import LongMessage, ProtocolError
from protocol.schema.explain import explain
from protocol.schema.native_codecs import chunk_size, checked, int8, put_size, uuid_at
from protocol.schema.runtime import (
    bad_count,
    bad_tag_size,
    check_uuid,
    long_string,
    long_varint,
    past_end,
    skip_tagged_fields,
    string_varint,
    varint,
)
'''


def spoken(api: Api) -> list[int]:
    """The versions worth compiling: the first, which small clients speak, and from the last without tags on.

    All of them where the request has no array in an array: they are a few lines each, and clients of every age join
    groups and send heartbeats.
    """
    first, last = api.served
    tags = api.request.FLEXIBLE_FROM or first
    short = not any(_is_nested(field.wire_type) for field in api.request.FIELDS)
    return [version for version in range(first, last + 1) if short or version == first or version >= tags - 1]


def _is_nested(wire_type: WireType) -> bool:
    """Whether it is an array of something that has arrays."""
    element = wire_type.element if isinstance(wire_type, Array) else None
    return isinstance(element, type) and any(isinstance(field.wire_type, Array) for field in element.FIELDS)


def module(api: Api, served: Iterable[int], most: tuple[int, int], tagged_header: Callable[[int, int], bool]) -> str:
    """The source of one API's codecs. `most`: elements that a request and a response may have in their arrays."""
    writers: list[_Decoder | _Encoder] = []
    for version in served:
        writers.append(_Decoder(api.request, version, most[0]))
        writers.append(_Encoder(api.response, version, int(tagged_header(api.key, version)), most[1]))
    return _module(api.name, (api.request, api.response), writers)


def record_module(cls: type[Message]) -> str:
    """The source of the codecs of a record's value, of all versions: nothing stands before it, nothing is bounded."""
    writers: list[_Decoder | _Encoder] = []
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        writers += _Decoder(cls, version, None), _Encoder(cls, version, None, None)
    return _module(cls.__name__, (cls,), writers)


def _module(what: str, messages: Iterable[type[Message]], writers: Iterable[_Decoder | _Encoder]) -> str:
    lines = []
    for cls in messages:
        lines.append(f"from {cls.__module__} import {', '.join(sorted(_classes(cls)))}")
    defaults = dict(default for writer in writers for default in writer.source.defaults.items())
    lines += [f"{name}: Final = cast({cls}, {cls}.shared_default())" for name, cls in sorted(defaults.items())]
    return _HEAD.format(what=what) + "\n".join(lines) + "\n\n\n" + "\n\n".join(w.source.text() for w in writers)


def _classes(cls: Any) -> set[str]:
    names = {cls.__name__}
    for field in cls.FIELDS:
        inner = field.wire_type.element if isinstance(field.wire_type, Array) else field.wire_type
        if isinstance(inner, type):
            names |= _classes(inner)
    return names


class _Source(Source):
    """Classes go by their own names, and shared defaults by one of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.defaults: dict[str, str] = {}

    def constant(self, value: Any, prefix: str) -> str:
        if isinstance(value, type):
            return value.__name__
        if hasattr(value, "FIELDS"):
            cls = type(value).__name__
            self.defaults[f"DEFAULT_{cls}"] = cls
            return f"DEFAULT_{cls}"
        return super().constant(value, prefix)


class _Decoder(decoder._Decoder):
    """Writes `decode_NAME_VERSION`."""

    source_type = _Source

    def function(self, at: Layout, most_elements: int | None) -> None:
        """Two: what reads, and what catches. Where errors are caught, native code looks after every local by itself."""
        source, name = self.source, f"{at.cls.__name__}_{at.version}"
        with source.block(f"def _read_{name}(buffer: bytes, p: i64) -> tuple[{at.cls.__name__}, i64]:"):
            source.line("size: i64 = len(buffer)")
            self.body(at, most_elements)
        source.line("")
        source.line("")
        with source.block(f"def decode_{name}(buffer: bytes, p: int) -> tuple[{at.cls.__name__}, int]:"):
            source.line("size = len(buffer)")
            with source.block("try:"):
                source.line(f"message, end = _read_{name}(buffer, p)")
                source.line("return message, end")
            self.refusals(at)

    def made(self, cls: str) -> str:
        return f"{cls}()"

    def flush(self) -> None:
        position = 0
        for code, target in self.run:
            at = f"p + {position}" if position else "p"
            read = _READ[code].format(p=at)
            if "." not in target and code not in _NO_INTEGERS:  # a length or a count, to be reckoned with
                read = f"i64({read})"
            self.source.line(f"{target} = {read}")
            position += _SIZES[code]
        if position:
            self.source.line(f"p += {position}")
        self.run, self.run_bytes = [], 0


class _Encoder(encoder._Encoder):
    """Writes `encode_NAME_VERSION`."""

    source_type = _Source

    def function(self, at: Layout, most_elements: int | None) -> None:
        """Two, as in decoders."""
        source, cls, name = self.source, at.cls.__name__, f"{at.cls.__name__}_{at.version}"
        self.started = True
        header = self.header is not None
        parameters, arguments = f"m: {cls}{', correlation_id: int' * header}", f"m{', correlation_id' * header}"
        with source.block(f"def _write_{name}({parameters}) -> list[Any]:"):
            source.line("out = BytesWriter()")
            self.body(at, most_elements)
        source.line("")
        source.line("")
        with source.block(f"def encode_{name}({parameters}) -> list[Any]:"):
            with source.block("try:"):
                source.line(f"return _write_{name}({arguments})")
            self.refusals(at)

    def finish(self) -> None:
        source = self.source
        self.flush()
        if self.chunked:
            with source.block("if len(out):"):
                source.line("chunks.append(out.getvalue())")
            source.line("return chunk_size(chunks)")
            return
        if self.header is not None:
            source.line("put_size(out)")
        source.line("return [out.getvalue()]")

    def flush(self) -> None:
        for code, value in self.run:
            self.source.line(_WRITE[code].format(out=self.out, value=value))
        self.run = []

    def write(self, expression: str) -> None:
        self.source.line(f"{self.out}.write({expression})")

    def records(self, at: Layout, of: str, data: str, n: str, nullable: bool) -> None:
        source = self.source
        value = source.fresh("value")
        source.line(f"{value}: Any = {of}")
        if nullable:
            with source.block(f"if {value} is None:"):
                source.line(f"{data}: list[Any] = []")
                source.line(f"{n} = -1")
        with source.block(f"{'elif' if nullable else 'if'} type({value}) is list:"):
            source.line(f"{data} = {value}")
            source.line(f"{n} = sum([len(part) for part in {data}])")
        with source.block("else:"):
            source.line(f"{data} = [{value}]")
            source.line(f"{n} = len({value})")
        if at.flexible:
            source.line(f"{n} += 1")
        self.length(at, "i", n, "varint")
        with source.block(f"if {n} > {1 if at.flexible else 0}:"):
            source.line("chunks.append(out.getvalue())")
            source.line(f"chunks += {data}")
            source.line("out = BytesWriter()")

    def new_out(self, name: str) -> None:
        self.source.line(f"{name} = BytesWriter()")

    def content(self, out: str) -> str:
        return f"{out}.getvalue()"
