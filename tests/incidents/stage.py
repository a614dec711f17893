"""Where incidents are played: a broker, real clients as processes, and what Kohort says of it afterwards."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from coordinator.routing import partition_for
from coordinator.why.findings import findings
from coordinator.why.timeline import timeline
from protocol.records.ledger import LEDGER_TOPIC
from tests.clients import harness, ledger_reading
from tests.clients.harness import Worker
from tests.support.broker_process import Kohort, eventually, free_port

SESSION_MS = 4_000
POLL_MS = 8_000
PARTITIONS = 50
"""Of the ledger, and of `__consumer_offsets`."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 700,
}


@dataclass
class Diagnosis:
    """What is said: `cause:TRIGGER:WHO`, `verdict:KIND:WHO`, `finding:RULE`, `event:KIND`; and the text of `why`."""

    said: set[str] = field(default_factory=set)
    text: str = ""


class Troubled(Kohort):
    """A broker whose disk and clock do what `mood` says: see `tests.incidents.troubled_broker`."""

    @property
    def mood(self) -> Path:
        """The file that says it."""
        return self.directory / "mood"

    def command(self) -> list[str]:
        """What is run."""
        words = super().command()
        return [words[0], "-m", "tests.incidents.troubled_broker", str(self.mood), *words[words.index("serve") :]]


class Stage:
    """One broker with one topic of six partitions, into which somebody writes all the time.

    Groups of different numbers lie in different partitions of `__consumer_offsets`, fifty in a row: the files of
    several stages can be put together.
    """

    def __init__(
        self, broker: Troubled, spawn: Callable[..., Worker], second_port: int, cable_port: int, number: int = 0
    ) -> None:
        self.broker = broker
        self.topic = f"orders-{number}"
        names = (f"billing-{number}-{salt}" for salt in count())
        self.group = next(name for name in names if partition_for(name, PARTITIONS) == number % PARTITIONS)
        self.partition = number % PARTITIONS
        self.second_port = second_port  # of the listener that clients reach through a `Cable`
        self.cable_port = cable_port  # where that must be
        self._spawn = spawn
        self.since_ms = 0
        self._cables = ExitStack()
        harness.create_topic(broker.address, self.topic)
        self._writer = harness.Writer(broker.address, self.topic, per_second=100)

    def member(self, client: str, name: str, **options: Any) -> Worker:
        """A member that reads and commits; `assignor` and all else as `tests.clients.harness` knows them."""
        return self._spawn(
            client,
            **{
                "mode": "group",
                "bootstrap": self.broker.address,
                "topic": self.topic,
                "group": self.group,
                "assignor": "range",
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": POLL_MS,
                "stall_ms": POLL_MS + 7_000,
                "commit_every_ms": 200,
                "client_id": name,
                **options,
            },
        )

    def members(self, client: str, names: str, **options: Any) -> list[Worker]:
        """So many, who share the topic."""
        workers = [self.member(client, name, **options) for name in names]
        harness.wait_until_shared(workers)
        return workers

    def begins(self) -> None:
        """What came before was the stage being set."""
        eventually(self._quiet, what="the group rests")
        self.since_ms = int(time.time() * 1_000)

    def records(self, *kinds: str) -> list[dict[str, Any]]:
        """The ledger's records since the incident began."""
        found = ledger_reading.records(self.broker.address, self.group, *kinds)
        return [one for one in found if one["at_ms"] >= self.since_ms]

    def until(self, said: str, deadline_s: float = 60) -> None:
        """Wait until something is said, as `Diagnosis` names it."""
        eventually(lambda: said in self.diagnose_records(), what=said, deadline_s=deadline_s, every_s=0.3)

    def back_again(self) -> None:
        """Wait until somebody who had gone was seen again: a client may take its time to notice."""
        eventually(
            lambda: any(one["saw"] == "returned" for one in self.records("departure_traced")),
            what="seen again", deadline_s=150, every_s=0.3,
        )  # fmt: skip

    def rested(self) -> None:
        """Wait until the group has come to rest, and what is traced of who left has been."""
        time.sleep(3.5)
        eventually(self._quiet, what="the group rests")

    def _quiet(self) -> bool:
        found = ledger_reading.records(self.broker.address, self.group, "rebalance_began", "rebalance_ended")
        return bool(found) and found[-1]["kind"] == "rebalance_ended" and found[-1]["at_ms"] < time.time() * 1e3 - 1_500

    def pause(self, *processes: Worker | Kohort) -> None:
        """SIGSTOP."""
        for one in processes:
            os.kill(one.pid if isinstance(one, Kohort) else one.process.pid, signal.SIGSTOP)

    def resume(self, *processes: Worker | Kohort) -> None:
        """SIGCONT."""
        for one in processes:
            os.kill(one.pid if isinstance(one, Kohort) else one.process.pid, signal.SIGCONT)

    def trouble(self, word: str) -> None:
        """`full`: the disk is; `clock SECONDS`: the broker's clock was set; empty: all is well."""
        self.broker.mood.write_text(word)
        time.sleep(0.3)  # it looks ten times a second

    # -- what is said

    def diagnose_records(self) -> set[str]:
        """Causes, events and findings out of the topic alone."""
        return said_of(self.records(), [], findings(self.records(), now_ms=int(time.time() * 1_000)))

    def diagnose(self) -> dict[str, Diagnosis]:
        """On each surface: the command line, HTTP, and the rules as the pipeline calls them."""
        http = self.broker.http.removeprefix("http://")
        since = _local(self.since_ms)
        words = (self.group, "--since", since, "--last", "50", "--http", http)
        told = ledger_reading.why(self.broker.address, *words, "--json")
        assert told.returncode == 0, told.stderr
        answer = json.loads(told.stdout)
        text = ledger_reading.why(self.broker.address, *words).stdout
        over_http = self._over_http(f"findings?since_ms={self.since_ms}")
        in_answer = self._over_http("rebalances?last=100")["records"]
        in_answer = [one for one in in_answer if one["at_ms"] >= self.since_ms]
        lines = [line.says for line in timeline(in_answer, now_ms=int(time.time() * 1_000))]
        lines += [one["says"] for one in (*over_http["verdicts"], *over_http["findings"])]
        ours = self.records()
        return {
            "cli": Diagnosis(said_of(answer["records"], answer["verdicts"], answer["findings"]), text),
            "http": Diagnosis(said_of(in_answer, over_http["verdicts"], over_http["findings"]), "\n".join(lines)),
            "pipeline": Diagnosis(
                said_of(ours, answer["verdicts"], findings(ours, now_ms=int(time.time() * 1_000))), text
            ),
        }

    def _over_http(self, what: str) -> Any:
        with urlopen(f"{self.broker.http}/groups/{self.group}/{what}", timeout=120) as answer:
            return json.load(answer)

    def cable(self, source: str) -> Cable:
        """A way to the second listener that lasts until everything has been said."""
        return self._cables.enter_context(Cable(self.second_port, self.cable_port, source=source))

    def forget_the_setting(self) -> None:
        """The ledger begins with the incident: for readers of files, who cannot be told since when for each group."""
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        place = TopicPartition(LEDGER_TOPIC, self.partition)
        [requested] = admin.list_offsets({place: OffsetSpec.for_timestamp(self.since_ms)}).values()
        place.offset = requested.result(30).offset  # -1, the end, where nothing came
        [done] = admin.delete_records([place]).values()
        done.result(30)

    def close(self) -> None:
        """Nobody writes any more, and no cable is left."""
        self._writer.stop()
        self._cables.close()


