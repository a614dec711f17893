"""Curves as an SVG that a page can show: panels side by side, logarithmic axes, no dependency."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 400, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 52, 40
COLOURS = ("#1f6fb4", "#d1661a", "#3a8a3a")
COLUMNS = 2
_LEAST = 0.01  # nothing is at the foot of a logarithmic axis


@dataclass
class Panel:
    """A question: what is on its axes, and for each line its name and its (x, y)s."""

    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]]


def svg(panels: Sequence[Panel]) -> str:
    """All panels in one picture."""
    rows = math.ceil(len(panels) / COLUMNS)
    body = [
        f'<g transform="translate({at % COLUMNS * WIDTH},{at // COLUMNS * HEIGHT})">{_panel(panel)}</g>'
        for at, panel in enumerate(panels)
    ]
    size = f"{WIDTH * COLUMNS} {HEIGHT * rows}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _panel(panel: Panel) -> str:
    points = [(x, max(y, _LEAST)) for line in panel.lines.values() for x, y in line]
    x_low, x_high = _ends([x for x, _ in points])
    y_low, y_high = _ends([y for _, y in points])
    if y_high <= y_low * 10:
        y_low, y_high = y_low / 2, y_high * 2  # a line that is nearly flat looks flat

    def across(x: float) -> float:
        return LEFT + _share(x, x_low, x_high) * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - _share(max(y, _LEAST), y_low, y_high) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="{LEFT}" y="18" font-size="13" font-weight="bold">{escape(panel.title)}</text>']
    for x in _ticks(x_low, x_high):
        parts.append(f'<path d="M{across(x):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{_said(x)}</text>')
    for y in _ticks(y_low, y_high):
        parts.append(f'<path d="M{LEFT} {up(y):.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{_said(y)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{escape(panel.x)}</text>')
    at = LEFT
    for colour, (name, line) in zip(COLOURS, panel.lines.items(), strict=False):
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>' for x, y in line]
        parts.append(f'<text x="{at}" y="38" fill="{colour}">{escape(name)}</text>')
        at += 12 + 6 * len(name)
    parts.append(f'<text x="{WIDTH - RIGHT}" y="38" text-anchor="end">{escape(panel.y)}</text>')
    return "".join(parts)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low / 2, high * 2)


def _share(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low)


def _ticks(low: float, high: float) -> list[float]:
    """Tens; where few of them are, twos and fives too."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    tens = [10.0**power for power in powers if low <= 10.0**power <= high]
    if len(tens) >= 3:
        return tens
    return [step * 10.0**power for power in powers for step in (1, 2, 5) if low <= step * 10.0**power <= high]


def _said(value: float) -> str:
    for least, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= least:
            return f"{value / least:g}{unit}"
    return f"{value:g}"
