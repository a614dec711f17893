"""When Python's garbage collector looks at what: at little at a time, and never at what stays.

Requests and connections leave no cycles behind, so that it finds hardly anything. But nobody is answered while it
looks, for 0.2 to 0.8 us an object; and to ask it how many objects there are takes as long as to list them, 65 ms for a
million. So their number is first taken from how many blocks of memory have been allocated, which costs nothing; objects
are counted only when those are few, since as many others may have gone meanwhile.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.loop.runtime import Runtime

_YOUNG_OBJECTS = 5_000  # that are new between two young collections
_NEVER = 1_000_000  # older generations are not collected by themselves
_EVERY_MS = 1_000
_PASSED_AT_LEAST, _PASSED_AT_MOST = 20, 50_000  # young collections
_USUAL_RISES_BY = 20_000  # blocks a look: what stays allocated becomes usual
_IN_FLIGHT = 200_000  # blocks above the usual: those of requests, which a collection would look at for nothing
_COLLECTED_AT_MOST = 50_000  # blocks that have come since a generation was emptied: some 20,000 objects, 5 to 20 ms
_OBJECTS_AT_MOST = 30_000  # of the generation that would be collected
_CALM = 20  # young collections between two looks: 100,000 objects have come at most, which are counted in 10 ms
_COUNTED_EVERY = 10  # looks that find much: to count a million takes 65 ms
_STAYED_LOOKS = 30  # with more than that, and no collection between them: it is state (groups, topics), not requests
_OLDEST_EVERY = 300  # collections: at most once in five minutes


class Collector:
    """The collector of a process that serves. `calm()` when what the process starts with has been loaded."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._usual = 0  # blocks
        self._younger = self._older = 0  # blocks when the middle and the oldest generation were emptied
        self._collections = self._large_looks = 0
        self._passed = 0  # young collections when it last looked

    def calm(self) -> None:
        """What is there now lives as long as the process: it is never looked at again."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, _NEVER, _NEVER)
        self._usual = self._younger = self._older = sys.getallocatedblocks()
        self._after_a_while()

    def look(self) -> None:
        """Collect what has outlived young collections, if there was enough of it, and if it is few.

        Put off while it is much: a megabyte of names is a hundred thousand objects as long as it is answered. What is
        much for long will stay, and so is looked at no more.
        """
        passed, blocks = gc.get_count()[1], sys.getallocatedblocks()
        in_flight = blocks - self._usual
        self._usual = min(blocks, self._usual + _USUAL_RISES_BY)
        is_calm, self._passed = passed - self._passed <= _CALM, passed
        if passed < _PASSED_AT_LEAST or (passed < _PASSED_AT_MOST and in_flight > _IN_FLIGHT):
            return
        is_counted = is_calm and self._large_looks % _COUNTED_EVERY == 0
        if blocks - self._younger <= _COLLECTED_AT_MOST and is_counted and _few_in(1):
            self._collect()
        elif passed >= _PASSED_AT_MOST or self._large_looks >= _STAYED_LOOKS:
            self._keep()
        else:
            self._large_looks += 1

    def _collect(self) -> None:
        gc.collect(1)
        self._large_looks = self._passed = 0
        self._younger = sys.getallocatedblocks()
        self._collections += 1
        if self._collections % _OLDEST_EVERY == 0:  # nobody else does: what is old may be garbage, too
            if self._younger - self._older <= _COLLECTED_AT_MOST and _few_in(2):
                gc.collect()
            self._keep()

    def _keep(self) -> None:
        gc.freeze()
        self._large_looks = 0
        self._younger = self._older = sys.getallocatedblocks()

    def _after_a_while(self) -> None:
        def now() -> None:
            self.look()
            self._after_a_while()

        self._runtime.timers.set(("process", "collect"), self._runtime.now_ms() + _EVERY_MS, now)


def _few_in(generation: int) -> bool:
    return len(gc.get_objects(generation=generation)) <= _OBJECTS_AT_MOST
