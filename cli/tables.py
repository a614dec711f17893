"""Text tables as Kafka's tools print them: columns to the left, as wide as their content, `-` for what is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The table, a line for the head and one for each row, without a newline at the end."""
    cells = [list(head), *([cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        " ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def print_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write the table to standard output, with a newline at its end."""
    print(text_table(head, rows))


def cell(value: Any) -> str:
    """One value; None and the empty text are `-`."""
    return "-" if value is None or value == "" else plain(str(value))


def plain(text: str) -> str:
    """The text with what cannot be printed escaped, `\\n`, `\\x1b`: clients choose the ids of groups and of themselves,
    and must not break lines or drive a terminal.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
