"""Closing consumers that may never end."""

from __future__ import annotations

import contextlib
import sys
from threading import Thread
from typing import Protocol

from confluent_kafka import KafkaException


class Closing(Protocol):
    """A librdkafka consumer, for what is done to it here."""

    def unsubscribe(self) -> None:
        """Give its partitions back, and leave the group."""

    def poll(self, timeout: float) -> object:
        """Call back for what has come."""

    def close(self) -> None:
        """Leave the group, if it has not, and end."""


_POLLS, _POLL_S = 10, 0.02


def close_or_leave(consumer: Closing, wait_s: float = 20) -> bool:
    """Close it; whether that ended. One that does not is left behind with its thread.

    librdkafka 2.16.1 with `group.protocol=consumer` does not always end, though its member has left: an assignment that
    comes while it closes waits for a callback that nobody makes any more (join state wait-assign-call, a thread busy).
    Seen twice in some hundreds of tests; the second time it kept Python's lock, so that nobody's wait for it could end.
    So it leaves the group first, and is called back for what is under way.
    """
    with contextlib.suppress(KafkaException, RuntimeError):  # a fatal one refuses, and so does one that is closed
        consumer.unsubscribe()
        for _ in range(_POLLS):
            consumer.poll(_POLL_S)
    thread = Thread(target=consumer.close, daemon=True)
    thread.start()
    thread.join(wait_s)
    if thread.is_alive():
        print(f"{consumer!r} did not end its closing", file=sys.stderr)
    return not thread.is_alive()
