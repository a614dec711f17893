"""Scripted clients as processes, and what must be true of the histories that they print."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import PATIENCE, eventually, need
from tests.support.golang import program
from tests.support.java import NEWEST, class_path

WORKERS = Path(__file__).parent / "workers"
PARTITIONS = 6
ASSIGNORS = {
    "aiokafka": ("range", "roundrobin", "sticky"),
    "confluent": ("range", "roundrobin", "cooperative-sticky"),
    "kafka_python": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "java": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "franz": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "java_4_3": ("roundrobin",),
    "java_3_9": ("cooperative-sticky",),
}
JAVA = {"java": NEWEST, "java_4_3": "4.3.1", "java_3_9": "3.9.2"}
"""The versions of the Java client by the names under which they are run."""
CLIENTS = tuple(client for client in ASSIGNORS if client not in ("java_4_3", "java_3_9"))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

KAFKAJS = "2.2.4"

Event = dict[str, Any]


def java_classes(cache: Path, client: str) -> str:
    """The class path of a Java worker, compiled on first use. Skips the test where there is no Java."""
    return class_path(WORKERS / "JavaWorker.java", cache, JAVA[client])


def kafkajs() -> Path:
    """The folder that node finds kafkajs in, installed on first use. Skips the test where there is no node."""
    need("node", "npm")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohort-reference"
    modules = cache / f"kafkajs-{KAFKAJS}" / "node_modules"
    if not modules.exists():
        # Installed beside and renamed, so that another test process never sees half of it.
        building = cache / f"kafkajs-{os.getpid()}"
        building.mkdir(parents=True)
        words = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(building)]
        subprocess.run([*words, f"kafkajs@{KAFKAJS}"], check=True, capture_output=True, timeout=300)
        with contextlib.suppress(OSError):  # another was first
            building.rename(modules.parent)
    return modules


def franz() -> Path:
    """The franz-go worker, built on first use. Skips the test where there is no Go."""
    return program(WORKERS / "franz")


class Worker:
    """One scripted client in its own process, and the events it has printed."""

    def __init__(self, client: str, options: Mapping[str, Any], log: Path, class_path: str = "") -> None:
        self.client = client
        self.name = str(options.get("client_id", client))
        self.events: list[Event] = []
        self.log = log
        self.killed_at: int | None = None
        environment = dict(os.environ)
        if client in JAVA:
            command = [
                "java",
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                class_path,
                "JavaWorker",
            ]
        elif client == "franz":
            command = [str(franz())]
        elif client == "kafkajs":
            command = ["node", str(WORKERS / "kafkajs_worker.js")]
            environment["NODE_PATH"] = str(kafkajs())
        else:
            command = [sys.executable, "-u", str(WORKERS / f"{client}_worker.py")]
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [*command, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=WORKERS,
                env=environment,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            # A killed process may leave half a line.
            if line.endswith("\n"):
                self.events.append({**json.loads(line), "worker": self.name})

    def seen(self, event: str) -> list[Event]:
        """All events of one kind so far."""
        return [e for e in list(self.events) if e["event"] == event]

    def owned(self) -> set[int]:
        """The partitions that it owns, by its own account."""
        owned: set[int] = set()
        for event in list(self.events):
            if event["event"] == "assigned":
                owned |= set(event["partitions"])
            elif event["event"] == "revoked":
                owned -= set(event["partitions"])
        return owned if self.alive() else set()

    def alive(self) -> bool:
        """Whether its process runs."""
        return self.process.poll() is None

    def ask_to_leave(self) -> None:
        """Have it close in good order; `finish` waits for that."""
        assert self.alive(), self._ended()
        assert self.process.stdin is not None
        self.process.stdin.write("leave\n")
        self.process.stdin.flush()

    def stall(self) -> None:
        """Have it work without polling, for the `stall_ms` of its options."""
        assert self.alive(), self._ended()
        assert self.process.stdin is not None
        self.process.stdin.write("stall\n")
        self.process.stdin.flush()

    def leave(self, deadline_s: float = 60) -> None:
        """Close in good order, and wait for the process's end."""
        self.ask_to_leave()
        self.finish(deadline_s)

    def finish(self, deadline_s: float = 60) -> None:
        """Wait for the process's end, which must be a good one."""
        code = self.process.wait(deadline_s * PATIENCE)
        self._reader.join(5)
        assert code == 0, self._ended()

    def _ended(self) -> str:
        self._reader.join(5)
        told = f"its last events {list(self.events)[-3:]}"
        return f"{self.name} ended with {self.process.poll()}, {told}:\n{self.log.read_text()[-3000:]}"

    def stand_still(self) -> None:
        """SIGSTOP, until `go_on`."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()
        self.killed_at = time.monotonic_ns()
        self._reader.join(5)

    def close(self) -> None:
        """End it, whatever it does."""
        if self.alive():
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                # What was still to be written to a process that is gone has nowhere to go.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Writer:
    """Writes numbered records to the partitions of a topic in turn, from a thread, until it is stopped."""

    def __init__(self, address: str, topic: str, per_second: int = 500) -> None:
        self.acknowledged = dict.fromkeys(range(PARTITIONS), 0)
        self._partitions = PARTITIONS
        self.errors: list[str] = []
        self._topic = topic
        self._pause_s = 20 / per_second
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,  # or what it resends after a restart would be there twice
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            for _ in range(20):
                self._producer.produce(
                    self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(0)
            self._stop.wait(self._pause_s)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()] = self.acknowledged.get(message.partition(), 0) + 1
        else:
            self.errors.append(str(error))

    def widen(self, partitions: int) -> None:
        """Write to so many, which the topic has by now."""
        eventually(
            lambda: len(self._producer.list_topics(self._topic, 10).topics[self._topic].partitions) == partitions
        )
        self._partitions = partitions

    def stop(self) -> dict[int, int]:
        """Stop; return how many records of each partition the broker has acknowledged."""
        self._stop.set()
        self._thread.join(10)
        self._producer.flush(120)
        return self.acknowledged


def create_topic(address: str, name: str, partitions: int = PARTITIONS, **config: str) -> None:
    """Create a topic and wait until it is there."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
        future.result(120)

    def has_leaders() -> bool:
        known = admin.list_topics(name, 10).topics[name].partitions
        return len(known) == partitions and all(partition.leader >= 0 for partition in known.values())

    # Apache Kafka answers a moment before its own metadata shows the topic.
    eventually(has_leaders)


