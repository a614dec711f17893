"""How text stands in a label or a help line of both formats."""

from __future__ import annotations

ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def escaped(text: str) -> str:
    """A label's value as it stands between its quotes."""
    return text.translate(ESCAPES) if not text.isalnum() else text
