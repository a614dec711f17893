"""Very many histories: in processes of their own, without stopping at a failure, written down so that a run can go on.

    long_run(play, [Block("always", 50_000, 59_999)], Ledger(Path("build/simulation/played")), processes=2)

A line of the ledger is a range of seeds that were played: tree, kind, first, last, those that failed, CPU in ms. What
it names is not played again, whichever tree played it. The text of each failure lies beside it.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import chain, zip_longest
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

Play = Callable[[str, int], None]
"""Plays the history of a kind and a seed, and raises what is wrong with it. Of a module: processes import it."""

TOLD_EVERY_S = 60.0
WRITTEN_EVERY_S = 10.0
MOST_CPU_S = 300.0
"""What takes longer is a failure, too: it would never end."""


class Block(NamedTuple):
    """Seeds of one kind, `first` to `last`."""

    kind: str
    first: int
    last: int

    @property
    def count(self) -> int:
        """How many."""
        return self.last - self.first + 1


class Line(NamedTuple):
    """A block that was played."""

    tree: str
    block: Block
    failed: tuple[int, ...]
    cpu_ms: int


class Ledger:
    """The file of what was played, and the folder of what failed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failures = path.with_name(f"{path.name}.failed")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def lines(self) -> list[Line]:
        """All of it."""
        return [_line(text) for text in self.path.read_text().splitlines()]

    def write(self, line: Line) -> None:
        """Behind what others write at the same time."""
        failed = ",".join(map(str, line.failed)) or "-"
        text = "\t".join([line.tree, *map(str, line.block), failed, str(line.cpu_ms)])
        with self.path.open("a") as file:
            file.write(f"{text}\n")

    def keep(self, tree: str, kind: str, seed: int, text: str) -> None:
        """What a history failed with."""
        self.failures.mkdir(exist_ok=True)
        (self.failures / f"{kind}-{seed}-{tree}.txt").write_text(text)

    def missing(self, wanted: Iterable[Block]) -> Iterator[Block]:
        """What of these was not played by any tree."""
        played = sorted(line.block for line in self.lines())
        for kind, first, last in wanted:
            at = first
            for other in played:
                if other.kind == kind and at <= other.last and other.first <= last:
                    if at < other.first:
                        yield Block(kind, at, other.first - 1)
                    at = other.last + 1
            if at <= last:
                yield Block(kind, at, last)


def _line(text: str) -> Line:
    tree, kind, first, last, failed, cpu_ms = text.split("\t")
    seeds = () if failed == "-" else tuple(map(int, failed.split(",")))
    return Line(tree, Block(kind, int(first), int(last)), seeds, int(cpu_ms))


def long_run(play: Play, wanted: list[Block], ledger: Ledger, *, processes: int, each: int = 500) -> int:
    """Play what the ledger does not name, until SIGTERM or an interrupt; the number of failures of this run.

    A process ends after `each` histories: what they leave in memory, and in modules, ends with it.
    """
    if not __debug__:
        raise SystemExit("histories are judged by assertions: not under -O")
    with ledger.path.open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another run writes {ledger.path}") from None
        return _Run(play, wanted, ledger, each).go(processes)


