"""What a fuzzed broker costs others: CPU time of each turn of its loop, and the most memory meanwhile.

A turn is what is done between two looks at the sockets: the reading of a piece of at most 256 KiB with the handlers
that it sets off, a step of what is done in slices, what follows on work in a thread, the timers that are due; each with
all that it asked for at the end of its turn. Work in a thread is none of the loop's.
"""

from __future__ import annotations

import gc
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from broker.loop.busy_polling import BusyPolling
from broker.loop.collector import Collector
from broker.loop.long_turns import LongTurns
from broker.loop.slices import Slices
from broker.loop.stalls import Stalls
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.network.connection import Connection
    from broker.network.server import Server

T = TypeVar("T")

HELD_S = 0.25
"""Of CPU, at the most, in one turn of the loop: five times what a broker allows itself."""
AGAIN = 2
"""So often is what took longer asked again, and its shortest time counts: where others want the machine too, turns of a
few milliseconds have been seen to take 120 and 900 by the thread's own clock, and not again."""
READ_BYTES = 262_144
"""The loop reads no more at once."""
_TURNS = 100_000
_TIMERS_NS = 2_000_000  # as the real loop: what is due beyond that waits for the next turn
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class WatchedRuntime(VirtualRuntime):
    """Virtual time, while slices and turns are measured in CPU time of this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.clock_ns = time.thread_time_ns
        self.stalls = Stalls(time.thread_time_ns, self.next_turn)
        self.slices = Slices(self, time.thread_time_ns)
        self.long_turns = LongTurns(self.next_turn, time.thread_time_ns)
        self.busy_polling = BusyPolling(self.next_turn, time.thread_time_ns, int)
        self.longest_ns = 0
        """The longest turn so far."""

    @property
    def longest_s(self) -> float:
        """The longest turn so far."""
        return self.longest_ns / 1e9

    def receive(self, connection: Connection, data: bytes) -> None:
        """Some bytes come, in as many pieces as the loop reads."""
        for at in range(0, len(data), READ_BYTES):
            if not connection.closed:
                self._in_a_turn(partial(connection.data_received, data[at : at + READ_BYTES]))

    def turn(self) -> None:
        """This one and those that were asked for, as long as there are any. Raises: AssertionError, if for ever."""
        self._in_a_turn(_nothing)
        for _ in range(_TURNS):
            if self._next:
                callbacks, self._next = self._next, []
                self._in_a_turn(partial(_call_all, callbacks))
            elif self.works:
                self.works.popleft()()
            else:
                return
        raise AssertionError("turns that do not end: somebody keeps asking for the next one")

    def advance(self, ms: int) -> None:
        """As that of `VirtualRuntime`; timers that are due at once share turns of 2 ms."""
        end_ms = self._now_ms + ms
        self.turn()
        while (next_ms := self.timers.next_deadline_ms()) is not None and next_ms <= end_ms:
            self._now_ms = max(self._now_ms, next_ms)
            self._in_a_turn(self._run_due)
            self.turn()
        self._now_ms = end_ms

    def in_thread(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        self.works.append(partial(self._beside, work, (), done, failed))

    def in_process(
        self,
        work: Callable[..., T],
        arguments: tuple[Any, ...],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.works.append(partial(self._beside, work, arguments, done, failed))

    def _beside(
        self,
        work: Callable[..., T],
        arguments: tuple[Any, ...],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        try:
            result = work(*arguments)
        except Exception as error:
            # Not kept in a name: its traceback knows this frame.
            self._in_a_turn(partial(failed, error))
        else:
            self._in_a_turn(partial(done, result))

    def _run_due(self) -> None:
        began_ns = time.thread_time_ns()
        self.timers.run_due(self._now_ms, lambda: time.thread_time_ns() - began_ns > _TIMERS_NS)

    def _in_a_turn(self, what: Callable[[], None]) -> None:
        began_ns = time.thread_time_ns()
        what()
        self._drain()
        took_ns = time.thread_time_ns() - began_ns
        self.longest_ns = max(self.longest_ns, took_ns)


def collected_as_served(runtime: WatchedRuntime, server: Server) -> Callable[[], None]:
    """The garbage collector is that of a process that serves, or every other turn would be a look at all of the tests.

    What is returned ends it.
    """
    usual = gc.get_threshold()
    ended: list[bool] = []
    collector = Collector(runtime, lambda: len(server.memory.slots) > 0)
    collector.calm()

    def end() -> None:
        if ended:
            return
        ended.append(True)
        collector.close()
        gc.set_threshold(*usual)
        gc.unfreeze()

    return end


class Peak:
    """The most memory that this process has had since `forget`, in bytes. Linux alone knows; else it is 0."""

    def __init__(self) -> None:
        self.before_bytes = 0
        self._clears = os.access(_CLEAR, os.W_OK)

    def forget(self) -> None:
        """From here on."""
        if self._clears:
            _CLEAR.write_text("5")
        self.before_bytes = _status_bytes("VmRSS:")

    def grown_bytes(self) -> int:
        """By how much it was above what there was at `forget`."""
        return max(_status_bytes("VmHWM:" if self._clears else "VmRSS:") - self.before_bytes, 0)


def _status_bytes(name: str) -> int:
    try:
        return int(_STATUS.read_text().partition(name)[2].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        return 0


def _call_all(callbacks: list[Callable[[], None]]) -> None:
    for callback in callbacks:
        callback()


def _nothing() -> None:
    """A turn that only ends."""
