"""How much the garbage collector looks at in one go, and what it finds."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from broker.loop.collector import Collector
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND_MS = 1_000


class Looked:
    """The collections that there were: their generation, and how many objects they looked at."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            generation = info["generation"]
            objects = sum(len(gc.get_objects(generation=one)) for one in range(generation + 1))
            self.seen.append((generation, objects))

    def of(self, generation: int) -> list[int]:
        """How many objects each of its collections looked at."""
        return [objects for one, objects in self.seen if one == generation]


@pytest.fixture
def runtime() -> Iterator[VirtualRuntime]:
    """Whose collector has been calmed."""
    thresholds, runtime = gc.get_threshold(), VirtualRuntime()
    Collector(runtime).calm()
    yield runtime
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.fixture
def looked(runtime: VirtualRuntime) -> Iterator[Looked]:
    """From here on."""
    looked = Looked()
    gc.callbacks.append(looked)
    yield looked
    gc.callbacks.remove(looked)


@pytest.fixture
def counted(runtime: VirtualRuntime, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many objects it has listed each time to count them."""
    sizes: list[int] = []
    get_objects = gc.get_objects

    def listed(generation: int | None = None) -> list[Any]:
        found = get_objects(generation=generation)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(gc, "get_objects", listed)
    return sizes


def cycle() -> weakref.ref[Any]:
    """A class knows itself: garbage that only the collector finds."""
    return weakref.ref(type("Garbage", (), {}))


def passing(times: int = 20) -> None:
    """So many young collections."""
    for _ in range(times):
        gc.collect(0)


def test_a_young_collection_looks_at_few_objects_at_a_time(looked: Looked) -> None:
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
    for _ in range(299):
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


def test_the_objects_of_a_request_are_neither_looked_at_nor_kept(runtime: VirtualRuntime, looked: Looked) -> None:
    """A megabyte of names is much as long as it is answered; garbage of that time is found when it is gone."""
    names = [[number] for number in range(300_000)]
    garbage = cycle()
    passing()
    runtime.advance(3 * SECOND_MS)
    assert not looked.of(1)
    del names
    runtime.advance(SECOND_MS)

    assert garbage() is None


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


def test_what_is_replaced_all_the_time_is_not_even_counted(runtime: VirtualRuntime, counted: list[int]) -> None:
    """To count what the blocks did not tell of took up to 76 ms, beside clients that made topics and deleted them."""
    old = [[number] for number in range(300_000)]
    for _ in range(100):
        passing()
        runtime.advance(SECOND_MS)
    counted.clear()
    for _ in range(20):
        new = [[number] for number in range(300_000)]
        del old
        old = new
        runtime.advance(SECOND_MS)

    assert len(old) == 300_000 and not counted
    for _ in range(40):
        passing()
        runtime.advance(SECOND_MS)
    assert counted, "it goes on when that is over"
