"""What happens to requests: `broker.faults.on("OffsetCommit", group="billing").times(2).error("NOT_COORDINATOR")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kohort.testing import given
from kohort.testing.errors import Refused
from kohort.testing.waiting import Missed, Span, span_ms, wait, wait_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from kohort.testing.life import Life


class Fault:
    """A fault for the requests that are meant: the first one, unless `times`, `always` or `skip` say else.

    It is set by the last word: `error`, `delay`, `drop`, `disconnect`, `hold` or `throttle`. One that was never hit
    fails its test, unless it is `optional`.
    """

    def __init__(self, faults: Faults, words: dict[str, Any]) -> None:
        self._faults = faults
        self._words = words
        self._number: int | None = None
        self.hits_before = 0  # in an earlier life of the broker
        self.is_optional = False

    # --- which of them

    def times(self, count: int) -> Fault:
        """So many of the requests that are meant."""
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise self._refused(f"times({count!r}): it takes a number from 1 on, and always() is every one")
        return self._with(times=count)

    def always(self) -> Fault:
        """All of them."""
        return self._with(times=None)

    def skip(self, count: int) -> Fault:
        """Not the first so many."""
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise self._refused(f"skip({count!r}): it takes a number from 0 on")
        return self._with(skip=count)

    def optional(self) -> Fault:
        """Never mind if it is not hit."""
        self.is_optional = True
        return self

    # --- what happens to them

    def error(self, code: str | int) -> Fault:
        """They are answered with this error, by Kafka's name for it; nothing of what they ask is done."""
        return self._set("error", code)

    def delay(self, span: Span) -> Fault:
        """They are handled so much later."""
        return self._set("delay", span, span_ms)

    def drop(self, *, handled: bool = False) -> Fault:
        """They are never answered; `handled`: what they ask for is done all the same."""
        return self._set("drop", handled)

    def disconnect(self, when: str = "before") -> Fault:
        """Their connection ends: `before` they are handled, `during` the answer (half of it leaves), or `after` it."""
        return self._set("disconnect", when)

    def hold(self) -> Fault:
        """They wait, before they are handled, until `release`."""
        return self._set("hold", None)

    def throttle(self, span: Span) -> Fault:
        """They are handled, and their client is told to send nothing for so long."""
        return self._set("throttle", span, span_ms)

    # --- afterwards

    @property
    def hits(self) -> int:
        """How many requests it has hit."""
        return self.hits_before + self._state()["hits"]

    def wait_hit(self, times: int = 1, within: Span = 10) -> None:
        """Wait until it has hit so many. With `hold`, they wait now: this is the barrier."""
        wait(lambda: self._look(times), within)

    async def await_hit(self, times: int = 1, within: Span = 10) -> None:
        """As `wait_hit`, in a coroutine."""
        await wait_async(lambda: self._look(times), within)

    def release(self) -> None:
        """What `hold` has held goes on, and later requests pass."""
        self._faults.ask("release_fault", number=self._set_number())

    def remove(self) -> None:
        """It hits nobody any more, and needs no hit."""
        if self._number is not None:
            self._faults.ask("remove_fault", number=self._number)
        self._faults.forget(self)

    def __str__(self) -> str:
        words = self._words
        about = [f"{name}={words[name]!r}" for name in _FILTERS if words.get(name) is not None]
        told = "" if words.get("with") is None else repr(words["with"])
        act = f".{words['act']}({told})" if "act" in words else ""
        return f"on({', '.join([repr(words['api']), *about])}){act}"

    # ---

    def _with(self, **words: Any) -> Fault:
        if self._number is not None:
            raise Refused(f"{self} is set already: say {next(iter(words))} before it")
        self._words.update(words)
        return self

    def _set(self, act: str, argument: Any, taken: Callable[[Any], Any] = lambda argument: argument) -> Fault:
        self._with(act=act)
        self._faults.forget(self)
        self._words["with"] = taken(argument)
        self._number = self._faults.ask("add_fault", **self._words)
        self._faults.remember(self)
        return self

    def _refused(self, why: str) -> Refused:
        self._faults.forget(self)  # who hears that a word is wrong need not hear that the last one is missing
        return Refused(why)

    def _set_number(self) -> int:
        if self._number is None:
            raise self._refused(f"{self} does not say what happens to them: {_ACTS}")
        return self._number

    def _state(self) -> dict[str, int]:
        state: dict[str, int] = self._faults.ask("fault", number=self._set_number())
        return state

    def _look(self, times: int) -> None:
        given.number("times", times)
        hits = self.hits
        if hits < times:
            raise Missed(f"{self} was hit {hits} times, not {times}\n{self._faults.recent_requests()}")

    def put_away(self) -> None:
        """Its broker is about to end: what is left of the fault is for the next life."""
        state = self._state()
        self.hits_before += state["hits"]
        self._words.update(times=state["left"], skip=state["skip"])

    def put_back(self) -> None:
        """Its broker is there again."""
        self._number = self._faults.ask("add_fault", **self._words)


_ACTS = "error, delay, drop, disconnect, hold or throttle"
_FILTERS = ("topic", "partition", "group", "client_id", "transactional_id", "times", "skip")


class Faults:
    """The faults of a broker."""

    def __init__(self, life: Life, recent_requests: Callable[[], str]) -> None:
        """`recent_requests` tells of the last ones, for an error."""
        self.ask = life.ask
        self.recent_requests = recent_requests
        self._set: list[Fault] = []
        self._begun: list[Fault] = []  # without their last word

    def on(
        self,
        api: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        client_id: str | None = None,
        transactional_id: str | None = None,
    ) -> Fault:
        """Requests of this API, by Kafka's name, that are about this topic, partition, group, client, transaction."""
        for name, value in {
            "topic": topic,
            "group": group,
            "client_id": client_id,
            "transactional_id": transactional_id,
        }.items():
            given.text(name, value)
        given.number("partition", partition)
        words = {
            "api": api,
            "topic": topic,
            "partition": partition,
            "group": group,
            "client_id": client_id,
            "transactional_id": transactional_id,
        }
        fault = Fault(self, {name: value for name, value in words.items() if value is not None})
        self._begun.append(fault)
        return fault

    def clear(self) -> None:
        """Remove all of them."""
        for fault in [*self._set, *self._begun]:
            fault.remove()

    def verify(self, *, ended: bool = False) -> None:
        """Remove all of them. `ended`: the broker has been stopped or killed, and cannot be asked.

        Raises: AssertionError when one was never hit, and is not optional, or has no last word.
        """
        missed = [
            str(fault)
            for fault in self._set
            if not fault.is_optional and not (fault.hits_before if ended else fault.hits)
        ]
        begun = ", ".join(map(str, self._begun))
        told = ", until the broker was ended" if ended else ""
        requests = f"\n{self.recent_requests()}" if missed and not ended else ""
        if ended:
            self._set.clear()
        self.clear()
        if begun:
            raise AssertionError(f"{begun} does not say what happens to them: {_ACTS}")
        if missed:
            raise AssertionError(f"never hit{told}: {', '.join(missed)}{requests}")

    def remember(self, fault: Fault) -> None:
        """It is set."""
        self._set.append(fault)

    def forget(self, fault: Fault) -> None:
        """It is not, any more."""
        for faults in (self._set, self._begun):
            if fault in faults:
                faults.remove(fault)

    def put_away(self) -> None:
        """The broker is about to end."""
        for fault in self._set:
            fault.put_away()

    def put_back(self) -> None:
        """The broker is there again."""
        for fault in self._set:
            fault.put_back()
