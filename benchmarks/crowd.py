"""Do those who are logged in notice a crowd at the door? A storm beside 10,000 idle clients and 2,000 hostile ones.

A broker with SASL, TLS and ACLs. 10,000 clients log in and rest. A storm of 20 clients, logged in too, commits for 200
groups: alone, beside those who rest, and beside 2,000 hostile connections from another address besides, which have no
user. Of these a quarter each says nothing, sends garbage, stops in the middle of a TLS handshake, and says a whole TLS
hello and goes, again and again; who is thrown out comes back. In the end the hostile address gets a quota of
connections, and each of those who rested is asked for an answer. `--percentage 100` takes away the bound on what those
may take who have not logged in; `--against kafka` has the same crowd at Apache Kafka's door.
"""

import argparse
import contextlib
import multiprocessing
import os
import random
import resource
import selectors
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from benchmarks.common import Row, arguments, kinds, machine, median, show
from benchmarks.hostile import heartbeats
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.crash.test_storm import Storm, prepare
from tests.support.broker_process import BrokerProcess, Kafka, Kohort, free_port
from tests.support.certificates import Authority
from tests.support.wire import Wire

PASSWORD = "of-nobody"
FROM = "127.0.0.2"
"""Where hostile ones come from: what is counted by address counts against them alone."""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
RATE = 20
"""Connections a second that a quota allows an address, in the end."""
SILENT, GARBAGE, HALF, HELLO = range(4)


