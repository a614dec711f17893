"""A whole broker, its clients and the network between them, in virtual time: one seed, one history.

Clients are generators that yield what they wait for (`Connect`, `Sleep`, `Call`) and are resumed with the answer, or
with `Lost` thrown into them. Bytes travel with random delays and in random pieces; a connection may be cut, a client be
frozen or killed, the broker be stopped, killed, lose its power, or be told by its disk that it fails. Who audits is
told of each request when its last byte has come to the broker, and of each answer when the broker has written it, in
this order.
"""

from __future__ import annotations

import gc
import heapq
import io
import itertools
import os
import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from broker.catalogue.internal_topics import OFFSETS_TOPIC
from broker.composition import Composition
from broker.config.settings import Settings
from broker.handlers.dispatch import HANDLERS, Routes
from broker.loop import logs
from broker.network.connection import Connection
from broker.network.server import Server
from broker.partitions import Partition
from broker.testbed.auditing.exchange import Exchange
from protocol.frame_cutter import FrameCutter
from protocol.frames import decode_response, encode_request
from tests.simulation.disk import SimulatedDisk
from tests.support.connections import FakeTransport
from tests.support.virtual_runtime import VirtualRuntime

START_MS = 1_700_000_000_000
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "log.cleaner.backoff.ms": "2000",
    "log.initial.task.delay.ms": "1000",
    "log.roll.ms": "4000",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.segment.delete.delay.ms": "1000",
}
_ROUTES = Routes(HANDLERS)  # compiled once for all lives

Process = Generator[Any, Any, None]


class Lost(Exception):
    """The connection is gone, or no answer came in time."""


@dataclass(frozen=True)
class Sleep:
    """Wait for so many milliseconds."""

    ms: int


@dataclass(frozen=True)
class Connect:
    """Wait for a `Channel`."""


@dataclass
class Call:
    """Send requests, one behind the other, and wait for all their answers (a list)."""

    channel: Channel
    requests: list[tuple[Any, int]]  # with their versions
    timeout_ms: int = 8_000


class Auditor(Protocol):
    """Who watches the wire at the broker's end."""

    def arrived(self, exchange: Exchange) -> None:
        """The broker has the whole request."""

    def answered(self, exchange: Exchange) -> None:
        """The broker has written the answer."""

    def broker_died(self, life: int) -> None:
        """What was not answered by now may have been done or not."""

    def groups_loaded_anew(self, index: int, partition_count: int) -> None:
        """The same for the groups of one partition, whose log had failed."""


class Wire(FakeTransport):
    """The broker's end of a connection, which says when something has happened to it."""

    def __init__(self, host: str, port: int, stirred: Callable[[], None]) -> None:
        super().__init__(host, port)
        self._stirred = stirred

    def _take(self, data: bytes) -> None:
        super()._take(data)
        self._stirred()

    def close(self) -> None:
        super().close()
        self._stirred()

    def abort(self) -> None:
        super().abort()
        self._stirred()


@dataclass(eq=False)
class Channel:
    """A connection, seen from its client."""

    number: int  # they are looked after in this order
    connection: Connection
    transport: Wire
    client: Client
    life: int
    lost: bool = False  # the client knows
    gone: bool = False  # the broker knows
    next_in_ms: int = 0  # bytes keep their order
    next_out_ms: int = 0
    taken: int = 0  # bytes of what the broker wrote
    cutter: FrameCutter = field(default_factory=lambda: FrameCutter(1 << 30))
    pending: deque[tuple[int, Exchange]] = field(default_factory=deque)  # for the broker: not answered yet
    flying: deque[Exchange] = field(default_factory=deque)  # for the client: not received yet
    correlation: Any = field(default_factory=lambda: itertools.count(1))


