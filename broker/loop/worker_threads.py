"""Threads for work that would hold the loop: what `ThreadPoolExecutor` does, without a future for each work.

A future has a lock and a condition, which the loop and the thread both go through while the other waits for the
interpreter, and each end of a work wakes the loop. Here they wait in a queue, and the loop is woken once for all that
are there. What that brings: docs/decisions/turns.md.
"""

from __future__ import annotations

import atexit
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Done = Callable[[Any], None]
    Failed = Callable[[Exception], None]
    Work = tuple[Callable[[], object], Done, Failed]
    Tell = Callable[[Done, Failed, object, "BaseException | None"], None]

T = TypeVar("T")


class WorkerThreads:
    """A few threads, each started when there is work for it. All but the works themselves is for the loop's thread."""

    def __init__(self, most: int, name: str, wake: Callable[[Callable[[], None]], object], tell: Tell) -> None:
        """At most `most` threads. `wake(callback)` has the loop call that soon; `tell` is called there for each end.

        It gets who asked, `done` and `failed`, and what the work returned, or None and what it raised.
        """
        self._most = most
        self._name = name
        self._wake = wake
        self._tell = tell
        self._threads: list[Thread] = []
        self._works: SimpleQueue[Work | None] = SimpleQueue()
        self._ended: deque[tuple[Done, Failed, object, BaseException | None]] = deque()
        self._untold = 0  # works of whose end nobody has been told
        self._is_woken = False
        self._closed = False
        atexit.register(self.close)  # a write that has begun is not cut short, however the interpreter ends

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Failed) -> None:
        """Have a thread do it as soon as one is free. Raises: RuntimeError when closed, or when none can be started."""
        if self._closed:
            raise RuntimeError(f"the threads of {self._name} are closed")
        at_work = self._untold - len(self._ended)  # or about to be
        if len(self._threads) < min(at_work + 1, self._most):
            self._start_one()
        self._untold += 1
        self._works.put((work, done, failed))

    def _start_one(self) -> None:
        thread = Thread(target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # of threads, or of memory, the system gives no more
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def close(self) -> None:
        """Drop what has not begun, and wait for what has; nobody is told of either."""
        self._closed = True
        try:
            while True:
                self._works.get_nowait()
        except Empty:
            pass
        for _ in self._threads:
            self._works.put(None)
        for thread in self._threads:
            thread.join()
        self._ended.clear()
        atexit.unregister(self.close)

    def _run(self) -> None:
        while (taken := self._works.get()) is not None and not self._closed:
            work, done, failed = taken
            try:
                ended: tuple[Done, Failed, object, BaseException | None] = (done, failed, work(), None)
            except BaseException as error:  # the loop's to raise
                ended = (done, failed, None, error)
            self._ended.append(ended)
            # While it waits for the next it holds nothing of this one.
            del taken, work, done, failed, ended
            # Looked at after the append, and set to false before what is there is counted: no end is left behind.
            self._wake_once()

    def _wake_once(self) -> None:
        if self._is_woken or self._closed:
            return
        self._is_woken = True
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._wake(self._tell_all)

    def _tell_all(self) -> None:
        self._is_woken = False
        left = len(self._ended)  # and not of what ends meanwhile: sockets are read in between
        try:
            while left and self._ended:  # there are none any more when one who is told closes
                left -= 1
                self._untold -= 1
                self._tell(*self._ended.popleft())
        finally:
            if left and self._ended:  # an error that is the loop's, `SystemExit` say, is not the others'
                self._wake_once()
