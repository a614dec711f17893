"""The seam to asyncio, threads and processes, on a real loop."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import uvloop

from broker.loop import loop_runtime as runtime_module
from broker.loop.loop_runtime import LoopRuntime
from broker.loop.stalls import COUNTED_NS
from broker.loop.worker import WorkerDied
from tests.support.broker_process import ROOT, eventually
from tests.support.garbage import collected_by_nobody


@pytest.fixture
async def runtime() -> Iterator[LoopRuntime]:
    runtime = LoopRuntime(asyncio.get_running_loop())
    yield runtime
    runtime.close()


async def _wait(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), 20)


async def test_soon_comes_before_last_even_when_it_is_asked_for_by_soon(runtime: LoopRuntime):
    order: list[str] = []
    done = asyncio.Event()

    def first():
        order.append("first")
        runtime.soon(lambda: order.append("by first"))

    runtime.last(lambda: order.append("write"))
    runtime.last(done.set)
    runtime.soon(first)
    await _wait(done)

    assert order == ["first", "by first", "write"]


async def test_callbacks_that_never_end_leave_the_loop_running(runtime: LoopRuntime):
    rounds = 0

    def again():
        nonlocal rounds
        rounds += 1
        if rounds < 10_000:
            runtime.soon(again)

    runtime.soon(again)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert 0 < rounds < 10_000


async def test_a_failing_callback_does_not_stop_the_others(runtime: LoopRuntime, capfd: pytest.CaptureFixture[str]):
    done = asyncio.Event()
    runtime.soon(lambda: 1 // 0)
    runtime.soon(done.set)

    await _wait(done)

    assert "callback_failed" in capfd.readouterr().err


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_turn_of_a_protocol_that_is_not_ours_is_seen_by_the_watchdog(new_loop: Callable[[], Any]):
    """One of the loop's own TLS, or of a library: nobody notes it, so the timer that comes late tells of it."""
    loop = new_loop()
    runtime = LoopRuntime(loop)
    mine, others = socket.socketpair()

    class Slow(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            time.sleep(4 * COUNTED_NS / 1e9)

    def look() -> None:
        if runtime.stalls.counts:
            runtime.stop()
        else:
            others.sendall(b"x")
            loop.call_later(0.3, look)

    try:
        loop.run_until_complete(loop.create_connection(Slow, sock=mine))
        loop.call_soon(look)
        loop.call_later(20, runtime.stop)
        runtime.run()
    finally:
        others.close()
        runtime.close()
        loop.close()
    assert set(runtime.stalls.counts) == {"many"}


async def test_a_timer_fires_at_its_deadline_and_not_before(runtime: LoopRuntime):
    done = asyncio.Event()
    fired: list[int] = []
    deadline = runtime.now_ms() + 30
    runtime.timers.set("late", deadline + 60_000, done.set)
    runtime.timers.set("soon", deadline, lambda: (fired.append(runtime.now_ms()), done.set()))

    await _wait(done)

    assert fired[0] >= deadline


async def test_work_in_a_thread_ends_on_the_loop(runtime: LoopRuntime):
    done = asyncio.Event()
    seen: list[object] = []

    def finish(result: int) -> None:
        seen.extend((result, threading.get_ident()))
        done.set()

    runtime.in_thread(threading.get_ident, finish, lambda error: None)
    await _wait(done)

    assert seen[0] != threading.get_ident()
    assert seen[1] == threading.get_ident()


async def test_a_failure_in_a_thread_comes_back_as_one(runtime: LoopRuntime):
    done = asyncio.Event()
    errors: list[Exception] = []

    runtime.in_thread(lambda: 1 // 0, lambda _: None, lambda error: (errors.append(error), done.set()))
    await _wait(done)

    assert isinstance(errors[0], ZeroDivisionError)


async def _in_process(runtime: LoopRuntime, work: Callable[..., object], *arguments: object) -> object:
    """The result of a work in the other process, or its exception."""
    done = asyncio.Event()
    results: list[object] = []

    def end(result: object) -> None:
        results.append(result)
        done.set()

    runtime.in_process(work, arguments, end, end)
    await _wait(done)
    return results[0]


async def test_work_in_a_process_ends_on_the_loop_and_a_killed_process_is_replaced(runtime: LoopRuntime):
    first = await _in_process(runtime, os.getpid)
    assert first != os.getpid()
    assert await _in_process(runtime, os.getpid) == first

    assert isinstance(await _in_process(runtime, os._exit, 3), WorkerDied)

    second = await _in_process(runtime, os.getpid)
    assert second not in (os.getpid(), first)


async def test_a_failure_in_a_process_and_what_it_prints_do_no_harm(runtime: LoopRuntime):
    assert isinstance(await _in_process(runtime, int, "none"), ValueError)
    assert await _in_process(runtime, print, "in the middle of the answers") is None
    assert await _in_process(runtime, len, b"123") == 3


@pytest.mark.parametrize(
    "error",
    [
        "StorageError('cannot write to', Path('a/b'), OSError(28, 'No space left on device'))",
        "CorruptSegment('a/b', 17)",
        "CorruptBatch('byte 3: too short')",
    ],
)
async def test_an_error_of_ours_comes_back_from_a_process_as_it_was_raised(runtime: LoopRuntime, error: str):
    """A disk that is full is no fault of the log, and a damaged one is named: not an error in the telling of it."""
    names = "from pathlib import Path; from storage.errors import *; from protocol.records.errors import CorruptBatch"
    raised: dict[str, Any] = {}
    exec(f"{names}; error = {error}", raised)
    met = await _in_process(runtime, exec, f"{names}; raise {error}")
    assert type(met) is type(raised["error"])
    assert str(met) == str(raised["error"])
    assert await _in_process(runtime, len, b"another") == 7


async def test_what_a_process_was_asked_for_is_let_go_of_when_it_fails(runtime: LoopRuntime):
    """A plan of a cleaning, say, every minute while the disk is full."""
    with collected_by_nobody():
        asked = {b"plan"}
        left = weakref.ref(asked)
        assert isinstance(await _in_process(runtime, int, asked), TypeError)
        del asked
        await _in_process(runtime, len, b"another")
        assert left() is None


async def test_works_of_a_process_run_one_after_the_other(runtime: LoopRuntime):
    results = await asyncio.gather(*(_in_process(runtime, divmod, number, 7) for number in range(20)))

    assert results == [divmod(number, 7) for number in range(20)]


@pytest.mark.parametrize("head_start_s", [0.0, 0.001, 0.3])
def test_nothing_is_left_of_a_process_or_of_its_keeper_when_the_runtime_has_closed(head_start_s: float):
    """A stop during a cleaning, whether its process is there already or not, and with works that wait behind it."""
    before = set(threading.enumerate())
    loop = asyncio.new_event_loop()
    runtime = LoopRuntime(loop)
    for _ in range(3):
        runtime.in_process(time.sleep, (60,), lambda _: None, lambda _: None)
    threading.Event().wait(head_start_s)

    began = time.monotonic()
    runtime.close()
    loop.close()

    assert set(threading.enumerate()) == before
    assert time.monotonic() - began < 60  # the works are not waited for: each would take a minute


@pytest.mark.parametrize("where", ["in_thread", "in_process"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_nobody_is_told_when_the_runtime_is_closed(where: str, when: str):
    """A forced stop: the end of a work waits for the loop's next turn, which finds all closed."""
    loop = asyncio.new_event_loop()
    runtime = LoopRuntime(loop)
    told: list[object] = []
    if when == "after":  # and no thread was ever made
        runtime.close()
    if where == "in_thread":
        runtime.in_thread(lambda: 1, told.append, told.append)
    else:
        runtime.in_process(abs, (-1,), told.append, told.append)
    eventually(lambda: bool(loop._ready))  # whose threads have asked it to tell of them

    runtime.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    assert told == []


def test_the_other_process_ends_when_its_parent_is_killed_in_the_middle_of_a_work():
    """A cleaner must not go on writing into a directory that the next broker serves."""
    program = """
import asyncio, os, time
from broker.loop.loop_runtime import LoopRuntime
async def main():
    runtime = LoopRuntime(asyncio.get_running_loop())
    runtime.in_process(os.getpid, (), lambda pid: print(pid, flush=True), print)
    runtime.in_process(time.sleep, (600,), print, print)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    assert Path(f"/proc/{child}").exists()
    parent.kill()
    parent.wait()

    def gone() -> bool:
        try:
            return "zombie" in Path(f"/proc/{child}/status").read_text()
        except OSError:
            return True

    eventually(gone)


def test_what_came_while_the_process_stood_still_is_read_before_late_timers_fire():
    """A heartbeat that lies in its socket counts, although its session's timer is due as well."""
    runtime = LoopRuntime.create()
    loop = runtime._loop
    (busy, ours), (heard, member) = socket.socketpair(), socket.socketpair()
    happened: list[str] = []

    class StandsStill(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            member.send(b"heartbeat")
            time.sleep(0.4)

    class Hears(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            happened.append(data.decode())

    def fire() -> None:
        happened.append("timer")
        runtime.stop()

    with ours, member:
        loop.run_until_complete(loop.connect_accepted_socket(StandsStill, busy))
        loop.run_until_complete(loop.connect_accepted_socket(Hears, heard))
        runtime.timers.set("session", runtime.now_ms() + 50, fire)
        ours.send(b"x")
        runtime.run()
        runtime.close()

    assert happened == ["heartbeat", "timer"]


def test_timers_that_are_due_at_once_do_not_hold_the_loop():
    """Two hundred of a millisecond each: somebody else has his turns between them."""
    loop = asyncio.new_event_loop()
    runtime = LoopRuntime(loop)
    ran: list[int] = []
    turns: list[int] = []

    def expire(number: int) -> None:
        until_ns = time.perf_counter_ns() + 1_000_000
        while time.perf_counter_ns() < until_ns:
            pass
        ran.append(number)

    def other() -> None:
        turns.append(len(ran))
        if len(ran) < 200:
            loop.call_soon(other)
        else:
            loop.stop()

    now_ms = runtime.now_ms()
    for number in range(200):
        runtime.timers.set(number, now_ms, partial(expire, number))
    loop.call_soon(other)
    loop.run_forever()

    assert ran == list(range(200))
    assert max(after - before for before, after in pairwise(turns)) <= 3
    runtime.close()
    loop.close()


@pytest.mark.parametrize("step_s", [3_600, -3_600])
def test_a_step_of_the_wall_clock_neither_fires_nor_delays_a_timer(step_s: int, monkeypatch: pytest.MonkeyPatch):
    """Nor one that is set while the broker's clock stands still."""
    loop = asyncio.new_event_loop()
    wall, mono = [time.time_ns()], [time.monotonic_ns()]

    class Clocks:
        time_ns = staticmethod(lambda: wall[0])
        monotonic_ns = staticmethod(lambda: mono[0])

    monkeypatch.setattr(runtime_module, "time", Clocks)
    runtime = LoopRuntime(loop)
    fired: list[tuple[str, int]] = []
    passed_ms = 0

    def go_on(ms: int) -> None:
        nonlocal passed_ms
        for _ in range(0, ms, 100):
            wall[0] += 100_000_000
            mono[0] += 100_000_000
            passed_ms += 100
            runtime._run_due_timers()

    runtime.timers.set("before", runtime.now_ms() + 4_000, lambda: fired.append(("before", passed_ms)))
    wall[0] += step_s * 1_000_000_000
    runtime.follow_wall_clock()
    go_on(2_000)
    runtime.timers.set("after", runtime.now_ms() + 4_000, lambda: fired.append(("after", passed_ms)))
    go_on(8_000)
    runtime.follow_wall_clock()
    go_on(4_500)
    runtime.timers.set("late", runtime.now_ms() + 4_000, lambda: fired.append(("late", passed_ms)))
    go_on(5_500)

    assert [name for name, _ in fired] == ["before", "after", "late"]
    for (_, at_ms), due_ms in zip(fired, (4_000, 6_000, 18_500), strict=True):
        assert 0 <= at_ms - due_ms <= 100  # two clocks are rounded to milliseconds, and it looks every hundred
    runtime.close()
    loop.close()


@pytest.mark.parametrize("step_s", [3_600, -3_600])
def test_a_step_of_the_wall_clock_never_turns_the_time_back(step_s: int, monkeypatch: pytest.MonkeyPatch):
    """docs/decisions/clock.md"""
    loop = asyncio.new_event_loop()
    wall, mono = [time.time_ns()], [time.monotonic_ns()]

    class Clocks:
        time_ns = staticmethod(lambda: wall[0])
        monotonic_ns = staticmethod(lambda: mono[0])

    monkeypatch.setattr(runtime_module, "time", Clocks)
    runtime = LoopRuntime(loop)
    wall[0] += step_s * 1_000_000_000
    last, caught_up = runtime.now_ms(), []

    for _ in range(800):
        wall[0] += 10_000_000_000
        mono[0] += 10_000_000_000
        before = runtime.now_ms()
        runtime.follow_wall_clock()
        assert runtime.now_ms() >= before
        assert runtime.now_ms() > last  # it may stand still for a while, not for an hour
        last = runtime.now_ms()
        caught_up.append(abs(last - wall[0] // 1_000_000) <= 1_000)

    assert caught_up[-1]
    assert caught_up[0] is (step_s > 0)
    runtime.close()
    loop.close()
