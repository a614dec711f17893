"""A broker in a process of its own, as tests and benchmarks need it: started, killed, started again.

`Kohort` runs this repository's broker, `Kafka` runs Apache Kafka through `tools/kafka`; both take Kafka's configuration
names and have the same face, so that a test of real clients can be proven against Apache Kafka first.

    with Kohort(tmp_path, {"num.partitions": 6}) as broker:
        connect(broker.address)
        broker.kill()
        broker.start()        # the same directory, the same port
"""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")

# Quick groups: no waiting for the first rebalance, sessions of a second.
QUICK_GROUPS: Mapping[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
}

_READY = re.compile(r"ready\b.*?127\.0\.0\.1:(\d+)|127\.0\.0\.1:(\d+).*?\bready\b")


class BrokerDiedError(Exception):
    """The process ended, or was not ready by its deadline; the message ends with its last log lines."""


# Machines that CI runs on have been five times slower for minutes; what is waited for comes all the same.
PATIENCE = 4 if os.environ.get("CI") else 1


def free_port() -> int:
    """A port that nobody listens on, below the range from which the kernel takes clients' own ports.

    A restarted broker wants its port back. Were it a port of that range, a client that keeps trying to reconnect would
    sooner or later be given it as its own, and connect to itself.
    """
    for _ in range(100):
        port = random.randrange(12_000, 32_000, 2)  # The odd one above it is for Kafka's controller.
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port in a hundred tries")


def eventually(condition: Callable[[], T], *, deadline_s: float = 60.0, what: str = "", every_s: float = 0.02) -> T:
    """The first true value of `condition`. Raises: AssertionError when there is none by the deadline."""
    deadline_s *= PATIENCE
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what or condition}")
        time.sleep(every_s)


def status_bytes(pid: int, name: str) -> int:
    """What the system says of a process's memory under this name: VmHWM is its peak. Source: proc(5)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024


class BrokerProcess:
    """What `Kohort` and `Kafka` have in common. `settings` are Kafka's names; `directory` holds data and logs."""

    name = ""
    ready_within_s = 60.0 * PATIENCE
    stop_within_s = 30.0 * PATIENCE

    def __init__(
        self, directory: Path, settings: Mapping[str, object] | None = None, *, port: int | None = None
    ) -> None:
        self.directory = directory
        self.settings = dict(settings or {})
        self.port = free_port() if port is None else port
        self.start_ms = 0.0  # how long the last start took, from the process's creation to its ready line
        self.pid = 0
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """host:port for a client."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The log directory: one folder per partition."""
        return self.directory / "data"

    @property
    def log_path(self) -> Path:
        """Everything that the process printed, over all its lives."""
        return self.directory / "server.log"

    def log(self) -> str:
        """The text of `log_path` so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        """Start on the directory and wait for the ready line. Raises: BrokerDiedError."""
        raise NotImplementedError

    def stop(self) -> None:
        """SIGTERM, and wait for the end. Raises: AssertionError when it does not end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self._end(signal.SIGKILL)

    def restart(self, *, kill: bool = False) -> None:
        """End it (by SIGKILL if `kill`), and start it again on the same directory and port."""
        self.kill() if kill else self.stop()
        self.start()

    def cpu_s(self) -> float:
        """User and system time that the process has used so far, in seconds, from its own accounting."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wanted_s(self) -> float:
        """As `cpu_s`, of the threads that there are, with the time that they waited for a core which others had."""
        total_ns = 0
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it has just ended
                ran_ns, waited_ns, _ = map(int, (thread / "schedstat").read_text().split())
                total_ns += ran_ns + waited_ns
        return total_ns / 1e9

    def memory_bytes(self) -> int:
        """Resident memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def check_log(self) -> None:
        """Raises: AssertionError when the process printed what no broker of ours may print."""

    def close(self) -> None:
        """End it and look at its log: the last act of a fixture."""
        if self.pid:
            self.stop()
        self.check_log()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self.pid:
            self.kill()

    def _end(self, signal_number: int) -> None:
        raise NotImplementedError

    def _last_lines(self, count: int = 30) -> str:
        return "\n".join(self.log().splitlines()[-count:])