def wait_until_shared(workers: Sequence[Worker], *, partitions: int = PARTITIONS, deadline_s: float = 60) -> None:
    """Wait until these workers together own every partition, each of them at least one."""

    def shared() -> bool:
        assert all(worker.alive() for worker in workers), "a worker ended"
        owned = [worker.owned() for worker in workers]
        return all(owned) and sorted(p for part in owned for p in part) == list(range(partitions))

    try:
        eventually(shared, deadline_s=deadline_s)
    except AssertionError as error:
        raise AssertionError(
            f"not shared, {error}: { {w.name: sorted(w.owned()) for w in workers} }\n"
            + "\n".join(f"{w.name}: {w.events[-5:]}\n{w.log.read_text()[-1500:]}" for w in workers)
        ) from None


def wait_until_read(workers: Sequence[Worker], written: Mapping[int, int], *, deadline_s: float = 60) -> None:
    """Wait until every record written has been read, and its position committed."""

    def caught_up() -> bool:
        done = dict.fromkeys(written, 0)
        for worker in workers:
            for event in worker.seen("committed"):
                for partition, offset in event["offsets"].items():
                    done[int(partition)] = max(done[int(partition)], offset)
        return done == dict(written)

    eventually(caught_up, deadline_s=deadline_s, what=f"all of {written} committed")


class Stint:
    """One worker's time with one partition: what it read, from assignment to revocation or death."""

    def __init__(self, worker: str, partition: int, began: int, ended: int | None) -> None:
        self.worker, self.partition, self.began, self.ended = worker, partition, began, ended
        self.first: int | None = None
        self.next: int | None = None

    def __repr__(self) -> str:
        return f"{self.worker} with partition {self.partition}, {self.first} to {self.next}"


