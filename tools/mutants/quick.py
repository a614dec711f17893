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
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, chdir, contextmanager, suppress
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from functools import partial
from itertools import count, islice
from multiprocessing import Pipe
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from tools.mutants.__main__ import PAGE, Score, draw, listed
from tools.mutants.forked import Request, statement_lines
from tools.mutants.parts import FOR_CI, ROOMS, Part
from tools.mutants.workplace import ROOT, sides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
    part: Part
    was: str
    becomes: str
    code: str

    @property
    def listed_as(self) -> tuple[str, str, str]:
        """As docs/mutants.md lists those that change nothing."""
        return self.name.partition("#")[0], self.was, self.becomes

    @property
    def function(self) -> str:
        """Its name in its module."""
        return self.listed_as[0].removeprefix(f"{self.file.removesuffix('.py').replace('/', '.')}.")


def faults(parts: Sequence[Part]) -> dict[str, Callable[[], Fault]]:
    """Every mutant of these modules by name, as mutmut makes them: of functions that have no decorators."""
    # Of an extra of its own, so that the tests of this tool do without it.
    import libcst  # noqa: PLC0415
    from mutmut.configuration import config  # noqa: PLC0415
    from mutmut.mutation.file_mutation import create_mutations  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as place, chdir(place):
        Path("setup.cfg").write_text("[mutmut]\nsource_paths = .\n")
        config()  # it reads its settings once, where it stands

    def fault(name: str, file: str, part: Part, module: libcst.Module, mutation: Any) -> Fault:
        code = module.deep_replace(mutation.original_node, mutation.mutated_node).code
        return Fault(name, file, part, *difference(module.code, code), code)

    made: dict[str, Callable[[], Fault]] = {}
    for file, part in ((file, one) for one in parts for file in one.paths):
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
                made[name] = partial(fault, name, file, part, module, mutation)
    return made


_STRICT = re.compile(r",? ?strict=(True|False|None)")
_CAST = re.compile(r"(?<=\bcast\()(\"[^\"]*\"|None)")


def changes_nothing(was: str, becomes: str) -> bool:
    """Does it only take away what says what is always so: `strict=True` of `zip`, or the type of a `cast`?

    As an `assert` does, which mutmut leaves alone.
    """
    first, second = (_CAST.sub("", _STRICT.sub("", side)).replace(", )", ")") for side in (was, becomes))
    return first == second and was != becomes and ("strict=True" in was or "cast(" in was)


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


def _words(tree: Path, tests: Sequence[str]) -> list[str]:
    words = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-profile=ci", *tests]
    return ["-o", f"pythonpath={tree} {ROOT}", *words]


def _environment(tree: Path, files: Path) -> dict[str, str]:
    files.mkdir(exist_ok=True)
    own = {"KOHORT_PURE": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree), "TMPDIR": str(files)}
    return os.environ | own


def run(tree: Path, tests: Sequence[str], limits: Limits) -> tuple[Outcome, bytes]:
    """What tests make of a copy, and what they said. Nothing that they began or wrote is left."""
    files = tree.with_name(f"{tree.name}-tmp")
    environment = _environment(tree, files)
    command = [sys.executable, "-c", _LIMITED, str(limits.cpu_s), *_words(tree, tests)]
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


