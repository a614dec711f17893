"""What written-out dataclasses of the compiled tree call when their module is loaded. The pure tree does not use it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protocol.schema.wire_types import Field


def describe(pairs: Any) -> None:
    """Give each class the descriptions that `dataclasses.fields` and `replace` read. `pairs`: (class, its fields)."""
    for cls, fields in pairs:
        made = dataclasses.make_dataclass(cls.__name__, fields)
        cls.__dataclass_fields__ = made.__dataclass_fields__
        cls.__dataclass_params__ = made.__dataclass_params__
        cls.__match_args__ = made.__match_args__


def named(fields: dict[str, Any]) -> tuple[Field, ...]:
    """The declared fields of a message, each told its name."""
    for name, field in fields.items():
        field.name = name
    return tuple(fields.values())
