"""Large batches are written by a worker thread: a disk that does not keep up makes its writer wait, not the loop.

Linux lets a process write into memory until some share of it waits for the disk; from then on whoever writes sleeps,
tens of milliseconds at a time, in proportion to what he has written. So what is large is never written on the loop, and
while a disk is slow what is a page or more is not either; what is left to the loop is too little to be waited for.
For each log directory one thread writes, what waits of a partition in one call, and partitions take turns: to wake a
thread, and to be woken, costs more than a write does. Where nothing else is written two write at once: what a write
waits for is often memory that a processor fetches, not the disk. See docs/decisions/turns.md.

Source: ours; Kafka's request handler threads are made to wait in the same way, each for its own client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from broker.loop.runtime import Runtime
    from storage.log.placed import Placed

USUALLY_AT_ONCE_BYTES = 65_536
"""What is larger is not written on the loop."""

SLOWLY_AT_ONCE_BYTES = 4_096
"""The same while a disk does not keep up: less than a page, on the average, is not made to wait for."""

SLOW_NS = 5_000_000
"""A write that takes so long was made to wait."""

SLOW_FOR_MS = 10_000

WRITES_AT_ONCE = 2
"""So many partitions of a log directory are written while no other directory is."""

Begin = Callable[[], "tuple[Placed, Callable[[], None]] | None"]
"""What is to be written, if anything, and who is to be told when it was."""

log = get_logger(__name__)


class Writer:
    """What is to be written by a thread, in all log directories; and what need not be."""

    def __init__(self, runtime: Runtime, at_once_bytes: int = USUALLY_AT_ONCE_BYTES) -> None:
        self._runtime = runtime
        self._turns: dict[str, deque[Begin]] = {}  # by log directory
        self._writing: dict[str, int] = {}  # by log directory: how many partitions
        self._slow_until_ms = 0
        self.clock_ns = runtime.clock_ns
        self.at_once_bytes = at_once_bytes
        """What is larger is for a thread now."""
        self.stopped = False

    def stop(self) -> None:
        """Begin nothing more, and tell nobody of what is being written: it is for whoever closes the logs."""
        self.stopped = True

    def want(self, directory: str, begin: Begin) -> None:
        """Write what `begin()` gives when there is a turn in this log directory."""
        turns = self._turns.get(directory)
        if turns is None:
            turns = self._turns[directory] = deque()
        turns.append(begin)
        self._start(directory)

    def took(self, took_ns: int) -> None:
        """A batch was written, here or there, and that took so long."""
        if took_ns < SLOW_NS:
            return
        runtime = self._runtime
        if self.at_once_bytes > SLOWLY_AT_ONCE_BYTES:
            log.info("disk_is_slow", took_ms=took_ns // 1_000_000)
            usually, self.at_once_bytes = self.at_once_bytes, SLOWLY_AT_ONCE_BYTES
            runtime.timers.set(self, runtime.now_ms() + SLOW_FOR_MS, lambda: self._look_again(usually))
        self._slow_until_ms = runtime.now_ms() + SLOW_FOR_MS

    def _look_again(self, usually: int) -> None:
        if self._slow_until_ms > self._runtime.now_ms():
            self._runtime.timers.set(self, self._slow_until_ms, lambda: self._look_again(usually))
        else:
            log.info("disk_keeps_up")
            self.at_once_bytes = usually

    def _start(self, directory: str) -> None:
        turns = self._turns[directory]
        while turns and self._has_room(directory) and not self.stopped:
            begin, begun = turns.popleft(), None
            # What is told by `begin` may ask for another turn.
            self._writing[directory] = self._writing.get(directory, 0) + 1
            try:
                begun = begin()
            finally:
                if begun is None:
                    self._wrote(directory)
            if begun is not None:
                self._write(directory, *begun)

    def _has_room(self, directory: str) -> bool:
        """A disk that hangs takes one thread, or two where nothing else is written."""
        writing = self._writing.get(directory, 0)
        return not writing or (writing < WRITES_AT_ONCE and len(self._writing) == 1)

    def _wrote(self, directory: str) -> None:
        self._writing[directory] -= 1
        if not self._writing[directory]:
            del self._writing[directory]

    def _write(self, directory: str, placed: Placed, done: Callable[[], None]) -> None:
        clock_ns = self.clock_ns

        def write() -> int:
            began_ns = clock_ns()
            placed.write()
            return clock_ns() - began_ns

        def written(took_ns: int) -> None:
            if self.stopped:
                return
            self._wrote(directory)
            self.took(took_ns)
            try:
                self._start(directory)  # the thread need not wait for what is told now
            finally:
                done()

        self._runtime.in_thread(write, written, lambda _: written(0))
