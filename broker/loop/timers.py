"""One heap of deadlines for the whole process, lazily corrected (D9).

A timer is a number, not a task: setting a key again to a later moment writes that number and leaves the heap alone;
the heap looks again when the old moment comes. So 100,000 sessions that are renewed all the time cost 100,000 entries
and no heap work.

Deadlines are moments of the broker's clock, which follows the system's when that is set anew. Inside they are kept as
moments of the monotonic clock, so that such a step neither fires nor delays anything (docs/decisions/clock.md).

Always true: a callback runs at most once per `set`, never before its deadline, and never after `cancel`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

_LOOKED_AT = 64  # entries of the heap, of timers renewed or cancelled since, between two questions whether it is over


class _Timer:
    """One key's deadline; `callback` is None once it ran or was cancelled, until the heap forgets it."""

    __slots__ = ("args", "callback", "deadline_ms", "heap_deadline_ms", "key", "longest_rise_ms")

    def __init__(self, key: Hashable, deadline_ms: int, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.key = key
        self.deadline_ms = deadline_ms
        self.heap_deadline_ms = deadline_ms
        self.callback: Callable[..., None] | None = callback
        self.args = args
        self.longest_rise_ms = 0  # of those by `renew`


class Timers:
    """Deadlines by key. Whoever owns it (a `Runtime`) calls `run_due`, and is told when the next moment moves up."""

    __slots__ = ("_by_key", "_cancelled", "_heap", "_sequence", "_wake_at", "last_key", "offset_ms")

    def __init__(self, wake_at: Callable[[int], None] | None = None) -> None:
        """`wake_at(deadline_ms)` is called whenever the earliest moment to look at becomes an earlier one."""
        self.last_key: Hashable = None  # of the timer that ran last
        self.offset_ms = 0  # the broker's clock minus the monotonic one
        self._by_key: dict[Hashable, _Timer] = {}
        # (when to look, tie-breaker, timer). The newest node of a timer is the one at its `heap_deadline_ms`.
        self._heap: list[tuple[int, int, _Timer]] = []
        self._sequence = 0
        self._cancelled = 0
        self._wake_at = wake_at

    def __len__(self) -> int:
        return len(self._by_key) - self._cancelled

    def __contains__(self, key: Hashable) -> bool:
        timer = self._by_key.get(key)
        return timer is not None and timer.callback is not None

    def deadline_ms(self, key: Hashable) -> int | None:
        """When the timer of this key is due, or None when there is none."""
        timer = self._by_key.get(key)
        return timer.deadline_ms + self.offset_ms if timer is not None and timer.callback is not None else None

    def set(self, key: Hashable, deadline_ms: int, callback: Callable[..., None], *args: Any) -> None:
        """Call `callback(*args)` once at `deadline_ms`; replaces what was set for `key`."""
        deadline_ms -= self.offset_ms
        timer = self._by_key.get(key)
        if timer is None:
            self._by_key[key] = timer = _Timer(key, deadline_ms, callback, args)
        else:
            if timer.callback is None:
                self._cancelled -= 1
            timer.callback, timer.args = callback, args
            timer.deadline_ms = deadline_ms
            if deadline_ms >= timer.heap_deadline_ms:
                return
            timer.heap_deadline_ms = deadline_ms
        self._push(timer, deadline_ms)

    def renew(self, key: Hashable, deadline_ms: int, callback: Callable[..., None], *args: Any) -> None:
        """As `set`, and remember by how much the deadline rose at most: the longest pause between two renewals."""
        timer = self._by_key.get(key)
        if timer is None or timer.callback is None:
            self.set(key, deadline_ms, callback, *args)
            return
        deadline_ms -= self.offset_ms
        rise_ms = deadline_ms - timer.deadline_ms
        if rise_ms > timer.longest_rise_ms:  # noqa: PLR1730  every heartbeat comes here: a call less
            timer.longest_rise_ms = rise_ms
        timer.callback, timer.args = callback, args
        timer.deadline_ms = deadline_ms
        if deadline_ms < timer.heap_deadline_ms:
            timer.heap_deadline_ms = deadline_ms
            self._push(timer, deadline_ms)

    def longest_rise_ms(self, key: Hashable) -> int:
        """See `renew`; 0 when there is no such timer."""
        timer = self._by_key.get(key)
        return timer.longest_rise_ms if timer is not None else 0

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of this key, if there is one."""
        timer = self._by_key.get(key)
        if timer is None or timer.callback is None:
            return
        timer.callback, timer.args = None, ()
        self._cancelled += 1
        # Cancelled timers wait in the heap for their moment; many of them (every fetch sets one) are swept at once.
        if self._cancelled > 1_000 and self._cancelled * 2 > len(self._by_key):
            self._sweep()

    def next_deadline_ms(self) -> int | None:
        """When to call `run_due` next (perhaps in vain), or None when nothing is set."""
        return self._heap[0][0] + self.offset_ms if self._heap else None

    def run_due(self, now_ms: int, is_over: Callable[[], bool] = lambda: False) -> int:
        """Run every callback that is due, earliest first, and return how many ran.

        A callback may set and cancel timers. What it sets for `now_ms` or earlier runs at the next call, so that a
        timer that renews itself cannot hold the loop. An exception passes through; its timer is done, the others stay.
        So do those that are left when `is_over`, which is asked after each and now and then between them.
        """
        now_ms -= self.offset_ms
        ran = 0
        last_sequence = self._sequence
        heap = self._heap
        later: list[tuple[int, int, _Timer]] = []
        try:
            looked_at = 0
            while heap and heap[0][0] <= now_ms:
                looked_at += 1
                if not looked_at % _LOOKED_AT and is_over():
                    break
                node = heappop(heap)
                deadline_ms, sequence, timer = node
                if deadline_ms != timer.heap_deadline_ms or self._by_key.get(timer.key) is not timer:
                    continue  # an older node of a timer that was set to an earlier moment since, or was dropped
                if sequence > last_sequence:
                    later.append(node)
                    continue
                callback = timer.callback
                if callback is None:
                    self._cancelled -= 1
                    del self._by_key[timer.key]
                elif timer.deadline_ms > now_ms:
                    timer.heap_deadline_ms = timer.deadline_ms
                    self._sequence += 1
                    heappush(heap, (timer.deadline_ms, self._sequence, timer))
                else:
                    del self._by_key[timer.key]
                    args, timer.args = timer.args, ()
                    timer.callback = None  # an older node may still have it, to a later moment
                    ran += 1
                    self.last_key = timer.key
                    callback(*args)
                    heap = self._heap  # a sweep inside the callback makes a new one
                    if is_over():
                        break
        finally:
            for node in later:
                heappush(self._heap, node)
        return ran

    def _push(self, timer: _Timer, deadline_ms: int) -> None:
        self._sequence += 1
        heap = self._heap
        heappush(heap, (deadline_ms, self._sequence, timer))
        if heap[0][2] is timer and self._wake_at is not None:
            self._wake_at(deadline_ms + self.offset_ms)

    def _sweep(self) -> None:
        for key in [key for key, timer in self._by_key.items() if timer.callback is None]:
            del self._by_key[key]
        self._cancelled = 0
        self._heap = [
            node
            for node in self._heap
            if node[0] == node[2].heap_deadline_ms and self._by_key.get(node[2].key) is node[2]
        ]
        heapify(self._heap)
