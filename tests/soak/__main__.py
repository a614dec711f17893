"""`make soak HOURS=8`: real clients, hostile ones and troubles, round after round, and what must not grow meanwhile.

A round makes a topic, has two libraries read it in groups while a producer writes, plays troubles, then lets everything
end: all that was acknowledged must have been read and committed, owners and positions must have been right
(`tests.clients.harness`), and the topic is deleted. The broker is the same one all along, but for its restarts.
Exit code 1, and what was wrong, when something was.
"""

import argparse
import contextlib
import multiprocessing
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.clients import harness
from tests.clients.harness import ASSIGNORS, JAVA, Worker
from tests.soak.hostile import life
from tests.soak.measures import Measure, grown, measure, stalls
from tests.support.broker_process import QUICK_GROUPS, Kohort, eventually

TROUBLE_S = 30
NEW = "_848"
"""After a library's name: in the consumer protocol (KIP-848)."""
CLIENTS = (
    *("confluent", "aiokafka", "kafka_python", "java", "franz", "kafkajs"),
    *(f"{client}{NEW}" for client in ("confluent", "java", "franz")),
)
SETTINGS = {
    **QUICK_GROUPS,
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": 500,
    "kohort.log.level": "warn",
    "log.retention.check.interval.ms": 10_000,
    "offsets.retention.check.interval.ms": 10_000,
}


class Troubled(Kohort):
    """A broker whose disk can be told to misbehave."""

    @property
    def mood(self) -> Path:
        """The file that says how."""
        return self.directory / "mood"

    def command(self) -> list[str]:
        words = super().command()
        at = words.index("kohort")
        return [*words[:at], "tests.soak.troubled_disk", str(self.mood), *words[at + 1 :]]


class Soak:
    """One broker, and the rounds that it lives through."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.random = random.Random(seed)
        self.broker = Troubled(directory / "broker", SETTINGS)
        self.measures: list[Measure] = []
        self.stalls: dict[str, float] = {}
        self.wrong: list[str] = []
        self.rounds = 0

    def restart(self) -> None:
        """In good order."""
        self._restart(kill=False)

    def kill(self) -> None:
        """SIGKILL."""
        self._restart(kill=True)

    def fill(self) -> None:
        """The disk is full for a while."""
        self._mood("full", 2)

    def slow(self) -> None:
        """Each fsync takes its time."""
        self._mood("slow", 5)

    def nothing(self) -> None:
        """Only hostile clients."""
        time.sleep(5)

    TROUBLES: tuple[Callable[["Soak"], None], ...] = (restart, kill, fill, slow, nothing)

    def _restart(self, *, kill: bool) -> None:
        self._remember_stalls()
        self.broker.restart(kill=kill)

    def _mood(self, word: str, seconds: float) -> None:
        self.broker.mood.write_text(word)
        time.sleep(seconds)
        self.broker.mood.write_text("")

    def _remember_stalls(self) -> None:
        for name, ms in stalls(self.broker).items():
            self.stalls[name] = max(ms, self.stalls.get(name, 0))

    def run(self, seconds: float, clients: tuple[str, ...]) -> None:
        """Rounds until the time is over."""
        context = multiprocessing.get_context("spawn")
        with self.broker as broker:
            end = context.Event()
            hostile = context.Process(target=life, args=(broker.address, 1, end), daemon=True)
            hostile.start()
            try:
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    some = [clients[(2 * self.rounds + step) % len(clients)] for step in range(2)]
                    self._round(some)
                    if not hostile.is_alive():
                        self.wrong.append(f"the hostile client ended with {hostile.exitcode}")
                        break
            finally:
                end.set()
                hostile.join(30)
                hostile.kill()
        broker.check_log()

    def _round(self, clients: list[str]) -> None:
        self.rounds += 1
        began, name = time.monotonic(), f"soak-{self.rounds}"
        harness.create_topic(self.broker.address, name)
        with contextlib.ExitStack() as stack:
            groups: list[list[Worker]] = []
            for client in clients:
                group = [self._worker(client, name, number) for number in range(2)]
                groups.append(group)
                for worker in group:
                    stack.callback(worker.close)
            writer = harness.Writer(self.broker.address, name, per_second=100)
            played = []
            until = time.monotonic() + TROUBLE_S
            while time.monotonic() < until:
                trouble = self.random.choice(self.TROUBLES)
                played.append(trouble.__name__)
                trouble(self)
                time.sleep(self.random.uniform(1, 5))
            written = writer.stop()
            try:
                assert not writer.errors, writer.errors[:3]
                for group in groups:
                    harness.wait_until_read(group, written, deadline_s=180)
                    for worker in group:
                        worker.leave(120)
                    if group[0].client != "kafkajs":  # which does not tell what it reads
                        harness.check_reads(group, written)
            except AssertionError as error:
                self.wrong.append(f"round {self.rounds}, {clients}, {played}: {error}"[:4_000])
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for future in admin.delete_topics([name]).values():
            future.result(120)
        for future in admin.delete_consumer_groups([f"{name}-{client}" for client in clients]).values():
            with contextlib.suppress(Exception):  # its last member's session may not be over yet
                future.result(60)
        try:
            eventually(lambda: not list(self.broker.data.glob(f"{name}-*")), deadline_s=60, what=f"{name} is gone")
        except AssertionError as error:
            self.wrong.append(f"round {self.rounds}: {error}")
        self._remember_stalls()
        self.measures.append(measure(self.broker))
        took = time.monotonic() - began
        counts = f"{sum(written.values())} records, {', '.join(clients)}; {' '.join(played)}"
        print(f"round {self.rounds} ({took:.0f} s): {counts}; {self.measures[-1]}", flush=True)

    def _worker(self, client: str, topic: str, number: int) -> Worker:
        library = client.removesuffix(NEW)
        assignors = ("consumer",) if library != client else ASSIGNORS.get(library, ("range",))
        options = {
            "mode": "group",
            "bootstrap": self.broker.address,
            "topic": topic,
            "group": f"{topic}-{client}",
            "assignor": self.random.choice(assignors) if number == 0 else self._assignor,
            "session_timeout_ms": 6_000,
            "rebalance_timeout_ms": 10_000,
            "commit_every_ms": 200,
            "commits": True,  # kafkajs does not without
            "client_id": f"{client}-{number}",
        }
        self._assignor = options["assignor"]
        log = self.directory / f"{topic}-{client}-{number}.log"
        classes = harness.java_classes(self.directory / "classes", library) if library in JAVA else ""
        return Worker(library, options, log, classes)

    def report(self) -> bool:
        """Print what there is to say; whether all was well."""
        self.wrong += grown(self.measures)
        worst = sorted(self.stalls.items(), key=lambda one: -one[1])[:5]
        print(f"{self.rounds} rounds; longest stalls: {', '.join(f'{name} {ms:.0f} ms' for name, ms in worst) or '-'}")
        for one in self.wrong:
            print(f"WRONG: {one}")
        return not self.wrong


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1 / 6)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this library; may be repeated")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kohort-soak-") as directory:
        soak = Soak(Path(directory), options.seed)
        try:
            soak.run(options.hours * 3_600, tuple(options.client or CLIENTS))
        except (Exception, KeyboardInterrupt):
            # What was measured in hours is told all the same.
            soak.wrong.append(f"ended in round {soak.rounds}: {traceback.format_exc()[-4_000:]}")
        return 0 if soak.report() else 1


if __name__ == "__main__":
    sys.exit(main())
