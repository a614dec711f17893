"""Hostile clients at every door: the worst request of each API, garbage, one that never reads; inside and before.

Doors are listeners of every kind (`tests.fuzz.doors`). Who is inside has shaken hands and logged in where
that is asked for. Who is not goes some way: says nothing or garbage, sends what only those inside may, errs in the
handshake of TLS or in a log-in. Strangers and guests have addresses of their own, since what strangers may take is
counted by address: nobody else is to wait for them.
"""

import contextlib
import multiprocessing
import os
import random
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator, MutableSequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from multiprocessing.synchronize import Event

from benchmarks.worst import PACKED, frames_of, worst
from protocol.frames import encode_request
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import Record, encode_batch
from tests.crash.test_storm import garbage
from tests.fuzz.doors import DOORS, come
from tests.fuzz.frames import Frames
from tests.support.wire import Wire

# Half a thousand topics each time it is asked: what comes of them is the broker's state, not a nuisance.
LEFT_OUT = {"Metadata that creates"}
BOMB, _BOMB_BYTES = "Produce, a bomb", 100 << 20
_ZSTD = 4
STRANGERS, GUESTS = "127.0.0.2", "127.0.0.3"
_BEFORE = {
    "stranger": ("SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "shaking hands": ("SSL", "SASL_SSL"),
    "logging in": ("SASL_PLAINTEXT", "SASL_SSL"),
}
KINDS = (*((door, "inside") for door in DOORS), *((door, way) for way, doors in _BEFORE.items() for door in doors))
"""What is done, by door and way: whoever connects to an open listener is inside."""
_PAUSE_S = 0.05
_KEPT_OPEN = 30


@dataclass
class Attack:
    """Where to, and what others have to say: all of it can be handed to another process.

    `made` counts by `KINDS`: of `inside` the worst requests that were sent, of the others those that came as far. While
    `rest` is set nobody asks for anything; `resting` says that it is so.
    """

    ports: dict[str, int]
    authority_pem: str
    made: MutableSequence[int]
    rest: Event
    resting: Event
    end: Event

    @property
    def is_over(self) -> bool:
        """For now."""
        return self.end.is_set() or self.rest.is_set()

    def count(self, door: str, way: str) -> None:
        """One more."""
        self.made[KINDS.index((door, way))] += 1

    def told(self) -> str:
        """What was done, for people."""
        return ", ".join(f"{door} {way} {count}" for (door, way), count in zip(KINDS, self.made, strict=True))

    def missing(self) -> list[str]:
        """What was never done."""
        return [f"{door} {way}" for (door, way), count in zip(KINDS, self.made, strict=True) if not count]


def life(attack: Attack, seed: int) -> None:
    """Until its end: two connections ask the worst of one API for some seconds, then of the next; others beside."""
    os.nice(10)
    threading.Thread(target=end_with_parent, daemon=True).start()
    rng = random.Random(seed)
    trusting = ssl.create_default_context(cadata=attack.authority_pem)
    apis: list[str] = []
    doors = cycle(DOORS)
    while not attack.end.is_set():
        with garbage(f"127.0.0.1:{attack.ports['PLAINTEXT']}", seed), _strangers(attack, trusting, seed):
            while not attack.is_over:
                if not apis:
                    apis = _apis()
                    rng.shuffle(apis)
                _ask(attack, next(doors), trusting, _frames(apis.pop()), reads=rng.random() < 0.8)
        attack.resting.set()
        while attack.rest.is_set() and not attack.end.is_set():
            time.sleep(_PAUSE_S)
        attack.resting.clear()


def end_with_parent() -> None:
    """End this process when who has started it is gone, without a word: nobody is there to set `Attack.end`."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _apis() -> list[str]:
    return [*(name for name in worst() if name not in LEFT_OUT), BOMB]


def _frames(api: str) -> bytes:
    return _bomb() if api == BOMB else frames_of(api)


@cache
def _bomb() -> bytes:
    """A few kilobytes of zstd that become a hundred megabytes, for a topic that must look into them."""
    records = encode_batch([Record(0, 1_700_000_000_000, b"k", bytes(_BOMB_BYTES))], compression=_ZSTD)
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name=PACKED, partition_data=[partition])
    return encode_request(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic]), 9, 1, "bomb")


def _ask(attack: Attack, door: str, trusting: ssl.SSLContext, data: bytes, *, reads: bool) -> None:
    until = time.monotonic() + 3
    # The broker may be away, may throw it out, or may take its time: all of that is its right.
    with contextlib.suppress(OSError), _inside(attack, door, trusting) as one, _inside(attack, door, trusting) as other:
        while time.monotonic() < until and not attack.is_over:
            for wire in (one, other):
                wire.socket.sendall(data)
                attack.count(door, "inside")
            if not reads:
                attack.end.wait(2)
                return
            for wire in (one, other):
                wire.receive_frame()


def _inside(attack: Attack, door: str, trusting: ssl.SSLContext) -> Wire:
    client = come(door, "inside", attack.ports[door], trusting, Frames(0), source=GUESTS)
    client.settimeout(2)
    return Wire.over(client)


@contextlib.contextmanager
def _strangers(attack: Attack, trusting: ssl.SSLContext, seed: int) -> Iterator[None]:
    """One after the other goes some way in by some door; the last are still there."""
    stop = threading.Event()
    frames = Frames(seed)
    kinds = [kind for kind in KINDS if kind != ("PLAINTEXT", "inside")]
    apis = _apis()

    def attempt(door: str, way: str) -> Wire:
        source = GUESTS if way == "inside" else STRANGERS
        client = come(door, way, attack.ports[door], trusting, frames, source=source)
        client.settimeout(2)
        if way != "inside":
            attack.count(door, way)
        words = frames.random.choice(("", "garbage", "worst")) if way in ("stranger", "inside") else ""
        with contextlib.suppress(OSError):  # it may have been thrown out
            if words == "worst":
                client.sendall(_frames(frames.random.choice(apis)))
            elif words:
                body = frames.random.randbytes(frames.random.randrange(200))
                client.sendall(struct.pack(">i", len(body)) + body)
        return Wire.over(client)

    def come_and_go() -> None:
        there: deque[Wire] = deque()
        while not stop.wait(_PAUSE_S):
            with contextlib.suppress(OSError):
                there.append(attempt(*frames.random.choice(kinds)))
            if len(there) > _KEPT_OPEN:
                there.popleft().close()
        for wire in there:
            wire.close()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
