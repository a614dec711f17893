"""A commit storm of 200 groups by 20 clients, beside a connection that sends garbage and one that never reads."""

import contextlib
import random
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from protocol.frames import encode_request
from protocol.messages.metadata import MetadataRequest
from tests.clients import harness
from tests.crash import load
from tests.support.broker_process import BrokerProcess, Kohort, eventually
from tests.support.wire import Wire

GROUPS = [f"storm-{n}" for n in range(200)]
CLIENTS, IN_FLIGHT = 20, 3
COMMITS = 1_000
"""By each client."""


class Storm:
    """Commits of rising offsets for all groups, from threads, so many by each; done when constructed."""

    def __init__(self, address: str, topic: str, first_offset: int, connect: Callable[[str], Wire] = Wire) -> None:
        self.acknowledged: dict[str, int] = {}
        self.commits = 0
        self.failures: list[str] = []
        self._lock = threading.Lock()
        self._connect = connect
        threads = [
            threading.Thread(target=self._commit, args=(address, topic, GROUPS[n::CLIENTS], first_offset))
            for n in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _commit(self, address: str, topic: str, groups: list[str], offset: int) -> None:
        sent: list[tuple[str, int]] = []
        acknowledged: dict[str, int] = {}
        commits, last = 0, offset + COMMITS
        try:
            with self._connect(address) as wire:
                while offset < last or sent:
                    while len(sent) < IN_FLIGHT and offset < last:
                        group = groups[offset % len(groups)]
                        wire.send_commit(group, topic, {0: offset})
                        sent.append((group, offset))
                        offset += 1
                    answer = wire.receive()
                    group, committed = sent.pop(0)
                    error = answer.topics[0].partitions[0].error_code
                    if error:
                        raise AssertionError(f"{group}: error {error}")
                    acknowledged[group] = committed
                    commits += 1
        except Exception as error:
            self.failures.append(repr(error))
        with self._lock:
            self.acknowledged.update(acknowledged)
            self.commits += commits


@contextlib.contextmanager
def garbage(address: str, seed: int) -> Iterator[list[int]]:
    """A client that sends frames of random bytes, and comes back when it is thrown out; yields a count of frames."""
    chance, stop, count = random.Random(seed), threading.Event(), [0]

    def send() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError), Wire(address, timeout_s=1) as wire:
                while not stop.is_set():
                    body = chance.randbytes(chance.randrange(200))
                    if chance.random() < 0.5:
                        # A known API key and version in front, so that it gets past the door.
                        body = struct.pack(">hhih", chance.randrange(60), chance.randrange(10), 1, -1) + body
                    size = len(body) if chance.random() < 0.9 else chance.randrange(-(1 << 31), 1 << 31)
                    wire.socket.sendall(struct.pack(">i", size) + body)
                    count[0] += 1
                    stop.wait(0.002)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield count
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def deaf(broker: BrokerProcess) -> Iterator[list[int]]:
    """A client that asks for all metadata again and again, and never reads an answer; yields a count of requests.

    Begins when everything between it and the broker is full and the broker rests, and goes on trying.
    """
    stop, count = threading.Event(), [0]
    wire = Wire(broker.address, timeout_s=0.2)
    frame = encode_request(MetadataRequest(topics=None), 5, 1, "deaf")

    def ask() -> None:
        rest = frame
        while not stop.is_set():
            try:
                rest = rest[wire.socket.send(rest) :]
                if not rest:
                    rest = frame
                    count[0] += 1
            except OSError:  # the broker reads no more of this connection, or has closed it
                stop.wait(0.1)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        eventually(lambda: count[0] > 10 and rests(broker), deadline_s=60, what="the broker reads no more of it")
        yield count
    finally:
        stop.set()
        thread.join()
        wire.close()


def rests(broker: BrokerProcess) -> bool:
    """Whether the broker wants less than a tenth of a processor: looked at over half a second."""
    wanted, began = broker.wanted_s(), time.monotonic()
    time.sleep(0.5)
    return broker.wanted_s() - wanted < 0.1 * (time.monotonic() - began)


@pytest.mark.xdist_group("crash")
def test_a_commit_storm_is_answered_whole_beside_hostile_connections(start_broker: Callable[..., BrokerProcess]):
    """CR06: every commit is answered and none is lost; the broker's memory stays where it was.

    How much hostile connections slow the others down is for `benchmarks/hostile.py` to say.
    """
    broker = start_broker()
    prepare(broker)
    Storm(broker.address, "topic-0", 1)  # warms up
    before = broker.memory_bytes()

    with garbage(broker.address, seed=1) as frames, deaf(broker) as requests:
        beside = Storm(broker.address, "topic-0", 1_000_000)
    assert not beside.failures
    assert beside.commits == CLIENTS * COMMITS
    assert beside.acknowledged.keys() == set(GROUPS)
    assert frames[0] > 100
    assert requests[0] > 10
    grown = broker.memory_bytes() - before
    if isinstance(broker, Kohort):  # a JVM takes what its heap allows
        assert grown < 100 << 20, f"{grown / 1e6:.0f} MB more memory"
    broker.restart(kill=True)
    with Wire(broker.address) as wire:
        for group, offset in beside.acknowledged.items():
            assert load.stored(wire, group, "topic-0", [0]) == {0: offset}


def prepare(broker: BrokerProcess) -> None:
    """Topics, and every group with an offset."""
    # Enough topics that an answer with all metadata is some kilobytes, and nobody's socket buffer takes many of them.
    for number in range(20):
        harness.create_topic(broker.address, f"topic-{number}", 10)
    with Wire(broker.address) as wire:
        # The offsets topic is made when somebody first asks for a coordinator; Apache Kafka then loads it bit by bit.
        eventually(lambda: wire.coordinator_error(GROUPS[0]) == 0, deadline_s=60)
        for group in GROUPS:
            eventually(lambda group=group: wire.commit(group, "topic-0", {0: 0}) == {0}, deadline_s=60)
