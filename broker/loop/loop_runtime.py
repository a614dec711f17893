"""A `Runtime` on an asyncio loop: with its threads and its other process all that touches asyncio and both (D6)."""

from __future__ import annotations

import gc
import time
from _thread import get_ident
from os import sched_yield
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from broker.loop.busy_polling import BusyPolling
from broker.loop.clock import Clock
from broker.loop.descriptors import Descriptors
from broker.loop.event_loop import new_event_loop
from broker.loop.listening import Listening
from broker.loop.logs import get_logger
from broker.loop.long_turns import SHARE_NS, LongTurns
from broker.loop.runtime import Runtime
from broker.loop.slices import Slices
from broker.loop.stalls import NOTED_NS, Stalls, client_of, name_of
from broker.loop.timers import Timers
from broker.loop.turn_end import TurnEnd

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Iterable

    from broker.loop.worker import WorkerProcess
    from broker.loop.worker_threads import WorkerThreads

T = TypeVar("T")
log = get_logger(__name__)

CLOCK_CHECK_MS = 10_000

_LOOK_EVERY_MS = 100
# Three flush, two look into batches, one has what is taken from the loop in slices, one writes for each log directory,
# or two for the only one; who finds none waits for another.
_THREADS = 8
_TIMERS_NS = 2_000_000  # thousands may be due at once: sessions of one moment
_LATE_MS = 250  # a timer that is later than this has not been waited for: something held the process up


