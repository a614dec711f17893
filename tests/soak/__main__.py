"""`make soak HOURS=8`: real clients, hostile ones and troubles, round after round, and what must not grow meanwhile.

A round makes a topic, has two libraries read it in groups while a producer writes, and one more copy it in transactions
(`tests.soak.transforming`: it reads with SCRAM and writes over TLS), plays troubles, then lets everything end: all that
was acknowledged must have been read and committed, owners and positions must have been right (`tests.clients.harness`),
the copy must have every record once, and the topics are deleted. Meanwhile others attack every listener
(`tests.soak.hostile`); a topic of 2,000 partitions, one of large batches and 2,000 groups are there for them to ask
about. They let go when the broker is measured.

A process lives for 1, 2, 4 and 8 rounds, then for 1 to 32, for 1 to 128 and so on: a leak shows in long lives only.
A life ends, by SIGKILL or SIGTERM in turn, in the middle of a round. Exit code 1, and what was wrong, if something was.
"""

import argparse
import contextlib
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, repeat
from pathlib import Path

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from benchmarks.worst import furnish
from tests.clients import harness
from tests.clients.harness import ASSIGNORS, JAVA, Worker
from tests.crash.test_storm import rests
from tests.fuzz.doors import DOORS, log_in_module
from tests.soak import anatomy
from tests.soak.hostile import KINDS, Attack, life
from tests.soak.measures import Measure, grown, lives, measure, peak_bytes, stalls, unanswered
from tests.soak.transforming import Transformer
from tests.support.broker_process import QUICK_GROUPS, Kohort, eventually, free_port
from tests.support.certificates import Authority

TROUBLE_S = 30
LOOKS = 4
"""At the broker at rest, half a second or more between them: the least that is in use counts."""
STALL_MS = 5_000
"""Nobody holds the loop for longer, not even where it has to wait for a core."""
PASSWORD = "soak-secret"
MECHANISMS = ("SCRAM-SHA-256", "PLAIN")  # for the transformer, for who is hostile
NEW = "_848"
"""After a library's name: in the consumer protocol (KIP-848)."""
CLIENTS = (
    *("confluent", "aiokafka", "kafka_python", "java", "franz", "kafkajs"),
    *(f"{client}{NEW}" for client in ("confluent", "java", "franz")),
)
MEMORY_MAX = "kohort.memory.max.bytes"
MEMORY_BYTES = (1 << 30, 384 << 20)
"""One or the other is what a process may have at any moment: some 70 MB are in use when nobody asks."""
SETTINGS = {
    **QUICK_GROUPS,
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": 500,
    "kohort.log.level": "warn",
    "log.retention.check.interval.ms": 10_000,
    "offsets.retention.check.interval.ms": 10_000,
    "offsets.retention.minutes": 5,  # of groups that could not be deleted: else they are growth
    "offsets.topic.segment.bytes": 16 << 20,  # hostile clients commit 10 MB a minute: compacted, it is no growth
}


def growing_lives() -> Iterator[int]:
    """In how many rounds each process is measured: 1, 2, 4, 8, then 1 to 32, then 1 to 128 and so on."""
    for longest in count(3, 2):
        yield from (1 << power for power in range(longest + 1))


def check_group(group: Sequence[Worker], written: Mapping[int, int]) -> int:
    """The auditors of groups; returns how many generations were seen. Raises: AssertionError."""
    if group[0].client == "kafkajs":  # tells neither what it reads nor in which generation
        return 0
    harness.check_reads(group, written)
    return harness.check_owners(group)


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

    def anatomy(self) -> anatomy.Anatomy:
        """What its memory is made of."""
        return anatomy.asked(self.pid, anatomy.beside(self.mood))


