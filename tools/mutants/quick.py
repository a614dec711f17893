"""A few mutants of two small rooms, a fresh process for each: `make mutants-quick`, a step of CI.

`make mutants` counts first which test calls which function, which takes minutes, and has ended in a crash of CPython
before. Here each room names its tests, mutmut makes the faults and no more, and each is put into a copy of its room.
The same code has the same sample everywhere, and a test of the sample fails or does not: nothing here is chance.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, suppress
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from functools import partial
from itertools import count, islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from tools.mutants.__main__ import PAGE, Score, draw, listed
from tools.mutants.parts import FOR_CI, ROOMS, Part
from tools.mutants.workplace import ROOT, sides

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LIMITED = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1]) + 10))
import pytest
code = pytest.main(sys.argv[2:])
print(f"\\ncpu_s {time.process_time():.2f}", flush=True)
sys.exit(code)
"""
# pytest's: tests failed, or their file has an error; the file of a test that is asked for by name has one; none failed.
_FOUND, _UNREADABLE, _SURVIVED = {1, 2}, 4, 0


class Outcome(StrEnum):
    """What became of a mutant."""

    FOUND = "found"
    ENDLESS = "endless"
    """Its tests took far more than they do without it: found, and told apart."""
    SURVIVED = "survived"
    UNKNOWN = "unknown"
    """Killed from outside, or crashed: nothing is known, so it is not counted as found."""


@dataclass(frozen=True)
class Limits:
    """What a run of a part's tests may take before it is called endless."""

    cpu_s: int
    """CPU time, of which others at work take nothing."""
    wait_s: float
    """By the clock: threads that wait for each other take no CPU time."""

    @classmethod
    def beyond(cls, cpu_s: float, wait_s: float) -> Limits:
        """Five times what the tests took without a fault, and 30 s at least; by the clock twenty times, and 15 min."""
        return cls(max(30, math.ceil(5 * cpu_s)), max(900.0, 20 * wait_s))


WITHOUT_A_FAULT = Limits(cpu_s=600, wait_s=1_800.0)
"""Nothing is known of a part's tests yet."""


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


def outcome(code: int, said: bytes) -> Outcome:
    """What an exit code of pytest's means, or a signal."""
    if code in _FOUND or (code == _UNREADABLE and b"ERROR collecting" in said):
        return Outcome.FOUND
    if code == -signal.SIGXCPU:
        return Outcome.ENDLESS
    return Outcome.SURVIVED if code == _SURVIVED else Outcome.UNKNOWN


def run(tree: Path, tests: Sequence[str], limits: Limits) -> tuple[Outcome, bytes]:
    """What tests make of a copy, and what they said. Nothing that they began or wrote is left."""
    words = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-profile=ci", *tests]
    files = tree.with_name(f"{tree.name}-tmp")
    files.mkdir(exist_ok=True)
    environment = os.environ | {
        "KOHORT_PURE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(tree),
        "TMPDIR": str(files),
    }
    command = [sys.executable, "-c", _LIMITED, str(limits.cpu_s), "-o", f"pythonpath={tree} {ROOT}", *words]
    # To a file: a pipe would be waited for as long as a child of the tests holds it.
    with (files / "said").open("w+b") as said:
        tested = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = tested.wait(limits.wait_s)
        except subprocess.TimeoutExpired:
            code = -signal.SIGXCPU
        finally:
            with suppress(ProcessLookupError):
                os.killpg(tested.pid, signal.SIGKILL)
            tested.wait()
        said.seek(0)
        text = said.read()
    shutil.rmtree(files, ignore_errors=True)
    return outcome(code, text), text


def copy(tree: Path) -> None:
    """The packages that have mutants, compiled: then only the module of a mutant is compiled anew."""
    for top in ("coordinator", "storage"):
        shutil.copytree(ROOT / top, tree / top, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(tree / top, quiet=1)


def limits_of(trees: SimpleQueue[Path], part: Part) -> Limits:
    """What a part's tests may take with a fault in it. They must pass without one."""
    tree = trees.get()
    began = time.monotonic()
    try:
        became, said = run(tree, part.tests, WITHOUT_A_FAULT)
    finally:
        trees.put(tree)
    if became is not Outcome.SURVIVED:
        sys.exit(f"{said[-5_000:].decode(errors='replace')}\nwithout a fault: {became}, {' '.join(part.files)}")
    return Limits.beyond(float(said.rpartition(b"cpu_s ")[2]), time.monotonic() - began)


def planted(trees: SimpleQueue[Path], limits: Mapping[tuple[str, ...], Limits], fault: Fault) -> Outcome:
    """What the tests make of this fault."""
    tree = trees.get()
    place = tree / fault.file
    before = place.read_text()
    try:
        Path(importlib.util.cache_from_source(str(place))).unlink(missing_ok=True)
        place.write_text(fault.code)
        became, said = run(tree, fault.tests, limits[fault.tests])
    finally:
        place.write_text(before)
        trees.put(tree)
    if became is Outcome.UNKNOWN:
        print(said[-2_000:].decode(errors="replace"), file=sys.stderr, flush=True)
    return became


def measure(name: str, size: int, seed: int, processes: int) -> float:
    """The share that was found; those that were not are printed."""
    excused = listed(PAGE.read_text())
    every = faults(ROOMS[name])
    drawn = (every[one]() for one in draw(every, 0, seed))
    sample = list(islice((one for one in drawn if one.listed_as not in excused), size or None))
    with tempfile.TemporaryDirectory(prefix="kohort-mutants-") as place, ThreadPoolExecutor(processes) as pool:
        Path(place).chmod(0o711)  # a test has another user look into folders of its own, which are below
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(processes):
            copy(Path(place, str(number)))
            trees.put(Path(place, str(number)))
        parts = [part for part in ROOMS[name] if part.tests in {one.tests for one in sample}]
        limits = dict(zip((part.tests for part in parts), pool.map(partial(limits_of, trees), parts), strict=True))
        counts = Counter[Outcome]()
        for at, became in enumerate(pool.map(partial(planted, trees, limits), sample)):
            counts[became] += 1
            if became is not Outcome.FOUND:
                fault = sample[at]
                print(f"{became}: {fault.name}\n  - {fault.was}\n  + {fault.becomes}", flush=True)
            print(f"{name}: {_told(counts)} of the first {at + 1}", file=sys.stderr, flush=True)
    score = Score(counts[Outcome.FOUND] + counts[Outcome.ENDLESS], len(sample), 0)
    low, high = score.bounds
    print(
        f"{name}: {score.found} of {score.tried} found (95 %: {low:.1%} to {high:.1%}; seed {seed}; {_told(counts)}), "
        f"of {len(every)} that there are",
        flush=True,
    )
    return score.share


def _told(counts: Counter[Outcome]) -> str:
    return ", ".join(f"{counts[kind]} {kind}" for kind in Outcome if counts[kind])


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 1 if less than --at-least was found in a room."""
    parser = argparse.ArgumentParser(prog="make mutants-quick", description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)}; if none is named {' and '.join(FOR_CI)}")
    parser.add_argument("--sample", type=int, default=5, help="mutants a room, 0 for all")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    parser.add_argument("--at-least", type=float, default=60.0, help="percent to be found in every room")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(words)
    # As Ctrl-C does, so that the copies are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    shares = {name: measure(name, options.sample, options.seed, options.processes) for name in options.rooms or FOR_CI}
    low = [name for name, share in shares.items() if share * 100 < options.at_least]
    if low:
        print(f"below {options.at_least:g} %: {', '.join(low)}", file=sys.stderr)
    return bool(low)


if __name__ == "__main__":
    sys.exit(main())
