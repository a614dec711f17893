"""A sentence that counts says 1 record and 2 records: one helper knows how, and nobody counts beside it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.why.terms import plural
from tests.support.broker_process import ROOT

pytestmark = pytest.mark.usefixtures("parser_alone")

COUNTED = (
    *("batch", "byte", "commit", "credential", "element", "field", "file", "folder", "generation", "group", "member"),
    *("message", "move", "offset", "other", "partition", "point", "rebalance", "record", "row", "segment", "task"),
    *("time", "topic", "user"),
)
NOUN = re.compile(rf"\s*(?:[a-z]+ |[A-Z]+ )?(?:{'|'.join(COUNTED)})(?:e?s)\b")
MANY = {
    "{count} messages",  # what kafka-console-consumer says, word for word
    "{row.partition} offsets",  # two names, and not how many
    "{', '.join(KEYS[:-1])} of users",
    "{figures.PARTITIONS_SHOWN} partitions",
}


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each f-string in which a value is followed by several of something."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, rest in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(rest, ast.Constant):
                continue
            if isinstance(value.value, ast.Call) and ast.unparse(value.value.func).endswith("plural"):
                continue
            found = NOUN.match(str(rest.value)) if str(rest.value).startswith(" ") else None
            if found:
                yield node.lineno, f"{{{ast.unparse(value.value)}}}{found[0]}"


def files() -> list[Path]:
    rooms = ("pipeline", "cli")
    return [file for room in rooms for file in sorted((ROOT / room).rglob("*.py"))]


def test_a_number_and_what_it_counts_go_through_the_helper():
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in files()
        for line, text in sentences(file.read_text(encoding="utf-8"))
        if text not in MANY
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('f"{n} generations left"', ["{n} generations"]),
        ('f"{len(rows):,} more groups"', ["{len(rows)} more groups"]),
        ("f\"{plural(n, 'row')} and {m} batches\"", ["{m} batches"]),
        ("f\"{plural(n, 'record')}s\"", []),
        ('f"{place} is no place"', []),
    ],
)
def test_the_search_can_find(source: str, said: list[str]):
    assert [text for _, text in sentences(source)] == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((0, "row"), "0 rows"),
        ((1, "row"), "1 row"),
        ((2_000, "row"), "2,000 rows"),
        ((1, "batch", "batches"), "1 batch"),
        ((2, "batch", "batches"), "2 batches"),
    ],
)
def test_one_is_singular(words: tuple[int, str], said: str):
    assert plural(*words) == said
