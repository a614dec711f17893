"""What one version of a struct holds, in the order of its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.schema.wire_types import Array, Fixed, Nullable, Sized

if TYPE_CHECKING:
    from protocol.schema.wire_types import Composite, Field, WireType

BYTES_SHIFT = 9
"""So many bytes in an element of an array, 512, take as long as another element."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a struct in one version. In a flexible one it ends with a section of tagged fields."""

    cls: type[Composite]
    version: int
    flexible: bool
    plain: tuple[Field, ...]
    tagged: tuple[Field, ...]  # by tag
    absent: tuple[Field, ...]

    def of(self, cls: type[Composite]) -> Layout:
        """The layout of a struct within this one."""
        return layout(cls, self.version, self.flexible)

    def nullable(self, field: Field) -> bool:
        """Whether this field can be null in this version."""
        return field.nullable_since is not None and self.version >= field.nullable_since


def message_layout(cls: type[Composite], version: int) -> Layout:
    """The layout of a whole message."""
    return layout(cls, version, cls.flexible(version))


def layout(cls: type[Composite], version: int, flexible: bool) -> Layout:
    """Sort the declared fields of `cls` by where `version` has them."""
    here = [field for field in cls.FIELDS if field.has(version)]
    tagged = [field for field in here if field.tag is not None and version >= field.tag_since]
    assert flexible or not tagged, f"{cls.__name__} v{version} has tagged fields and is not flexible"
    return Layout(
        cls,
        version,
        flexible,
        plain=tuple(field for field in here if field not in tagged),
        tagged=tuple(sorted(tagged, key=lambda field: field.tag or 0)),
        absent=tuple(field for field in cls.FIELDS if not field.has(version)),
    )


def min_bytes(at: Layout, wire_type: WireType, nullable: bool = False) -> int:
    """The fewest bytes that a value of this type takes, for judging an array's count before anything is made of it."""
    assert not isinstance(wire_type, Nullable)
    if isinstance(wire_type, Fixed):
        return wire_type.size
    if isinstance(wire_type, Sized):
        return 1 if at.flexible else (2 if wire_type.length_code == "h" else 4)
    if isinstance(wire_type, Array):
        return 1 if at.flexible else 4
    if nullable:
        return 1
    inner = at.of(wire_type)
    return sum(min_bytes(inner, field.wire_type, inner.nullable(field)) for field in inner.plain) + at.flexible


def holds_records(at: Layout) -> bool:
    """Whether record data can stand anywhere in it."""
    for field in at.plain + at.tagged:
        inner = field.wire_type.element if isinstance(field.wire_type, Array) else field.wire_type
        if isinstance(inner, Sized) and inner.name == "Records":
            return True
        if isinstance(inner, type) and holds_records(at.of(inner)):
            return True
    return False
