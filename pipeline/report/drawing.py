"""What all figures share: texts of the data, moments, layouts. Figures are plain dicts that plotly.js draws.

No figure holds a colour of its own: `@c0` to `@c7`, `@warn`, `@ink`, `@muted`, `@grid` are names that the page
replaces, by light or dark. What colour tells is told twice, by marker, pattern or label, so that nothing is lost in
grey. Every text that comes from the data passes `text`: plotly reads a few tags in the texts it draws.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pipeline.report.data import shortened, shown_name

Figure = dict[str, Any]
STRONG = 8
"""So many series have a colour; the rest of them share a grey."""
UNNAMED: Figure = {"showlegend": False, "legendgroup": "others"}
"""In a legend the grey series are one entry: forty lines of it would leave no room for the figure."""
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "triangle-down", "cross", "x", "star")
_TICK, _ENTRY = 24, 60
_LEFT_PX = 190  # the same in all figures, so that a moment stands in the same place in each
_LEGEND_PX, _ROW_PX, _SIGN_PX = 1080, 20, 7


def text(value: object) -> str:
    """Text of the data as plotly shall show it, not read it; over-long names are cut."""
    return html.escape(shown_name(value), quote=False)


def entry(group: str) -> str:
    """A group's name in a legend."""
    return html.escape(shortened(shown_name(group), _ENTRY), quote=False)


def moment(at: datetime) -> str:
    """As plotly reads a moment. Axes have no zone: all are UTC."""
    shown = at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return shown.removesuffix(".000")


def span(ms: float | None) -> str:
    """A span as people say it."""
    if ms is None:
        return "unknown"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if abs(ms) >= size:
            return f"{ms / size:.1f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{ms:.0f} ms"


def categories(names: list[str]) -> Figure:
    """A vertical axis of names, from above to below; they are escaped already."""
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names,
        "range": [len(names) - 0.5, -0.5],
        "tickmode": "array",
        "tickvals": names,
        "ticktext": [html.escape(shortened(html.unescape(name), _TICK), quote=False) for name in names],
        "showgrid": True,
        "fixedrange": True,
    }


def time_layout(height: int, named: Sequence[object] = ()) -> Figure:
    """A layout along time. `named`: the entries of the legend, which is given rows of its own."""
    widest = max((len(str(name)) * _SIGN_PX + 50 for name in named), default=1)
    rows = -(-len(named) // max(_LEGEND_PX // widest, 1))
    return {
        "height": height + _ROW_PX * max(rows - 1, 0),
        # Room above for the buttons, below for the second line of a date; the legend adds its own.
        "margin": {"l": _LEFT_PX, "r": 16, "t": 30, "b": 44},
        "xaxis": {"type": "date", "hoverformat": "%Y-%m-%d %H:%M:%S"},
        "legend": {"orientation": "h", "x": 0, "yref": "container", "y": 0, "yanchor": "bottom"},
        "showlegend": True,
    }
