"""Faults for the soak to find, planted in the broker's process: does it see what it watches for?"""

import os
import threading
from collections.abc import Callable

from broker.network.requests import Requests

OFTEN = 50
"""A descriptor or a thread is lost with each so many reads."""


def a_list_that_grows() -> None:
    """With every read of a connection, by 32 KB."""
    kept: list[bytearray] = []
    _with_each_read(lambda: kept.append(bytearray(b"x" * 32_768)))


def objects_that_are_kept() -> None:
    """With every read of a connection, 8 KB in small ones: they fit into the holes that large requests leave."""
    kept: list[bytes] = []
    _with_each_read(lambda: kept.extend(bytes(100) for _ in range(64)))


def a_descriptor_that_is_lost() -> None:
    """With some reads of a connection, one."""
    reads = [0]

    def lose() -> None:
        reads[0] += 1
        if reads[0] % OFTEN == 0:
            os.open(os.devnull, os.O_RDONLY)

    _with_each_read(lose)


def a_thread_that_never_ends() -> None:
    """With some reads of a connection, one: it waits for what nobody says."""
    reads = [0]

    def lose() -> None:
        reads[0] += 1
        if reads[0] % OFTEN == 0:
            threading.Thread(target=threading.Event().wait, daemon=True).start()

    _with_each_read(lose)


def _with_each_read(act: Callable[[], None]) -> None:
    real = Requests.received

    def received(self: Requests, data: bytes) -> None:
        act()
        real(self, data)

    Requests.received = received  # type: ignore[method-assign]


PLANTED = {
    "memory": a_list_that_grows,
    "objects": objects_that_are_kept,
    "descriptors": a_descriptor_that_is_lost,
    "threads": a_thread_that_never_ends,
}
