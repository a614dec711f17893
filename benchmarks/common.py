"""What the benchmark scripts share: brokers as processes, the load generator, tables.

Nothing here passes or fails: a table says what was measured, on what, and what the budget is.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers import KAFKA_VERSION, PEERS, Mock
from tests.support.broker_process import BrokerProcess, eventually
from tests.support.wire import Wire

HERE = Path(__file__).resolve().parent
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "num.partitions": 4}


@dataclass
class Row:
    """One line of a table: a question, the figure of each broker, the unit, and what we want to stay within."""

    question: str
    unit: str
    budget: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    more_is_better: bool = False
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, name: str, figures: Sequence[float]) -> None:
        """The median of a broker's rounds, and the least and the most of them."""
        self.figures[name] = median(figures)
        self.spread[name] = min(figures), max(figures)


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every script takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--against", type=_peers, default=[], metavar="PEERS",
        help="measure these too, in the same run: pure (Kohort beside the compiled one), earlier (the sources of "
        "another work tree, which EARLIER names), kafka (tools/kafka), "
        "kfake (franz-go's, in Go), mock (librdkafka's)",
    )  # fmt: skip
    parser.add_argument("--only", choices=list(PEERS), help="measure this broker alone")
    parser.add_argument("--rounds", type=int, default=3, help="every figure is the median of so many (3)")
    parser.add_argument(
        "--awake", action="store_true",
        help="have a loop at idle priority on each core: a virtual processor that halts takes longer to wake than a "
        "lone request",
    )  # fmt: skip
    parser.add_argument(
        "--one-core", action="store_true",
        help="the load generator and the brokers share one core: what a lone request costs where nobody is woken "
        "elsewhere",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="append the rows to this file, one JSON object a line")
    return parser


REAL = ("kohort", "pure", "earlier", "kafka")
"""The brokers that keep what they are given; questions about files, starts and cleaning are for them alone."""


def kinds(options: argparse.Namespace, among: Sequence[str] = REAL) -> list[type[BrokerProcess]]:
    """The brokers to measure."""
    names = [options.only] if options.only else ["kohort", *options.against]
    return [PEERS[name] for name in names if name in among]


def _peers(names: str) -> list[str]:
    unknown = set(names.split(",")) - (set(PEERS) - {"kohort"})
    if unknown:
        raise argparse.ArgumentTypeError(f"no such peer: {', '.join(sorted(unknown))}")
    return names.split(",")


def kload() -> Path:
    """The load generator, compiled when its source is newer."""
    source, program = HERE / "kload.c", HERE / ".build" / "kload"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            sys.exit("make bench needs a C compiler (`cc`) for its load generator, benchmarks/kload.c")
        program.parent.mkdir(exist_ok=True)
        subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
    return program


def load(broker: BrokerProcess, mode: str, **options: object) -> dict[str, Any]:
    """Run the load generator; return what it printed. Exits when answers carried an error."""
    host, _, port = broker.address.rpartition(":")
    words = [str(kload()), host, port, mode, *(f"{key}={value}" for key, value in options.items())]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode or not ended.stdout:
        sys.exit(f"{' '.join(words)}\n{ended.stderr}")
    answer: dict[str, Any] = json.loads(ended.stdout)
    if answer.get("errors"):
        sys.exit(f"{' '.join(words)}: {answer['errors']} answers carried an error, the last {answer['last_error']}")
    return answer


