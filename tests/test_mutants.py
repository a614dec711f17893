"""`make mutants` draws the same sample everywhere, counts it honestly, and what it excuses still stands in the code."""

from __future__ import annotations

import pytest

from tools.mutants import parts
from tools.mutants.__main__ import Score, draw, stale
from tools.mutants.quick import difference
from tools.mutants.workplace import ROOMS, ROOT, Mutant


def test_a_larger_sample_holds_the_smaller_and_what_is_new_elsewhere_hardly_moves_it():
    names = [f"m.x_f__mutmut_{at}" for at in range(400)]
    sample = draw(names, 40, 7)
    assert draw(names[::-1], 80, 7)[:40] == sample
    assert draw(names, 40, 8) != sample
    assert len(set(draw([*names, "another"], 40, 7)) & set(sample)) >= 39
    assert len(draw(names, 0, 7)) == 400


def test_the_bounds_are_wilsons():
    """Against the interval that textbooks give for 90 of 100."""
    low, high = Score(found=90, tried=104, equivalent=4).bounds
    assert (round(low, 3), round(high, 3)) == (0.826, 0.945)
    assert Score(0, 0, 0).bounds == (0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("coordinator.classic.join.x__add_member__mutmut_9", "coordinator.classic.join._add_member"),
        ("storage.files.xǁLogFileǁ__init____mutmut_10", "storage.files.LogFile.__init__"),
    ],
)
def test_a_mutant_is_told_by_its_function(name: str, place: str):
    assert Mutant(name, "survived").place == place


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_modules_and_tests(room: str):
    assert all(list(ROOT.glob(pattern)) for pattern in ROOMS[room].files)
    assert all((ROOT / path).exists() for path in (*ROOMS[room].tests, *ROOMS[room].without))


@pytest.mark.parametrize("room", parts.ROOMS)
def test_every_part_of_the_quick_tool_has_modules_and_tests(room: str):
    for part in parts.ROOMS[room]:
        assert all(list(ROOT.glob(pattern)) for pattern in part.files)
        assert all((ROOT / test.partition("::")[0]).exists() for test in part.tests)


def test_the_quick_tool_knows_every_module_once():
    for room in ("coordinator", "storage"):
        known = [path for part in parts.ROOMS[room] for path in part.paths]
        assert sorted(known) == sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(f"{room}/**/*.py"))


def test_a_fault_is_told_by_the_lines_that_differ():
    assert difference("a\nb  = 1\nc\n", "a\nb  = 2\nc\n") == ("b = 1", "b = 2")
    assert difference("a\nb\n", "a\nb\nc\n") == ("", "c")
    assert difference("a\nb\n", "a\nb\n") == ("", "")


def test_a_row_whose_line_is_no_more_is_told():
    place = "tools.mutants.workplace.Workplace.names"
    there = (place, "return sorted(self._results())", "return sorted(None)")
    gone = (place, "return sorted(nobody())", "return sorted(None)")
    nowhere = ("tools.nobody.at_all", "return", "pass")
    assert stale({there, gone, nowhere}) == [gone, nowhere]
