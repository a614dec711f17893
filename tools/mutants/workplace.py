"""Where mutmut works: a copy of the tree in build/mutants, with the faults of a room in it, and what became of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).resolve().parent.parent.parent
_TREE = ("kohort", "protocol", "coordinator", "storage", "broker", "offline", "pipeline", "cli")
_TESTED_WITH = ("tests", "tools", "benchmarks", "docs", "Makefile", "README.md")
KILLED, TIMEOUT, SURVIVED, UNTESTED = "killed", "timeout", "survived", "no tests"
_STATUS: dict[int | None, str] = {
    0: SURVIVED,
    1: KILLED,
    3: KILLED,
    5: UNTESTED,
    33: UNTESTED,
    36: TIMEOUT,
    24: TIMEOUT,
    -24: TIMEOUT,
}
# For dependencies, which we do not ask for (track_dependencies), it keeps the calls in a context variable. With that,
# three of four runs of storage's tests under CPython 3.11 ended in a segmentation fault; without it none did.
_MUTMUT = """
from mutmut.core import MutmutCallStack as calls
calls.get, calls.set, calls.reset = lambda: (None, 0), lambda value: None, lambda token: None
from mutmut.__main__ import cli
cli(prog_name="mutmut")
"""


@dataclass(frozen=True)
class Room:
    """What is mutated, and the tests that are held against it."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    first: str
    """A few mutants: while they are tried, all others are made."""
    without: tuple[str, ...] = ()
    """Tests that take longer than all others together, for one kind of fault: an error that no rule allows."""


ROOMS = {
    room.name: room
    for room in (
        Room(
            "coordinator",
            ("coordinator/*",),
            (
                *("tests/coordinator", "tests/simulation/test_shard.py", "tests/broker/groups"),
                *("tests/broker/coordinators", "tests/broker/transactions"),
            ),
            "coordinator.append_errors.*",
            without=("tests/coordinator/consumer/test_every_state_and_input.py",),
        ),
        Room(
            "storage", ("storage/*",), ("tests/storage", "tests/broker/partitions"), "storage.files.x_sync_directory*"
        ),
        Room(
            "leader",
            ("broker/coordinators/*",),
            ("tests/broker/coordinators", "tests/broker/groups", "tests/broker/transactions"),
            "broker.coordinators.placement.*",
        ),
    )
}


@dataclass(frozen=True)
class Mutant:
    """One fault, in mutmut's name, and what became of it."""

    name: str
    status: str

    @property
    def place(self) -> str:
        """The function it is in: `coordinator.classic.join.join`, `storage.files.LogFile.write`."""
        module, _, mangled = self.name.partition("__mutmut_")[0].rpartition(".")
        return f"{module}.{mangled[2:].replace('ǁ', '.')}"


class Workplace:
    """A folder of links in which mutmut makes its copy of the tree: it works in the current directory only."""

    def __init__(self, room: Room, folder: Path, processes: int) -> None:
        self.room = room
        self._folder = folder
        self._processes = processes
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*_TREE, *_TESTED_WITH, "pyproject.toml"):
            link = folder / name
            if not link.is_symlink():
                link.symlink_to(ROOT / name)
        (folder / "setup.cfg").write_text(_configuration(room))

    def names(self) -> list[str]:
        """Every mutant of the room, in a lasting order; the tree is mutated and the tests are counted if need be."""
        self._mutmut("run", "--max-children", str(self._processes), self.room.first)
        return sorted(self._results())

    def tried(self, names: Sequence[str]) -> list[Mutant]:
        """What became of these, each tried unless it was found before: tests change too."""
        found = {name for name, code in self._results().items() if _STATUS.get(code) in {KILLED, TIMEOUT}}
        unknown = [name for name in names if name not in found]
        if unknown:
            self._mutmut("run", "--max-children", str(self._processes), *unknown)
        results = self._results()
        return [Mutant(name, _STATUS.get(results[name], f"exit {results[name]}")) for name in names]

    def change(self, mutant: Mutant) -> tuple[str, str]:
        """What was there, and what it puts in its place."""
        return sides(self._mutmut("show", mutant.name).splitlines())

    def _results(self) -> dict[str, int | None]:
        codes: dict[str, int | None] = {}
        copy = self._folder / "mutants"
        for path in copy.rglob("*.meta"):
            if ROOT.joinpath(path.relative_to(copy).with_suffix("")).exists():  # else of a module that is no more
                codes |= json.loads(path.read_text())["exit_code_by_key"]
        return codes

    def _mutmut(self, *words: str) -> str:
        command = [sys.executable, "-c", _MUTMUT, *words]
        environment = os.environ | {"KOHORT_PURE": "1"}
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{done.stdout[-20_000:]}\nmutmut {words[0]} ended with {done.returncode}")
        return done.stdout


def sides(diff: Iterable[str]) -> tuple[str, str]:
    """What was there, and what is there now, of a unified diff: the lines that differ, each set as one."""
    lines = [line for line in diff if line[:1] in ("+", "-") and not line.startswith(("+++", "---"))]
    was, becomes = (" ".join(" ".join(line[1:] for line in lines if line[0] == sign).split()) for sign in "-+")
    return was, becomes


def _configuration(room: Room) -> str:
    ignored = (f"--ignore={path}" for path in room.without)
    lists: dict[str, Iterable[str]] = {
        "source_paths": _TREE,
        "only_mutate": room.files,
        "also_copy": _TESTED_WITH,
        # `ci` is Hypothesis's own profile: the same examples every time, and none of another mutant's are kept.
        "pytest_add_cli_args": ("-mnot slow", "-pno:cacheprovider", "--hypothesis-profile=ci", *ignored),
        "pytest_add_cli_args_test_selection": room.tests,
    }
    lines = ["[mutmut]", "use_git_change_detection = false", "track_dependencies = false"]
    # (seconds that the tests took + constant) * multiplier: an endless loop, not a busy machine.
    lines += ["timeout_constant = 6", "timeout_multiplier = 5"]
    for key, values in lists.items():
        lines += [f"{key} =", *(f"    {value}" for value in values)]
    return "\n".join(lines) + "\n"
