"""What else speaks Kafka's protocol and is measured beside Kohort: fakes that keep what they keep in memory.

`kfake` is franz-go's, in Go; `mock` is librdkafka's, in C, through confluent-kafka. Neither writes to a disk, so it is
hard to be faster than they are.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer

from tests.support.broker_process import BrokerProcess, Kafka, Kohort, eventually

HERE = Path(__file__).resolve().parent

# One broker of librdkafka's mock cluster, which lives as long as a client in its process does.
_MOCK = """
import signal, sys
from confluent_kafka import Producer
client = Producer({"test.mock.num.brokers": 1, "log_level": 0})
broker = next(iter(client.list_topics(timeout=10).brokers.values()))
print(f"mock ready on {broker.host}:{broker.port}", flush=True)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
"""


class _Program(BrokerProcess):
    """A program that prints one ready line and needs no directory."""

    def command(self) -> list[str]:
        """What is run."""
        raise NotImplementedError

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = self._process.pid
        said = eventually(self._ready, what=f"the ready line of {self.name}")
        self.port = int(said[1])

    def _ready(self) -> re.Match[str] | None:
        if self._process.poll() is not None:
            sys.exit(f"{self.name} ended at once:\n{self.log()}")
        return re.search(r"ready on 127\.0\.0\.1:(\d+)", self.log())

    def _end(self, signal_number: int) -> None:
        if self.pid:
            self.pid = 0
            self._process.send_signal(signal_number)
            self._process.wait(self.stop_within_s)


class KFake(_Program):
    """franz-go's kfake, built once from its Go module. Needs Go."""

    name = "kfake"

    def command(self) -> list[str]:
        program = HERE / ".build" / "kfake"
        sources = [HERE / "kfake" / name for name in ("main.go", "go.mod", "go.sum")]
        if not program.exists() or program.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            if shutil.which("go") is None:
                sys.exit("--against kfake needs Go (`go`), to build benchmarks/kfake")
            program.parent.mkdir(exist_ok=True)
            subprocess.run(["go", "build", "-o", str(program), "."], cwd=HERE / "kfake", check=True)
        return [str(program), str(self.port)]


class Mock(_Program):
    """librdkafka's mock cluster of one broker."""

    name = "mock"
    stop_within_s = 5.0

    def command(self) -> list[str]:
        return [sys.executable, "-c", _MOCK]

    def make_topic(self, name: str) -> None:
        """A topic of its four partitions, which asking for its metadata makes."""
        Producer({"bootstrap.servers": self.address}).list_topics(name, timeout=10)

    def _end(self, signal_number: int) -> None:
        super()._end(signal.SIGKILL)  # its client would wait for a while, and nothing of it is kept


class Pure(Kohort):
    """Kohort as its sources are, beside the compiled tree that `make compiled` made."""

    name = "pure"

    def __init__(self, directory: Path, settings: dict[str, object] | None = None) -> None:
        super().__init__(directory, settings, environment={"KOHORT_PURE": "1"})


class Earlier(Kohort):
    """The sources of another commit, a work tree of which EARLIER names: what a change has cost or brought."""

    name = "earlier"

    def __init__(self, directory: Path, settings: dict[str, object] | None = None) -> None:
        if not os.environ.get("EARLIER"):
            sys.exit("--against earlier needs EARLIER=FOLDER, a work tree of the commit to measure beside this one")
        self.root = Path(os.environ["EARLIER"]).resolve()
        self.module = "kohort" if (self.root / "kohort").is_dir() else "broker"  # its name until November 2026
        super().__init__(directory, settings, environment={"KOHORT_PURE": "1", "PYTHONPATH": str(self.root)})


class Kafka44(Kafka):
    """Apache Kafka 4.4, unless KAFKA_VERSION names another."""

    def __init__(self, directory: Path, settings: dict[str, object] | None = None) -> None:
        super().__init__(directory, settings, environment={"KAFKA_VERSION": KAFKA_VERSION})


KAFKA_VERSION = os.environ.get("KAFKA_VERSION", "4.4.0")
PEERS: dict[str, type[BrokerProcess]] = {
    "kohort": Kohort,
    "pure": Pure,
    "earlier": Earlier,
    "kafka": Kafka44,
    "kfake": KFake,
    "mock": Mock,
}