def stints(worker: Worker) -> Iterator[Stint]:
    """What one worker owned and read. Raises: AssertionError when it read what it did not own, or left a gap."""
    owned: dict[int, Stint] = {}
    for event in worker.events:
        kind, when = event["event"], event["t"]
        if kind == "assigned":
            for partition in event["partitions"]:
                # aiokafka and kafka-python name all partitions anew; librdkafka and Java only those that came.
                if partition not in owned:
                    owned[partition] = Stint(worker.name, partition, when, None)
        elif kind == "revoked":
            for partition in event["partitions"]:
                stint = owned.pop(partition, None)
                if stint is not None:
                    stint.ended = when
                    yield stint
        elif kind == "read":
            stint = owned.get(event["partition"])
            assert stint is not None, f"{worker.name} read {event} without owning it"
            assert stint.next in (None, event["first"]), f"{stint}: a gap or a repetition before {event}"
            stint.first = event["first"] if stint.first is None else stint.first
            stint.next = event["last"] + 1
    for stint in owned.values():
        stint.ended = worker.killed_at
        yield stint


def assignments(worker: Worker) -> Iterator[tuple[dict[str, Any], set[int]]]:
    """Each assignment of a worker: the event that told it, and all partitions owned from then on."""
    owned: set[int] = set()
    for event in worker.events:
        if event["event"] == "revoked":
            owned -= set(event["partitions"])
        elif event["event"] == "assigned":
            owned |= set(event["partitions"])
            yield event, owned


def check_owners(workers: Sequence[Worker]) -> int:
    """In no generation has a partition two owners. Returns how many generations were seen."""
    owners: dict[tuple[int, int], str] = {}
    generations = set()
    for worker in workers:
        for event, owned in assignments(worker):
            generation = event["generation"]
            assert generation is not None and generation > 0, event
            generations.add(generation)
            for partition in owned:
                other = owners.setdefault((generation, partition), worker.name)
                assert other == worker.name, (
                    f"partition {partition} belongs to {other} and {worker.name} in generation {generation}"
                )
    return len(generations)


def check_reads(workers: Sequence[Worker], written: Mapping[int, int]) -> None:
    """Each record is read at least once, and once per committed position.

    Who is given a partition begins at a position that somebody committed (or was about to when it died), and at no
    lower one than the last whose commit was acknowledged before that.
    """
    tried: dict[int, set[int]] = {p: {0} for p in written}
    acknowledged: dict[int, list[tuple[int, int]]] = {p: [] for p in written}
    for worker in workers:
        for event in worker.events:
            for partition, offset in event.get("offsets", {}).items():
                if event["event"] == "committing":
                    tried[int(partition)].add(offset)
                elif event["event"] == "committed":
                    acknowledged[int(partition)].append((event["t"], offset))
    covered: dict[int, set[int]] = {p: set() for p in written}
    for worker in workers:
        for stint in stints(worker):
            if stint.first is None or stint.next is None:
                continue
            covered[stint.partition].update(range(stint.first, stint.next))
            assert stint.first in tried[stint.partition], f"{stint} began where nobody had committed"
            before = [offset for when, offset in acknowledged[stint.partition] if when < stint.began]
            assert stint.first >= max(before, default=0), f"{stint}: {max(before)} had been committed"
    for partition, count in written.items():
        missing = set(range(count)) - covered[partition]
        assert not missing, f"partition {partition}: nobody read {sorted(missing)[:10]}"


def spawner(tmp_path: Path, class_path: Callable[[str], str]) -> Iterator[Callable[..., Worker]]:
    """For a fixture: starts workers, ends those that are left."""
    started: list[Worker] = []

    def spawn(client: str, **options: Any) -> Worker:
        options.setdefault("client_id", f"{client}-{len(started)}")
        log = tmp_path / f"worker-{len(started)}-{client}.log"
        worker = Worker(client, options, log, class_path(client) if client in JAVA else "")
        started.append(worker)
        return worker

    yield spawn
    for worker in started:
        worker.close()
