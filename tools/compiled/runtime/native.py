"""What written-out dataclasses of the compiled tree call when their module is loaded. The pure tree does not use it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protocol.schema.wire_types import Field


class _Described:
    """`__dataclass_fields__` or `__dataclass_params__` of a class, made when somebody asks: no start does."""

    def __init__(self, cls: Any, fields: Any, name: str) -> None:
        self.cls, self.fields, self.name = cls, fields, name

    def __get__(self, instance: Any, owner: Any) -> Any:
        fields = [(name, kind, _default(*default)) for name, kind, *default in self.fields]
        made = dataclasses.make_dataclass(self.cls.__name__, fields, kw_only=True)
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            setattr(self.cls, name, getattr(made, name))
        return getattr(made, self.name)


def _default(*default: Any) -> Any:
    if not default:
        return dataclasses.field()
    return dataclasses.field(default=default[0]) if len(default) == 1 else dataclasses.field(default_factory=default[1])


def describe(pairs: Any) -> None:
    """Give each class the descriptions that `dataclasses.fields` and `replace` read. `pairs`: (class, its fields)."""
    for cls, fields in pairs:
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            setattr(cls, name, _Described(cls, fields, name))
        cls.__match_args__ = tuple([field[0] for field in fields])


def named(fields: dict[str, Any]) -> tuple[Field, ...]:
    """The declared fields of a message, each told its name."""
    for name, field in fields.items():
        field.name = name
    return tuple(fields.values())
