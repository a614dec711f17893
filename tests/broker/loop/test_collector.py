"""How much the garbage collector looks at in one go, and what it finds."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from broker.loop.collector import Collector
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND_MS = 1_000
GET_OBJECTS = gc.get_objects


class Looked:
    """The collections that there were: their generation, and how many objects they looked at.

    It is the collector's clock, too: an object takes 20 ns when it is young and 100 when it is not, on any machine.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self._now_ns = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        generation = info["generation"]
        if phase == "start":
            objects = sum(len(GET_OBJECTS(generation=one)) for one in range(generation + 1))
            self.seen.append((generation, objects))
        else:
            self._now_ns += self.seen[-1][1] * (100 if generation else 20)

    def clock_ns(self) -> int:
        """What collections have taken."""
        return self._now_ns

    def of(self, generation: int) -> list[int]:
        """How many objects each of its collections looked at."""
        return [objects for one, objects in self.seen if one == generation]


@pytest.fixture
def looked() -> Iterator[Looked]:
    """From here on."""
    looked = Looked()
    gc.callbacks.append(looked)  # before the collector's own, which asks for the time
    yield looked
    gc.callbacks.remove(looked)


class Busy(VirtualRuntime):
    """A runtime on which large requests may be answered."""

    is_busy = False
    collector: Collector


@pytest.fixture
def runtime(looked: Looked) -> Iterator[Busy]:
    """Whose collector has been calmed."""
    thresholds, runtime = gc.get_threshold(), Busy()
    runtime.collector = Collector(runtime, lambda: runtime.is_busy, looked.clock_ns)
    runtime.collector.calm()
    looked.seen.clear()
    yield runtime
    runtime.collector.close()
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def cycle() -> weakref.ref[Any]:
    """A class knows itself: garbage that only the collector finds."""
    return weakref.ref(type("Garbage", (), {}))


def passing(times: int = 20) -> None:
    """So many young collections."""
    for _ in range(times):
        gc.collect(0)


def test_a_young_collection_looks_at_few_objects_at_a_time(runtime: VirtualRuntime, looked: Looked) -> None:
    """While it looks nobody is answered: a scrape's rows made slices of 11 to 43 ms, fifty thousand objects each."""
    rows = [[number] for number in range(60_000)]

    assert len(rows) == 60_000
    assert looked.of(0) and max(looked.of(0)) < 10_000
    assert not looked.of(1) and not looked.of(2)


def test_what_is_garbage_after_all_is_found(runtime: VirtualRuntime) -> None:
    garbage = cycle()
    passing()
    runtime.advance(SECOND_MS)

    assert garbage() is None


def test_garbage_that_grew_old_is_found(runtime: VirtualRuntime) -> None:
    garbage = type("Garbage", (), {})
    dead = weakref.ref(garbage)
    passing()
    runtime.advance(SECOND_MS)
    del garbage
    for _ in range(300):
        passing()
        runtime.advance(SECOND_MS)

    assert dead() is None


def test_what_stays_is_never_looked_at(runtime: VirtualRuntime, looked: Looked) -> None:
    """Groups, say: a collection of a million objects takes 0.4 s, and to count them 65 ms, each second."""
    state = [[number] for number in range(300_000)]
    for _ in range(700):
        passing(20)
        runtime.advance(SECOND_MS)

    assert len(state) == 300_000
    assert all(objects < 50_000 for objects in [*looked.of(1), *looked.of(2)]), looked.seen
    assert looked.of(1) and looked.of(2), "they are collected again afterwards"


def test_the_objects_of_a_request_are_not_looked_at_again(runtime: VirtualRuntime, looked: Looked) -> None:
    """A megabyte of names is much as long as it is answered; garbage of later is found all the same."""
    names = [[number] for number in range(300_000)]
    passing()
    runtime.advance(3 * SECOND_MS)
    assert not looked.of(1)
    garbage = type("Garbage", (), {})
    dead = weakref.ref(garbage)
    passing()
    del names, garbage
    runtime.advance(SECOND_MS)

    assert dead() is None and looked.of(1)


def test_what_comes_while_as_much_goes_is_not_looked_at(runtime: VirtualRuntime, looked: Looked) -> None:
    """Topics made while others are deleted: the blocks say that nothing has come, but all of it is new (55 ms once)."""
    old = [[number] for number in range(300_000)]
    for _ in range(100):
        passing()
        runtime.advance(SECOND_MS)
    new = [[number] for number in range(300_000)]
    del old
    for _ in range(100):
        passing()
        runtime.advance(SECOND_MS)

    assert len(new) == 300_000
    assert all(objects < 50_000 for objects in [*looked.of(1), *looked.of(2)]), looked.seen
    assert looked.of(1), "they are collected again afterwards"


def test_nothing_is_counted_that_costs_as_much_as_there_is(
    runtime: VirtualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside clients of long lists all objects were listed, for 76 ms, or the blocks of memory counted, for 110."""

    def costs_much(*_: object, **__: object) -> int:
        raise AssertionError("it goes through everything")

    for module, name in ((gc, "get_objects"), (sys, "getallocatedblocks")):
        monkeypatch.setattr(module, name, costs_much)
    for _ in range(400):
        passing()
        runtime.advance(SECOND_MS)


def test_garbage_that_nobody_has_looked_at_is_not_kept(runtime: VirtualRuntime) -> None:
    """With what is too much to be looked at again."""
    names = [[number] for number in range(300_000)]
    garbage = cycle()
    runtime.advance(SECOND_MS)

    assert len(names) == 300_000
    assert garbage() is None


def test_while_large_requests_are_answered_nothing_is_looked_at_again(runtime: Busy, looked: Looked) -> None:
    """Their lists were short when they were looked at: a collection of what had taken 2 ms took 54."""
    growing: list[int] = []
    runtime.is_busy = True
    passing()
    growing += range(1_000_000)
    runtime.advance(4 * SECOND_MS)
    assert not looked.of(1)
    runtime.advance(2 * SECOND_MS)
    runtime.is_busy = False
    passing()
    runtime.advance(SECOND_MS)
    assert len(looked.of(1)) == 1, "what was there for five seconds is kept, and what comes later is looked at"


def test_garbage_that_was_kept_is_found_as_a_last_resort(runtime: Busy, looked: Looked) -> None:
    garbage = type("Garbage", (), {"names": [[number] for number in range(300_000)]})
    dead = weakref.ref(garbage)
    passing()
    runtime.advance(SECOND_MS)
    del garbage
    for _ in range(400):
        passing()
        runtime.advance(SECOND_MS)
    assert dead() is not None, "it was more than there is time for"

    found = runtime.collector.look_at_everything()

    assert dead() is None and found > 300_000
    state = [[number] for number in range(300_000)]
    looked.seen.clear()
    runtime.collector.look_at_everything()
    passing(400)
    runtime.advance(SECOND_MS)
    assert len(state) == 300_000 and len([objects for _, objects in looked.seen if objects > 300_000]) == 1, "and kept"


def test_garbage_is_looked_for_from_then_on_though_it_was_not_while_the_broker_started() -> None:
    thresholds = gc.get_threshold()
    collector = Collector(VirtualRuntime())
    gc.disable()
    try:
        collector.calm()
        assert gc.isenabled()
    finally:
        gc.enable()
        collector.close()
        gc.set_threshold(*thresholds)
        gc.unfreeze()
