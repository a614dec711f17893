"""How much work a step does, as a count: a clock would tell how busy the machine is."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


def lines_of(work: Callable[[], Any]) -> tuple[int, Any]:
    """(lines of Python that `work` ran, what it returned). A loop counts its body each time round, also on one line.

    What a function written in C does inside, `sorted` for one, is one line.
    """
    lines = 0

    def count(_: FrameType, event: str, __: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        result = work()
    finally:
        sys.settrace(before)
    return lines, result


def longest_step(steps: Iterator[str]) -> tuple[int, int, str]:
    """(lines of the step that ran the most, how many steps, the whole text)."""
    longest, count, parts = 0, 0, []
    while True:
        lines, part = lines_of(lambda: next(steps, None))
        longest = max(longest, lines)
        if part is None:
            return longest, count, "".join(parts)
        count += 1
        parts.append(part)