class Guarded:
    """A broker with users, certificates and ACLs; those who ask without a log-in are its admins."""

    def __init__(self, broker: BrokerProcess, folder: Path, settings: Mapping[str, object]) -> None:
        self.broker = broker
        self.address = broker.address
        self.sasl, self.tls, controller = (f"127.0.0.1:{free_port()}" for _ in range(3))
        users = f'{PLAIN} required user_storm="{PASSWORD}";'
        listeners = f"PLAINTEXT://{self.address},SASL_PLAINTEXT://{self.sasl},SASL_SSL://{self.tls}"
        broker.settings = {
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.num.partitions": 50,
            "listeners": listeners,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": users,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": folder / "server.pem",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            **settings,
        }
        if isinstance(broker, Kafka):
            protocols = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
            spoken = ",".join(f"{name}:{name}" for name in protocols)
            broker.settings |= {
                "listeners": f"{listeners},CONTROLLER://{controller}",
                "advertised.listeners": listeners,
                "listener.security.protocol.map": f"{spoken},CONTROLLER:PLAINTEXT",
                "controller.quorum.voters": f"1@{controller}",
            }

    def cpu_s(self) -> float:
        """Of the broker's process, so far."""
        return self.broker.cpu_s()

    def memory_bytes(self) -> int:
        """Of the broker's process."""
        return self.broker.memory_bytes()

    def grant(self) -> None:
        """The user `storm` may commit."""
        admin = AdminClient({"bootstrap.servers": self.address})
        who = ("User:storm", "*", AclOperation.READ, AclPermissionType.ALLOW)
        wanted = ((ResourceType.GROUP, "storm-"), (ResourceType.TOPIC, "topic-"))
        bindings = [AclBinding(kind, prefix, ResourcePatternType.PREFIXED, *who) for kind, prefix in wanted]
        for future in admin.create_acls(bindings).values():
            future.result(30)

    def bound_addresses(self) -> None:
        """An address may make so many connections a second."""
        op = OpData(key="connection_creation_rate", value=RATE)
        entry = EntryData(entity=[EntityData(entity_type="ip", entity_name=None)], ops=[op])
        with Wire(self.address) as wire:
            assert not wire.call(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code


def logged_in(address: str) -> Wire:
    """A connection of the user `storm`."""
    wire = Wire(address)
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    if wire.call(SaslAuthenticateRequest(auth_bytes=f"\0storm\0{PASSWORD}".encode()), 2).error_code:
        raise AssertionError("the log-in failed")
    return wire


@contextlib.contextmanager
def held(address: str, count: int) -> Iterator[list[Wire]]:
    """So many clients, logged in and at rest. At the end each is asked for an answer."""
    wires = [logged_in(address) for _ in range(count)]
    yield wires
    for wire in wires:
        wire.send(ApiVersionsRequest(client_software_name="rest", client_software_version="1"), 3)
    for wire in wires:
        assert wire.receive().error_code == 0
        wire.close()


def hello() -> bytes:
    """What a TLS client says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


class Crowd:
    """Hostile connections, of each kind a quarter."""

    def __init__(self, sasl: str, tls: str, count: int, made: Any) -> None:
        self._addresses = [(host, int(port)) for host, port in (sasl.split(":"), tls.split(":"))]
        self._selector = selectors.DefaultSelector()
        self._chance = random.Random(1)
        self._hello = hello()
        self._made = made
        for number in range(count):
            self._come(number % 4)

    def _come(self, kind: int) -> None:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its port is free at once
        one.bind((FROM, 0))
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            one.connect(self._addresses[kind in (HALF, HELLO)])
        self._selector.register(one, selectors.EVENT_WRITE, kind)
        self._made.value += 1

    def turn(self) -> None:
        """Say what there is to say; who was thrown out comes again."""
        for key, _ in self._selector.select(0.05):
            one, kind = key.fileobj, key.data
            assert isinstance(one, socket.socket)
            try:
                if key.events == selectors.EVENT_WRITE:
                    self._say(one, kind)
                    continue
                if one.recv(65_536) and kind != HELLO:
                    continue
            except OSError:
                pass
            self._selector.unregister(one)
            one.close()
            self._come(kind)

    def _say(self, one: socket.socket, kind: int) -> None:
        words = {SILENT: b"", HALF: self._hello[:100], HELLO: self._hello}.get(kind)
        if words is None:  # a frame that may be a request, or a size that cannot be
            body = struct.pack(">hhih", self._chance.randrange(60), self._chance.randrange(10), 1, -1)
            body += self._chance.randbytes(self._chance.randrange(200))
            words = struct.pack(">i", len(body) if self._chance.random() < 0.9 else -1) + body
        one.send(words)
        self._selector.modify(one, selectors.EVENT_READ, kind)


def crowd(sasl: str, tls: str, count: int, made: Any, begun: Event, end: Event) -> None:
    """A process of hostile ones, with a low priority: two cores have to do for all."""
    os.nice(10)
    whole = Crowd(sasl, tls, count, made)
    began = time.monotonic()
    while not end.is_set():
        whole.turn()
        if time.monotonic() - began > 2:
            begun.set()


@contextlib.contextmanager
def hostile(broker: Guarded, count: int) -> Iterator[Any]:
    """They are there; yields how many connections they have made, a counter."""
    context = multiprocessing.get_context("spawn")
    begun, end, made = context.Event(), context.Event(), context.Value("L")
    process = context.Process(target=crowd, args=(broker.sasl, broker.tls, count, made, begun, end), daemon=True)
    process.start()
    begun.wait(120)
    try:
        yield made
        assert process.is_alive(), "the hostile ones have failed"
    finally:
        end.set()
        process.join(30)
        process.kill()


class Measured:
    """What storms and heartbeats came to, round by round."""

    def __init__(self, broker: Guarded, seconds: float) -> None:
        self._broker = broker
        self._seconds = seconds
        self._offset = 1
        self.name = broker.broker.name
        self.figures: dict[str, list[tuple[float, float, float, float]]] = {}
        self.shares: dict[str, list[float]] = {}
        """Of a core, in percent, that the broker takes beside heartbeats alone."""

    def measure(self, name: str) -> None:
        """A storm, then heartbeats of a quiet client."""
        self._offset += 1_000_000
        began, used_s = time.monotonic(), self._broker.cpu_s()
        storm = Storm(self._broker.sasl, "topic-0", self._offset, connect=logged_in)
        took_s, cpu_s = time.monotonic() - began, self._broker.cpu_s() - used_s
        assert not storm.failures, storm.failures[:3]
        used_s, began = self._broker.cpu_s(), time.monotonic()
        times_ms = heartbeats(self._broker.address, self._seconds)
        self.shares.setdefault(name, []).append((self._broker.cpu_s() - used_s) / (time.monotonic() - began) * 100)
        figures = storm.commits / took_s, cpu_s / storm.commits * 1e6, median(times_ms), times_ms[-1]
        self.figures.setdefault(name, []).append(figures)

    def rows(self) -> list[Row]:
        """A line for each figure of each situation."""
        rows = []
        for name, rounds in self.figures.items():
            for what, unit, column in (("commits", "/s", 0), ("CPU a commit", "us", 1), ("heartbeat", "ms", 2)):
                row = Row(f"{what}, {name}", unit, figures={self.name: median([one[column] for one in rounds])})
                if unit == "ms":
                    row.notes[self.name] = f"longest {max(one[3] for one in rounds):.1f}"
                rows.append(row)
            share = median(self.shares[name])
            rows.append(Row(f"broker's share of a core beside heartbeats, {name}", "%", figures={self.name: share}))
        return rows


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--held", type=int, default=10_000, help="clients that are logged in and rest (10000)")
    parser.add_argument("--hostile", type=int, default=2_000, help="connections of those who are not (2000)")
    parser.add_argument("--seconds", type=float, default=3, help="how long heartbeats are sent (3)")
    parser.add_argument("--percentage", type=int, default=10, help="kohort.unauthenticated.percentage (10)")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    rows: dict[str, Row] = {}
    for kind in kinds(options):
        with tempfile.TemporaryDirectory(prefix="kohort-bench-") as place:
            folder = Path(place)
            (folder / "server.pem").write_bytes(Authority().issue().pem())
            broker = kind(folder / "broker", {})
            own = {"kohort.unauthenticated.percentage": options.percentage} if isinstance(broker, Kohort) else {}
            guarded = Guarded(broker, folder, own)
            with broker:
                measured = run(guarded, options)
        for row in measured.rows():
            rows.setdefault(row.question, row).figures.update(row.figures)
            rows[row.question].notes.update(row.notes)
    print(f"\n{machine()}; median of {options.rounds}\n")
    show(list(rows.values()), options)


class Run(Measured):
    """And what the process had, and how many came."""

    def __init__(self, broker: Guarded, seconds: float) -> None:
        super().__init__(broker, seconds)
        self.memory: dict[str, int] = {}
        self.made: list[float] = []
        self.share = 0.0
        """Of a core, in percent, that the broker takes while nobody but the hostile ones wants anything."""
        self.each_us = 0.0
        """That is for each connection that they make. What their own process takes of the machine is not in it."""

    def rows(self) -> list[Row]:
        """And these."""
        rows = super().rows()
        figures = [(f"memory, {name}", "MB", size / 1e6) for name, size in self.memory.items()]
        figures += [
            ("connections that hostile ones made, beside a storm", "/s", median(self.made)),
            ("hostile ones alone: the broker's share of a core", "%", self.share),
            ("hostile ones alone: its CPU for each that comes", "us", self.each_us),
        ]
        return [*rows, *(Row(what, unit, figures={self.name: figure}) for what, unit, figure in figures)]

    def measure_alone(self, made: Any, seconds: float) -> None:
        """Nobody else wants anything."""
        count, began, used_s = made.value, time.monotonic(), self._broker.cpu_s()
        time.sleep(seconds)
        cpu_s = self._broker.cpu_s() - used_s
        self.share = cpu_s / (time.monotonic() - began) * 100
        self.each_us = cpu_s / max(made.value - count, 1) * 1e6


def run(broker: Guarded, options: argparse.Namespace) -> Run:
    """All rounds. Raises: AssertionError when somebody who is logged in lost anything."""
    broker.grant()
    prepare(broker.broker)
    measured = Run(broker, options.seconds)
    Storm(broker.sasl, "topic-0", 1, connect=logged_in)  # warms up
    for _ in range(options.rounds):
        measured.measure("alone")
    measured.memory["alone"] = broker.memory_bytes()
    with held(broker.sasl, options.held):
        resting = f"{options.held:,} at rest"
        for _ in range(options.rounds):
            measured.measure(resting)
        measured.memory[resting] = broker.memory_bytes()
        both = f"{resting}, {options.hostile:,} hostile"
        with hostile(broker, options.hostile) as made:
            measured.measure_alone(made, 10)
            for _ in range(options.rounds):
                before, began = made.value, time.monotonic()
                measured.measure(both)
                measured.made.append((made.value - before) / (time.monotonic() - began))
            measured.memory[both] = broker.memory_bytes()
            broker.bound_addresses()
            for _ in range(options.rounds):
                measured.measure(f"{both}, {RATE} connections/s for each address")
    return measured


if __name__ == "__main__":
    main()