class Client:
    """A running process: its generator, and what it waits for."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.wait = 0  # a late wake-up names an older one
        self.wanted = 0
        self.answers: list[Any] = []
        self.channels: list[Channel] = []
        self.calling: Channel | None = None  # whose answers it waits for
        self.frozen_until_ms = 0
        self.dead = False


class World:
    """Time, network, processes and the broker's lives."""

    def __init__(self, seed: int, directory: Path, **settings: str) -> None:
        self.random = random.Random(seed)
        self.now_ms = START_MS
        self.settings = {**SETTINGS, **{key.replace("__", "."): value for key, value in settings.items()}}
        self.clients: dict[str, Client] = {}
        self.auditor: Auditor
        self.log = io.StringIO()
        self.life = 0
        self.up = False
        self.disk_trouble = 0.0  # how probably a file operation fails
        self.broker: Any = None
        self.runtime: VirtualRuntime
        self._directory = directory
        self.answered_moves: list[Any] = []
        self._seed = seed
        self.two_disks = seed % 5 == 1
        self.disks_fail_alone = self.two_disks and seed // 5 % 2 == 0
        self.disk = SimulatedDisk(directory, self.random)
        self.disk.install()
        self._channels: dict[int, Channel] = {}
        self._stirred: set[int] = set()  # those that the broker has written to or closed
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._ticks = itertools.count(1)
        self._works_seen = 0
        self._turn_due = False  # the broker has asked for one
        self._troubled = _Troubled(self)
        logs.configure(level="info", stream=self.log)

    # The broker's lives

    def start_broker(self) -> None:
        """Open the directory and take connections."""
        self.life += 1
        self.runtime = VirtualRuntime(self.now_ms, eager_workers=False, eager_turns=False)
        # So slow that requests come between the turns of whatever is done in slices, or are put off themselves, since a
        # turn lasts too long; or so quick that none do.
        self.runtime.step_ns = self.random.choice([0, 60_000, 300_000, 5_000_000])
        self._works_seen = 0
        log_dirs = [self._directory / name for name in ("one", "two")] if self.two_disks else [self._directory]
        given = {**self.settings, "log.dirs": ",".join(map(str, log_dirs))}
        self._composition = Composition.open(Settings(given), self.runtime, [("PLAINTEXT", "localhost", 9092)])
        self.broker = self._composition.broker
        self.broker.served = HANDLERS.keys()
        if (self._seed + self.life) % 3 == 0:
            # Threads write all that is produced, and not what is large alone.
            self.broker.partitions.writer.at_once_bytes = 0
        self.broker.partitions.on_recovered.append(self._reloaded)
        self._server = Server(self.broker, _ROUTES)
        self._composition.start()
        self.up = True
        self._settle()

    def _reloaded(self, partition: Partition) -> None:
        if partition.topic == OFFSETS_TOPIC:
            self.auditor.groups_loaded_anew(partition.index, int(self.settings["offsets.topic.num.partitions"]))

    def kill_broker(self) -> None:
        """SIGKILL: what was given to the system stays, nothing else."""
        self._end_of_life()
        # Under another name, so that nothing that is left of this life finds it.
        self._directory = self._directory.rename(self._directory.with_name(f"after-life-{self.life}"))
        self.disk.moved(self._directory)

    def move_partitions(self) -> None:
        """Where there are two disks: some partitions are to lie on this one or that one, perhaps where they are."""
        if not self.two_disks:
            return
        places = self.broker.partitions.directories
        for key in self.random.sample(every := list(self.broker.partitions.all()), min(3, len(every))):
            self.broker.moves.ask(key, self.random.choice(places), self.answered_moves.append)
        self.run(self.random.choice([1, 5, 20, 100]))

    def lose_power(self) -> None:
        """The machine's plug: of what was not fsynced some is there, in any order, or nothing."""
        after = self._directory.with_name(f"after-life-{self.life}")
        self._end_of_life()
        self.disk.lose_power(after)
        self._directory = after

    def stop_broker(self) -> bool:
        """SIGTERM; whether the directory was marked clean."""
        self._server.stop_reading()
        for _ in range(1_000):
            self.runtime.turn()
            if self.runtime.works:
                self.runtime.run_work()
            elif self.runtime.idle:
                break
        self._collect()
        self._server.close_connections()
        self._collect()
        ended: list[bool] = []
        self._composition.stop(ended.append)
        while not ended and (self.runtime.works or not self.runtime.idle):
            if self.runtime.works:
                self.runtime.run_work()
            self.runtime.turn()
        self._end_of_life()
        return ended == [True]

    def end(self) -> None:
        """Let go of everything. What the last broker held goes with the world itself, when garbage is collected."""
        if self.up:
            self._end_of_life()
        self.disk.uninstall()
        for client in self.clients.values():
            client.process.close()
        self.clients.clear()
        self._events.clear()
        del self.runtime

    def _end_of_life(self) -> None:
        self.up = False
        for channel in list(self._channels.values()):
            channel.gone = True
            self._lose(channel)
        self._channels.clear()
        self._stirred.clear()
        self.auditor.broker_died(self.life)
        for one in self._composition._directories:
            if one._lock_fd >= 0:
                os.close(one._lock_fd)  # as the system does when a process ends
        self.broker = self._composition = self._server = None  # type: ignore[assignment]
        gc.unfreeze()  # a broker freezes what it has loaded, for the life of its process

    # Processes

    def spawn(self, name: str, process: Process) -> None:
        """Let a process run from now on."""
        client = self.clients[name] = Client(name, process)
        self._resume(client, client.wait, None)

    def kill(self, name: str) -> None:
        """SIGKILL a client: its connections are closed by its system, at once or never."""
        client = self.clients.pop(name)
        client.dead = True
        client.process.close()
        for channel in client.channels:
            channel.lost = True
            if self.random.random() < 0.7:
                self._tell_broker(channel)

    def freeze(self, name: str, ms: int) -> None:
        """A client stands still, its connections stay open."""
        self.clients[name].frozen_until_ms = self.now_ms + ms

    def cut(self, name: str) -> None:
        """A client's connections break; either side may be the last to know."""
        for channel in list(self.clients[name].channels):
            self.later(self.random.randrange(3_000), lambda channel=channel: self._tell_broker(channel))  # type: ignore[misc]
            self.later(self.random.randrange(3_000), lambda channel=channel: self._lose(channel))  # type: ignore[misc]
            channel.gone = True

    def _resume(self, client: Client, wait: int, value: Any) -> None:
        if client.dead or wait != client.wait:
            return
        if client.frozen_until_ms > self.now_ms:
            self.later(client.frozen_until_ms - self.now_ms, lambda: self._resume(client, wait, value))
            return
        client.wait += 1
        client.calling = None
        try:
            asked = client.process.throw(value) if isinstance(value, Exception) else client.process.send(value)
        except StopIteration:
            client.dead = True
            self.clients.pop(client.name, None)
            for channel in client.channels:
                channel.lost = True
                self._tell_broker(channel)
            return
        self._serve(client, asked)

    def _serve(self, client: Client, asked: Any) -> None:
        wait = client.wait
        match asked:
            case Sleep(ms):
                self.later(ms, lambda: self._resume(client, wait, None))
            case Connect():
                self.later(self.random.randrange(1, 5), lambda: self._connect(client, wait))
            case Call(channel, requests, timeout_ms):
                client.wanted, client.answers, client.calling = len(requests), [], channel
                if channel.lost:
                    self.later(1, lambda: self._resume(client, wait, Lost()))
                    return
                self._send(channel, requests)
                self.later(timeout_ms, lambda: self._time_out(channel, wait))

    def _time_out(self, channel: Channel, wait: int) -> None:
        client = channel.client
        if client.wait != wait or client.dead:
            return
        if client.frozen_until_ms > self.now_ms:
            self.later(client.frozen_until_ms - self.now_ms + 5, lambda: self._time_out(channel, wait))
            return
        self._lose(channel)
        self.later(self.random.randrange(5), lambda: self._tell_broker(channel))

    # The network

    def _connect(self, client: Client, wait: int) -> None:
        if client.dead or not self.up:
            self._resume(client, wait, Lost())
            return
        number = next(self._numbers)
        transport = Wire("127.0.0.1", 1_024 + number % 60_000, lambda: self._stirred.add(number))
        channel = Channel(number, Connection(self._server, "PLAINTEXT"), transport, client, self.life)
        transport.protocol = channel.connection
        channel.connection.connection_made(transport)
        self._channels[number] = channel
        client.channels.append(channel)
        self._resume(client, wait, channel)

    def _send(self, channel: Channel, requests: list[tuple[Any, int]]) -> None:
        for request, version in requests:
            exchange = Exchange(channel.client.name, request, version, self.life)
            correlation_id = next(channel.correlation)
            data = encode_request(request, version, correlation_id, channel.client.name)
            cut = self.random.randrange(len(data)) if self.random.random() < 0.2 else 0
            for piece, last in ((data[:cut], None), (data[cut:], (correlation_id, exchange))):
                if piece:
                    channel.next_in_ms = max(channel.next_in_ms, self.now_ms + self.random.randrange(4))
                    self.later(
                        channel.next_in_ms - self.now_ms,
                        lambda piece=piece, last=last: self._deliver(channel, piece, last),  # type: ignore[misc]
                    )

    def _deliver(self, channel: Channel, piece: bytes, last: tuple[int, Exchange] | None) -> None:
        if channel.gone or not self.up or channel.life != self.life:
            return
        if last is not None:
            last[1].arrived = next(self._ticks)
            channel.pending.append(last)
            self.auditor.arrived(last[1])
        with self._troubled:
            channel.connection.data_received(piece)

    def _collect(self) -> None:
        """Take what the broker has written; it is on its way to the clients from now on."""
        stirred, self._stirred = self._stirred, set()
        for number in sorted(stirred):
            channel = self._channels.get(number)
            if channel is None:
                continue
            written = channel.transport.written
            if len(written) > channel.taken:
                for frame in channel.cutter.feed(bytes(written[channel.taken :])):
                    self._answered(channel, frame)
                channel.taken = len(written)
            if channel.transport.closed and not channel.gone:
                self._tell_broker(channel)
                self.later(self.random.randrange(5), lambda channel=channel: self._lose(channel))  # type: ignore[misc]

    def _answered(self, channel: Channel, frame: bytes) -> None:
        expected, exchange = channel.pending.popleft()
        correlation_id, response = decode_response(exchange.request.API_KEY, exchange.version, frame)
        assert correlation_id == expected, f"answer to {correlation_id} where {expected} is due"
        exchange.answered, exchange.response = next(self._ticks), response
        self.auditor.answered(exchange)
        channel.next_out_ms = max(channel.next_out_ms, self.now_ms + self.random.randrange(4))
        self.later(channel.next_out_ms - self.now_ms, lambda: self._receive(channel, response))

    def _receive(self, channel: Channel, response: Any) -> None:
        client = channel.client
        if channel.lost or client.calling is not channel:
            return
        client.answers.append(response)
        if len(client.answers) == client.wanted:
            self._resume(client, client.wait, client.answers)

    def _lose(self, channel: Channel) -> None:
        """The client learns that the connection is gone."""
        if channel.lost:
            return
        channel.lost = True
        if channel in channel.client.channels:
            channel.client.channels.remove(channel)
        if channel.client.calling is channel:
            self._resume(channel.client, channel.client.wait, Lost())

    def _tell_broker(self, channel: Channel) -> None:
        """The broker learns it."""
        channel.gone = True
        if self._channels.pop(channel.number, None) is not None:
            channel.transport.closed = True
            channel.connection.connection_lost(None)

    # Time

    def later(self, ms: int, what: Callable[[], None]) -> None:
        """Do something in `ms` milliseconds."""
        heapq.heappush(self._events, (self.now_ms + ms, next(self._numbers), what))

    def run(self, ms: int) -> None:
        """Let `ms` milliseconds pass."""
        end_ms = self.now_ms + ms
        events, chance = self._events, self.random.random
        while True:
            at_ms = events[0][0] if events else end_ms + 1
            if self.up:
                timer_ms = self.runtime.timers.next_deadline_ms()
                if timer_ms is not None and timer_ms < at_ms:
                    at_ms = timer_ms
            if at_ms > end_ms:
                break
            self._pass_to(max(at_ms, self.now_ms))
            while events and events[0][0] <= self.now_ms:
                heapq.heappop(events)[2]()
                # Several events may fall into one turn of the broker's loop.
                if chance() < 0.6:
                    self._settle()
            self._settle()
        self._pass_to(end_ms)

    def _pass_to(self, now_ms: int) -> None:
        self.now_ms = now_ms
        if self.up:
            with self._troubled:
                self.runtime.advance(now_ms - self.runtime.now_ms())

    def _settle(self) -> None:
        if not self.up:
            return
        runtime = self.runtime
        if not runtime.idle:
            with self._troubled:
                runtime.turn()
            if not runtime.idle and not self._turn_due:
                self._turn_due = True
                self.later(1, self._next_turn)
        if self._stirred:
            self._collect()
        while self._works_seen < len(runtime.works):
            self._works_seen += 1
            self.later(self.random.randrange(1, 30), lambda: self._work(runtime))

    def _next_turn(self) -> None:
        self._turn_due = False
        self._settle()

    def _work(self, runtime: VirtualRuntime) -> None:
        if runtime is self.runtime and self.up and runtime.works:
            self._works_seen -= 1
            with self._troubled:
                runtime.run_work()
            self._settle()


class _Troubled:
    """While the broker acts, its file operations fail as probably as the world says."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __enter__(self) -> None:
        self.world.disk.doubt = self.world.disk_trouble

    def __exit__(self, *_: object) -> None:
        self.world.disk.doubt = 0.0
