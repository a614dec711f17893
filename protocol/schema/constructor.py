"""The keyword constructor of a declared class, written out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.schema.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.schema.wire_types import Composite

OMITTED = object()


def compile_constructor(cls: type[Composite]) -> Callable[..., None]:
    """`__init__(self, *, first=default, ...)`. A list that is left out is a new one each time."""
    source = Source()
    parameters, lists = [], set()
    for field in cls.FIELDS:
        default: Any = field.default_value()
        if isinstance(default, list):
            lists.add(field.name)
            default = OMITTED
        parameters.append(f"{field.name}={source.constant(default, 'default')}")
    star = "*, " if parameters else ""
    with source.block(f"def __init__(self, {star}{', '.join(parameters)}):"):
        source.line(f'"""Every field of {cls.__name__} by its name."""')
        for field in cls.FIELDS:
            value = field.name
            if field.name in lists:
                value = f"[] if {value} is {source.constant(OMITTED, 'default')} else {value}"
            source.line(f"self.{field.name} = {value}")
    return source.function("__init__", f"constructor of {cls.__name__}")
