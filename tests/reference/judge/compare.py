"""What two transcripts do not have in common, which of it is listed with a reason, and the scorecard.

`docs/unsupported.md` holds the list as a table under the heading "Answers that differ from Apache Kafka's"; its first
three columns are patterns (`*`, `?`, which stands for a space too; several separated by spaces, `|` between them in the
third would end the cell): scenarios, answers, fields. A field with `=` in it names the two values as well, Kafka's
first (`error_code=25/0`). Whoever reads the document and this module read the same table. What differs from older
versions of Kafka alone is in a table of the same kind, with a column of versions in front:
`docs/decisions/judged-by-older-versions.md`.

A row covers a difference that its patterns fit, and that is bounded (`Listed.bounds`) or stands in `known.txt`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self

from protocol.registry import APIS
from tests.reference.judge.alignment import aligned
from tests.reference.judge.known import KNOWN, Known
from tests.reference.judge.play import Step, Transcript
from tests.reference.judge.versions import NEWEST

UNSUPPORTED = Path(__file__).resolve().parents[3] / "docs" / "unsupported.md"
HEADING = "## Answers that differ from Apache Kafka's"
OLDER = UNSUPPORTED.parent / "decisions" / "judged-by-older-versions.md"
OLDER_HEADING = "## What differs from them alone"
MISSING = "(not there)"


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which the two brokers differ. `answer` is an API's name, `record` or `note`."""

    scenario: str
    answer: str
    version: int
    field: str
    kafka: Any
    kohort: Any
    step: int

    @property
    def with_values(self) -> str:
        """The field, Kafka's value and ours, as rows may name them."""
        return f"{self.field}={self.kafka}/{self.kohort}"

    def __str__(self) -> str:
        answer = f"{self.answer} v{self.version}" if self.answer in _NAMES else self.answer
        return (
            f"{self.scenario} step {self.step} {answer} {self.field}: "
            f"kafka {_short(self.kafka)}, kohort {_short(self.kohort)}"
        )


# Whether there is a message is behaviour, and told apart by the field's name (`_message_kind`); its words are not.
WORDS = ("error_message.words", "error_message.extra", "error_message.empty")


@dataclass(frozen=True, slots=True)
class Listed:
    """One row of the list: what may differ, why, and from which versions of Kafka it must."""

    scenarios: tuple[str, ...]
    answers: tuple[str, ...]
    fields: tuple[str, ...]
    reason: str
    versions: tuple[str, ...] = (NEWEST,)

    def fits(self, difference: Difference) -> bool:
        """Whether it speaks of this difference."""
        return (
            any(fnmatchcase(difference.scenario, pattern) for pattern in self.scenarios)
            and any(fnmatchcase(difference.answer, pattern) for pattern in self.answers)
            and any(_fits(pattern, difference) for pattern in self.fields)
        )

    def bounds(self, difference: Difference) -> bool:
        """Whether it says what our answer is: word by word in a pattern, or that there may be words."""
        return difference.field.endswith(WORDS) or any(
            _says_ours(pattern, difference) and _fits(pattern, difference) for pattern in self.fields
        )


def _fits(pattern: str, difference: Difference) -> bool:
    return fnmatchcase(difference.with_values if "=" in pattern else difference.field, pattern)


def _says_ours(pattern: str, difference: Difference) -> bool:
    """Whether what stands behind the last `/` is our answer, its spaces written as `?`."""
    return "=" in pattern and pattern.rpartition("/")[2].replace("?", " ") == str(difference.kohort)


