"""What is told, and what it becomes with one thing changed: as lines of text that are kept beside the tests.

A changed rule or sentence shows in the kept file as what readers and clients will see. `KOHORT_KEPT=write pytest ...`
keeps what is told now; the difference is to be read before it is committed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_GONE = object()
Way = tuple[str | int, ...]


def held(path: Path, lines: list[str]) -> None:
    """Compare with what is kept."""
    if os.environ.get("KOHORT_KEPT") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    assert lines == path.read_text().splitlines()


def told(name: str, facts: Any, tell: Callable[[Any], Any], *, within: tuple[Way, ...] = ()) -> Iterator[str]:
    """What is told of the facts, then of each single change that makes a difference.

    `within`: only what lies below these is changed.
    """
    as_it_is = _said(tell, facts)
    yield f"{name}: {as_it_is}"
    for way, value in _leaves(facts, ()):
        if within and not any(way[: len(start)] == start for start in within):
            continue
        for other in (_GONE, *_others(value)):
            said = _said(tell, _changed(facts, way, other))
            if said != as_it_is and said is not _GONE:
                how = "gone" if other is _GONE else repr(other)
                yield f"  {'.'.join(map(str, way))} {how}: {news(said, as_it_is)}"


def _said(tell: Callable[[Any], Any], facts: Any) -> Any:
    try:
        return tell(facts)
    except (KeyError, TypeError, ValueError, AttributeError):
        return _GONE  # what nobody writes need not be told


def news(said: Any, before: Any) -> Any:
    """What differs: of dicts by key, of lists by place, or what else a longer or shorter one holds."""
    if isinstance(said, dict) and isinstance(before, dict) and said.keys() == before.keys():
        return {key: news(value, before[key]) for key, value in said.items() if value != before[key]}
    if isinstance(said, list | tuple) and isinstance(before, list | tuple):
        if len(said) != len(before):
            return f"{len(said)} instead of {len(before)}: {[one for one in said if one not in before]}"
        pairs = enumerate(zip(said, before, strict=True))
        return {at: news(one, other) for at, (one, other) in pairs if one != other}
    return said


def _changed(facts: Any, way: Way, value: Any) -> Any:
    changed = facts.copy()
    if len(way) > 1:
        changed[way[0]] = _changed(facts[way[0]], way[1:], value)
    elif value is _GONE:
        del changed[way[0]]
    else:
        changed[way[0]] = value
    return changed


def _leaves(facts: Any, way: Way) -> Iterator[tuple[Way, Any]]:
    steps: Any = facts.items() if isinstance(facts, dict) else enumerate(facts) if isinstance(facts, list) else ()
    for step, value in steps:
        yield (*way, step), value
        yield from _leaves(value, (*way, step))


def _others(value: Any) -> tuple[Any, ...]:
    match value:
        case bool():
            return (not value,)
        case None:
            return (1_234,)
        case int():
            return (None, value - 1, value + 1, value * 40)
        case str():
            return (None, "another")
        case [_, *_]:
            return (None, [])
        case _:
            return (None,)
