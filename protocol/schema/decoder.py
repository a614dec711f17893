"""Decoders: for each message and version straight-line Python over precompiled `struct.Struct`s.

Neighbouring fields of fixed size, the length that follows them included, are read by one `unpack_from`. Structs within
the message are read in place, without a call. `p` is the position, `size` the end of the buffer; nothing is made before
its length or count was held against `size`.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

from protocol.errors import LongMessage, ProtocolError
from protocol.schema import ahead, runtime
from protocol.schema.layout import BYTES_SHIFT, Layout, holds_records, message_layout, min_bytes
from protocol.schema.source import Source
from protocol.schema.wire_types import Array, Fixed, Nullable, Sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.schema.wire_types import Composite, Field, WireType

_RUNTIME = {
    "new": ahead.new,
    "unpack_array": struct.unpack_from,
    "StructError": struct.error,
    "ProtocolError": ProtocolError,
    "LongMessage": LongMessage,
    **{
        function.__name__: function
        for function in (
            runtime.long_varint,
            runtime.long_string,
            runtime.skip_tagged_fields,
            runtime.past_end,
            runtime.bad_count,
            runtime.bad_tag_size,
        )
    },
}


def compile_decoder(
    cls: type[Composite], version: int, most_elements: int | None = None
) -> Callable[[bytes, int], tuple[Any, int]]:
    """`decode(buffer, position) -> (message, end)`. It raises ProtocolError and nothing else.

    With `most_elements` also LongMessage, before it makes more elements of arrays than that; bytes in an element are
    one more for each 512 of them.
    """
    written = ahead.decoder(cls, version, most_elements)
    if written is not None:
        return written
    source = decoder_source(cls, version, most_elements)
    again = partial(decoder_source, cls, version, most_elements)
    return source.function("decode", f"decoder of {cls.__name__} v{version}", again)


def decoder_source(cls: type[Composite], version: int, most_elements: int | None = None) -> Source:
    """What `compile_decoder` compiles; `.text()` is there to be read."""
    writer = _Decoder(cls, version, most_elements)
    return writer.source


class _Decoder:
    """Writes one decoder. What is written ahead for a compiler (`tools/compiled`) differs where a method says so."""

    source_type = Source

    def __init__(self, cls: type[Composite], version: int, most_elements: int | None) -> None:
        self.limited = most_elements is not None
        self.arrays = 0  # that what is written now is in
        self.source = self.source_type()
        self.source.names.update(_RUNTIME)
        self.run: list[tuple[str, str]] = []  # (struct code, where it goes): fixed-size fields not yet written
        self.run_bytes = 0
        self.function(message_layout(cls, version), most_elements)

    def function(self, at: Layout, most_elements: int | None) -> None:
        source = self.source
        with source.block("def decode(buffer, p):"):
            source.line("size = len(buffer)")
            with source.block("try:"):
                self.body(at, most_elements)
            self.refusals(at)

    def body(self, at: Layout, most_elements: int | None) -> None:
        source = self.source
        if most_elements is not None:
            source.line(f"room = {most_elements}")
        if holds_records(at):
            source.line("view = memoryview(buffer)")
        self.struct(at, "m")
        self.flush()
        source.line("return m, p")

    def refusals(self, at: Layout) -> None:
        """What follows the `try`."""
        source, title = self.source, f"{at.cls.__name__} v{at.version}"
        with source.block("except (StructError, IndexError):"):
            source.line(f'raise ProtocolError(f"{title} is cut off: the frame ends at {{size}}") from None')
        with source.block("except UnicodeDecodeError as error:"):
            source.line(f'raise ProtocolError(f"{title}: {{error}}") from None')

    def made(self, cls: str) -> str:
        """An instance whose fields are all about to be set."""
        return f"new({cls})"

    # Runs of fixed-size fields

    def fixed(self, code: str, size: int, target: str) -> None:
        self.run.append((code, target))
        self.run_bytes += size

    def flush(self) -> None:
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        if codes == "B":
            self.source.line(f"{targets} = buffer[p]")
        else:
            unpack = self.source.layout(codes, "unpack_from")
            self.source.line(f"{targets}{',' if len(self.run) == 1 else ''} = {unpack}(buffer, p)")
        self.source.line(f"p += {self.run_bytes}")
        self.run, self.run_bytes = [], 0

    def length(self, at: Layout, code: str, long_form: str) -> tuple[str, str]:
        """Read a length or count; (its local name, the expression for what it says). Negative is null."""
        name = self.source.fresh("n")
        if not at.flexible:
            self.fixed(code, 2 if code == "h" else 4, name)
            self.flush()
            return name, name
        self.fixed("B", 1, name)
        self.flush()
        with self.source.block(f"if {name} > 127:"):
            self.source.line(f"{name}, p = {long_form}(buffer, p, {name})")
        return name, f"{name} - 1"

    # Structs and their fields

    def struct(self, at: Layout, target: str) -> None:
        """Read a struct into the new local `target`."""
        source = self.source
        source.line(f"{target} = {self.made(source.constant(at.cls, at.cls.__name__))}")
        for field in at.absent + at.tagged:
            source.line(f"{target}.{field.name} = {self.default(field)}")
        for field in at.plain:
            self.value(at, field.wire_type, f"{target}.{field.name}", field.name, at.nullable(field))
        if at.flexible:
            self.tagged_fields(at, target)

    def default(self, field: Field) -> str:
        value = field.default_value()
        return "[]" if isinstance(value, list) else self.source.constant(value, "default")

    def value(self, at: Layout, wire_type: WireType, target: str, name: str, nullable: bool) -> None:
        """Read a value of any type into `target`."""
        assert not isinstance(wire_type, Nullable)
        if isinstance(wire_type, Fixed):
            self.fixed(wire_type.code, wire_type.size, target)
        elif isinstance(wire_type, Sized):
            self.sized(at, wire_type, target, name, nullable)
        elif isinstance(wire_type, Array):
            self.array(at, wire_type, target, name, nullable)
        else:
            self.nested(at, wire_type, target, name, nullable)

    def sized(self, at: Layout, wire_type: Sized, target: str, name: str, nullable: bool) -> None:
        is_text = wire_type.name == "String"
        n, length = self.length(at, wire_type.length_code, "long_string" if is_text else "long_varint")
        if nullable:
            with self.source.block(f"if {length} < 0:" if not at.flexible else f"if not {n}:"):
                self.source.line(f"{target} = None")
            with self.source.block("else:"):
                self.content(wire_type, target, name, length)
        else:
            self.content(wire_type, target, name, length)

    def content(self, wire_type: Sized, target: str, name: str, length: str) -> None:
        source = self.source
        end = source.fresh("end")
        source.line(f"{end} = p + {length}")
        with source.block(f"if {end} < p or {end} > size:"):
            source.line(f"raise past_end({name!r}, {length}, {end}, size)")
        if wire_type.name == "String":
            source.line(f"{target} = buffer[p:{end}].decode()")
        elif wire_type.name == "Bytes":
            if self.limited and self.arrays:
                source.take_room(f"({length}) >> {BYTES_SHIFT}")
            source.line(f"{target} = buffer[p:{end}]")
        else:
            source.line(f"{target} = view[p:{end}]")
        source.line(f"p = {end}")

    def array(self, at: Layout, wire_type: Array, target: str, name: str, nullable: bool) -> None:
        source = self.source
        _, count = self.length(at, "i", "long_varint")
        n = source.fresh("count")
        source.line(f"{n} = {count}")
        if nullable:
            with source.block(f"if {n} < 0:"):
                source.line(f"{target} = None")
            with source.block("else:"):
                self.elements(at, wire_type, target, name, n)
        else:
            self.elements(at, wire_type, target, name, n)

    def elements(self, at: Layout, wire_type: Array, target: str, name: str, n: str) -> None:
        source, element = self.source, wire_type.element
        # An element of no bytes would let a count promise anything; there is none, and max() keeps it so.
        least = max(1, min_bytes(at, element))
        with source.block(f"if {n} < 0 or {n} * {least} > size - p:"):
            source.line(f"raise bad_count({name!r}, {n}, p, size)")
        numbers = isinstance(element, Fixed) and len(element.code) == 1
        if self.limited:
            # Numbers are read all at once, in a small part of the time.
            source.take_room(f"{n} >> 5" if numbers else n)
        if isinstance(element, Fixed) and numbers:
            source.line(f'{target} = list(unpack_array(f">{{{n}}}{element.code}", buffer, p))')
            source.line(f"p += {n} * {element.size}" if element.size > 1 else f"p += {n}")
            return
        items, item = source.fresh("items"), source.fresh("item")
        source.line(f"{target} = {items} = []")
        self.arrays += 1
        with source.block(f"for _ in range({n}):"):
            if isinstance(element, type):
                self.struct(at.of(element), item)
            else:
                self.value(at, element, item, name, nullable=False)
            self.flush()
            source.line(f"{items}.append({item})")
        self.arrays -= 1

    def nested(self, at: Layout, cls: Any, target: str, name: str, nullable: bool) -> None:
        """Read a struct that is a field; in front of a nullable one stands an int8, negative for null."""
        local = self.source.fresh("struct")
        if not nullable:
            self.struct(at.of(cls), local)
            self.source.line(f"{target} = {local}")
            return
        present = self.source.fresh("present")
        self.fixed("b", 1, present)
        self.flush()
        with self.source.block(f"if {present} < 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.struct(at.of(cls), local)
            self.flush()
            self.source.line(f"{target} = {local}")

    # Tagged fields

    def tagged_fields(self, at: Layout, target: str) -> None:
        source = self.source
        n = source.fresh("tags")
        self.fixed("B", 1, n)
        self.flush()
        with source.block(f"if {n}:"):
            if not at.tagged:
                source.line(f"p = skip_tagged_fields(buffer, p, {n})")
                return
            with source.block(f"if {n} > 127:"):
                source.line(f"{n}, p = long_varint(buffer, p, {n})")
            with source.block(f"for _ in range({n}):"):
                self.tagged_field(at, target)

    def tagged_field(self, at: Layout, target: str) -> None:
        source = self.source
        tag, end = source.fresh("tag"), source.fresh("end")
        self.varint(tag)
        self.varint(end)
        with source.block(f"if {end} > size - p:"):
            source.line(f'raise past_end(f"tagged field {{{tag}}}", {end}, p + {end}, size)')
        source.line(f"{end} += p")
        for i, field in enumerate(at.tagged):
            with source.block(f"{'elif' if i else 'if'} {tag} == {field.tag}:"):
                self.tagged_value(at, field, f"{target}.{field.name}")
                with source.block(f"if p != {end}:"):
                    source.line(f"raise bad_tag_size({field.name!r}, {end}, p)")
        with source.block("else:"):
            source.line(f"p = {end}")

    def tagged_value(self, at: Layout, field: Field, target: str) -> None:
        if not isinstance(field.wire_type, type) or not at.nullable(field):
            self.value(at, field.wire_type, target, field.name, at.nullable(field))
            self.flush()
            return
        # A nullable struct says with a varint, not with an int8, whether it is there, once it is tagged.
        present = self.source.fresh("present")
        self.varint(present)
        with self.source.block(f"if {present}:"):
            self.nested(at, field.wire_type, target, field.name, nullable=False)
            self.flush()
        with self.source.block("else:"):
            self.source.line(f"{target} = None")

    def varint(self, name: str) -> None:
        self.source.line(f"{name} = buffer[p]")
        self.source.line("p += 1")
        with self.source.block(f"if {name} > 127:"):
            self.source.line(f"{name}, p = long_varint(buffer, p, {name})")
