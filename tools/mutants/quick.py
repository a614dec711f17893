"""A few mutants of two small rooms, a fresh process for each: `make mutants-quick`, a step of CI.

`make mutants` counts first which test calls which function, which takes minutes, and has ended in a crash of CPython
before. Here each room names its tests, mutmut makes the faults and no more, and each is put into a copy of its room.
The same code has the same sample everywhere, and a test of the sample fails or does not: nothing here is chance.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from itertools import count, islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from tools.mutants.__main__ import PAGE, Score, draw, listed
from tools.mutants.parts import FOR_CI, ROOMS, Part
from tools.mutants.workplace import ROOT, sides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CPU_S = 60
"""An endless loop: a room's tests take seconds. In CPU time, of which others at work take nothing."""
WAIT_S = 900
"""Threads that wait for each other."""
_LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_S}, {CPU_S}))
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
# pytest's: tests failed, or their file has an error; the file of a test that is asked for by name has one; none failed.
_FOUND, _UNREADABLE, _SURVIVED = {1, 2, -signal.SIGXCPU, -signal.SIGKILL}, 4, 0


@dataclass(frozen=True)
class Fault:
    """One mutant: where, what was there, what it becomes, and its whole module."""

    name: str
    file: str
    tests: tuple[str, ...]
    was: str
    becomes: str
    code: str

    @property
    def listed_as(self) -> tuple[str, str, str]:
        """As docs/mutants.md lists those that change nothing."""
        return self.name.partition("#")[0], self.was, self.becomes


def faults(parts: Sequence[Part]) -> dict[str, Callable[[], Fault]]:
    """Every mutant of these modules by name, as mutmut makes them: of functions that have no decorators."""
    # Of an extra of its own, so that the tests of this tool do without it.
    import libcst  # noqa: PLC0415
    from mutmut.configuration import config  # noqa: PLC0415
    from mutmut.mutation.file_mutation import create_mutations  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as place, chdir(place):
        Path("setup.cfg").write_text("[mutmut]\nsource_paths = .\n")
        config()  # it reads its settings once, where it stands

    def fault(name: str, file: str, tests: tuple[str, ...], module: libcst.Module, mutation: Any) -> Fault:
        code = module.deep_replace(mutation.original_node, mutation.mutated_node).code
        return Fault(name, file, tests, *difference(module.code, code), code)

    made: dict[str, Callable[[], Fault]] = {}
    for file, tests in ((file, part.tests) for part in parts for file in part.paths):
        module, mutations, *_ = create_mutations(file, (ROOT / file).read_text())
        methods = {
            function: f"{each.name.value}.{function.name.value}"
            for each in module.body
            if isinstance(each, libcst.ClassDef)
            for function in each.body.body
            if isinstance(function, libcst.FunctionDef)
        }
        for mutation in mutations:
            function = mutation.contained_by_top_level_function
            if isinstance(function, libcst.FunctionDef) and not function.decorators:
                place = f"{file.removesuffix('.py').replace('/', '.')}.{methods.get(function, function.name.value)}"
                name = next(each for number in count(1) if (each := f"{place}#{number}") not in made)
                made[name] = partial(fault, name, file, tests, module, mutation)
    return made


def difference(source: str, code: str) -> tuple[str, str]:
    """What was there, and what is there now."""
    return sides(unified_diff(source.splitlines(), code.splitlines(), n=0, lineterm=""))


def fail(tree: Path, tests: Sequence[str]) -> bool:
    """Whether they fail on a copy, or do not end."""
    words = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-profile=ci", *tests]
    environment = os.environ | {"KOHORT_PURE": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    command = [sys.executable, "-c", _LIMITED, "-o", f"pythonpath={tree} {ROOT}", *words]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=WAIT_S,
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode in _FOUND or (done.returncode == _UNREADABLE and b"ERROR collecting" in done.stdout):
        return True
    if done.returncode != _SURVIVED:
        sys.exit(f"{done.stdout[-5_000:].decode()}\npytest ended with {done.returncode}")
    return False


def copy(tree: Path) -> None:
    """The packages that have mutants, compiled: then only the module of a mutant is compiled anew."""
    for top in ("coordinator", "storage"):
        shutil.copytree(ROOT / top, tree / top, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(tree / top, quiet=1)


def found(trees: SimpleQueue[Path], fault: Fault | Part) -> bool:
    """Whether a test fails with this fault; of a part: without one."""
    tree = trees.get()
    try:
        if isinstance(fault, Part):
            return fail(tree, fault.tests)
        place = tree / fault.file
        before = place.read_text()
        Path(importlib.util.cache_from_source(str(place))).unlink(missing_ok=True)
        place.write_text(fault.code)
        try:
            return fail(tree, fault.tests)
        finally:
            place.write_text(before)
    finally:
        trees.put(tree)


def measure(name: str, size: int, seed: int, processes: int) -> float:
    """The share that was found; those that were not are printed."""
    excused = listed(PAGE.read_text())
    every = faults(ROOMS[name])
    drawn = (every[one]() for one in draw(every, 0, seed))
    sample = list(islice((one for one in drawn if one.listed_as not in excused), size or None))
    with tempfile.TemporaryDirectory(prefix="kohort-mutants-") as place, ThreadPoolExecutor(processes) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(processes):
            copy(Path(place, str(number)))
            trees.put(Path(place, str(number)))
        if any(
            pool.map(
                partial(found, trees), [part for part in ROOMS[name] if {one.tests for one in sample} >= {part.tests}]
            )
        ):
            sys.exit(f"{name}: its tests fail without a fault")
        count_found = 0
        for at, was_found in enumerate(pool.map(partial(found, trees), sample)):
            count_found += was_found
            if not was_found:
                fault = sample[at]
                print(f"survived: {fault.name}\n  - {fault.was}\n  + {fault.becomes}", flush=True)
            print(f"{name}: {count_found} of the first {at + 1} found", file=sys.stderr, flush=True)
    score = Score(count_found, len(sample), 0)
    low, high = score.bounds
    print(
        f"{name}: {score.found} of {score.tried} found (95 %: {low:.1%} to {high:.1%}; seed {seed}), "
        f"of {len(every)} that there are",
        flush=True,
    )
    return score.share


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 1 if less than --at-least was found in a room."""
    parser = argparse.ArgumentParser(prog="make mutants-quick", description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)}; if none is named {' and '.join(FOR_CI)}")
    parser.add_argument("--sample", type=int, default=5, help="mutants a room, 0 for all")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    parser.add_argument("--at-least", type=float, default=60.0, help="percent to be found in every room")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(words)
    shares = {name: measure(name, options.sample, options.seed, options.processes) for name in options.rooms or FOR_CI}
    low = [name for name, share in shares.items() if share * 100 < options.at_least]
    if low:
        print(f"below {options.at_least:g} %: {', '.join(low)}", file=sys.stderr)
    return bool(low)


if __name__ == "__main__":
    sys.exit(main())
