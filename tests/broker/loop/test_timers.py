"""One heap of deadlines: at most one call per `set`, never early, never after `cancel`."""

import weakref

from hypothesis import given
from hypothesis import strategies as st

from broker.loop.timers import Timers


def test_callbacks_run_in_order_of_their_deadlines():
    timers, ran = Timers(), []
    for deadline in (30, 10, 20):
        timers.set(deadline, deadline, lambda deadline=deadline: ran.append(deadline))

    timers.run_due(20)

    assert ran == [10, 20]
    assert timers.next_deadline_ms() == 30


def test_a_renewed_timer_runs_once_at_its_last_deadline():
    timers, ran = Timers(), []
    for deadline in (10, 50, 40):
        timers.set("session", deadline, lambda deadline=deadline: ran.append(deadline))

    timers.run_due(39)
    assert ran == []
    timers.run_due(100)
    assert ran == [40]
    assert len(timers) == 0


def test_what_is_due_may_be_left_for_the_next_call():
    """Ten thousand sessions of one moment: in their order, each once, a few at a time."""
    timers, ran = Timers(), []
    for number in range(10):
        timers.set(number, 5, lambda number=number: ran.append(number))

    assert timers.run_due(5, lambda: len(ran) % 4 == 0) == 4
    assert timers.next_deadline_ms() == 5
    timers.cancel(4)
    assert timers.run_due(5, lambda: len(ran) % 4 == 0) == 4
    assert timers.run_due(5) == 1

    assert ran == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert timers.next_deadline_ms() is None


def test_renewed_timers_are_looked_at_a_few_at_a_time_too():
    timers, asked = Timers(), []
    for number in range(1_000):
        timers.set(number, 5, lambda: None)
        timers.set(number, 50, lambda: None)

    timers.run_due(5, lambda: asked.append(1) or len(asked) == 2)

    assert len(asked) == 2
    assert timers.next_deadline_ms() == 5
    timers.run_due(5)
    assert timers.next_deadline_ms() == 50


def test_a_timer_set_to_an_earlier_moment_runs_then_and_only_then():
    timers, ran = Timers(), []
    timers.set("session", 50, lambda: ran.append(50))
    timers.set("session", 10, lambda: ran.append(10))

    timers.run_due(10)
    timers.run_due(60)

    assert ran == [10]


def test_the_owner_is_told_only_when_the_earliest_moment_moves_up():
    told: list[int] = []
    timers = Timers(told.append)

    timers.set("a", 50, int)
    timers.set("b", 70, int)
    timers.set("a", 90, int)
    timers.set("b", 20, int)

    assert told == [50, 20]


def test_a_callback_that_renews_itself_for_now_waits_for_the_next_look():
    timers, ran = Timers(), []

    def again():
        ran.append(1)
        timers.set("again", 5, again)

    timers.set("again", 5, again)
    timers.run_due(5)
    assert ran == [1]
    timers.run_due(5)
    assert ran == [1, 1]


def test_a_callback_may_cancel_and_set_others():
    timers, ran = Timers(), []
    timers.set("first", 1, lambda: (timers.cancel("second"), timers.set("third", 9, lambda: ran.append("third"))))
    timers.set("second", 2, lambda: ran.append("second"))

    timers.run_due(3)
    timers.run_due(9)

    assert ran == ["third"]


def test_an_exception_loses_its_own_timer_only():
    timers, ran = Timers(), []
    timers.set("bad", 1, lambda: 1 // 0)
    timers.set("good", 1, lambda: ran.append("good"))

    try:
        timers.run_due(1)
    except ZeroDivisionError:
        timers.run_due(1)

    assert ran == ["good"]
    assert "bad" not in timers


def test_a_step_of_the_clock_moves_no_timer():
    """docs/decisions/clock.md: deadlines are told in the broker's time and kept in monotonic time."""
    timers, ran = Timers(), []
    timers.offset_ms = 1_000
    timers.set("session", 1_050, lambda: ran.append(1))

    timers.offset_ms = 5_000  # the clock was set forward by four seconds
    timers.run_due(5_049)
    assert ran == []
    assert timers.deadline_ms("session") == 5_050
    timers.run_due(5_050)
    assert ran == [1]


def test_cancelled_timers_do_not_pile_up():
    timers = Timers()
    for number in range(100_000):
        timers.set(number, 500 + number, int)
        timers.cancel(number)

    assert len(timers) == 0
    assert len(timers._heap) < 5_000
    assert len(timers._by_key) < 5_000


def test_a_hundred_thousand_sessions_are_renewed_without_heap_work():
    timers = Timers()
    for number in range(100_000):
        timers.set(("session", number), 45_000 + number, int)
    heap = len(timers._heap)

    for number in range(100_000):
        timers.set(("session", number), 90_000 + number, int)

    assert len(timers._heap) == heap


_STEPS = st.tuples(st.sampled_from(["set", "cancel", "run"]), st.integers(0, 8), st.integers(0, 100))


@given(st.lists(_STEPS, max_size=200))
def test_it_does_what_a_plain_dict_would(steps: list[tuple[str, int, int]]):
    timers, ran = Timers(), []
    model: dict[int, int] = {}
    now = 0
    for what, key, number in steps:
        if what == "set":
            timers.set(key, now + number, lambda key=key: ran.append(key))
            model[key] = now + number
        elif what == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            now += number // 4
            timers.run_due(now)
            due = {key for key, deadline in model.items() if deadline <= now}
            assert sorted(ran) == sorted(due)
            ran.clear()
            model = {key: deadline for key, deadline in model.items() if deadline > now}
        assert len(timers) == len(model)
        assert {key: timers.deadline_ms(key) for key in model} == model


def test_a_renewed_timer_knows_its_longest_pause():
    """Sessions: how long a member was silent at most, between two heartbeats."""
    timers = Timers()
    timers.renew("k", 100, lambda: None)
    timers.renew("k", 130, lambda: None)
    timers.renew("k", 135, lambda: None)
    timers.set("k", 500, lambda: None)
    timers.renew("k", 510, lambda: None)

    assert (timers.longest_rise_ms("k"), timers.deadline_ms("k")) == (30, 510)
    timers.renew("k", 90, lambda: None)
    assert timers.run_due(90) == 1
    assert timers.longest_rise_ms("k") == 0


def test_what_a_timer_was_called_with_is_let_go_of_when_it_ran_though_an_older_node_still_waits() -> None:
    class Large:
        """What somebody keeps alive."""

    for end in ("run", "cancel"):
        timers, large, told = Timers(), Large(), list[int]()
        kept = weakref.ref(large)
        for deadline_ms in (1_000, 10):
            timers.set("k", deadline_ms, lambda _, told=told: told.append(1), large)
        del large
        assert kept() is not None
        if end == "cancel":
            timers.cancel("k")
        timers.run_due(10)
        assert told == [1] * (end == "run")
        assert kept() is None
