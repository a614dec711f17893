"""Threads for work that would hold the loop; `wake` is called in one of them, the loop is this test."""

import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from broker.loop.worker_threads import WorkerThreads
from tests.support.broker_process import ROOT, eventually
from tests.support.garbage import collected_by_nobody

PATIENCE_S = 20


class Loop:
    """What is woken runs when it is asked to, and what it tells is kept."""

    def __init__(self, most: int = 2) -> None:
        self.woken: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.threads = WorkerThreads(most, "tested", self.woken.put, self._tell)

    def _tell(self, done, failed, result, error) -> None:
        if error is None:
            done(result)
        else:
            failed(error)

    def turn(self) -> None:
        """The next wake-up."""
        self.woken.get(timeout=PATIENCE_S)()

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.turn()


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.threads.close()


def threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("tested_"))


def test_every_work_is_told_of_once(loop: Loop):
    told: list[int] = []
    for number in range(500):
        loop.threads.submit(lambda number=number: number, told.append, told.append)
    loop.until(lambda: len(told) >= 500)
    while not loop.woken.empty():
        loop.turn()

    assert sorted(told) == list(range(500))


def test_the_loop_is_woken_once_for_what_ended_meanwhile(loop: Loop):
    told: list[object] = []
    for _ in range(20):
        loop.threads.submit(lambda: None, told.append, told.append)
    eventually(lambda: len(loop.threads._ended) == 20)
    assert loop.woken.qsize() == 1

    loop.turn()
    assert told == [None] * 20
    loop.threads.submit(lambda: 1, told.append, told.append)
    loop.turn()
    assert told[20:] == [1]


def test_what_ends_while_others_are_told_waits_for_its_turn(loop: Loop):
    """A work that asks for the next one, over and over, leaves the sockets their turns."""
    told: list[int] = []

    def done(number: int) -> None:
        told.append(number)
        loop.threads.submit(lambda: number + 1, done, done)
        eventually(lambda: bool(loop.threads._ended))

    loop.threads.submit(lambda: 0, done, done)
    for turn in range(3):
        loop.turn()
        assert told == list(range(turn + 1))
    loop.threads.close()


def test_as_many_threads_as_there_is_work_for_and_no_more(loop: Loop):
    release = threading.Event()
    at_work: SimpleQueue[str] = SimpleQueue()
    told: list[object] = []

    def work() -> None:
        at_work.put(threading.current_thread().name)
        release.wait(PATIENCE_S)

    for ended in range(3):  # of whose ends the loop has not heard
        loop.threads.submit(lambda: None, told.append, told.append)
        eventually(lambda ended=ended: len(loop.threads._ended) == ended + 1)
    assert threads() == ["tested_0"]
    for _ in range(4):
        loop.threads.submit(work, told.append, told.append)
    assert {at_work.get(timeout=PATIENCE_S) for _ in range(2)} == {"tested_0", "tested_1"}
    assert threads() == ["tested_0", "tested_1"]

    release.set()
    loop.until(lambda: len(told) == 7)


def test_those_that_are_there_do_it_when_no_thread_can_be_started(loop: Loop, monkeypatch: pytest.MonkeyPatch):
    """A limit of threads in a container, say."""
    release = threading.Event()
    told: list[object] = []

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            loop.threads.submit(lambda: 0, told.append, told.append)
    loop.threads.submit(lambda: release.wait(PATIENCE_S), told.append, told.append)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        loop.threads.submit(lambda: 2, told.append, told.append)
    assert threads() == ["tested_0"]
    release.set()
    loop.until(lambda: len(told) == 2)
    assert told == [True, 2]


@pytest.mark.parametrize("error", [SystemExit(3), MemoryError()])
def test_an_error_that_is_the_loops_leaves_the_others_to_be_told(loop: Loop, error: BaseException):
    told: list[object] = []

    def raise_it(_: object) -> None:
        raise error

    for done in (told.append, raise_it, told.append, told.append):
        loop.threads.submit(lambda: 1, done, told.append)
    eventually(lambda: len(loop.threads._ended) == 4)
    with pytest.raises(type(error)):
        loop.turn()
    loop.turn()

    assert told == [1, 1, 1]


def test_a_loop_that_is_closed_takes_no_thread_with_it():
    def wake(_: object) -> None:
        raise RuntimeError("Event loop is closed")

    threads = WorkerThreads(1, "tested", wake, print)
    ended: SimpleQueue[int] = SimpleQueue()
    for number in range(3):
        threads.submit(lambda number=number: ended.put(number), print, print)
    assert [ended.get(timeout=PATIENCE_S) for _ in range(3)] == [0, 1, 2]
    threads.close()


def test_who_is_told_may_close(loop: Loop):
    told: list[object] = []
    for done in (told.append, lambda _: loop.threads.close(), told.append):
        loop.threads.submit(lambda: 1, done, told.append)
    eventually(lambda: len(loop.threads._ended) == 3)
    loop.turn()

    assert told == [1]


def test_errors_are_for_who_asked_even_those_that_end_a_program(loop: Loop):
    told: list[BaseException] = []

    def leave() -> None:
        raise SystemExit(3)

    for work in (lambda: 1 // 0, leave, lambda: 1 // 0):
        loop.threads.submit(work, told.append, told.append)
    loop.until(lambda: len(told) == 3)

    assert sorted(type(error).__name__ for error in told) == ["SystemExit", "ZeroDivisionError", "ZeroDivisionError"]


def test_closing_drops_what_has_not_begun_and_waits_for_what_has():
    loop = Loop(most=1)
    begun, release = threading.Event(), threading.Event()
    happened: list[str] = []

    class Works(SimpleQueue):
        def get_nowait(self) -> object:
            """The thread is free just when what waits is dropped."""
            release.set()
            eventually(lambda: "second began" in happened or not threads())
            return super().get_nowait()

    def first() -> None:
        begun.set()
        release.wait(PATIENCE_S)
        happened.append("first ended")

    loop.threads._works = Works()
    loop.threads.submit(first, happened.append, happened.append)
    loop.threads.submit(lambda: happened.append("second began"), happened.append, happened.append)
    begun.wait(PATIENCE_S)
    loop.threads.close()

    assert happened == ["first ended"]
    assert loop.woken.empty()
    assert threads() == []
    with pytest.raises(RuntimeError, match="closed"):
        loop.threads.submit(first, happened.append, happened.append)
    loop.threads.close()


def test_nothing_is_held_of_a_work_that_is_done_with(loop: Loop):
    """A produce of a megabyte, until the next work comes."""

    class Large:
        pass

    with collected_by_nobody():
        large = Large()
        left = weakref.ref(large)
        told: list[int] = []
        loop.threads.submit(lambda large=large: len(repr(large)), told.append, told.append)
        del large
        loop.until(lambda: bool(told))
        eventually(lambda: left() is None)


def test_a_program_that_ends_waits_for_a_write_that_has_begun(tmp_path):
    program = f"""
import pathlib, threading
from broker.loop.worker_threads import WorkerThreads
begun = threading.Event()
def write():
    begun.set()
    threading.Event().wait(0.3)
    pathlib.Path({str(tmp_path / "written")!r}).write_text("all of it")
threads = WorkerThreads(1, "tested", lambda callback: None, print)
threads.submit(write, print, print)
begun.wait()
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)
    assert (tmp_path / "written").read_text() == "all of it"