@dataclass(frozen=True, slots=True)
class Rules:
    """What may differ from this version of Kafka. Without `known` a row is enough."""

    rows: list[Listed]
    known: Known | None = None
    by: str = NEWEST

    @classmethod
    def of(cls, by: str) -> Self:
        """Those of the repository."""
        rows = [row for row in listed_of_older() if by in row.versions]
        return cls(listed() + rows, Known.read(KNOWN.read_text()), by)

    def row_of(self, difference: Difference) -> int | None:
        """The index of the row that fits it; None where there is none, or another value is known."""
        for index, row in enumerate(self.rows):
            if row.fits(difference) and self._is_narrow(row, difference):
                return index
        return None

    def wide(self, verdict: Verdict) -> list[Difference]:
        """What its row does not bound: what has to be known."""
        listed = verdict.listed.items()
        return [one for index, some in listed for one in some if not self.rows[index].bounds(one)]

    def _is_narrow(self, row: Listed, difference: Difference) -> bool:
        return self.known is None or row.bounds(difference) or self.known.has(difference, self.by)


_NAMES = {api.name for api in APIS.values()}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else text[:157] + "..."


def listed(text: str | None = None) -> list[Listed]:
    """The rows of the document."""
    table = _table(UNSUPPORTED.read_text() if text is None else text, HEADING, 4)
    return [Listed(*map(_patterns, cells[:3]), reason=cells[3]) for cells in table]


def listed_of_older(text: str | None = None) -> list[Listed]:
    """The rows that hold of older versions alone."""
    table = _table(OLDER.read_text() if text is None else text, OLDER_HEADING, 5)
    return [Listed(*map(_patterns, cells[1:4]), reason=cells[4], versions=_patterns(cells[0])) for cells in table]


def _patterns(cell: str) -> tuple[str, ...]:
    return tuple(cell.replace("`", "").split())


