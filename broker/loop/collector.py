"""When Python's garbage collector looks at what: at little at a time, and never at what stays.

Requests and connections leave no cycles behind, so that it finds hardly anything. But nobody is answered while it
looks, for 0.1 to 0.8 us an object. How many it would look at, nothing says that costs little: listing them takes 100 ms
for two million, and so does Python's count of its allocated blocks where the memory was once used for as many. But what
a generation holds has been looked at once, when it was younger, and no more of it is left than took so long; but for
lists that have grown since then, which are those of large requests, so while there are any it is put off.

Always true: an older generation is looked at if that took no longer than `_YOUNG_NS` and `_MIDDLE_NS` when it was
younger, and is else kept for good, or until memory is nearly full.
"""

from __future__ import annotations

import gc
from time import thread_time_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.loop.runtime import Runtime

_YOUNG_OBJECTS = 5_000  # that are new between two young collections
_NEVER = 1_000_000  # older generations are not collected by themselves
_EVERY_MS = 100
_YOUNG_NS = 2_000_000  # at most; it takes five times as long when it is no longer in the processor's caches
_MIDDLE_NS = 8_000_000  # at most
_PUT_OFF_LOOKS = 50  # at most: what is there for five seconds is kept
_ENOUGH_YOUNG, _ENOUGH_MIDDLE = 20, 300  # collections, if they did not take half of that before


class Collector:
    """The collector of a process that serves. `calm()` when what the process starts with has been loaded."""

    def __init__(
        self,
        runtime: Runtime,
        is_busy: Callable[[], bool] = lambda: False,
        clock_ns: Callable[[], int] = thread_time_ns,
    ) -> None:
        """`is_busy`: whether large requests are being answered. `clock_ns`: the CPU time of the thread that asks; what
        others take meanwhile says nothing of the objects."""
        self._runtime = runtime
        self._is_busy = is_busy
        self._put_off = 0
        self._clock_ns = clock_ns
        self._began_ns = 0  # of the collection that is under way
        self._young_ns = self._middle_ns = 0  # what collections took, of what is in the next generation
        self._young = self._middle = 0  # how many of them

    def calm(self) -> None:
        """What is there now lives as long as the process: it is not looked at, and was not while it was made.

        Imports leave some two thousand objects in cycles, 0.4 MB; to look meanwhile is a seventh of a start.
        """
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, _NEVER, _NEVER)
        gc.enable()
        gc.callbacks.append(self._collecting)
        self._after_a_while()

    def look_at_everything(self) -> int:
        """Find what has been kept though nobody has it; return how many objects that was.

        A last resort: nobody is answered meanwhile, for a tenth of a second or more for each million objects.
        """
        gc.unfreeze()
        found = gc.collect()
        self._keep()
        return found

    def close(self) -> None:
        """Look no more."""
        gc.callbacks.remove(self._collecting)
        self._runtime.timers.cancel(("process", "collect"))

    def look(self) -> None:
        """Collect what has outlived young collections, if there is enough of it, and if it cannot be much.

        A megabyte of names is much as long as it is answered, and goes without a collector; groups and topics stay.
        """
        if self._young_ns > _YOUNG_NS or self._middle_ns > _MIDDLE_NS:
            self._keep()
        elif self._young_ns * 2 > _YOUNG_NS or self._young >= _ENOUGH_YOUNG:
            if self._is_busy():
                self._put_off += 1
                if self._put_off >= _PUT_OFF_LOOKS:
                    self._keep()
            elif self._middle_ns * 2 > _MIDDLE_NS or self._middle >= _ENOUGH_MIDDLE:
                gc.collect()
                self._keep()  # what is so old stays
            else:
                gc.collect(1)
                self._put_off = 0

    def _keep(self) -> None:
        gc.collect(0)  # what nobody has looked at yet
        gc.freeze()
        self._young_ns = self._middle_ns = self._young = self._middle = self._put_off = 0

    def _collecting(self, phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = self._clock_ns()
            return
        took_ns = self._clock_ns() - self._began_ns
        if facts["generation"] == 0:
            self._young_ns += took_ns
            self._young += 1
        elif facts["generation"] == 1:
            self._young_ns = self._young = 0
            self._middle_ns += took_ns
            self._middle += 1

    def _after_a_while(self) -> None:
        def now() -> None:
            self.look()
            self._after_a_while()

        self._runtime.timers.set(("process", "collect"), self._runtime.now_ms() + _EVERY_MS, now)
