"""Python source that is written line by line and then compiled."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Source:
    """The text of one function in the making, and the values its names stand for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._depth = 0
        self._count = 0

    def line(self, text: str) -> None:
        """Add one line at the present depth."""
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add `header` and indent what follows."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def take_room(self, elements: str) -> None:
        """Have so many elements, an expression, count against `room`, those that a message may have on the loop."""
        self.line(f"room -= {elements}")
        with self.block("if room < 0:"):
            self.line("raise LongMessage")

    def fresh(self, prefix: str) -> str:
        """A local name that nothing else in this function has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, value: Any, prefix: str) -> str:
        """An expression for `value`: itself where it can be written down, otherwise a global name."""
        if value is None or type(value) in {bool, int, float, str, bytes}:
            return repr(value)
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{prefix}_{len(self.names)}"
        self.names[name] = value
        return name

    def layout(self, codes: str, method: str) -> str:
        """The global name of `struct.Struct(codes).method`, big-endian: `unpack_from` or `pack`."""
        name = f"{method}_{codes.replace('?', 't')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(f">{codes}"), method)
        return name

    def text(self) -> str:
        """The whole source so far."""
        return "\n".join(self.lines) + "\n"

    def function(self, name: str, title: str, again: Callable[[], Source] | None = None) -> Callable[..., Any]:
        """Compile it and return the function `name`. `title` stands for a file name in tracebacks.

        `again` writes it once more when a traceback or a debugger wants to show its lines: nobody keeps them meanwhile.
        """
        if again is not None:
            self.names["__name__"], self.names["__loader__"] = title, _Loader(again)
        exec(compile(self.text(), title, "exec"), self.names)
        function: Callable[..., Any] = self.names[name]
        return function


class _Loader:
    """What Python asks for the source of a module without a file (`linecache`)."""

    def __init__(self, again: Callable[[], Source]) -> None:
        self._again = again

    def get_source(self, _: str) -> str:
        return self._again().text()