def _table(text: str, heading: str, columns: int) -> list[list[str]]:
    """The cells of the rows under a heading, without the table's head."""
    rows = []
    for line in text.partition(heading)[2].partition("\n## ")[0].splitlines():
        if not line.startswith("|") or set(line) <= set("|- :"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == columns, f"a row of {columns} cells: {line}"
        rows.append(cells)
    return rows[1:]


def differences(scenario: str, kafka: Transcript, kohort: Transcript) -> list[Difference]:
    """Where the transcripts part, step by step and field by field."""
    found = []
    for number, (theirs, ours) in enumerate(_aligned(kafka.steps, kohort.steps), 1):
        step = theirs or ours
        assert step is not None
        answer = step.api or "note"
        if theirs is None or ours is None:
            found.append(Difference(scenario, answer, step.version, "step", _line(theirs), _line(ours), number))
            continue
        prefix = theirs.actor if not theirs.api else ""
        for field, a, b in _fields(theirs.outcome, ours.outcome, prefix):
            found.append(Difference(scenario, answer, step.version, field, a, b, number))
    return found


def _aligned(kafka: list[Step], kohort: list[Step]) -> Iterator[tuple[Step | None, Step | None]]:
    """Steps of one actor, API and version beside each other; a step that one broker alone has shifts nothing."""

    def told(steps: list[Step]) -> list[tuple[str, str, int]]:
        return [(step.actor, step.api, step.version) for step in steps]

    for kind, a, b, c, d in SequenceMatcher(None, told(kafka), told(kohort), autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(kafka[a:b], kohort[c:d], strict=True)
        else:
            yield from ((step, None) for step in kafka[a:b])
            yield from ((None, step) for step in kohort[c:d])


def record_differences(scenario: str, kafka: list[dict[str, Any]], kohort: list[dict[str, Any]]) -> list[Difference]:
    """Where the records of `__consumer_offsets` differ. One that a broker alone has is one difference."""
    found = []
    for number, (theirs, ours) in enumerate(aligned(kafka, kohort, lambda record: (record["type"], record["key"])), 1):
        for field, a, b in _fields(theirs if theirs else MISSING, ours if ours else MISSING, ""):
            found.append(Difference(scenario, "record", 0, field, a, b, number))
    return found


def _line(step: Step | None) -> str:
    return MISSING if step is None else f"{step.actor}: {step.api or 'note'} v{step.version} {step.outcome!r}"


def _fields(left: Any, right: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if type(left) is not type(right) or not isinstance(left, dict | list):
        if left != right:
            yield (
                path + _message_kind(left, right) if path.endswith("error_message") else path or "outcome",
                left,
                right,
            )
    elif isinstance(left, dict):
        for key in {**left, **right}:
            yield from _fields(left.get(key, MISSING), right.get(key, MISSING), f"{path}.{key}".lstrip("."))
    else:
        for index, (a, b) in enumerate(zip_longest(left, right, fillvalue=MISSING)):
            yield from _fields(a, b, f"{path}.{index}")


def _message_kind(theirs: Any, ours: Any) -> str:
    """Whether there is a message is behaviour, its words are not: told apart, so that the list can."""
    if theirs and ours:
        return ".words"
    if not theirs and not ours:
        return ".empty"
    return ".lacking" if theirs else ".extra"


class Verdict:
    """The differences of a whole run, against what may differ. `gone` is what is known, and was not seen."""

    def __init__(self, found: Iterable[Difference], rules: Rules, played: Collection[str] = ()) -> None:
        self.listed: dict[int, list[Difference]] = defaultdict(list)
        self.unlisted: list[Difference] = []
        for difference in found:
            index = rules.row_of(difference)
            (self.unlisted if index is None else self.listed[index]).append(difference)
        self.stale = [r for index, r in enumerate(rules.rows) if rules.by in r.versions and index not in self.listed]
        self.gone = rules.known.gone(self.all_listed, played, rules.by) if rules.known else []

    @property
    def all_listed(self) -> list[Difference]:
        """Those with a reason."""
        return [difference for some in self.listed.values() for difference in some]


def has_error(outcome: Any) -> bool:
    """Whether an answer says no: an error code somewhere, or no answer at all."""
    if isinstance(outcome, dict):
        return any((key.endswith("error_code") and value) or has_error(value) for key, value in outcome.items())
    if isinstance(outcome, list):
        return any(has_error(entry) for entry in outcome)
    return False


def coverage(transcripts: Iterable[Transcript]) -> dict[tuple[str, int], list[int]]:
    """(API, version) -> [answers without, answers with an error]."""
    counts: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for transcript in transcripts:
        for step in transcript.steps:
            if step.api and isinstance(step.outcome, dict):
                counts[step.api, step.version][has_error(step.outcome)] += 1
    return counts


def scorecard(transcripts: dict[str, Transcript], verdict: Verdict, records: int) -> str:
    """A table: each API and version with its answers, listed and unlisted differences among them."""
    counts = coverage(transcripts.values())
    wrong = Counter((d.answer, d.version) for d in _once(verdict.unlisted))
    known = Counter((d.answer, d.version) for d in _once(verdict.all_listed))
    lines = ["answers compared per API and version; ~n: n of them differ as listed, !n: n differ unlisted", ""]
    for api in APIS.values():
        first, last = api.served
        cells = []
        for version in range(first, last + 1):
            key = (api.name, version)
            cell = f"v{version}:{sum(counts.get(key, ()))}"
            cell += f"~{known[key]}" if known[key] else ""
            cell += f"!{wrong[key]}" if wrong[key] else ""
            cells.append(cell)
        lines.append(f"{api.name:<28}" + " ".join(f"{cell:<8}" for cell in cells))
    answers = sum(sum(pair) for pair in counts.values())
    others = [d for d in verdict.unlisted if d.answer in ("record", "note")]
    lines += [
        "",
        f"{len(transcripts)} scenarios, {answers} answers, {records} records of __consumer_offsets; "
        f"{len(verdict.unlisted)} unlisted differences ({len(others)} of them in records and notes), "
        f"{len(verdict.all_listed)} listed, {len(verdict.stale)} stale rows",
    ]
    return "\n".join(re.sub(r" +$", "", line) for line in lines)


def _once(found: Iterable[Difference]) -> Iterable[Difference]:
    """One difference per answer."""
    return {(d.scenario, d.step, d.answer): d for d in found}.values()
