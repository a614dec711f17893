"""What a test has given, looked at before the broker is asked: an argument of the wrong kind says what it takes."""

from __future__ import annotations

from typing import Any

from kohort.testing.errors import Refused


def text(name: str, value: Any) -> None:
    """Text, or None where nothing was said. Raises: Refused."""
    if value is not None and not isinstance(value, str):
        raise Refused(f"{name}={value!r}: it takes text")


def number(name: str, value: Any, least: int = 0) -> None:
    """A whole number, or None where nothing was said. Raises: Refused."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise Refused(f"{name}={value!r}: it takes a whole number from {least} on")
