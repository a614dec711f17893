"""A sign of life on standard error while Spark works: how many tasks of the running stages are done."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Self

from coordinator.why.terms import plural

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark import SparkContext

FIRST_AFTER_S = 5.0


class Progress:
    """Within its `with`, every second on a terminal, every half minute elsewhere; nothing for short runs."""

    def __init__(self, context: SparkContext, verb: str) -> None:
        self._tracker = context.statusTracker()
        self._verb = verb
        self._ended = threading.Event()
        self._started = time.monotonic()
        self._written = False
        self._live = sys.stderr.isatty()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._written and self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _run(self) -> None:
        pause = FIRST_AFTER_S
        while not self._ended.wait(pause):
            pause = 1.0 if self._live else 30.0
            try:
                line = self.line()
            except Exception:  # the session is ending
                return
            if line is not None:
                self._written = True
                print(
                    f"\r\x1b[K{line}" if self._live else line,
                    end="" if self._live else "\n",
                    file=sys.stderr,
                    flush=True,
                )

    def line(self) -> str | None:
        """What is being done; None between stages."""
        done = total = 0
        for stage in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(stage)
            if info is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
        if not total:
            return None
        return (
            f"kohort pipeline {self._verb}: {done} of {plural(total, 'task')}, {time.monotonic() - self._started:.0f} s"
        )