def said_of(records: list[dict[str, Any]], verdicts: list[Any], found: list[Any]) -> set[str]:
    """What records, verdicts and findings say, as `Diagnosis` names it."""
    said = set()
    for one in records:
        causes = [one.get("cause"), one.get("first_cause"), *(one.get("further_causes") or ())]
        said |= {f"cause:{cause['trigger']}:{_name(cause)}" for cause in causes if cause}
        if one["kind"] not in ("rebalance_began", "rebalance_ended"):
            said.add(f"event:{one['kind']}")
    said |= {f"verdict:{one['verdict']}:{one['who'].split(' ')[0]}" for one in verdicts}
    said |= {f"finding:{one['rule']}:{_name(one['facts'])}" for one in found if one["severity"] == "warning"}
    said |= {f"hint:{one['rule']}" for one in found if one["severity"] != "warning"}
    return said


def _name(facts: dict[str, Any]) -> str:
    return str(facts.get("instance_id") or facts.get("client_id") or "")


def _local(at_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms / 1_000))  # `ledger_reading.why` runs in UTC


class Cable:
    """A network between clients and the broker's second listener: it may be cut one way, and comes from `source`."""

    def __init__(self, to: int, port: int, *, source: str = "127.0.0.1") -> None:
        self.address = f"127.0.0.1:{port}"
        self.cut_up = threading.Event()
        """No byte of a client reaches the broker any more; no connection ends for that."""
        self._to, self._source = to, source
        self._listener = socket.create_server(("127.0.0.1", port))
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to), source_address=(self._source, 0))
                self._sockets += [near, far]
                threading.Thread(target=self._carry, args=(near, far, self.cut_up), daemon=True).start()
                threading.Thread(target=self._carry, args=(far, near, threading.Event()), daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if not cut.is_set():
                    to.sendall(data)
        if not cut.is_set():
            for one in (source, to):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # closed alone it would listen on while somebody waits in accept
        self._listener.close()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextmanager
def staged(directory: Path, spawn: Callable[..., Worker], *, number: int = 0, **settings: object) -> Iterator[Stage]:
    """A stage in this directory."""
    port, second, cable = free_port(), free_port(), free_port()
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CABLE://127.0.0.1:{second}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CABLE://127.0.0.1:{cable}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CABLE:PLAINTEXT",
    }
    with Troubled(directory / "broker", {**SETTINGS, **listeners, **settings}, port=port) as broker:
        stage = Stage(broker, spawn, second, cable, number)
        try:
            yield stage
        finally:
            stage.close()