class Kohort(BrokerProcess):
    """This repository's broker: `python -m kohort serve`, with the tests' own interpreter."""

    name = "kohort"
    root = ROOT
    module = "kohort"

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, object] | None = None,
        *,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, settings, port=port)
        self.environment = dict(environment or {})
        self.exit_code: int | None = None
        self._started_at = 0  # characters of the log that earlier starts wrote
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """What is run."""
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
            "kohort.http.listener": "127.0.0.1:0",  # any free port: tests run side by side
            **self.settings,
        }
        words = [sys.executable, "-m", self.module, "serve"]
        for key, value in settings.items():
            words += ["--override", f"{key}={value}"]
        return words

    @property
    def http(self) -> str:
        """http://host:port, or https, of the newest start's metrics and health, once it has said so."""
        said = eventually(
            lambda: re.search(r"metrics on (https?://\S+)/metrics", self.log()[self._started_at :]),
            what="its HTTP listener",
        )
        return str(said[1])

    def start(self) -> None:
        assert self._process is None, "it runs already"
        seen = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._started_at = len(self.log())
        began = time.monotonic()
        with self.log_path.open("ab") as log:
            # A group of its own: Ctrl-C in the terminal is pytest's to handle, the broker is ended by its fixture.
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.root,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid
        with self.log_path.open("rb") as log:
            log.seek(seen)
            text = b""
            while True:
                # Asked before the log is read: what it printed before it ended is then seen.
                ended = self._process.poll() is not None
                text += log.read()
                ready = _READY.search(text.decode(errors="replace"))
                if ready:
                    break
                if ended or time.monotonic() - began > self.ready_within_s:
                    self.kill()
                    raise BrokerDiedError(f"exit code {self.exit_code}, no ready line:\n{self._last_lines()}")
                time.sleep(0.002)
        self.start_ms = (time.monotonic() - began) * 1000
        self.port = int(ready[1] or ready[2])

    def _end(self, signal_number: int) -> None:
        if self._process is None:
            return
        process, self._process, self.pid = self._process, None, 0
        process.send_signal(signal_number)
        try:
            self.exit_code = process.wait(self.stop_within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            self.exit_code = process.wait()
            raise AssertionError(f"alive {self.stop_within_s} s after SIGTERM:\n{self._last_lines()}") from None

    def check_log(self) -> None:
        text = self.log()
        start = text.find("Traceback (most recent call last)")
        assert start < 0, f"the broker printed a trace:\n{text[max(0, start - 500) : start + 3000]}"


class Kafka(BrokerProcess):
    """Apache Kafka, one node, through `tools/kafka`; `environment` may name its version and heap."""

    name = "kafka"
    stop_within_s = 90.0 * PATIENCE
    ready_within_s = 180.0 * PATIENCE  # with a JVM for the format, and tools/kafka waits for 600 s

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, object] | None = None,
        *,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, settings, port=port)
        self.environment = dict(environment or {})

    def start(self) -> None:
        began = time.monotonic()
        words = [str(ROOT / "tools" / "kafka"), "start", str(self.directory)]
        words += [f"{key}={value}" for key, value in self.settings.items()]
        started = subprocess.run(
            words,
            env={**os.environ, "KAFKA_PORT": str(self.port), **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.ready_within_s,
            check=False,
        )
        if started.returncode:
            raise BrokerDiedError(f"tools/kafka start: {started.stderr[-3000:]}")
        # From the JVM's start, by the script's own clock; formatting a new directory comes before.
        said = re.search(r"ready in (\d+) ms", started.stdout)
        self.start_ms = float(said[1]) if said else (time.monotonic() - began) * 1000
        self.pid = int((self.directory / "pid").read_text())

    def _end(self, signal_number: int) -> None:
        if self.pid:
            self.pid = 0
            verb = "kill" if signal_number == signal.SIGKILL else "stop"
            subprocess.run(
                [str(ROOT / "tools" / "kafka"), verb, str(self.directory)], check=True, timeout=self.stop_within_s
            )


KINDS: Mapping[str, type[Kohort] | type[Kafka]] = {"kohort": Kohort, "kafka": Kafka}
"""By what `--against` calls them."""


def need(*programs: str) -> None:
    """Skip the running test where one of these programs is missing; in CI that is a failure."""
    import pytest  # Benchmarks use this module too, and have no need of it.

    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"not on this machine: {', '.join(missing)}")
