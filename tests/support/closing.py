"""Closing consumers that may never end."""

from __future__ import annotations

import sys
from threading import Thread
from typing import Protocol


class Closing(Protocol):
    """A librdkafka consumer, for what is done to it here."""

    def close(self) -> None:
        """Leave the group."""


def close_or_leave(consumer: Closing, wait_s: float = 20) -> bool:
    """Close it; whether that ended. One that does not is left behind with its thread.

    librdkafka 2.16.1 with `group.protocol=consumer` does not always end, though its member has left: an assignment that
    comes while it closes waits for a callback that nobody makes any more (join state wait-assign-call, a thread busy).
    Seen once in some 170 tests beside other work.
    """
    thread = Thread(target=consumer.close, daemon=True)
    thread.start()
    thread.join(wait_s)
    if thread.is_alive():
        print(f"{consumer!r} did not end its closing", file=sys.stderr)
    return not thread.is_alive()
