"""Looking for the next request before going to sleep: where that makes requests come sooner."""

from __future__ import annotations

import socket
from collections.abc import Callable
from random import Random
from time import perf_counter_ns

import pytest

from broker.loop.busy_polling import BusyPolling
from broker.loop.loop_runtime import LoopRuntime

US = 1_000
MS = 1_000_000
SPAN_NS = 200 * US
LOOK_NS = 2 * US
"""What a turn takes in which nothing is read."""
WAKES_NS = 60 * US
"""What it takes to be woken."""
HANDLES_NS = 10 * US
TRIED = 2 * 256
"""Requests of a trial."""


class Loop:
    """Turns by hand, and a clock that is moved."""

    def __init__(self, span_ns: int = SPAN_NS) -> None:
        self.now_ns = 1_000_000 * US
        self.next_turn: list[Callable[[], None]] = []
        self.gave_way = 0
        self.polling = BusyPolling(self.next_turn.append, lambda: self.now_ns, self._give_way)
        self.polling.allow(span_ns)
        self.looked_ns = 0
        """In vain, or before something came."""

    def _give_way(self) -> None:
        self.gave_way += 1

    def request(self, together: int = 1) -> None:
        """So many are read and handled in a turn."""
        for _ in range(together):
            self.now_ns += HANDLES_NS
            self.polling.came(self.now_ns, 1)

    def turn(self) -> None:
        asked, self.next_turn[:] = list(self.next_turn), []
        for callback in asked:
            callback()

    def until(self, ready_ns: int) -> bool:
        """Nothing comes until then; whether the loop is awake when something does. Else it takes time to be woken."""
        while self.next_turn:
            self.turn()
            if not self.next_turn or self.now_ns >= ready_ns:
                break
            self.now_ns += LOOK_NS
            self.looked_ns += LOOK_NS
        awake = bool(self.next_turn)
        self.now_ns = max(self.now_ns, ready_ns + (0 if awake else WAKES_NS))
        return awake

    def one_after_the_other(self, requests: int, thinks_us: int = 40) -> int:
        """A client that sends the next one so long after the answer; how many found the loop awake."""
        awake = 0
        for _ in range(requests):
            self.request()
            awake += self.until(self.now_ns + thinks_us * US)
        return awake

    def in_flight(self, requests: int, due: Callable[[], float]) -> None:
        """One connection with many in flight: what has come meanwhile is read at once. `due`: us to the next."""
        due_ns, handled = self.now_ns, 0
        while handled < requests:
            self.until(due_ns)
            together = 0
            while due_ns <= self.now_ns:
                together += 1
                due_ns += int(due() * US)
            self.now_ns += together * US
            self.polling.came(self.now_ns, together)
            handled += together

    def in_steps(self, requests: int, step_us: int, together: int = 1) -> int:
        """Clients that send one in so long, whenever the last one was answered."""
        awake, due_ns = 0, self.now_ns
        for _ in range(requests):
            self.request(together)
            due_ns += step_us * US
            awake += self.until(due_ns)
        return awake


@pytest.mark.parametrize("thinks_us", [5, 40, 120])
def test_who_waits_for_each_answer_finds_it_awake(thinks_us: int) -> None:
    loop = Loop()
    loop.one_after_the_other(TRIED + 2, thinks_us)
    assert loop.one_after_the_other(2_000, thinks_us) == 2_000
    assert loop.gave_way > 2_000


def test_who_thinks_for_much_longer_than_it_takes_to_wake_up_does_not() -> None:
    """There is little to be won, and a core to be lost."""
    loop = Loop()
    loop.one_after_the_other(TRIED + 2, 190)
    assert loop.one_after_the_other(1_000, 190) == 1_000
    loop = Loop()
    loop.one_after_the_other(TRIED + 2, 210)
    assert loop.one_after_the_other(1_000, 210) == 0


