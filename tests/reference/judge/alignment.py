"""What of two lists stands beside what: the cheapest way to make the one out of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

Entry = TypeVar("Entry")

# Two entries of one key that are unequal beside each other are cheaper than both alone, and dearer than one alone.
ALONE, UNEQUAL = 2, 3


def aligned(
    left: list[Entry], right: list[Entry], key: Callable[[Entry], object]
) -> Iterator[tuple[Entry | None, Entry | None]]:
    """Pairs in order, equal ones where that can be, else of one key; None stands beside what one list alone has.

    Time and space are len(left) * len(right), but for what both begin and end with.
    """
    head = _common(left, right)
    yield from zip(left[:head], right[:head], strict=True)
    tail = _common(left[head:][::-1], right[head:][::-1])
    ends = len(left) - tail, len(right) - tail
    yield from _cheapest(left[head : ends[0]], right[head : ends[1]], key)
    yield from zip(left[ends[0] :], right[ends[1] :], strict=True)


def _common(left: list[Entry], right: list[Entry]) -> int:
    """How many entries both begin with."""
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return count


def _cheapest(
    left: list[Entry], right: list[Entry], key: Callable[[Entry], object]
) -> Iterator[tuple[Entry | None, Entry | None]]:
    def together(i: int, j: int) -> int:
        """What it costs to have these two beside each other; never less than both alone for two keys."""
        if left[i] == right[j]:
            return 0
        return UNEQUAL if key(left[i]) == key(right[j]) else 2 * ALONE + 1

    rows, columns = len(left), len(right)
    # costs[i][j]: of what is left of both from i and j on.
    costs = [[ALONE * (rows - i + columns - j) for j in range(columns + 1)] for i in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            costs[i][j] = min(together(i, j) + costs[i + 1][j + 1], ALONE + costs[i + 1][j], ALONE + costs[i][j + 1])
    i = j = 0
    while i < rows and j < columns:
        if costs[i][j] == together(i, j) + costs[i + 1][j + 1]:
            yield left[i], right[j]
            i, j = i + 1, j + 1
        elif costs[i][j] == ALONE + costs[i + 1][j]:
            yield left[i], None
            i += 1
        else:
            yield None, right[j]
            j += 1
    yield from ((entry, None) for entry in left[i:])
    yield from ((None, entry) for entry in right[j:])
