"""Long work in turns: a little of it in each turn of the loop, then everybody else, then a little more.

Work is a generator whose steps are short, at best well under a millisecond: it yields `None` where others may have
their turn, `InThread(work)` for what would take longer than a step, whose result it is resumed with, and `Until(when)`
where it can go on only after something has happened. What it returns goes to `done`.

An owner with a `took` is told what its works took in later turns, and in threads; what they take at once its caller
sees.

All works together have `SLICE_NS` of a turn. Owners (a connection, a background task) take turns in that, so who asks
for much waits for himself; the works of one owner follow each other. In threads the same holds for one at a time.

Always true: the works of an owner begin and end in the order in which they came; `done` or `failed` is called once, or
never when the work is no longer wanted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from functools import partial
from time import thread_time_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from broker.loop.logs import get_logger
from broker.loop.stalls import NOTED_NS, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from broker.loop.stalls import Stalls

T = TypeVar("T")
log = get_logger(__name__)

SLICE_NS = 1_000_000
"""Of one turn of the loop, for all works together; what a step takes longer comes on top."""
QUANTUM_NS = 250_000
"""Of one owner, before it is the next one's turn."""
AT_ONCE_NS = 200_000
"""Of a new work, in the turn in which it came: most need no more, and are done before their caller goes on."""


class InThread:
    """A step that is taken in a worker thread; its work is resumed with the result, or the exception."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work


class Until:
    """A step that waits: `when` is given what to call once the work may go on. It must be called, and not before `when`
    has returned. Works of the same owner wait too.
    """

    __slots__ = ("when",)

    def __init__(self, when: Callable[[Callable[[], None]], None]) -> None:
        self.when = when


Steps: TypeAlias = Generator[InThread | Until | None, Any, T]
"""How something of type `T` comes about; each step takes microseconds, is taken in a thread, or waits."""


class Turns(Protocol):
    """What long work needs of the loop; `Runtime` has it."""

    stalls: Stalls

    def next_turn(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the next loop turn."""

    def in_thread(
        self, work: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], None]
    ) -> None:
        """Run `work` in a worker thread; then `done` or `failed` on the event loop."""