@pytest.mark.parametrize("together", [1, 3])
@pytest.mark.parametrize("step_us", [100, 150, 190, 1_000])
def test_who_waits_for_nothing_does_not_keep_it_awake(step_us: int, together: int) -> None:
    """Though each comes soon after the one before. Trials become rare."""
    loop = Loop()
    began_ns = loop.now_ns
    loop.in_steps(30_000_000 // step_us, step_us, together)
    assert loop.looked_ns < (loop.now_ns - began_ns) / 30


@pytest.mark.parametrize(
    ("requests", "step_us", "pause_ms"), [(250, 190, 6), (100, 150, 6), (20, 150, 6), (250, 190, 50)]
)
def test_bursts_that_are_shorter_than_half_a_trial_do_not_keep_it_awake(
    requests: int, step_us: int, pause_ms: int
) -> None:
    """Though it was awake when they began."""
    loop = Loop()
    loop.one_after_the_other(TRIED + 2)
    assert loop.polling.awake
    began_ns, before_ns = loop.now_ns, loop.looked_ns
    for _ in range(60_000 // requests):
        loop.in_steps(requests, step_us)
        loop.until(loop.now_ns + pause_ms * MS)
    assert loop.looked_ns - before_ns < (loop.now_ns - began_ns) / 10


@pytest.mark.parametrize("step_us", [20, 50, 60])
def test_many_in_flight_do_not_keep_it_awake(step_us: int) -> None:
    """Asleep, more of them are read together: they follow each other as they did."""
    loop = Loop()
    began_ns = loop.now_ns
    loop.in_flight(100_000, lambda: step_us)
    assert loop.looked_ns < (loop.now_ns - began_ns) / 20


def test_many_in_flight_that_come_by_chance_seldom_keep_it_awake() -> None:
    loop, chance = Loop(), Random(7)
    began_ns = loop.now_ns
    loop.in_flight(200_000, lambda: chance.expovariate(1 / 100))
    assert loop.looked_ns < (loop.now_ns - began_ns) / 8


def test_one_look_in_vain_is_nothing_and_sixteen_one_after_the_other_end_it() -> None:
    loop = Loop()
    loop.one_after_the_other(TRIED + 2)
    for _ in range(40):
        loop.in_steps(1, 400)
        assert loop.one_after_the_other(3) == 3
    for number in range(16):
        assert loop.polling.awake, number
        loop.in_steps(1, 400)
    assert not loop.polling.awake
    loop.in_steps(1, 400)
    assert not loop.next_turn


def test_who_thinks_for_long_now_and_then_is_looked_for_all_the_same() -> None:
    """In a trial, too: the looks in vain of its first half do not count in the second."""
    loop = Loop()
    for _ in range(TRIED // 30 + 2):
        loop.one_after_the_other(30)
        loop.in_steps(1, 400)
    assert loop.polling.awake


def test_looks_in_vain_that_ended_it_do_not_count_in_the_next_trial() -> None:
    loop = Loop()
    loop.one_after_the_other(TRIED + 2)
    loop.in_steps(16, 400)
    assert not loop.polling.awake
    loop.now_ns += 1_100 * MS
    loop.one_after_the_other(TRIED // 2 + 1)
    assert loop.polling.awake
    loop.in_steps(1, 400)
    loop.one_after_the_other(TRIED // 2)
    assert loop.polling.awake


def test_what_is_done_for_a_request_is_a_reason_to_look_from_then_on() -> None:
    loop = Loop()
    loop.polling.stirred()
    assert not loop.next_turn
    loop.one_after_the_other(TRIED + 2)
    loop.request()
    assert loop.until(loop.now_ns + 150 * US)
    loop.polling.stirred()
    assert loop.until(loop.now_ns + 150 * US)
    assert not loop.until(loop.now_ns + 60 * US)
    loop.polling.stirred()
    assert loop.until(loop.now_ns + 150 * US)


def test_a_trial_that_a_pause_divides_begins_anew() -> None:
    """The halves would be of different clients."""
    loop = Loop()
    loop.one_after_the_other(300)
    assert loop.polling.awake
    loop.now_ns += 1_100 * MS
    loop.one_after_the_other(250)
    assert not loop.polling.awake
    loop.one_after_the_other(TRIED)
    assert loop.polling.awake


def test_others_are_offered_the_processor_after_a_look_in_vain_not_before_an_answer() -> None:
    loop = Loop()
    loop.one_after_the_other(TRIED + 2)
    assert not loop.until(loop.now_ns + MS)
    for _ in range(3):  # the first finds it asleep, the others looking
        loop.request()
        gave_way = loop.gave_way
        for in_vain in range(20):
            loop.turn()
            assert loop.gave_way == gave_way + in_vain


def test_a_pause_in_a_trial_says_nothing() -> None:
    """Of a client that is served faster awake, and of one that is not."""
    for thinks_us, awake in ((40, True), (210, False)):
        for paused in range(8, TRIED, 50):
            loop = Loop()
            loop.one_after_the_other(paused, thinks_us)
            loop.now_ns += 20 * MS
            loop.one_after_the_other(TRIED + 256, thinks_us)
            assert loop.polling.awake is awake


def test_who_comes_by_chance_does_not_keep_it_awake() -> None:
    chance = Random(7)
    loop = Loop()
    began_ns, due_ns = loop.now_ns, loop.now_ns
    for _ in range(200_000):
        loop.request()
        due_ns += int(chance.expovariate(1 / 100)) * US
        loop.until(due_ns)
    assert loop.looked_ns < (loop.now_ns - began_ns) / 20


def test_a_client_that_begins_to_wait_for_answers_is_found_by_the_next_trial() -> None:
    loop = Loop()
    loop.in_steps(200_000, 100)
    began_ns = loop.now_ns
    while not loop.one_after_the_other(1):
        assert loop.now_ns < began_ns + 2_100 * MS
    while loop.polling._tried >= 0:
        loop.one_after_the_other(1)
    assert loop.one_after_the_other(1_000) == 1_000


def test_one_that_comes_after_a_pause_is_found_at_once() -> None:
    loop = Loop()
    loop.in_steps(200_000, 100)
    loop.now_ns += 1_001 * MS
    loop.one_after_the_other(TRIED + 2)
    assert loop.one_after_the_other(1_000) == 1_000


def test_after_a_pause_it_is_still_awake() -> None:
    """But not for those who come once in a while."""
    loop = Loop()
    loop.one_after_the_other(TRIED + 2)
    loop.until(loop.now_ns + 2_000 * MS)
    assert loop.one_after_the_other(100) == 100
    looked_ns = loop.looked_ns
    loop.in_steps(100, 3_000_000)
    assert loop.looked_ns - looked_ns <= 16 * (SPAN_NS + LOOK_NS)
    assert not loop.polling.awake


def test_who_stops_waiting_for_answers_lets_it_sleep_within_two_seconds() -> None:
    loop = Loop()
    loop.one_after_the_other(60_000)
    assert loop.polling.awake
    began_ns = loop.now_ns
    while loop.in_steps(100, 150):
        assert loop.now_ns < began_ns + 2_200 * MS


def test_trials_of_one_who_waits_for_answers_become_rare() -> None:
    loop = Loop()
    loop.one_after_the_other(100_000)
    began_ns = loop.now_ns
    asleep = 50_000 - loop.one_after_the_other(50_000)
    trials = (loop.now_ns - began_ns) // (1_900 * MS) + 1
    assert 256 <= asleep <= trials * 257


def test_it_sleeps_while_others_use_the_time() -> None:
    """Looking made a client slower that shares this processor: no faster is not fast enough."""
    loop = Loop()
    for _ in range(TRIED + 2):
        loop.request()
        loop.until(loop.now_ns + (150 if loop.polling.awake else 40) * US)
    assert not loop.polling.awake


def test_what_is_switched_off_never_looks() -> None:
    loop = Loop(span_ns=0)
    loop.one_after_the_other(2_000)
    loop.now_ns += 2_000 * MS
    loop.one_after_the_other(2_000)
    assert not loop.looked_ns
    assert not loop.gave_way


def test_a_loop_that_looks_reads_and_minds_its_timers_and_sleeps_again() -> None:
    """The real one."""
    runtime = LoopRuntime.create()
    polling = runtime.busy_polling
    polling.allow(20 * MS)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    happened: list[str] = []
    turns = 0

    def read() -> None:
        happened.append(ours.recv(100).decode())
        polling.awake = polling._was_awake = True
        polling.came(perf_counter_ns(), 1)

    def timer() -> None:
        happened.append("timer")
        theirs.send(b"second")

    def count() -> None:
        nonlocal turns
        turns += 1
        if polling._looking:
            runtime.next_turn(count)

    def over() -> None:
        assert not polling._looking
        runtime.stop()

    try:
        runtime.on_readable(ours, read)
        theirs.send(b"first")
        now_ms = runtime.now_ms()
        runtime.timers.set("timer", now_ms + 5, timer)
        runtime.timers.set("count", now_ms + 2, count)
        runtime.timers.set("over", now_ms + 300, over)
        runtime.run()
    finally:
        ours.close()
        theirs.close()
        runtime.close()
    assert happened == ["first", "timer", "second"]
    assert turns > 100


def test_what_a_thread_has_done_counts_as_well() -> None:
    runtime = LoopRuntime.create()
    runtime.busy_polling.allow(MS)
    runtime.busy_polling.awake = True
    seen: list[bool] = []

    def done(_: object) -> None:
        seen.append(runtime.busy_polling._looking)
        runtime.stop()

    try:
        runtime.in_thread(lambda: None, done, done)
        runtime.run()
    finally:
        runtime.close()
    assert seen == [True]
