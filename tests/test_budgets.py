"""docs/performance.md: what its tables show to miss a budget stands in its list of what does, and nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tests.support.scenarios import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "performance.md"
LIST = "## What misses its budget here, and where the time goes"
BUDGETS = ("budget", "budget, compiled", "wanted")
RATIOS = ("ratio", "/ Kafka", "Kohort / Kafka")


class Row(NamedTuple):
    """A row of a table with budgets."""

    name: str  # as the list has it
    is_compiled: bool
    measured: str
    ratio: str
    budget: str

    @property
    def misses(self) -> bool:
        """Whether a figure of it does: of a range the worse end."""
        wanted = re.fullmatch(r"(p50 )?(<=|>=|) ?([\d.]*)( of)?( Kafka)?( \w+)?", self.budget)
        assert wanted is not None, f"{self.name}: a budget that is not read: {self.budget}"
        part, compare, number, _, of_kafka, _ = wanted.groups()
        if of_kafka or not compare:
            return least(self.ratio) < float(number or 1)
        measured = self.measured.partition("p50 ")[2] if part else self.measured
        return most(measured) > float(number) if compare == "<=" else least(measured) < float(number)


def figures(cell: str) -> list[float]:
    """The number that a cell begins with, or the two of a range."""
    found = re.match(r"([\d.,]+\d|\d)(?: to ([\d.,]+\d|\d))?", cell)
    assert found is not None, cell
    return [float(one.replace(",", "")) for one in found.groups() if one]


def most(cell: str) -> float:
    return max(figures(cell))


def least(cell: str) -> float:
    return min(figures(cell))


def rows(text: str) -> Iterator[Row]:
    """Those of all tables that have a column of budgets."""
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
        budget = next((head.index(name) for name in BUDGETS if name in head), None)
        if budget is None:
            continue
        ratio = next((head.index(name) for name in RATIOS if name in head), None)
        for cells in lines:
            if cells[budget]:
                name = cells[0].replace("commit, 1 partition,", "commit")
                told = cells[ratio] if ratio is not None else ""
                yield Row(name, "compiled" in head[1], cells[1], told, cells[budget])


def names(item: str, row: Row) -> bool:
    """Whether an item of the list is about this row: it may leave out what comes behind."""
    return re.match(re.escape(item) + r"(?![\w])", row.name) is not None


def found(text: str) -> list[tuple[str, bool]]:
    """What the list names in bold, and whether of the compiled tree."""
    items = text.partition(LIST)[2].partition("\n## ")[0]
    bold = [re.sub(r"\s+", " ", name) for name in re.findall(r"\*\*(.*?)\*\*", items, re.DOTALL)]
    return [(name.removesuffix(", compiled"), name.endswith(", compiled")) for name in bold]


def missing(text: str) -> set[tuple[str, bool]]:
    """Rows that miss their budgets and are not named."""
    items = found(text)
    return {
        (row.name, row.is_compiled)
        for row in rows(text)
        if row.misses and not any(is_compiled == row.is_compiled and names(item, row) for item, is_compiled in items)
    }


def test_what_misses_its_budget_is_listed() -> None:
    text = PAGE.read_text()
    assert len(list(rows(text))) > 40
    assert missing(text) == set()


def test_what_is_listed_misses_its_budget() -> None:
    text = PAGE.read_text()
    missed = [row for row in rows(text) if row.misses]
    for item, is_compiled in found(text):
        assert any(is_compiled == row.is_compiled and names(item, row) for row in missed), item


def test_a_row_that_misses_and_is_not_listed_is_found() -> None:
    """Ranges by their worse end, budgets in Kafka's measure, and a name that is the beginning of another."""
    table = (
        "| | Kohort | Kafka | ratio | budget |\n|---|---|---|---|---|\n"
        "| a 16 x 1 | 7.1 to 7.5 us | 9 | 0.8 | <= 7.2 |\n"
        "| a 16 x 10 | 8 us | 9 | 0.9 | <= 7 |\n"
        "| b | 1,959 /s | 1,558 /s | 1.26 | >= 1.3 of Kafka |\n"
        "| c | 1,959 /s | 1,558 /s | 1.26 | >= Kafka |\n"
        "\n| | compiled | budget, compiled |\n|---|---|---|\n| b | 8, p50 14 us | p50 <= 13 us |\n"
    )
    text = f"{table}\n{LIST}\n\n- **a 16 x 1** is slow.\n"
    assert missing(text) == {("a 16 x 10", False), ("b", False), ("b", True)}
    assert missing(f"{text}- **a 16 x 10**, **b**\n- **b, compiled**\n") == set()