@contextlib.contextmanager
def brokers(
    options: argparse.Namespace, among: Sequence[str] = REAL, **settings: object
) -> Iterator[list[BrokerProcess]]:
    """Each kind of broker started on a fresh directory; ended and swept away afterwards."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as folder, contextlib.ExitStack() as stack:
        if options.awake:
            stack.enter_context(_awake())
        running = [
            stack.enter_context(kind(Path(folder) / kind.name, {**SETTINGS, **settings}))
            for kind in kinds(options, among)
        ]
        if options.one_core:
            stack.enter_context(_on_one_core(running))
        yield running


@contextlib.contextmanager
def _awake() -> Iterator[None]:
    words = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
    loops = [subprocess.Popen([sys.executable, "-c", words]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextlib.contextmanager
def _on_one_core(running: Sequence[BrokerProcess]) -> Iterator[None]:
    """All threads of these brokers, and whatever this process starts."""
    before = os.sched_getaffinity(0)
    core = {min(before)}
    for broker in running:
        for thread in Path(f"/proc/{broker.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has just ended
                os.sched_setaffinity(int(thread.name), core)
    os.sched_setaffinity(0, core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def create_topic(broker: BrokerProcess, name: str, partitions: int, **configs: str) -> None:
    """A topic that is there when this returns, and the offsets topic with it."""
    if isinstance(broker, Mock):
        broker.make_topic(name)
        return
    with Wire(broker.address) as wire:
        error = wire.create_topic(name, partitions, **configs)
        if error:
            sys.exit(f"{broker.name}: creating {name} answered error {error}")
        everyone = list(range(partitions))
        # Apache Kafka answers before its partitions have their leaders.
        eventually(lambda: all(code == 0 for code, _ in wire.end_offsets(name, everyone).values()), deadline_s=60)
        eventually(lambda: wire.coordinator_error("any") == 0, deadline_s=60)


def drop_from_page_cache(folder: Path) -> None:
    """Make the next reader of these files go to the disk."""
    os.sync()
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def is_compiled(broker: BrokerProcess) -> bool:
    """Whether native code answers, as its ready line says."""
    return "(compiled, " in broker.log()


def median(figures: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(figures)


def machine() -> str:
    """What was measured, and on what."""
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    revision = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=False
    ).stdout.strip()
    return (
        f"Kohort {revision or version('kohort')}, Python {platform.python_version()}, uvloop {version('uvloop')}; "
        f"Apache Kafka {KAFKA_VERSION}; {os.cpu_count()} x {cpu}, {memory:.0f} GiB, "
        f"Linux {platform.release()}; load average {os.getloadavg()[0]:.1f} at the start"
    )


def show(rows: Sequence[Row], options: argparse.Namespace) -> None:
    """Print the table, ratios where both were measured; append it to `--json`.

    In brackets: the least and the most of the rounds.
    """
    names = [kind.name for kind in kinds(options, tuple(PEERS)) if any(kind.name in row.figures for row in rows)]
    others = names[1:]
    heads = ["", *names, *(f"kohort / {name}" for name in others), "budget"]
    lines = []
    for row in rows:
        cells = [row.question]
        for name in names:
            figure = row.figures.get(name)
            low, high = row.spread.get(name, (0, 0))
            notes = [f"{shown(low)} to {shown(high)}"] if low < high else []
            if name in row.notes:
                notes.append(row.notes[name])
            more = f" ({'; '.join(notes)})" if notes else ""
            cells.append("-" if figure is None else f"{shown(figure)} {row.unit}{more}")
        for name in others:
            peer = row.figures.get(name)
            cells.append(f"{row.figures['kohort'] / peer:.2f}" if peer else "-")
        lines.append([*cells, row.budget])
    widths = [max(len(line[n]) for line in [heads, *lines]) for n in range(len(heads))]
    for line in [heads, ["-" * width for width in widths], *lines]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |")
    sys.stdout.flush()
    if options.json:
        with options.json.open("a") as file:
            for row in rows:
                said = {"question": row.question, "unit": row.unit, **row.figures, "spread": row.spread}
                file.write(json.dumps(said) + "\n")


def shown(figure: float) -> str:
    """For people."""
    return f"{figure:,.{digits(figure)}f}"


def digits(figure: float) -> int:
    """Three figures that mean something."""
    return 0 if figure >= 100 else 1 if figure >= 10 else 2