class LoopRuntime(Runtime):
    """The real thing, on an asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.timers = self._new_timers()
        self._clock = Clock(self.timers, time.time_ns, time.monotonic_ns)
        self.clock_ns = perf_counter_ns
        self.stalls = Stalls(perf_counter_ns, self.next_turn)
        self.slices = Slices(self, perf_counter_ns)
        self.long_turns = LongTurns(self.next_turn, perf_counter_ns)
        self.busy_polling = BusyPolling(loop.call_soon, perf_counter_ns, sched_yield)
        turn_end = TurnEnd(loop.call_soon, self.stalls, perf_counter_ns)
        self.soon = turn_end.soon
        self.last = turn_end.last
        self._wake: asyncio.TimerHandle | None = None
        self._wake_deadline_ms = 0
        self._descriptors = Descriptors()
        self._threads: WorkerThreads | None = None
        self._speaker: WorkerThreads | None = None
        self._process: WorkerProcess | None = None
        self._closed = False
        self._servers: list[asyncio.AbstractServer] = []
        self._listening: list[Listening] = []
        self._starting: set[asyncio.Task[asyncio.Server]] = set()
        self._accepting = True
        self._looks_at_ns = 0
        self._collects_ns = 0
        self._thread = 0

    def _new_timers(self) -> Timers:
        return Timers(self._wake_at)

    def now_ms(self) -> int:
        """See `Clock`."""
        return self._clock.now_ms()

    @property
    def clock_ms(self) -> Callable[[], int]:
        """That of `Clock`, which is native code in the compiled tree."""
        return self._clock.now_ms

    def short_of_descriptors(self) -> bool:
        """See `broker.loop.descriptors`: two microseconds."""
        return self._descriptors.are_short()

    def follow_wall_clock(self) -> None:
        """Take over a step of the wall clock; to be called every `CLOCK_CHECK_MS`. See `Clock.follow`."""
        step_ns = self._clock.follow(CLOCK_CHECK_MS)
        if step_ns:
            log.warning("wall_clock_stepped", by_ms=step_ns // 1_000_000)

    def next_turn(self, callback: Callable[[], None]) -> None:
        """In the next turn, beside its reading."""
        self._loop.call_soon(callback)

    def _wake_at(self, deadline_ms: int) -> None:
        if self._wake is not None:
            if self._wake_deadline_ms <= deadline_ms:
                return
            self._wake.cancel()
        elif self._closed:
            return
        self._wake_deadline_ms = deadline_ms
        # One millisecond more: the loop counts from its own idea of now, and waking early would be in vain.
        delay_ms = max(deadline_ms - self.now_ms(), 0) + 1
        self._wake = self._loop.call_later(delay_ms / 1_000, self._run_timers)

    def _run_timers(self) -> None:
        self._wake = None
        if self.now_ms() - self._wake_deadline_ms > _LATE_MS:
            # The process stood still, or had too much to do: what members sent in time lies unread in their sockets,
            # and they must be heard before they are expired. The loop reads between one turn and the next.
            self._loop.call_soon(self._loop.call_soon, self._after_what_was_read, self._run_due_timers)
        else:
            self._after_what_was_read(self._run_due_timers)

    def _after_what_was_read(self, callback: Callable[[], None]) -> None:
        if self.long_turns.waiting:  # heartbeats among others
            self.long_turns.put_off(callback)
        else:
            callback()

    def _run_due_timers(self, until_ms: int = -1) -> None:
        """Those that are due, or were at `until_ms`: what has been read by then is handled."""
        began_ns = perf_counter_ns()
        span_ns = SHARE_NS if self.long_turns.waiting else _TIMERS_NS
        if until_ms < 0:
            until_ms = self.now_ms()
        try:
            self.timers.run_due(until_ms, lambda: perf_counter_ns() - began_ns > span_ns)
        except Exception:
            log.exception("timer_failed")
        finally:
            took_ns = perf_counter_ns() - began_ns
            if took_ns > NOTED_NS:
                self.stalls.note("timers", str(self.timers.last_key), took_ns)
            next_ms = self.timers.next_deadline_ms()
            if next_ms is not None:
                if next_ms <= until_ms and self.long_turns.waiting:
                    # Not behind those who wait by now: its turn had come.
                    self._loop.call_soon(self._run_due_timers, until_ms)
                else:
                    self._wake_at(next_ms)

    def in_thread(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """In one of a few threads."""
        if self._threads is None:
            self._threads = self._new_threads(_THREADS, "kohort-worker")
        self._threads.submit(work, done, failed)

    def in_process(
        self,
        work: Callable[..., T],
        arguments: tuple[Any, ...],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """In the one other process, started with the first work."""
        from broker.loop.worker import WorkerDied, WorkerProcess  # noqa: PLC0415  start-up does not pay for it

        if self._speaker is None:
            # One thread that speaks with the process: works queue up behind each other there.
            self._speaker = self._new_threads(1, "kohort-process")

        def speak() -> T:
            if self._process is None:
                self._process = WorkerProcess()
            if self._closed:
                # `close` ran before there was a process to end, or this work waited behind one that it ended.
                self._process.kill()
            try:
                result: T = self._process.run(work, arguments)
            except WorkerDied:
                self._process = None  # the next work starts another one
                raise
            return result

        self._speaker.submit(speak, done, failed)

    def _new_threads(self, most: int, name: str) -> WorkerThreads:
        from broker.loop.worker_threads import WorkerThreads  # noqa: PLC0415  start-up does not pay for it

        return WorkerThreads(most, name, self._loop.call_soon_threadsafe, self._work_ended)

    def _work_ended(
        self,
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
        result: object,
        error: BaseException | None,
    ) -> None:
        if self._closed:  # before there were threads to close
            return
        began_ns = perf_counter_ns()
        self.busy_polling.stirred()
        try:
            if error is None:
                done(result)
            elif isinstance(error, Exception):
                failed(error)
            else:
                raise error
        except Exception:
            log.exception("completion_failed", callback=repr(done))
        took_ns = perf_counter_ns() - began_ns
        if took_ns > NOTED_NS:
            self.stalls.note(name_of(done), client_of(done), took_ns)

    # --- for the process alone

    @classmethod
    def create(cls) -> LoopRuntime:
        """A runtime on a new uvloop."""
        return cls(new_event_loop())

    def listen(self, sock: socket.socket, make_protocol: Callable[[], Any], backlog: int) -> Listening:
        """Accept connections on a bound socket, each handled by a protocol of `make_protocol`. Before `run`."""
        listening = Listening(self._loop, sock, make_protocol, backlog)
        self._listening.append(listening)
        return listening

    def listen_while_running(
        self,
        sock: socket.socket,
        make_protocol: Callable[[], Any],
        backlog: int,
        done: Callable[[], None],
    ) -> None:
        """As `listen`, for a loop that runs: begins to accept a little later, and then calls `done`."""

        def listening(task: asyncio.Task[asyncio.Server]) -> None:
            self._starting.discard(task)
            if task.cancelled() or task.exception() is not None:
                log.error("not_listening", error=str(None if task.cancelled() else task.exception()))
            elif self._accepting:
                self._servers.append(task.result())
                done()
            else:
                task.result().close()

        # The loop keeps only weak references to tasks.
        task = self._loop.create_task(self._loop.create_server(make_protocol, sock=sock, backlog=backlog))
        self._starting.add(task)
        task.add_done_callback(listening)

    def stop_listening(self) -> None:
        """Accept nothing more, and let go of the ports."""
        self._accepting = False
        for server in self._servers:
            server.close()
        self._servers.clear()
        for listening in self._listening:
            listening.close()
        self._listening.clear()

    def on_signals(self, numbers: Iterable[int], callback: Callable[[], None]) -> None:
        """Call `callback` on the loop for each of these signals."""
        for number in numbers:
            self._loop.add_signal_handler(number, callback)

    def on_readable(self, sock: socket.socket, callback: Callable[[], None]) -> None:
        """Call `callback` on the loop whenever there is something to read, for as long as the loop is there."""
        self._loop.add_reader(sock, callback)

    def run(self) -> None:
        """Run the loop until `stop`."""
        self._thread = get_ident()
        gc.callbacks.append(self._collecting)
        self._look_at_lateness()
        try:
            self._loop.run_forever()
        finally:
            gc.callbacks.remove(self._collecting)

    def _look_at_lateness(self) -> None:
        now_ns = perf_counter_ns()
        if self._looks_at_ns:
            self.stalls.late(now_ns - self._looks_at_ns)
        if not self._closed:
            self.stalls.expected_ns = now_ns + _LOOK_EVERY_MS * 1_000_000
            self._looks_at_ns = now_ns + _LOOK_EVERY_MS * 1_000_000
            self._loop.call_later(_LOOK_EVERY_MS / 1_000, self._look_at_lateness)

    def _collecting(self, phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            self._collects_ns = perf_counter_ns()
        else:
            took_ns = perf_counter_ns() - self._collects_ns
            # Of one in another thread the lateness of the next look will tell.
            if took_ns > NOTED_NS and get_ident() == self._thread:
                self.stalls.note("garbage collection", f"generation {facts['generation']}", took_ns)

    def stop(self) -> None:
        """Let `run` return at the end of this turn."""
        self._loop.stop()

    def close(self) -> None:
        """Drop the timers, wait for running threads, end the worker process. Nothing is called back afterwards."""
        self._closed = True
        self._descriptors.close()
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if self._threads is not None:
            self._threads.close()
        if self._process is not None:
            # The cleaner's half-written files are swept at the next start: nothing is lost by ending it at once.
            self._process.kill()
        if self._speaker is not None:
            self._speaker.close()