class Soak:
    """One broker, and the rounds that it lives through."""

    def __init__(self, directory: Path, seed: int, lengths: Iterator[int], trouble_s: float = TROUBLE_S) -> None:
        self.directory = directory
        self.random = random.Random(seed)
        self.authority = Authority()
        self.broker = Troubled(directory / "broker", SETTINGS)
        self.ports = {door: self.broker.port if door == "PLAINTEXT" else free_port() for door in DOORS}
        (directory / "authority.crt").write_bytes(self.authority.certificate_pem)
        (directory / "broker.pem").write_bytes(self.authority.issue().pem())
        self.broker.settings |= {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / "broker.pem"),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            **{
                f"listener.name.{door.lower()}.{name.lower()}.sasl.jaas.config": log_in_module(name)
                for door in DOORS
                if door.startswith("SASL")
                for name in MECHANISMS
            },
        }
        self._bound()
        context = multiprocessing.get_context("spawn")
        made = context.Array("q", len(KINDS)).get_obj()
        events = [context.Event() for _ in range(3)]
        self.attack = Attack(self.ports, self.authority.certificate_pem.decode(), made, *events)
        self.trouble_s = trouble_s
        self.lengths = lengths
        self.left = next(lengths)  # rounds of this process
        self.ends = 0
        self.transactions = {"committed": 0, "aborted": 0}
        self.measures: list[Measure] = []
        self.stalls: dict[str, float] = {}
        self.wrong: list[str] = []
        self.rounds = 0
        self.generations = 0

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

    TROUBLES: tuple[Callable[["Soak"], None], ...] = (fill, slow, nothing)

    def _due(self) -> bool:
        """Whether this process has lived for its rounds; if so, the next one's are drawn."""
        due = self.left <= 0
        if due:
            self.left = next(self.lengths)
        self.left -= 1
        return due

    def _end_of_life(self) -> Callable[["Soak"], None]:
        """One after the other."""
        self.ends += 1
        return Soak.kill if self.ends % 2 else Soak.restart

    def _restart(self, *, kill: bool) -> None:
        self._remember()
        self._look_at_peak()
        self._bound()
        self.broker.restart(kill=kill)

    def _bound(self) -> None:
        """What the next process may have."""
        self.peak_bytes = 0
        self.bound_bytes = self.broker.settings[MEMORY_MAX] = self.random.choice(MEMORY_BYTES)

    def _look_at_peak(self) -> None:
        if self.peak_bytes > self.bound_bytes:
            self.wrong.append(f"round {self.rounds}: {self.peak_bytes} bytes of memory, {self.bound_bytes} may be")

    def _mood(self, word: str, seconds: float) -> None:
        self.broker.mood.write_text(word)
        time.sleep(seconds)
        self.broker.mood.write_text("")

    def _remember(self) -> None:
        """What is gone with the process."""
        self.peak_bytes = peak_bytes(self.broker)
        for name, ms in stalls(self.broker).items():
            self.stalls[name] = max(ms, self.stalls.get(name, 0))

    def run(self, seconds: float, clients: tuple[str, ...]) -> None:
        """Rounds until the time is over."""
        with self.broker as broker:
            self._let_in()
            furnish(broker)  # a wide topic, large compressed batches, many groups: what the worst requests are about
            hostile = multiprocessing.get_context("spawn").Process(target=life, args=(self.attack, 1), daemon=True)
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
                self.attack.end.set()
                hostile.join(30)
                hostile.kill()
        broker.check_log()

    def _let_in(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
        upsertion = UserScramCredentialUpsertion("soak", info, PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(60)

    def _transformer(self, source: str, sink: str, group: str) -> Transformer:
        reading = {
            "bootstrap.servers": f"127.0.0.1:{self.ports['SASL_PLAINTEXT']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "soak",
            "sasl.password": PASSWORD,
            "group.protocol": "consumer" if self.rounds % 2 else "classic",
        }
        writing = {
            "bootstrap.servers": f"127.0.0.1:{self.ports['SSL']}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.directory / "authority.crt"),
        }
        log = self.directory / f"{group}.log"
        return Transformer(reading, writing, source, sink, group, self.random.getrandbits(32), log)

    def _round(self, clients: list[str]) -> None:
        self.rounds += 1
        began, name = time.monotonic(), f"soak-{self.rounds}"
        topics = [name, f"{name}-copy"]
        for topic in topics:
            harness.create_topic(self.broker.address, topic)
        dies = self._due()
        with contextlib.ExitStack() as stack:
            transformer = self._transformer(*topics, f"{name}-transformer")
            stack.callback(transformer.stop)
            groups: list[list[Worker]] = []
            for client in clients:
                group = [self._worker(client, name, number) for number in range(2)]
                groups.append(group)
                for worker in group:
                    stack.callback(worker.close)
            writer = harness.Writer(self.broker.address, name, per_second=100)
            played = []
            until = time.monotonic() + self.trouble_s
            while time.monotonic() < until or dies:
                trouble = self.random.choice(self.TROUBLES)
                if dies and len(played) == 1:  # in the middle of a round
                    trouble, dies = self._end_of_life(), False
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
                    self.generations += check_group(group, written)
                transformer.check(self.broker.address, written, deadline_s=180)
            except AssertionError as error:
                self.wrong.append(f"round {self.rounds}, {clients}, {played}: {error}"[:4_000])
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for future in admin.delete_topics(topics).values():
            future.result(120)
        for future in admin.delete_consumer_groups([f"{name}-{one}" for one in (*clients, "transformer")]).values():
            with contextlib.suppress(Exception):  # its last member's session may not be over yet
                future.result(60)
        try:
            eventually(lambda: not list(self.broker.data.glob(f"{name}-*")), deadline_s=60, what=f"{name} is gone")
        except AssertionError as error:
            self.wrong.append(f"round {self.rounds}: {error}")
        self._remember()
        self._measure()
        took = time.monotonic() - began
        self.transactions["committed"] += transformer.committed
        self.transactions["aborted"] += transformer.aborted
        counts = (
            f"{sum(written.values())} records, {', '.join(clients)}; {' '.join(played)}; transactions: "
            f"{transformer.committed} committed, {transformer.aborted} aborted, {len(transformer.errors)} broken off"
        )
        most = f"{self.peak_bytes >> 20} MB at most, of {self.bound_bytes >> 20}"
        print(f"round {self.rounds} ({took:.0f} s): {counts}; {self.measures[-1]}; {most}", flush=True)
        for error in sorted(set(transformer.errors)):
            print(f"  broken off by {error}", flush=True)

    def _measure(self) -> None:
        """The broker at rest: nobody asks it for anything."""
        self.attack.rest.set()
        found = []
        try:
            eventually(self.attack.resting.is_set, what="hostile clients let go")
            for _ in range(LOOKS):  # what was in use may be garbage, and is looked for once a second
                eventually(lambda: rests(self.broker), what="the broker has nothing to do")
                found.append(self.broker.anatomy())
        except AssertionError as error:
            self.wrong.append(f"round {self.rounds}: {error}; unanswered: {unanswered(self.broker)}")
        found = found or [self.broker.anatomy()]
        self.measures.append(measure(self.broker, min(found, key=lambda one: one.used_bytes)))
        self.attack.rest.clear()

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
        self._look_at_peak()
        self.wrong += grown(self.measures)
        self.wrong += [f"nobody was hostile at {one}" for one in self.attack.missing()]
        self.wrong += [
            f"{name} held the loop for {ms:.0f} ms, {STALL_MS} is what it may"
            for name, ms in self.stalls.items()
            if ms > STALL_MS
        ]
        worst = sorted(self.stalls.items(), key=lambda one: -one[1])[:5]
        lengths = ", ".join(str(len(life)) for life in lives(self.measures))
        print(f"processes of {lengths} rounds; transactions: {self.transactions}; generations: {self.generations}")
        print(f"hostile: {self.attack.told()}")
        longest = ", ".join(f"{name} {ms:.0f} ms" for name, ms in worst) or "-"
        print(f"{self.rounds} rounds; longest stalls: {longest}")
        for one in self.wrong:
            print(f"WRONG: {one}")
        return not self.wrong


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1 / 6)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this library; may be repeated")
    parser.add_argument("--life", type=int, help="every process lives for so many rounds, not for more and more")
    parser.add_argument("--trouble-seconds", type=float, default=TROUBLE_S, help="of each round")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="kohort-soak-"))
    lengths = repeat(options.life) if options.life else growing_lives()
    soak = Soak(directory, options.seed, lengths, options.trouble_seconds)
    try:
        soak.run(options.hours * 3_600, tuple(options.client or CLIENTS))
    except (Exception, KeyboardInterrupt):
        # What was measured in hours is told all the same.
        soak.wrong.append(f"ended in round {soak.rounds}: {traceback.format_exc()[-4_000:]}")
    if not soak.report():
        print(f"logs and data: {directory}")
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
