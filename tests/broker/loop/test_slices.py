"""Long work leaves turns to others: how much of a turn it takes, who is next, and what becomes of it."""

from __future__ import annotations

import weakref
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from broker.loop.slices import AT_ONCE_NS, QUANTUM_NS, SLICE_NS, InThread, Until
from tests.support.garbage import collected_by_nobody
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

STEP_NS = 50_000


class Desk:
    """A runtime whose steps take 50 us each, and a note of every step."""

    def __init__(self, *, eager_workers: bool = True) -> None:
        self.runtime = VirtualRuntime(eager_workers=eager_workers)
        self.runtime.step_ns = STEP_NS
        self.steps: list[Any] = []
        self.done: list[Any] = []
        self.failed: list[Exception] = []

    def work(self, name: str, steps: int) -> Generator[None, None, str]:
        for _ in range(steps):
            self.steps.append(name)
            yield
        return name

    def begin(self, name: str, steps: int, **facts: Any) -> None:
        self.runtime.in_slices(self.work(name, steps), self.done.append, self.failed.append, owner=name, **facts)

    def steps_by_turn(self) -> list[list[Any]]:
        """What was done in each turn, from now on to the end."""
        turns: list[list[Any]] = []
        seen = len(self.steps)

        def mine() -> None:
            nonlocal seen
            turns.append(self.steps[seen:])
            seen = len(self.steps)
            if self.runtime.slices:
                self.runtime.next_turn(mine)

        self.runtime.next_turn(mine)
        self.runtime.turn()
        return turns


def test_short_work_is_done_before_its_caller_goes_on() -> None:
    desk = Desk()
    desk.begin("short", 3)
    assert desk.done == ["short"]
    assert not desk.runtime.slices


def test_what_others_wait_for_is_bounded_by_time_and_not_by_the_number_of_steps() -> None:
    desk = Desk()
    desk.begin("long", 1_000)
    assert len(desk.steps) <= AT_ONCE_NS / STEP_NS

    for turn in desk.steps_by_turn():
        assert len(turn) * STEP_NS <= SLICE_NS
    assert desk.done == ["long"]

    slow = Desk()
    slow.runtime.step_ns = SLICE_NS
    slow.begin("slow", 20)
    assert max(len(turn) for turn in slow.steps_by_turn()) == 1


class Steps:
    """One step and no more; as a generator in native code it has no name but its type's."""

    def __next__(self) -> None:
        raise StopIteration

    def send(self, _: object) -> None:
        return None


def test_who_holds_the_loop_is_named_in_native_code_too() -> None:
    desk = Desk()
    desk.runtime.step_ns = 60_000_000
    steps: Any = Steps()
    for work in (desk.work("named", 2), steps):
        desk.runtime.in_slices(work, desk.done.append, desk.failed.append, owner=work)
        desk.runtime.turn()
    assert list(desk.runtime.stalls.longest_ns) == ["Desk.work", "Steps"]


def test_all_owners_together_have_one_slice_and_take_turns_in_it() -> None:
    desk = Desk()
    for number in range(20):
        desk.begin(f"owner {number}", 100)
    shares = []
    for turn in desk.steps_by_turn():
        assert len(turn) * STEP_NS <= SLICE_NS
        for name in set(turn):
            assert turn.count(name) * STEP_NS <= QUANTUM_NS
        shares += list(dict.fromkeys(turn))
    # Nobody has his second turn before everybody has had his first.
    assert set(shares[:20]) == {f"owner {number}" for number in range(20)}
    assert len(desk.done) == 20


def test_who_comes_to_a_busy_loop_with_little_to_do_does_not_wait() -> None:
    desk = Desk()
    for number in range(20):
        desk.begin(f"long {number}", 1_000)
    desk.begin("short", 2)
    assert desk.done == ["short"]


def test_the_works_of_one_owner_follow_each_other() -> None:
    desk = Desk()
    for name in ("first", "second"):
        desk.runtime.in_slices(desk.work(name, 30), desk.done.append, desk.failed.append, owner="one")
    desk.runtime.turn()
    assert desk.steps == ["first"] * 30 + ["second"] * 30
    assert desk.done == ["first", "second"]


def test_work_that_nobody_wants_any_more_is_dropped_without_a_word() -> None:
    desk = Desk()
    wanted = True
    desk.begin("long", 1_000, wanted=lambda: wanted)
    wanted = False
    desk.runtime.turn()
    assert len(desk.steps) <= AT_ONCE_NS / STEP_NS
    assert not desk.done
    assert not desk.runtime.slices


def test_a_step_that_fails_ends_its_own_work_only() -> None:
    desk = Desk()

    def failing() -> Generator[None, None, None]:
        yield from desk.work("failing", 10)
        raise ValueError("no")

    desk.runtime.in_slices(failing(), desk.done.append, desk.failed.append, owner="failing")
    desk.begin("other", 20)
    desk.runtime.turn()
    assert [str(error) for error in desk.failed] == ["no"]
    assert desk.done == ["other"]


def test_a_callback_that_fails_does_not_hold_up_the_others() -> None:
    desk = Desk()

    def refuse(_: object) -> None:
        raise ValueError("a bug")

    desk.runtime.in_slices(desk.work("first", 30), refuse, desk.failed.append, owner="first")
    desk.begin("other", 60)
    desk.runtime.turn()
    assert desk.done == ["other"]
    assert not desk.failed


