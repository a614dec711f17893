"""Hostile clients, one of each kind after the other: the worst request of each API, garbage, one that never reads."""

import contextlib
import os
import random
import time
from multiprocessing.synchronize import Event

from benchmarks.worst import frames_of, worst
from tests.crash.test_storm import garbage
from tests.support.wire import Wire

# Half a thousand topics each time it is asked: what comes of them is the broker's state, not a nuisance.
LEFT_OUT = {"Metadata that creates"}


def life(address: str, seed: int, end: Event) -> None:
    """Until `end`: two connections ask the worst of one API for some seconds, then of the next; garbage beside."""
    os.nice(10)
    rng = random.Random(seed)
    apis = [name for name in worst() if name not in LEFT_OUT]
    with garbage(address, seed):
        while not end.is_set():
            rng.shuffle(apis)
            for api in apis:
                if end.is_set():
                    return
                _ask(address, frames_of(api), reads=rng.random() < 0.8, end=end)


def _ask(address: str, data: bytes, *, reads: bool, end: Event) -> None:
    until = time.monotonic() + 3
    # The broker may be away, may throw it out, or may take its time: all of that is its right.
    with contextlib.suppress(OSError), Wire(address, timeout_s=2) as one, Wire(address, timeout_s=2) as other:
        while time.monotonic() < until and not end.is_set():
            for wire in (one, other):
                wire.socket.sendall(data)
            if not reads:
                time.sleep(2)
                return
            for wire in (one, other):
                wire.receive_frame()
