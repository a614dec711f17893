"""Tests that find most, collected once; each fault is planted into a fork, which runs those that reach its statement.

Started by `quick.py`, which holds all of a part's tests against what is not found here. Without a fault every test runs
once, and the lines that it reaches are kept, as is whether it starts a process, of which nothing is seen: such a test
is always run. First come those that found most, then the fastest: the order decides how long it takes, and nothing
else. A fault is planted by giving its function the mutated code, so what a function did while modules were imported, or
for a fixture that tests share, stays as it was.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import math
import mmap
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

FAILED, PASSED, NOT_PLANTED = 1, 0, 70
_PROCESSES = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"})
LEAST_CPU_S = 10
_MEMORY_BYTES = 6 << 30
"""What a fork may have mapped: an endless loop that keeps what it makes ends here, not the machine."""


@dataclass
class Reached:
    """What one test did without a fault."""

    lines: set[tuple[str, int]] = field(default_factory=set)
    """(file, number) of each that was run, of the tree's."""
    cpu_s: float = 0.0
    starts_processes: bool = False


@dataclass(frozen=True)
class Request:
    """Plant this function as it stands in this file of the tree."""

    file: str
    function: str
    lines: range
    """Of the statement, in the file as it was."""
    cpu_s: int
    """Of all tests; each of them may take ten times what it takes without a fault, and `LEAST_CPU_S` at least."""
    wait_s: float


