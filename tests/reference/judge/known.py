"""The differences that there are, each with both its values and its place: `known.txt`, beside the rows with reasons.

A row of `docs/unsupported.md` speaks of many answers in a line of prose and may be wide. So that another fault in the
same answer does not hide behind it, what it covers has to stand here as well, word by word. `make judge ARGS=--write`
writes the file anew; what is new in it is read before it is committed.

    ConsumerGroupHeartbeat error_code
      kafka  0
      kohort 111
      4.3.1 4.4.0: K39-static-again/4/v1

A place is a scenario, the number of the step, or record, counted from 1, and the version of the answer. `*`, written by
hand, is wherever a row fits: for what may be there or not, by when it was asked for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tests.reference.judge.compare import Difference

KNOWN = Path(__file__).with_name("known.txt")
WIDTH = 120

What = tuple[str, str, str, str]
"""An answer, a field, Kafka's value and ours, as `repr` has them."""
Place = tuple[str, int, int]
"""A scenario, a step, a version of the answer."""
ANYWHERE: Place = ("*", 0, 0)


def _what(difference: Difference) -> What:
    return difference.answer, difference.field, repr(difference.kafka), repr(difference.kohort)


def _place(difference: Difference) -> Place:
    return difference.scenario, difference.step, difference.version


@dataclass(slots=True)
class Known:
    """What differs, and where, by the version of Kafka that judges."""

    places: dict[What, dict[str, set[Place]]] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises: ValueError for a text of another form."""
        known = cls()
        for block in filter(None, re.split(r"\n(?=\S)", text.strip("\n"))):
            head, kafka, kohort, *where = block.splitlines()
            answer, _, name = head.partition(" ")
            by_version = known.places.setdefault((answer, name, kafka[9:], kohort[9:]), defaultdict(set))
            versions: list[str] = []
            for line in where:
                before, colon, after = line.rpartition(": ")
                versions = before.split() if colon else versions
                for place in after.split():
                    for one in versions:
                        by_version[one].add(_read_place(place))
        return known

    def text(self) -> str:
        """As `read` takes it, sorted."""
        lines = []
        for (answer, name, kafka, kohort), by_version in sorted(self.places.items()):
            versions_of: dict[Place, list[str]] = defaultdict(list)
            for version in sorted(by_version):
                for place in by_version[version]:
                    versions_of[place].append(version)
            if not versions_of:
                continue
            lines += [f"{answer} {name}", f"  kafka  {kafka}", f"  kohort {kohort}"]
            grouped: dict[str, list[Place]] = defaultdict(list)
            for place, versions in versions_of.items():
                grouped[" ".join(versions)].append(place)
            for versions_text, places in sorted(grouped.items()):
                lines += _wrapped(f"  {versions_text}:", [_place_text(place) for place in sorted(places)])
        return "\n".join(lines) + "\n"

    def has(self, difference: Difference, by: str) -> bool:
        """Whether it is known of this version of Kafka."""
        places = self.places.get(_what(difference), {}).get(by, ())
        return _place(difference) in places or ANYWHERE in places

    def gone(self, seen: Iterable[Difference], played: Collection[str], by: str) -> list[str]:
        """What is known of the scenarios that were played, and was not seen."""
        there = {(_what(difference), _place(difference)) for difference in seen}
        return [
            f"{'/'.join(map(str, place))} {' '.join(what)}"
            for what, by_version in self.places.items()
            for place in sorted(by_version.get(by, ()))
            if place[0] in played and (what, place) not in there
        ]

    def rewrite(self, seen: Iterable[Difference], played: Collection[str], by: str) -> None:
        """Put what was seen in the place of what was known of the scenarios that were played."""
        for by_version in self.places.values():
            by_version[by] = {place for place in by_version.get(by, ()) if place[0] not in played}
        for difference in seen:
            if not self.has(difference, by):
                self.places.setdefault(_what(difference), {}).setdefault(by, set()).add(_place(difference))


def _place_text(place: Place) -> str:
    scenario, step, version = place
    return "*" if place == ANYWHERE else f"{scenario}/{step}/v{version}"


def _read_place(text: str) -> Place:
    if text == "*":
        return ANYWHERE
    scenario, step, version = text.rsplit("/", 2)
    return scenario, int(step), int(version[1:])


def _wrapped(head: str, words: list[str]) -> Iterator[str]:
    line = head
    for word in words:
        if len(line) + 1 + len(word) > WIDTH and line != head:
            yield line
            line = "   "
        line += f" {word}"
    yield line