def test_a_step_in_a_thread_gives_its_result_or_its_error_to_the_next_one() -> None:
    desk = Desk()

    def divided(by: int) -> Generator[InThread, Any, str]:
        try:
            result = yield InThread(lambda: 12 // by)
        except ZeroDivisionError:
            return "not at all"
        return f"into {result}"

    for by in (3, 0):
        desk.runtime.in_slices(divided(by), desk.done.append, desk.failed.append, owner=by)
    desk.runtime.turn()
    assert desk.done == ["into 4", "not at all"]


def test_a_work_that_waits_goes_on_when_it_may_and_takes_no_turn_meanwhile() -> None:
    desk = Desk()
    waiting: list[Callable[[], None]] = []

    def measured() -> Generator[Until, Any, str]:
        yield Until(waiting.append)
        return "measured"

    desk.runtime.in_slices(measured(), desk.done.append, desk.failed.append, owner="one")
    desk.runtime.in_slices(desk.work("its next", 1), desk.done.append, desk.failed.append, owner="one")
    desk.begin("other", 1)
    desk.runtime.turn()
    assert desk.done == ["other"]
    waiting.pop()()
    desk.runtime.turn()
    assert desk.done == ["other", "measured", "its next"]


def test_threads_are_shared_as_slices_are_one_step_at_a_time() -> None:
    desk = Desk(eager_workers=False)
    in_thread: list[str] = []

    def scanning(name: str) -> Generator[InThread, Any, str]:
        for _ in range(5):
            yield InThread(lambda: in_thread.append(name))
        return name

    for name in ("greedy", "other"):
        desk.runtime.in_slices(scanning(name), desk.done.append, desk.failed.append, owner=name)
    while desk.runtime.works:
        assert len(desk.runtime.works) == 1
        desk.runtime.run_work()
        desk.runtime.turn()
    assert in_thread == ["greedy", "other"] * 5


class Reader:
    """Whose work in threads is counted, as that of a client with a quota."""

    def took(self, ns: int) -> None:
        """So long."""


class Held:
    """Can be looked after when it is gone."""


def test_what_a_thread_has_raised_for_a_work_that_was_dropped_is_let_go_of() -> None:
    """A long request that is read for a client that has gone meanwhile, and was none."""
    desk = Desk(eager_workers=False)
    wanted, held = [True], Held()
    left = weakref.ref(held)

    def refuse_to_read(held: Held) -> None:
        raise ValueError(held)

    def reading(held: Held) -> Generator[InThread, Any, None]:
        yield InThread(partial(refuse_to_read, held))

    with collected_by_nobody():
        steps = reading(held)
        desk.runtime.in_slices(
            steps, desk.done.append, desk.failed.append, owner=Reader(), wanted=lambda: wanted[0], at_once=False
        )
        del steps, held
        desk.runtime.turn()
        wanted[0] = False
        desk.runtime.run_work()
        desk.runtime.turn()
        assert left() is None
    assert not desk.failed and not desk.done


def test_what_is_no_longer_wanted_is_not_begun_in_a_thread() -> None:
    desk = Desk(eager_workers=False)
    ran: list[str] = []

    def scanning(name: str) -> Generator[InThread, Any, None]:
        yield InThread(lambda: ran.append(name))

    wanted = {"first": True, "second": True, "third": True}
    for name in ("first", "second", "third"):
        desk.runtime.in_slices(
            scanning(name), desk.done.append, desk.failed.append, owner=name, wanted=partial(wanted.get, name, False)
        )
    wanted["second"] = False
    while desk.runtime.works:
        desk.runtime.run_work()
        desk.runtime.turn()
    assert ran == ["first", "third"]
    assert not desk.runtime.slices


@pytest.mark.parametrize("where", ["at once", "later"])
def test_a_work_may_begin_another_one_for_its_owner(where: str) -> None:
    desk = Desk()

    def beginning() -> Generator[None, None, str]:
        for _ in range(1 if where == "at once" else 20):
            yield
        desk.runtime.in_slices(desk.work("inner", 1), desk.done.append, desk.failed.append, owner="one")
        assert not desk.done
        return "outer"

    desk.runtime.in_slices(beginning(), desk.done.append, desk.failed.append, owner="one")
    desk.runtime.turn()
    assert desk.done == ["outer", "inner"]


def test_what_is_no_longer_wanted_in_a_thread_is_let_go_of_in_turns() -> None:
    """It may hold a hundred thousand objects: twenty clients that went at once held the loop for 0.17 s."""
    desk = Desk(eager_workers=False)
    desk.runtime.step_ns = SLICE_NS
    let_go: list[str] = []

    def scanning(name: str) -> Generator[InThread, Any, None]:
        try:
            yield InThread(list)
        finally:
            let_go.append(name)

    wanted = True
    for name in ("first", "second", "third", "fourth"):
        desk.runtime.in_slices(scanning(name), desk.done.append, desk.failed.append, owner=name, wanted=lambda: wanted)
    wanted = False
    desk.runtime.run_work()
    by_turn: list[list[str]] = []

    def look() -> None:
        by_turn.append(let_go.copy())
        if desk.runtime.slices:
            desk.runtime.next_turn(look)

    desk.runtime.next_turn(look)
    desk.runtime.turn()
    assert max(len(after) - len(before) for before, after in pairwise([[], *by_turn])) == 1
    assert sorted(let_go) == ["first", "fourth", "second", "third"]
