"""Encoders: for each message and version straight-line Python over precompiled `struct.Struct`s.

Neighbouring fields of fixed size, the length that follows them included, are written by one `pack`. Everything goes
into one bytearray, except record data: it is put between bytearrays, as it is, so that it is never copied.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

from protocol.errors import EncodeError, LongMessage
from protocol.schema import ahead, runtime
from protocol.schema.explain import explain
from protocol.schema.layout import BYTES_SHIFT, Layout, holds_records, message_layout
from protocol.schema.source import Source
from protocol.schema.wire_types import Array, Fixed, Nullable, Sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.schema.wire_types import Composite, Field, WireType

_RUNTIME = {
    "pack_array": struct.pack,
    "pack_size": struct.Struct(">i").pack_into,
    "StructError": struct.error,
    "EncodeError": EncodeError,
    "LongMessage": LongMessage,
    "varint": runtime.varint,
    "string_varint": runtime.string_varint,
    "check_uuid": runtime.check_uuid,
    "explain": explain,
}


def compile_encoder(cls: type[Composite], version: int) -> Callable[[Any], list[Any]]:
    """`encode(message) -> buffers`. It raises EncodeError and nothing else."""
    written = ahead.encoder(cls, version)
    if written is not None:
        return written
    source = encoder_source(cls, version)
    again = partial(encoder_source, cls, version)
    return source.function("encode", f"encoder of {cls.__name__} v{version}", again)


def compile_frame_encoder(
    cls: type[Composite], version: int, *, tagged_header: bool, most_elements: int | None = None
) -> Callable[[Any, int], list[Any]]:
    """`encode(response, correlation_id) -> buffers`: size, response header and message in one go.

    `tagged_header`: response header version 1, which ends with an empty section of tagged fields. With `most_elements`
    it raises LongMessage before it writes more elements of arrays than that; bytes in an element are one more for each
    512 of them.
    """
    written = ahead.frame_encoder(cls, version, most_elements)
    if written is not None:
        return written
    again = partial(encoder_source, cls, version, 1 if tagged_header else 0, most_elements)
    return again().function("encode", f"frame encoder of {cls.__name__} v{version}", again)


def encoder_source(
    cls: type[Composite], version: int, header: int | None = None, most_elements: int | None = None
) -> Source:
    """What the two above compile; `.text()` is there to be read."""
    writer = _Encoder(cls, version, header, most_elements)
    return writer.source


class _Encoder:
    """Writes one encoder. What is written ahead for a compiler (`tools/compiled`) differs where a method says so."""

    source_type = Source

    def __init__(self, cls: type[Composite], version: int, header: int | None, most_elements: int | None) -> None:
        self.limited = most_elements is not None
        self.arrays = 0  # that what is written now is in
        self.source = self.source_type()
        self.source.names.update(_RUNTIME)
        self.run: list[tuple[str, str]] = []  # (struct code, expression): fixed-size fields not yet written
        self.out = "out"
        self.started = False  # whether the bytearray `out` is there
        self.header = header
        at = message_layout(cls, version)
        self.chunked = holds_records(at)
        self.function(at, most_elements)

    def function(self, at: Layout, most_elements: int | None) -> None:
        source = self.source
        with source.block("def encode(m, correlation_id):" if self.header is not None else "def encode(m):"):
            with source.block("try:"):
                self.body(at, most_elements)
            self.refusals(at)

    def body(self, at: Layout, most_elements: int | None) -> None:
        source = self.source
        if most_elements is not None:
            source.line(f"room = {most_elements}")
        if self.chunked:
            source.line("chunks: list[Any] = []")
        if self.header is not None:
            self.run += [("i", "0"), ("i", "correlation_id")] + [("B", "0")] * self.header
        self.struct(at, "m")
        self.finish()

    def refusals(self, at: Layout) -> None:
        """What follows the `try`."""
        source = self.source
        this = source.constant(at.cls, at.cls.__name__)
        with source.block("except (StructError, AttributeError, TypeError, ValueError, OverflowError) as error:"):
            source.line(f"raise explain({this}, m, {at.version}, error) from error")

    def finish(self) -> None:
        source = self.source
        if not self.started and self.run:
            # Of one size whatever it says: the size in front is known too.
            codes = "".join(code for code, _ in self.run)
            if self.header is not None:
                self.run[0] = ("i", str(struct.calcsize(f">{codes}") - 4))
            source.line(f"return [{self.packed(self.run)}]")
            return
        self.flush()
        if not self.started:
            source.line("out = bytearray()")
        if self.chunked:
            with source.block("if out:"):
                source.line("chunks.append(out)")
            if self.header is not None:
                source.line("pack_size(chunks[0], 0, sum(map(len, chunks)) - 4)")
            source.line("return chunks")
            return
        if self.header is not None:
            source.line("pack_size(out, 0, len(out) - 4)")
        source.line("return [out]")

    # Runs of fixed-size fields

    def packed(self, run: list[tuple[str, str]]) -> str:
        pack = self.source.layout("".join(code for code, _ in run), "pack")
        return f"{pack}({', '.join(expression for _, expression in run)})"

    def flush(self) -> None:
        if self.started and [code for code, _ in self.run] == ["B"]:
            self.source.line(f"{self.out}.append({self.run[0][1]})")  # a third of the cost of a pack
        elif self.run:
            self.write(self.packed(self.run))
        self.run = []

    def write(self, expression: str) -> None:
        if self.started:
            self.source.line(f"{self.out} += {expression}")
        else:
            self.source.line(f"{self.out} = bytearray({expression})")
            self.started = True

    def length(self, at: Layout, code: str, n: str, long_form: str) -> None:
        """Write the run and after it the length `n`, which in flexible versions has one added already."""
        if not at.flexible:
            self.run.append((code, n))
            self.flush()
            return
        source, run, started = self.source, self.run, self.started
        with source.block(f"if {n} < 128:"):
            self.run = [*run, ("B", n)]
            self.flush()
        with source.block("else:"):
            self.run, self.started = run, started
            self.flush()
            self.write(f"{long_form}({n})")

    # Structs and their fields

    def struct(self, at: Layout, of: str) -> None:
        """Write the struct that the local `of` holds."""
        for field in at.plain:
            self.value(at, field.wire_type, f"{of}.{field.name}", at.nullable(field))
        if at.flexible:
            self.tagged_fields(at, of)

    def value(self, at: Layout, wire_type: WireType, of: str, nullable: bool) -> None:
        """Write what the expression `of` holds."""
        assert not isinstance(wire_type, Nullable)
        if isinstance(wire_type, Fixed):
            # `struct` would cut or fill a uuid of another length without a word.
            checked = f"check_uuid({of})" if wire_type.name == "Uuid" else of
            self.run.append((wire_type.code, checked))
        elif isinstance(wire_type, Sized):
            self.sized(at, wire_type, of, nullable)
        elif isinstance(wire_type, Array):
            self.array(at, wire_type, of, nullable)
        else:
            self.nested(at, wire_type, of, nullable)

    def sized(self, at: Layout, wire_type: Sized, of: str, nullable: bool) -> None:
        source = self.source
        is_text = wire_type.name == "String"
        data, n = source.fresh("data"), source.fresh("n")
        if wire_type.name == "Records":
            self.records(at, of, data, n, nullable)
            return
        content = f"{of}.encode()" if is_text else of
        length = f"len({data}) + 1" if at.flexible else f"len({data})"
        if nullable:
            value = source.fresh("value")
            source.line(f"{value} = {of}")
            with source.block(f"if {value} is None:"):
                source.line(f'{data} = b""')
                source.line(f"{n} = {0 if at.flexible else -1}")
            with source.block("else:"):
                source.line(f"{data} = {value}.encode()" if is_text else f"{data} = {value}")
                source.line(f"{n} = {length}")
        else:
            source.line(f"{data} = {content}")
            source.line(f"{n} = {length}")
        if self.limited and self.arrays and not is_text:
            source.take_room(f"len({data}) >> {BYTES_SHIFT}")
        self.length(at, wire_type.length_code, n, "string_varint" if is_text else "varint")
        self.write(data)

    def records(self, at: Layout, of: str, data: str, n: str, nullable: bool) -> None:
        source = self.source
        source.line(f"{data} = {of}")
        if nullable:
            with source.block(f"if {data} is None:"):
                source.line(f"{data}, {n} = [], -1")
            with source.block(f"elif {data}.__class__ is list:"):
                source.line(f"{n} = sum(map(len, {data}))")
        else:
            with source.block(f"if {data}.__class__ is list:"):
                source.line(f"{n} = sum(map(len, {data}))")
        with source.block("else:"):
            source.line(f"{n} = len({data})")
            source.line(f"{data} = [{data}]")
        if at.flexible:
            source.line(f"{n} += 1")
        self.length(at, "i", n, "varint")
        with source.block(f"if {n} > {1 if at.flexible else 0}:"):
            source.line("chunks.append(out)")
            source.line(f"chunks += {data}")
            source.line("out = bytearray()")

    def array(self, at: Layout, wire_type: Array, of: str, nullable: bool) -> None:
        source = self.source
        items, n = source.fresh("items"), source.fresh("n")
        source.line(f"{items} = {of}")
        length = f"len({items}) + 1" if at.flexible else f"len({items})"
        if nullable:
            with source.block(f"if {items} is None:"):
                source.line(f"{items} = []")
                source.line(f"{n} = {0 if at.flexible else -1}")
            with source.block("else:"):
                source.line(f"{n} = {length}")
        else:
            source.line(f"{n} = {length}")
        self.length(at, "i", n, "varint")
        element = wire_type.element
        numbers = isinstance(element, Fixed) and len(element.code) == 1
        if self.limited:
            # Numbers are written all at once, in a small part of the time.
            count = f"len({items})" if nullable or at.flexible else n
            source.take_room(f"{count} >> 5" if numbers else count)
        if isinstance(element, Fixed) and numbers:
            self.write(f'pack_array(f">{{len({items})}}{element.code}", *{items})')
            return
        item = source.fresh("item")
        self.arrays += 1
        with source.block(f"for {item} in {items}:"):
            if isinstance(element, type):
                self.struct(at.of(element), item)
            else:
                self.value(at, element, item, nullable=False)
            self.flush()
        self.arrays -= 1

    def nested(self, at: Layout, cls: Any, of: str, nullable: bool) -> None:
        """Write a struct that is a field; in front of a nullable one stands an int8, -1 for null."""
        source = self.source
        local = source.fresh("struct")
        source.line(f"{local} = {of}")
        if not nullable:
            self.struct(at.of(cls), local)
            return
        self.run.append(("b", f"-1 if {local} is None else 1"))
        self.flush()
        with source.block(f"if {local} is not None:"):
            self.struct(at.of(cls), local)
            self.flush()

    # Tagged fields

    def tagged_fields(self, at: Layout, of: str) -> None:
        """Write the section of tagged fields: those that differ from their default, by tag."""
        source = self.source
        if not at.tagged:
            self.run.append(("B", "0"))
            return
        present = []
        for field in at.tagged:
            flag, value = source.fresh("has"), f"{of}.{field.name}"
            source.line(f"{flag} = {self.differs(field, value)}")
            present.append(flag)
        count = source.fresh("count")
        source.line(f"{count} = {' + '.join(present)}")
        self.run.append(("B", count))
        self.flush()
        with source.block(f"if {count}:"):
            for field, flag in zip(at.tagged, present, strict=True):
                with source.block(f"if {flag}:"):
                    self.tagged_field(at, field, f"{of}.{field.name}")

    def differs(self, field: Field, value: str) -> str:
        default = field.default_value()
        if isinstance(default, list):
            return f"{value} != []"
        literal = self.source.constant(default, "default")
        if default is None:
            return f"{value} is not None"
        if isinstance(field.wire_type, type):
            return f"{value} is not {literal} and {value} != {literal}"
        return f"{value} != {literal}"

    def tagged_field(self, at: Layout, field: Field, of: str) -> None:
        """Write one tagged field through a bytearray of its own, since its size goes in front."""
        outer, self.out = self.out, self.source.fresh("out")
        self.new_out(self.out)
        nullable = at.nullable(field)
        if isinstance(field.wire_type, type) and nullable:
            # A nullable struct says with a varint, not with an int8, whether it is there, once it is tagged.
            with self.source.block(f"if {of} is None:"):
                self.write('b"\\0"')
            with self.source.block("else:"):
                self.write('b"\\1"')
                self.value(at, field.wire_type, of, nullable=False)
                self.flush()
        else:
            self.value(at, field.wire_type, of, nullable)
            self.flush()
        inner, self.out = self.out, outer
        tag = runtime.varint(field.tag or 0)
        self.write(f"{tag!r} + varint(len({inner}))")
        self.write(self.content(inner))

    def new_out(self, name: str) -> None:
        self.source.line(f"{name} = bytearray()")

    def content(self, out: str) -> str:
        """What was written there."""
        return out