class _Run:
    """The processes of one run."""

    def __init__(self, play: Play, wanted: list[Block], ledger: Ledger, each: int) -> None:
        self.play, self.wanted, self.ledger = play, wanted, ledger
        self.tree = tree()
        self.before = len(ledger.lines())
        self.waiting = _in_turn(list(ledger.missing(wanted)), each)
        self.running: dict[int, tuple[BaseProcess, Block]] = {}  # by what is ready when one ends
        self.died = 0
        self.stopping = False

    def go(self, processes: int) -> int:
        before = {sign: signal.signal(sign, self._stop) for sign in (signal.SIGTERM, signal.SIGINT)}
        told_at = time.monotonic()
        try:
            while True:
                while len(self.running) < processes and not self.stopping and self._start():
                    pass
                if not self.running:
                    break
                for ready in wait(list(self.running), timeout=1.0):
                    self._ended(ready)  # type: ignore[arg-type]
                if time.monotonic() - told_at > TOLD_EVERY_S:
                    told_at = time.monotonic()
                    self._tell()
        finally:
            for sign, handler in before.items():
                signal.signal(sign, handler)
        return self._tell() + self.died

    def _start(self) -> bool:
        block = next(self.waiting, None)
        if block is None:
            return False
        # Not a fork: nothing of this process is to be in theirs.
        process = multiprocessing.get_context("spawn").Process(
            target=_play_block, args=(self.play, block, self.ledger, self.tree)
        )
        process.start()
        self.running[process.sentinel] = process, block
        return True

    def _ended(self, ready: int) -> None:
        process, block = self.running.pop(ready)
        process.join()
        if process.exitcode and not self.stopping:
            self.died += 1
            print(f"not played to its end: {' '.join(map(str, block))} ended with {process.exitcode}", flush=True)

    def _stop(self, *_: object) -> None:
        self.stopping = True
        for process, _block in self.running.values():
            process.terminate()

    def _tell(self) -> int:
        lines = self.ledger.lines()
        mine = lines[self.before :]
        failed = [f"{line.block.kind}/{seed}" for line in mine for seed in line.failed]
        played = sum(line.block.count for line in mine)
        each_ms = sum(line.cpu_ms for line in mine) / max(played, 1)
        left = sum(block.count for block in self.ledger.missing(self.wanted))
        texts = f" ({', '.join(failed)}; see {self.ledger.failures})" if failed else ""
        print(f"{played} histories, {len(failed)} failed{texts}, {each_ms:.1f} ms of CPU each; {left} left", flush=True)
        return len(failed)


def _in_turn(blocks: list[Block], each: int) -> Iterator[Block]:
    """In pieces, the kinds in turn."""
    kinds = dict.fromkeys(block.kind for block in blocks)
    pieces = [[piece for block in blocks if block.kind == kind for piece in _pieces(block, each)] for kind in kinds]
    return (piece for piece in chain.from_iterable(zip_longest(*pieces)) if piece is not None)


def _pieces(block: Block, each: int) -> Iterator[Block]:
    for first in range(block.first, block.last + 1, each):
        yield Block(block.kind, first, min(first + each - 1, block.last))


class Endless(BaseException):
    """A history has taken far too long."""


def _play_block(play: Play, block: Block, ledger: Ledger, tree: str) -> None:
    """In a process of its own; SIGTERM lets it end after the history that it plays."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda sign, _: stopping.append(sign))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent tells us

    def endless(*_: object) -> None:
        raise Endless(f"no end after {MOST_CPU_S} seconds of CPU")

    signal.signal(signal.SIGPROF, endless)
    first, failed = block.first, list[int]()
    began_ms, written_at = _cpu_ms(), time.monotonic()
    for seed in range(block.first, block.last + 1):
        signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
        try:
            play(block.kind, seed)
        except (Exception, Endless) as error:
            failed.append(seed)
            ledger.keep(tree, block.kind, seed, "".join(traceback.format_exception(error)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        if stopping or seed == block.last or time.monotonic() - written_at > WRITTEN_EVERY_S:
            now_ms = _cpu_ms()
            ledger.write(Line(tree, Block(block.kind, first, seed), tuple(failed), now_ms - began_ms))
            first, failed = seed + 1, []
            began_ms, written_at = now_ms, time.monotonic()
        if stopping:
            break


def _cpu_ms() -> int:
    return round(1_000 * time.process_time())


def tree() -> str:
    """The commit, whether files differ from it, and whether its rules are native code."""
    here = Path(__file__).parent
    try:
        commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=here, text=True).strip()
        changed = subprocess.check_output(["git", "status", "--porcelain", "-uno"], cwd=here, text=True)
    except (OSError, subprocess.CalledProcessError):
        commit, changed = "unknown", ""
    spec = find_spec("coordinator.shard")
    compiled = spec is not None and not str(spec.origin).endswith(".py")
    return commit + "+changed" * bool(changed) + "+compiled" * compiled


def seeds(text: str) -> tuple[int, int]:
    """`17` or `100-200`."""
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def run(play: Play, kinds: Iterable[str], first: int, last: int, path: Path | None, **words: int) -> int:
    """What both commands do; without a path everything is played, and nothing kept. The exit code."""
    if path is None:
        path = Path(os.environ.get("TMPDIR", "/tmp")) / f"kohort-histories-{os.getpid()}"
    failures = long_run(play, [Block(kind, first, last) for kind in kinds], Ledger(path), **words)
    return bool(failures)
