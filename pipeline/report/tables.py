"""Tables and texts of the page as HTML; whatever comes from the data is escaped here."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from pipeline.report.data import Row, shown_name

Cell = Callable[[Row], str]
Columns = Sequence[tuple[str, Cell]]
_CLASSES = {"#": "number", "@": "when", "~": "name"}


def table(rows: Sequence[Row], columns: Columns) -> str:
    """Columns whose heading begins with # are numbers, with @ moments, with ~ names, which may be long.

    The page's script sorts by them, searches, and folds what is too much to look at.
    """
    if not rows:
        return ""
    classes = [f" class={kind}" if (kind := _CLASSES.get(heading[0])) else "" for heading, _ in columns]
    head = "".join(
        f"<th{kind} scope=col>{heading.lstrip('#@~')}</th>" for kind, (heading, _) in zip(classes, columns, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{cell(row)}</td>" for kind, (_, cell) in zip(classes, columns, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def listed(items: Iterable[str]) -> str:
    """Sentences as a list; nothing for none."""
    shown = "".join(f"<li>{html.escape(item)}</li>" for item in items)
    return f"<ul>{shown}</ul>" if shown else ""


def named(name: str) -> str:
    """A name of the data."""
    return html.escape(shown_name(name))


def number(value: int | None) -> str:
    """With thousands apart; a dash for what is not known."""
    return "&ndash;" if value is None else f"{value:,}"


def when(at: datetime | None, grain: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A moment in UTC."""
    return "&ndash;" if at is None else at.astimezone(UTC).strftime(grain)


def chosen(name: str, place: int | None, first: datetime | None = None, last: datetime | None = None) -> str:
    """A group's name, as a link to what the page shows of it, and of these moments."""
    if place is None:
        return named(name)
    span = ""
    if first is not None:
        span = f' data-first="{_ms(first)}" data-last="{_ms(last or first)}"'
    return f'<a href="#group" data-choose="{place}"{span}>{named(name)}</a>'


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
