"""Looking for the next request before going to sleep, where that makes requests come sooner.

A loop with nothing to do sleeps in the kernel, and its processor is halted. To be woken from that takes longer than to
answer: 40 to 60 us of each request in a virtual machine, and some of it is CPU time of our own. A client that sends one
request after the other waits for it each time; so after a request the loop looks for the next one for `span_ns`, again
and again, and sleeps only if there is none.

That would take a whole core for clients that wait for nothing: of 5,000 requests a second each comes within 200 us of
the one before, whether we sleep or not. So it is tried from time to time: as many requests asleep as awake. Only if
these followed each other in an eighth less time the loop stays awake between requests until the next trial. What is
tried and decided is the same for all connections together, since they share the loop. Others that could run on this
processor are offered it between one look in vain and the next, never before what a turn has read is answered.

Always true: after `_MOST_MISSES` looks in vain one after the other the loop sleeps until the next trial.

Source: Linux's busy polling (net.core.busy_poll) and KVM's halt polling, which waits as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIED = 256
"""Requests asleep, and awake, or a few more. Where they come by chance, one trial in fifteen says yes."""
_APART_NS = 5_000_000
"""A longer time between two says nothing of how they follow each other."""
_MOST_MISSES = 16
_SHORTEST_NS, _LONGEST_NS = 500_000_000, 2_000_000_000
"""From one trial to the next: twice as long each time it says the same."""
_PAUSE_NS = 1_000_000_000
"""Who comes after such a pause may be somebody else: a trial begins, anew if one is under way."""
_NEVER_NS = (1 << 62) - 1


class BusyPolling:
    """Of one loop.

    `next_turn` calls back when sockets have been read once more, without sleeping before that; `give_way` lets others
    run on this processor.
    """

    __slots__ = (
        "_before_ns",
        "_came",
        "_clock_ns",
        "_every_ns",
        "_first_look",
        "_give_way",
        "_heard_ns",
        "_looking",
        "_misses",
        "_next_trial_ns",
        "_next_turn",
        "_span_ns",
        "_taken_ns",
        "_tried",
        "_until_ns",
        "_was_awake",
        "awake",
    )

    def __init__(
        self,
        next_turn: Callable[[Callable[[], None]], object],
        clock_ns: Callable[[], int],
        give_way: Callable[[], None],
    ) -> None:
        self._next_turn = next_turn
        self._clock_ns = clock_ns
        self._give_way = give_way
        self._span_ns = 0
        self.awake = False
        """Whether the loop looks for more after each request."""
        self._looking = False
        self._first_look = False
        self._until_ns = 0
        self._came = False  # a request, since the last look
        self._misses = 0  # one after the other
        self._heard_ns = 0  # when a request came last
        self._next_trial_ns = _NEVER_NS
        self._tried = -1  # of this half of a trial; -1: there is none
        self._taken_ns = 0  # by those
        self._before_ns = -1  # by each of the first half; -1: this is the first
        self._every_ns = _SHORTEST_NS
        self._was_awake = False  # as was decided last

    def allow(self, span_ns: int) -> None:
        """Look for so long; 0: never. Before the first request."""
        self._span_ns = span_ns
        self._next_trial_ns = 0 if span_ns else _NEVER_NS

    def came(self, now_ns: int, requests: int) -> None:
        """So many have been read and handled."""
        gap_ns = now_ns - self._heard_ns
        self._heard_ns = now_ns
        if self.awake:
            self._came = True
            if not self._looking:
                self._look_out()
        if self._tried >= 0:
            self._try(gap_ns, requests, now_ns)
        elif now_ns >= self._next_trial_ns or (gap_ns > _PAUSE_NS and self._span_ns):
            self._begin()

    def stirred(self) -> None:
        """What some request waited for may be done: soon somebody may send the next one."""
        if self.awake:
            if self._looking:
                self._first_look = True
            else:
                self._look_out()

    # --- trials

    def _begin(self) -> None:
        self.awake = self._was_awake
        self._tried = self._taken_ns = 0
        self._before_ns = -1

    def _try(self, gap_ns: int, requests: int, now_ns: int) -> None:
        if gap_ns > _APART_NS:
            if gap_ns > _PAUSE_NS:
                self._begin()
            return
        self._tried += requests
        self._taken_ns += gap_ns
        if self._tried < _TRIED:
            return
        each_ns = self._taken_ns // self._tried
        if self._before_ns < 0:  # those were as before; now the other way
            self._before_ns = each_ns
            self._tried = self._taken_ns = self._misses = 0
            self.awake = not self.awake
        elif self._was_awake:
            self._decide(self._before_ns * 8 < each_ns * 7, now_ns)
        else:
            self._decide(each_ns * 8 < self._before_ns * 7, now_ns)

    def _decide(self, awake: bool, now_ns: int) -> None:
        self._every_ns = min(self._every_ns * 2, _LONGEST_NS) if awake == self._was_awake else _SHORTEST_NS
        self._next_trial_ns = now_ns + self._every_ns
        self._tried = -1
        self._was_awake = self.awake = awake

    # --- looks

    def _look_out(self) -> None:
        self._looking = self._first_look = True
        self._next_turn(self._look)

    def _look(self) -> None:
        now_ns = self._clock_ns()
        if self._first_look:  # what came in the turn that is over is no answer to it
            self._first_look = self._came = False
            self._until_ns = now_ns + self._span_ns
        elif self._came:
            self._came = False
            self._misses = 0
            self._until_ns = now_ns + self._span_ns
        elif now_ns >= self._until_ns or not self.awake:
            self._looking = False
            self._misses += 1
            if self._misses >= _MOST_MISSES:
                self._decide(False, now_ns)
            return
        else:
            self._give_way()
        self._next_turn(self._look)
