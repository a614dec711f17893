"""Turns that would last too long, and what is put off to the next ones."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from time import perf_counter, perf_counter_ns

import pytest

from broker.loop.long_turns import LONG_NS, LOOK_NS, SHARE_NS, LongTurns
from broker.loop.loop_runtime import LoopRuntime

MS = 1_000_000


class Loop:
    """Turns by hand, and a clock that is moved."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * MS
        self.asked: list[Callable[[], None]] = []
        self.turns = LongTurns(self.asked.append, lambda: self.now_ns)
        self.handled: list[object] = []

    def turn(self) -> None:
        """What was asked for until now."""
        asked, self.asked[:] = list(self.asked), []
        for callback in asked:
            callback()

    def read(self, what: object, takes_ms: int = 1) -> bool:
        """As a connection does; whether it was handled at once."""

        def handle() -> None:
            self.now_ns += takes_ms * MS
            self.handled.append(what)

        if self.turns.puts_off(self.now_ns):
            self.turns.put_off(handle)
            return False
        handle()
        return True


def test_turns_that_are_short_put_nothing_off_and_are_hardly_looked_at() -> None:
    loop = Loop()
    looks = 0
    for number in range(1_000):
        assert loop.read(number)
        looks += len(loop.asked)
        loop.turn()
    assert looks <= 1_000 * MS // LOOK_NS + 1


def test_what_is_read_late_in_a_turn_is_put_off_and_handled_in_its_order() -> None:
    """And so is what is read in a later turn while others wait."""
    loop = Loop()
    at_once = [loop.read(number) for number in range(100)]
    first = at_once.index(False)
    assert LONG_NS // MS <= first <= (LOOK_NS + LONG_NS) // MS + 2
    assert not any(at_once[first:])
    for number in range(100, 103):
        loop.turn()
        assert not loop.read(number, takes_ms=0)
    while loop.turns.waiting:
        loop.turn()
    assert loop.handled == list(range(103))
    loop.turn()
    assert loop.read("again")


def test_those_who_wait_have_a_share_of_each_turn() -> None:
    loop = Loop()
    for number in range(200):
        loop.read(number)
    loop.turn()
    counts = []
    while loop.turns.waiting:
        before = len(loop.handled)
        loop.turn()
        counts.append(len(loop.handled) - before)
    assert max(counts) == SHARE_NS // MS
    assert loop.handled == list(range(200))


def test_a_bug_of_one_leaves_the_others_their_turn(capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop()
    loop.turns.put_off(lambda: 1 // len(loop.handled))
    loop.turns.put_off(lambda: loop.handled.append("next"))
    loop.turn()
    assert loop.handled == ["next"]
    assert not loop.turns.waiting
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_what_ends_more_than_one_callback_ends_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop()

    def interrupted() -> None:
        raise KeyboardInterrupt

    loop.turns.put_off(interrupted)
    loop.turns.put_off(lambda: loop.handled.append("next"))
    with pytest.raises(KeyboardInterrupt):
        loop.turn()
    loop.turn()
    assert loop.handled == ["next"]


def test_what_was_read_counts_before_timers_that_are_due() -> None:
    """A member whose heartbeat waits is not expired."""
    runtime = LoopRuntime.create()
    happened: list[str] = []

    def fire() -> None:
        happened.append("timer")
        runtime.stop()

    def wait() -> None:
        runtime.timers.set("session", runtime.now_ms() - 1, fire)
        runtime.long_turns.put_off(lambda: busy_for(0.03))
        for _ in range(3):
            runtime.long_turns.put_off(lambda: happened.append("heartbeat"))

    runtime.soon(wait)
    runtime.run()
    runtime.close()
    assert happened == ["heartbeat"] * 3 + ["timer"]


def busy_for(seconds: float) -> None:
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


def test_many_timers_do_not_wait_behind_each_other_and_all_that_is_read() -> None:
    """They were due together, and each takes its time: the rest goes on in the next turn, however many wait by then."""
    runtime = LoopRuntime.create()
    happened: list[str] = []

    def fire() -> None:
        busy_for(0.001)
        happened.append("timer")

    def read() -> None:
        """One who is always there again."""
        busy_for(0.005)
        happened.append("request")
        if len(happened) < 1_000:
            runtime.long_turns.put_off(read)
        else:
            runtime.stop()

    def wait() -> None:
        for number in range(200):
            runtime.timers.set(number, runtime.now_ms() - 1, fire)
        for _ in range(50):
            runtime.long_turns.put_off(read)

    runtime.soon(wait)
    runtime.run()
    runtime.close()
    last = len(happened) - happened[::-1].index("timer")
    assert happened.count("timer") == 200
    assert happened[:last].count("request") < 200


@pytest.mark.parametrize("puts_off", [False, True])
def test_clients_who_ask_again_at_once_do_not_keep_a_turn_from_ending(puts_off: bool) -> None:
    """More than libuv reads in one go: unless they are put off they are read again and again, 49,152 times a turn."""
    runtime = LoopRuntime.create()
    loop, turns = runtime._loop, runtime.long_turns
    asking = True
    read = longest = 0

    def turn_over() -> None:
        nonlocal read, longest, asking
        longest, read = max(longest, read), 0
        if asking and longest > 1_024:  # all were read, and some again
            asking = False
            loop.call_later(0.1, runtime.stop)

    class Server(asyncio.Protocol):
        """Its client asks again as soon as it is answered."""

        def __init__(self, client: socket.socket) -> None:
            self._client = client

        def data_received(self, data: bytes) -> None:
            nonlocal read
            if not read:
                loop.call_soon(turn_over)
            read += 1
            if puts_off and turns.puts_off(perf_counter_ns()):
                turns.put_off(self._answer)
            else:
                self._answer()

        def _answer(self) -> None:
            busy_for(20e-6)
            if asking:
                self._client.send(b"again")

    clients = []
    for _ in range(1_100):
        ours, theirs = socket.socketpair()
        clients.append(theirs)
        loop.run_until_complete(loop.connect_accepted_socket(lambda theirs=theirs: Server(theirs), ours))  # type: ignore[misc]
    for client in clients:
        client.send(b"first")
    runtime.run()
    runtime.close()
    for client in clients:
        client.close()
    assert longest < 5_000 if puts_off else longest == 48 * 1_024
