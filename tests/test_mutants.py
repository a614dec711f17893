"""`make mutants` draws the same sample everywhere, counts it honestly, and what it excuses still stands in the code."""

from __future__ import annotations

import signal
import subprocess
import types
from pathlib import Path

import pytest

from tools.mutants import forked, parts
from tools.mutants.__main__ import Score, draw, stale
from tools.mutants.quick import Fault, Forked, Limits, Outcome, changes_nothing, difference, outcome, run
from tools.mutants.workplace import ROOMS, ROOT, Mutant

pytestmark = pytest.mark.usefixtures("parser_alone")


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


@pytest.mark.parametrize(
    ("was", "becomes", "nothing"),
    [
        ("zip(a, b, strict=True)", "zip(a, b, )", True),
        ("zip(a, b, strict=True)", "zip(a, b, strict=None)", True),
        ("zip(a, b, strict=True)", "zip(a, b, strict=False)", True),
        ("zip(a, b, strict=True)", "zip(a, strict=True)", False),
        ("zip(a, b, strict=True)", "zip(a, None, strict=True)", False),
        ("zip(a, b, strict=False)", "zip(a, b, strict=True)", False),
        ('cast("A | B", b)', "cast(None, b)", True),
        ('cast("A | B", b)', 'cast("XXA | BXX", b)', True),
        ('cast("A | B", b)', 'cast("A | B", None)', False),
        ("a, b", "a, )", False),
    ],
)
def test_what_only_says_what_is_always_so_changes_nothing(was: str, becomes: str, nothing: bool):
    assert changes_nothing(was, becomes) is nothing


SOURCE = """
LEAST = 5

class Room:
    def __init__(self, size=LEAST, *, name="a"):
        self.size = size

    def fits(self, one):
        if (
            one < self.size
        ):
            return True
        for each in range(
            one
        ):
            self.size += each
        return False

def size(of):
    return of
"""


@pytest.mark.parametrize(
    ("was", "becomes", "lines"),
    [
        ("size = size", "size = None", range(6, 7)),
        ("one < self.size", "one <= self.size", range(9, 11)),
        ("return True", "return False", range(12, 13)),
        ("            one\n        )", "            None\n        )", range(13, 16)),
        ("+= each", "-= each", range(16, 17)),
        ("size=LEAST", "size=None", range(5, 7)),
        ("return of", "return None", range(20, 21)),
        ("LEAST = 5", "LEAST = 5", range(21, 22)),  # nothing differs, so nothing is reached
    ],
)
def test_the_tests_that_may_find_a_fault_are_those_that_reach_its_statement(was: str, becomes: str, lines: range):
    assert forked.statement_lines(SOURCE, SOURCE.replace(was, becomes, 1)) == lines


def test_a_fault_is_planted_into_the_function_that_everybody_has_already():
    module = types.ModuleType("room")
    exec(compile(SOURCE, "room.py", "exec"), vars(module))
    size, room, fits = module.size, module.Room, module.Room.fits
    assert forked.plant(module, "size", SOURCE.replace("return of", "return of + 1"))
    assert size(1) == 2
    changed = SOURCE.replace("one < self.size", "one > self.size").replace('name="a"', 'name="b"')
    assert forked.plant(module, "Room.fits", changed)
    assert fits(room(), 6)
    assert room.__init__.__kwdefaults__ == {"name": "a"}
    assert forked.plant(module, "Room.__init__", SOURCE.replace('name="a"', 'name="b"').replace("=LEAST", "=LEAST + 1"))
    assert room.__init__.__kwdefaults__ == {"name": "b"}
    assert room().size == 6
    assert not forked.plant(module, "Room.nobody", SOURCE)
    assert not forked.plant(module, "nobody", SOURCE)


def test_a_row_whose_line_is_no_more_is_told():
    place = "tools.mutants.workplace.Workplace.names"
    there = (place, "return sorted(self._results())", "return sorted(None)")
    gone = (place, "return sorted(nobody())", "return sorted(None)")
    nowhere = ("tools.nobody.at_all", "return", "pass")
    assert stale({there, gone, nowhere}) == [gone, nowhere]


@pytest.mark.parametrize(
    ("code", "said", "what"),
    [
        (0, b"", Outcome.SURVIVED),
        (1, b"", Outcome.FOUND),
        (2, b"", Outcome.FOUND),
        (4, b"ERROR collecting tests/test_a.py", Outcome.FOUND),
        (4, b"file or directory not found", Outcome.UNKNOWN),
        (-signal.SIGXCPU, b"", Outcome.ENDLESS),
        (-signal.SIGKILL, b"", Outcome.UNKNOWN),
        (-signal.SIGSEGV, b"", Outcome.UNKNOWN),
    ],
)
def test_only_what_a_test_has_said_is_found(code: int, said: bytes, what: Outcome):
    """Who is killed from outside, for want of memory say, has found nothing."""
    assert outcome(code, said) is what


def test_what_is_endless_depends_on_what_the_tests_take_without_a_fault():
    assert Limits.beyond(2.1, 4) == Limits(30, 900)
    assert Limits.beyond(50.2, 100) == Limits(251, 2_000)


@pytest.mark.slow
@pytest.mark.parametrize("ends", [False, True])
def test_a_run_leaves_nothing_behind(tmp_path: Path, ends: bool):
    """No file and no process of its tests, however it ends."""
    marker = f"{tmp_path.name}-{ends}"
    test = tmp_path / "test_left.py"
    test.write_text(
        "import subprocess, sys, tempfile\n"
        "def test_it():\n"
        f"    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)', {marker!r}])\n"
        "    tempfile.mkdtemp()\n"
        f"    while not {ends}: pass\n"
    )
    tree = tmp_path / "tree"
    tree.mkdir()
    became, _ = run(tree, [str(test)], Limits(5, 120))
    assert became is (Outcome.SURVIVED if ends else Outcome.ENDLESS)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["test_left.py", "tree"]
    assert subprocess.run(["pgrep", "-f", marker], check=False, capture_output=True).stdout == b""


@pytest.mark.slow
def test_faults_that_lie_in_a_tree_are_found_by_forks_of_one_process(tmp_path: Path):
    """Each by the tests that reach it alone, and the next fork knows nothing of the one before."""
    pytest.importorskip("coverage", reason="comes with mutmut")
    source = "def double(x):\n    return 2 * x\n\ndef negated(x):\n    return -x\n"
    test = tmp_path / "test_room.py"
    test.write_text("import room\ndef test_it():\n    assert room.double(2) == 4\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "room.py").write_text(source)
    forks = Forked(tree, [str(test)], 0)
    became = []
    for function, was, becomes in (("double", "2 * x", "3 * x"), ("negated", "-x", "x"), ("double", "2 * x", "x * 2")):
        code = source.replace(was, becomes)
        (tree / "room.py").write_text(code)
        fault = Fault(f"room.{function}#1", "room.py", parts.Part((), ()), was, becomes, code)
        became.append(forks.outcome_of(fault, source))
    forks.close()
    assert became == [Outcome.FOUND, Outcome.SURVIVED, Outcome.SURVIVED]