def function_of(source: str, place: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """A function of a module, or a method of one of its classes."""
    *owners, name = place.split(".")
    body: Sequence[ast.stmt] = ast.parse(source).body
    for owner in owners:
        body = next((each.body for each in body if isinstance(each, ast.ClassDef) and each.name == owner), ())
    found = (each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == name)
    return next(found, None)


def statement_lines(source: str, code: str) -> range:
    """The lines of the innermost statement of `source` that `code` has otherwise, without those within it if it can."""
    lines, others = source.splitlines(), code.splitlines()
    pairs = enumerate(zip(lines, others, strict=False), 1)
    first = next((at for at, (was, becomes) in pairs if was != becomes), len(others) + 1)
    found = range(first, first + 1)
    for node in ast.walk(ast.parse(source)):  # what is within comes after what it is in
        if isinstance(node, ast.stmt) and node.lineno <= first <= (node.end_lineno or 0):
            found = range(node.lineno, (node.end_lineno or 0) + 1)
            head = getattr(node, "test", None) or getattr(node, "iter", None)
            if isinstance(head, ast.expr) and first <= (head.end_lineno or 0):
                found = range(node.lineno, (head.end_lineno or 0) + 1)
    return found


def plant(module: Any, place: str, source: str) -> bool:
    """Give a function the code and the defaults that it has in `source`; False if it cannot be told apart there."""
    node = function_of(source, place)
    *owners, name = place.split(".")
    owner = module
    for each in owners:
        owner = getattr(owner, each, None)
    there = vars(owner).get(name) if owner is not None else None
    if node is None or not isinstance(there, FunctionType):
        return False
    body: ast.stmt = node
    if owners:
        # Within a class, for the sake of `super()` and of private names.
        body = ast.ClassDef(owners[-1], [], [], [node], [])
    made: dict[str, Any] = dict(vars(module))
    flags = __future__.annotations.compiler_flag
    tree = ast.fix_missing_locations(ast.Module([body], []))
    exec(compile(tree, there.__code__.co_filename, "exec", flags, dont_inherit=True), made)
    new = vars(made[owners[-1]])[name] if owners else made[name]
    if new.__code__.co_freevars != there.__code__.co_freevars:
        return False
    there.__code__, there.__defaults__, there.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
    return True


class Forks:
    """A plugin of pytest: instead of running the tests it answers requests until the other side has gone."""

    def __init__(self, line: Connection, tree: Path) -> None:
        self._line = line
        self._tree = tree
        self._reached: list[Reached] = []
        self._finds = Counter[int]()
        self._child = 0
        self._failed = mmap.mmap(-1, 8)  # shared with the forks: the test that failed there

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Every test once without a fault, then every request in a fork of its own."""
        if session.testsfailed:
            return False
        signal.signal(signal.SIGTERM, self._ended)
        ends, line = os.pipe()
        code = self._forked(
            lambda: self._profiled(session, line), Request("", "", range(0), 1_800, 3_600.0), pipe=(ends, line)
        )
        self._line.send((code, sum(each.cpu_s for each in self._reached)))
        while True:
            try:
                request: Request = self._line.recv()
            except EOFError:
                break
            code = self._forked(lambda request=request: self._found(session, request), request)
            self._finds[int.from_bytes(self._failed[:])] += code == FAILED
            self._line.send(code)
        return True

    def _forked(self, act: Callable[[], int], limits: Request, pipe: tuple[int, int] | None = None) -> int:
        """The exit code of a fork, or less than nothing: the signal that ended it."""
        child = os.fork()
        if not child:
            code = NOT_PLANTED + 1
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.setsid()
                self._line.close()
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s, limits.cpu_s + 10))
                resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
                code = act()
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
                raise
            finally:
                os._exit(code)
        self._child = child
        if pipe:
            os.close(pipe[1])
            with Connection(pipe[0], writable=False) as answers:
                try:
                    self._reached = answers.recv()
                except EOFError:
                    self._reached = []
        ended = os.pidfd_open(child)
        code = None if select.select([ended], [], [], limits.wait_s)[0] else -signal.SIGXCPU
        os.close(ended)
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError):
                kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        self._child = 0
        for left in Path(os.environ["TMPDIR"]).iterdir():
            shutil.rmtree(left, ignore_errors=True)
        return os.waitstatus_to_exitcode(status) if code is None else code

    def _ended(self, *_: object) -> None:
        """The other side ends, while a fork is at work perhaps."""
        if self._child:
            with suppress(ProcessLookupError):
                os.killpg(self._child, signal.SIGKILL)
        os._exit(0)

    def _profiled(self, session: pytest.Session, line: int) -> int:
        reached = [Reached() for _ in session.items]
        now = reached[0]

        def audited(event: str, _: object) -> None:
            if event in _PROCESSES:
                now.starts_processes = True

        sys.addaudithook(audited)
        # Of the extra that has mutmut.
        import coverage  # noqa: PLC0415

        measured = coverage.Coverage(data_file=None, include=[f"{self._tree}/*"])
        measured.start()
        for at, (item, following) in enumerate(_in_turn(session.items)):
            now = reached[at]
            measured.switch_context(str(at))
            began = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            now.cpu_s = time.process_time() - began
        measured.stop()
        data = measured.get_data()
        for file in data.measured_files():
            place = str(Path(file).relative_to(self._tree))
            for number, contexts in data.contexts_by_lineno(file).items():
                for context in filter(None, contexts):
                    reached[int(context)].lines.add((place, number))
        with Connection(line, readable=False) as answers:
            answers.send(reached)
        return FAILED if session.testsfailed else PASSED

    def _found(self, session: pytest.Session, request: Request) -> int:
        source = (self._tree / request.file).read_text()
        module = importlib.import_module(request.file.removesuffix(".py").replace("/", "."))
        if not plant(module, request.function, source):
            return NOT_PLANTED
        wanted = {(request.file, number) for number in request.lines}
        tests = [at for at, each in enumerate(self._reached) if each.starts_processes or wanted & each.lines]
        tests.sort(key=lambda at: (-self._finds[at], self._reached[at].cpu_s))
        for at, (item, following) in zip(tests, _in_turn([session.items[at] for at in tests]), strict=True):
            _allow(max(LEAST_CPU_S, 10 * self._reached[at].cpu_s))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                self._failed[:] = at.to_bytes(8)
                return FAILED
        return PASSED


def _allow(cpu_s: float) -> None:
    """So much more, and then the process is ended."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    until = min(hard, math.ceil(time.process_time() + cpu_s))
    resource.setrlimit(resource.RLIMIT_CPU, (until, hard))


def _in_turn(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None][: len(items)], strict=True)


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as answering:
        sys.exit(pytest.main(sys.argv[3:], [Forks(answering, Path(sys.argv[2]))]))
