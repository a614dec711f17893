"""Spans of time as people write them, and waiting until something holds, in a coroutine or without one."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, TypeVar

from kohort.testing.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
Span = str | int | float
"""`"45s"`, `"1.5 min"`, `"200ms"`, `"2h"`, `"7d"`, or a number of seconds."""

_SPAN = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(ms|s|min|m|h|d)\s*")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONGEST_MS = 100 * 365 * 86_400_000
_LOOK_EVERY_S = 0.005


def _now_s() -> float:
    """Of a clock that tests leave alone: those of freezegun have `time.monotonic` stand still."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def span_ms(span: Span) -> int:
    """Milliseconds. Raises: Refused for what is no span."""
    ms = -1.0
    if isinstance(span, str):
        match = _SPAN.fullmatch(span)
        if match is not None:
            ms = float(match[1]) * _UNITS_MS[match[2]]
    elif isinstance(span, (int, float)) and not isinstance(span, bool):
        ms = span * 1_000
    if 0 <= ms <= _LONGEST_MS:
        return round(ms)
    raise Refused(
        f"{span!r} is no span of time of at most 100 years: "
        "it takes a number of seconds, or text like '45s', '200ms', '2h', '7d'"
    )


class Missed(Exception):
    """What is waited for does not hold (yet); the message says what there is instead."""


def wait(look: Callable[[], T], within: Span) -> T:
    """What `look` returns once it does not raise `Missed`. Raises: AssertionError with what was missed last."""
    deadline_s = _now_s() + span_ms(within) / 1_000
    while True:
        try:
            return look()
        except Missed as missed:
            if _now_s() >= deadline_s:
                raise AssertionError(str(missed)) from None
        time.sleep(_LOOK_EVERY_S)


async def wait_async(look: Callable[[], T], within: Span) -> T:
    """As `wait`, and the event loop goes on meanwhile: asyncio's or trio's."""
    deadline_s = _now_s() + span_ms(within) / 1_000
    while True:
        try:
            return look()
        except Missed as missed:
            if _now_s() >= deadline_s:
                raise AssertionError(str(missed)) from None
        await _pause()


async def _pause() -> None:
    import sys  # noqa: PLC0415

    trio = sys.modules.get("trio")
    if trio is not None and _in_trio(trio):
        await trio.sleep(_LOOK_EVERY_S)
        return
    import asyncio  # noqa: PLC0415  who waits so has it already

    await asyncio.sleep(_LOOK_EVERY_S)


def _in_trio(trio: object) -> bool:
    try:
        trio.lowlevel.current_task()  # type: ignore[attr-defined]  # it is not required
    except RuntimeError:
        return False
    return True