def copy(tree: Path, tops: Iterable[str]) -> None:
    """These packages, compiled: then only the module of a mutant is compiled anew."""
    for top in tops:
        shutil.copytree(ROOT / top, tree / top, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(tree / top, quiet=1)


class Bench:
    """A copy of the packages, in which one fault at a time is planted, and the processes that hold tests against it."""

    def __init__(self, tree: Path, tops: Iterable[str]) -> None:
        self._tree = tree
        self._forks: dict[tuple[str, ...], Forked] = {}
        self._limits: dict[Part, Limits] = {}
        copy(tree, tops)

    def _limits_of(self, part: Part) -> Limits:
        """What a part's tests may take with a fault in it. They must pass without one, which stands here now."""
        began = time.monotonic()
        became, said = run(self._tree, part.tests, WITHOUT_A_FAULT)
        if became is not Outcome.SURVIVED:
            sys.exit(f"{said[-5_000:].decode(errors='replace')}\nwithout a fault: {became}, {' '.join(part.files)}")
        return Limits.beyond(float(said.rpartition(b"cpu_s ")[2]), time.monotonic() - began)

    def in_forks(self, fault: Fault) -> Outcome:
        """What those tests make of it that find most. They do not see all, so what survives is not done with."""
        first = fault.part.first
        if not first:
            return Outcome.SURVIVED
        if first not in self._forks:
            self._forks[first] = Forked(self._tree, first, len(self._forks))
        place = self._tree / fault.file
        before = place.read_text()
        with self._planted(place, fault.code):
            return self._forks[first].outcome_of(fault, before)

    def outcome_of(self, fault: Fault) -> Outcome:
        """What all tests of its part make of it, in a fresh process."""
        part = fault.part
        if part not in self._limits and not part.first:
            self._limits[part] = self._limits_of(part)
        with self._planted(self._tree / fault.file, fault.code):
            became, said = run(self._tree, part.tests, self._limits.get(part, WITHOUT_A_FAULT))
        # What survives has shown itself that they pass; else they must do so without it.
        if became is not Outcome.SURVIVED and part not in self._limits:
            self._limits[part] = self._limits_of(part)
        if became is Outcome.UNKNOWN:
            print(said[-2_000:].decode(errors="replace"), file=sys.stderr, flush=True)
        return became

    @staticmethod
    @contextmanager
    def _planted(place: Path, code: str) -> Iterator[None]:
        before = place.read_text()
        cached = Path(importlib.util.cache_from_source(str(place)))
        try:
            cached.unlink(missing_ok=True)
            place.write_text(code)
            yield
        finally:
            place.write_text(before)

    def close(self) -> None:
        """End its processes."""
        for one in self._forks.values():
            one.close()


class Forked:
    """A process that has these tests, and lets forks of itself run them: `forked.py`."""

    def __init__(self, tree: Path, tests: Sequence[str], number: int) -> None:
        self._line, line = Pipe()
        self._said = tree.with_name(f"{tree.name}-{number}-said")
        command = [sys.executable, "-m", "tools.mutants.forked", str(line.fileno()), str(tree), *_words(tree, tests)]
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=_environment(tree, tree.with_name(f"{tree.name}-{number}-tmp")),
                pass_fds=[line.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        line.close()
        code, cpu_s = self._answer()
        if code:
            sys.exit(f"{self._said.read_text()[-5_000:]}\nwithout a fault: {code}, {' '.join(tests)}")
        self._limits = Limits.beyond(cpu_s, cpu_s)

    def outcome_of(self, fault: Fault, before: str) -> Outcome:
        """What they make of a fault that lies in the tree; `before` is what its module was."""
        lines = statement_lines(before, fault.code)
        self._line.send(Request(fault.file, fault.function, lines, self._limits.cpu_s, self._limits.wait_s))
        return outcome(self._answer(), b"")

    def _answer(self) -> Any:
        try:
            return self._line.recv()
        except EOFError:
            sys.exit(f"{self._said.read_text()[-5_000:]}\nit ended")

    def close(self) -> None:
        """End it, and the fork that is at work."""
        self._process.terminate()
        self._process.wait()
        self._line.close()


@contextmanager
def _lent(benches: SimpleQueue[Bench]) -> Iterator[Bench]:
    bench = benches.get()
    try:
        yield bench
    finally:
        benches.put(bench)


def measure(name: str, size: int, seed: int, processes: int) -> float:
    """The share that was found; those that were not are printed."""
    excused = listed(PAGE.read_text())
    every = faults(ROOMS[name])
    drawn = (every[one]() for one in draw(every, 0, seed))
    sample = list(
        islice(
            (one for one in drawn if one.listed_as not in excused and not changes_nothing(one.was, one.becomes)),
            size or None,
        )
    )
    with (
        tempfile.TemporaryDirectory(prefix="kohort-mutants-") as place,
        ThreadPoolExecutor(processes) as pool,
        ExitStack() as closing,  # first, so that no thread waits for a process
    ):
        Path(place).chmod(0o711)  # a test has another user look into folders of its own, which are below
        benches: SimpleQueue[Bench] = SimpleQueue()
        tops = sorted({pattern.partition("/")[0] for part in ROOMS[name] for pattern in part.files})
        every_bench = [Bench(Path(place, str(number)), tops) for number in range(processes)]
        for bench in every_bench:
            closing.callback(bench.close)
            benches.put(bench)

        def in_forks(fault: Fault) -> Outcome:
            with _lent(benches) as bench:
                return bench.in_forks(fault)

        def outcome_of(fault: Fault) -> Outcome:
            with _lent(benches) as bench:
                return bench.outcome_of(fault)

        counts = Counter[Outcome]()
        left = []
        for fault, became in zip(sample, pool.map(in_forks, sample), strict=True):
            if became in {Outcome.FOUND, Outcome.ENDLESS}:
                _count(counts, became, fault)
            else:
                left.append(fault)
            if fault.part.first:
                print(f"{name}: {_told(counts)} and {len(left)} left by the first tests", file=sys.stderr, flush=True)
        for fault, became in zip(left, pool.map(outcome_of, left), strict=True):
            _count(counts, became, fault)
            print(f"{name}: {_told(counts)} of {len(sample)}", file=sys.stderr, flush=True)
    score = Score(counts[Outcome.FOUND] + counts[Outcome.ENDLESS], len(sample), 0)
    low, high = score.bounds
    print(
        f"{name}: {score.found} of {score.tried} found (95 %: {low:.1%} to {high:.1%}; seed {seed}; {_told(counts)}), "
        f"of {len(every)} that there are",
        flush=True,
    )
    return score.share


def _count(counts: Counter[Outcome], became: Outcome, fault: Fault) -> None:
    counts[became] += 1
    if became is not Outcome.FOUND:
        print(f"{became}: {fault.name}\n  - {fault.was}\n  + {fault.becomes}", flush=True)


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
