"""The end of a turn: its order, its end, and who held it up."""

from __future__ import annotations

from collections.abc import Callable

from broker.loop.stalls import Stalls
from broker.loop.turn_end import TurnEnd

MS = 1_000_000


class Noted(Stalls):
    """How long each of those took that were noted."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        super().__init__(clock_ns, lambda _: None, clock_ns)
        self.ms: list[int] = []

    def note(self, name: str, whose: str, took_ns: int) -> None:
        assert "take" in name
        self.ms.append(took_ns // MS)


class Loop:
    """Turns by hand, and a clock that is moved."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.scheduled: list[Callable[[], None]] = []
        self.stalls = Noted(lambda: self.now_ns)
        self.end = TurnEnd(self.scheduled.append, self.stalls, lambda: self.now_ns)

    def turn(self) -> None:
        (run,) = self.scheduled
        self.scheduled.clear()
        run()

    def work(self, ms: int) -> Callable[[], None]:
        def take() -> None:
            self.now_ns += ms * MS

        return take


def test_it_is_scheduled_once_in_a_turn_and_anew_in_the_next() -> None:
    loop = Loop()
    done: list[int] = []
    for turn in range(3):
        loop.end.last(lambda turn=turn: done.append(turn))
        loop.end.soon(lambda turn=turn: done.append(10 + turn))
        loop.turn()
    assert done == [10, 0, 11, 1, 12, 2]
    assert not loop.scheduled


def test_what_never_ends_is_divided_and_nothing_of_it_is_lost() -> None:
    loop = Loop()
    done: list[int | str] = []

    def again() -> None:
        done.append(len(done))
        if len(done) < 100:
            loop.end.soon(again)

    loop.end.soon(again)
    loop.end.last(lambda: done.append("last"))
    loop.turn()
    assert done == list(range(64))
    loop.turn()
    assert done == [*range(100), "last"]
    assert not loop.scheduled


def test_what_is_for_the_very_end_of_a_turn_that_was_divided_comes_in_the_next() -> None:
    loop = Loop()
    done: list[str] = []
    rounds = 0

    def again() -> None:
        nonlocal rounds
        rounds += 1
        if rounds < 64:
            loop.end.soon(again)
        else:
            loop.end.last(lambda: done.append("last"))

    loop.end.soon(again)
    loop.turn()
    assert not done
    loop.turn()
    assert done == ["last"]


def test_whoever_holds_it_up_is_noted_and_those_after_it_are_not() -> None:
    loop = Loop()
    for ms in (1, 3, 0, 2, 5, 1):
        loop.end.soon(loop.work(ms))
    loop.turn()
    assert loop.stalls.ms == [3, 5]