class _Work:
    """One work: where it stands, and who waits for it."""

    __slots__ = ("done", "error", "failed", "owner", "result", "steps", "thread_ns", "wanted")

    def __init__(
        self,
        steps: Steps[Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
        owner: Hashable,
        wanted: Callable[[], bool] | None,
    ) -> None:
        self.steps = steps
        self.done = done
        self.failed = failed
        self.owner = owner
        self.wanted = wanted
        self.result: Any = None  # of the last thread, for the next step
        self.error: Exception | None = None
        self.thread_ns = 0  # what the last thread took


class Slices:
    """The works of a `Runtime`. `clock_ns` is any clock that only goes forward."""

    __slots__ = ("_clock_ns", "_order", "_owned", "_runtime", "_scheduled", "_thread_busy", "_thread_waits")

    def __init__(self, runtime: Turns, clock_ns: Callable[[], int]) -> None:
        self._runtime = runtime
        self._clock_ns = clock_ns
        self._owned: dict[Hashable, deque[_Work]] = {}  # who has works, and which; also while one is in a thread
        self._order: deque[Hashable] = deque()  # whose turn it is
        self._scheduled = False
        self._thread_waits: deque[tuple[_Work, InThread]] = deque()
        self._thread_busy = False

    def __len__(self) -> int:
        return sum(map(len, self._owned.values()))

    def take(
        self,
        steps: Steps[T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        *,
        owner: Hashable,
        wanted: Callable[[], bool] | None,
        at_once: bool,
    ) -> None:
        """What `Runtime.in_slices` promises."""
        work = _Work(steps, done, failed, owner, wanted)
        works = self._owned.get(owner)
        if works is not None:
            works.append(work)
            return
        # Owned from the first step on: what it begins itself must come after it.
        self._owned[owner] = deque((work,))
        if at_once:
            self._advance(work, AT_ONCE_NS)
        else:
            self._wait_for_turn(owner)

    def _turn(self) -> None:
        """One slice, in which the owners take turns."""
        order, clock_ns = self._order, self._clock_ns
        began_ns = clock_ns()
        end_ns = began_ns + SLICE_NS
        while order:
            owner = order.popleft()
            took = getattr(owner, "took", None)
            self._advance(self._owned[owner][0], QUANTUM_NS)
            now_ns = clock_ns()
            if took is not None:
                took(now_ns - began_ns)
            if now_ns >= end_ns:
                break
            began_ns = now_ns
        self._scheduled = bool(order)
        if order:
            self._runtime.next_turn(self._turn)

    def _advance(self, work: _Work, span_ns: int) -> None:
        """Go on with the first work of an owner for so long; then it waits for its next turn, or for a thread."""
        steps, clock_ns = work.steps, self._clock_ns
        if work.wanted is not None and not work.wanted():
            steps.close()
            work.error = work.result = None  # the frames of what a thread has raised hold this work
            self._ended(work)
            return
        began_ns = clock_ns()
        end_ns = began_ns + span_ns
        error, result = work.error, work.result
        work.error = work.result = None
        try:
            step = steps.send(result) if error is None else steps.throw(error)
            error = result = None  # what a thread has made is let go of by the steps, not here and at once
            while step is None and clock_ns() < end_ns:
                step = next(steps)
            if step is not None:
                if isinstance(step, Until):
                    step.when(partial(self._wait_for_turn, work.owner))
                else:
                    self._to_thread(work, step)
                return
        except StopIteration as end:
            self._ended(work)
            _tell(work.done, end.value)
        except Exception as error:
            self._ended(work)
            _tell(work.failed, error)
        else:
            self._wait_for_turn(work.owner)
        took_ns = clock_ns() - began_ns
        if took_ns > NOTED_NS:
            self._note(work, took_ns)

    def _note(self, work: _Work, took_ns: int) -> None:
        owner = work.owner
        name = getattr(owner, "api", "") or name_of(work.steps)
        self._runtime.stalls.note(name, str(getattr(owner, "client", "")), took_ns)

    def _ended(self, work: _Work) -> None:
        works = self._owned[work.owner]
        works.popleft()
        if works:
            self._wait_for_turn(work.owner)
        else:
            del self._owned[work.owner]

    def _wait_for_turn(self, owner: Hashable) -> None:
        self._order.append(owner)
        if not self._scheduled:
            self._scheduled = True
            self._runtime.next_turn(self._turn)

    # -- threads -------------------------------------------------------------------------------------------

    def _to_thread(self, work: _Work, step: InThread) -> None:
        # One at a time for all: a second thread of Python would only take turns with the first and the loop. Each owner
        # has at most one work here, so those who wait are served in turn.
        self._thread_waits.append((work, step))
        if not self._thread_busy:
            self._next_in_thread()

    def _next_in_thread(self) -> None:
        while self._thread_waits:
            work, step = self._thread_waits.popleft()
            if work.wanted is not None and not work.wanted():
                # Dropped in its owner's turn: to let go of what it holds may take ten milliseconds, and many wait.
                self._wait_for_turn(work.owner)
                continue
            self._thread_busy = True
            self._runtime.in_thread(
                step.work if getattr(work.owner, "took", None) is None else partial(_timed, work, step.work),
                lambda result, work=work: self._back(work, result, None),  # type: ignore[misc]
                lambda error, work=work: self._back(work, None, error),  # type: ignore[misc]
            )
            return

    def _back(self, work: _Work, result: Any, error: Exception | None) -> None:
        work.result, work.error = result, error
        took = getattr(work.owner, "took", None)
        if took is not None:
            took(work.thread_ns)
        self._thread_busy = False
        self._next_in_thread()
        self._wait_for_turn(work.owner)


def _timed(work: _Work, step: Callable[[], T]) -> T:
    """What `step` returns; the CPU that it took is noted. Any thread."""
    began_ns = thread_time_ns()
    try:
        return step()
    finally:
        work.thread_ns = thread_time_ns() - began_ns


def _tell(whom: Callable[[Any], None], what: Any) -> None:
    try:
        whom(what)
    except Exception:
        # A bug of one caller; the others' works go on all the same.
        log.exception("callback_failed", callback=repr(whom))
