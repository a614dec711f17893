"""Spans of time, as people write them."""

from __future__ import annotations

import re

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"\s*(\d+)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)\s*", re.IGNORECASE)


def span_ms(text: str | int) -> int:
    """Milliseconds of `90s`, `1 minute`, `2h`; a number is milliseconds already. Raises: ValueError."""
    if isinstance(text, int):
        return text
    match = _SPAN.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is no span such as 30s, 10m, 1h or 7d")
    unit = match[2].lower()
    return int(match[1]) * _UNITS_MS["ms" if unit.startswith(("ms", "milli")) else unit[0]]
