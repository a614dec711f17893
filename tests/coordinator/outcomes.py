"""What a rule makes of an input, as text: the answers, and each record, timer, event and change of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from coordinator.outcome import Input, Outcome
from protocol.schema.declaration import Struct
from tests.support.kept import news


class Outcomes:
    """What every input has led to. What many outcomes have in common is told once, under a number."""

    def __init__(self, asked: type) -> None:
        self._asked = asked  # the class of handles that answers go to
        self._parts: dict[str, int] = {}
        self._told: list[str] = []

    def add(
        self, situation: str, before: Any, inputs: Sequence[Input], handle: Callable[[Input], Outcome[Any]]
    ) -> None:
        """Feed each of these. The rules are pure: what they are given stays as it was."""
        found: dict[str, list[int]] = {}
        for at, happening in enumerate(inputs):
            parts = self._parts_of(handle(happening), before)
            numbers = [str(self._parts.setdefault(part, len(self._parts))) for part in parts]
            found.setdefault(f"{type(happening).__name__} {' '.join(numbers)}", []).append(at)
        self._told += [f"{situation}, {what}: inputs {', '.join(map(str, of))}" for what, of in found.items()]

    def lines(self) -> list[str]:
        """The parts, then the outcomes."""
        return [*(f"{number} {part}" for part, number in self._parts.items()), *self._told]

    def _parts_of(self, outcome: Outcome[Any], before: Any) -> Iterator[str]:
        for name in ("records", "replies", "timers", "work"):
            for one in getattr(outcome, name):
                yield f"{name}: {plain(one, self._asked)}"
        for event in outcome.events:
            yield f"event: {event.kind} {event.key} {plain(event.facts, self._asked)}"
        yield f"token: {plain(outcome.token, self._asked)} {outcome.producer}"
        after = news(plain(outcome.after, self._asked), plain(before, self._asked))
        for name, change in after.items() if isinstance(after, dict) else [("", after)]:
            yield f"after: {name} {change}"


def plain(value: Any, asked: type) -> Any:
    """Without what is None or empty, and in an order that is the same in every process."""
    match value:
        case Enum():
            return value.name
        case str() if len(value) > 500:
            return f"{value[:10]}... of {len(value)}"
        case bytes() | bytearray() | str() | int() | float() | None:
            return bytes(value) if isinstance(value, bytearray) else value
        case Mapping():
            told = {str(key): plain(one, asked) for key, one in value.items()}
            return dict(sorted(told.items())) if any(isinstance(key, tuple) for key in value) else told
        case set() | frozenset():
            return sorted((plain(one, asked) for one in value), key=str)
        case list() | tuple():
            items = [plain(one, asked) for one in value]
            return sorted(items, key=str) if all(map(_is_partition, value)) else items
        case Struct():
            return _fields(value, [field.name for field in value.FIELDS], asked)
    if isinstance(value, asked):
        return "?"
    if is_dataclass(value):
        return _fields(value, [field.name for field in fields(value)], asked)
    return type(value).__name__


def _fields(value: Any, names: list[str], asked: type) -> dict[str, Any]:
    told: dict[str, Any] = {"": type(value).__name__}
    for name in names:
        one = plain(getattr(value, name), asked)
        if one is not None and one not in ([], {}):
            told[name] = one
    return told


def _is_partition(value: Any) -> bool:
    """Made of a set of (topic, partition), in whose order nothing lies."""
    return isinstance(value, tuple) and len(value) > 1 and isinstance(value[0], str) and isinstance(value[1], int)
