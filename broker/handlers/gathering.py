"""One answer made of results that arrive one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, cast

from broker.handlers.context import CloseConnection, Deferred
from broker.loop.slices import Steps, Until

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from protocol.schema import Message

T = TypeVar("T")
Key = TypeVar("Key", bound="Hashable")
Response = TypeVar("Response", bound="Message")
Result = TypeVar("Result")

PACE = 16
"""Entries of one request between two looks at the clock: they take a few microseconds each, some a hundred."""
MAX_REPETITIONS = 100
IN_FLIGHT_MAX = 512
"""Entries of one request that are asked for at a time, where each waits for the disk and holds memory meanwhile."""


_COUNTED_AT_ONCE = 1_024


def tallied(requested: Iterable[Key]) -> Steps[dict[Key, int]]:
    """How often each of `requested` is there, in the order of their first."""
    times: dict[Key, int] = {}
    for count, one in enumerate(requested, start=1):
        times[one] = times.get(one, 0) + 1
        if not count % _COUNTED_AT_ONCE:
            yield None
    return times


def grouped(entries: Iterable[T], name: Callable[[T], Key]) -> Steps[tuple[list[T], dict[Key, int]]]:
    """The last entry of each name, in the order of the names' first, and how often each name is there."""
    last: dict[Key, T] = {}
    times: dict[Key, int] = {}
    for count, entry in enumerate(entries, start=1):
        key = name(entry)
        last[key] = entry
        times[key] = times.get(key, 0) + 1
        if not count % _COUNTED_AT_ONCE:
            yield None
    return list(last.values()), times


def refuse_repetition(requested: Iterable[Hashable], count: int) -> Steps[None]:
    """Close the connection over a request whose `count` entries mostly say the same.

    Kafka answers each entry, and so do we; but a megabyte of requests for one topic's configs is a hundred megabytes of
    answer. Nobody needs an answer a hundred times.
    Raises: CloseConnection.
    """
    if count > MAX_REPETITIONS:
        repetitions = count - len((yield from tallied(requested)))
        if repetitions > MAX_REPETITIONS:
            raise CloseConnection(f"{repetitions} of {count} entries of one request ask what others in it ask")


def sliced(broker: Broker, context: RequestContext, steps: Steps[Response]) -> Response | Deferred:
    """The response that `steps` return: at once when that takes no time, else later, in slices between which others
    have their turns (`Runtime.in_slices`).

    Connections take turns; nothing else of this one is begun meanwhile. What is left is given up when the client goes.
    """
    deferred = Deferred()
    deferred.holds = True
    broker.runtime.in_slices(steps, deferred.complete, deferred.fail, owner=context.session, wanted=deferred.is_wanted)
    deferred.raise_failure()
    return cast("Response", deferred.response) if deferred.done else deferred


class Gathering(Generic[T]):
    """Results that arrive one by one, answered together in the order of the request."""

    def __init__(
        self, count: int, respond: Callable[[list[T]], Message | None], deferred: Deferred | None = None
    ) -> None:
        self.deferred = deferred or Deferred()
        self._results = cast("list[T]", [None] * count)
        self._missing = count
        self._respond = respond
        self._resume_at = -1  # missing results at which `_resume` is called
        self._resume: Callable[[], None]
        if count == 0:
            self.deferred.complete(respond([]))

    def put(self, index: int, result: T) -> None:
        """The result of item `index` has come."""
        self._results[index] = result
        self._missing -= 1
        if self._missing == 0:
            self.deferred.complete(self._respond(self._results))
        elif self._missing == self._resume_at:
            self._resume()

    def ask_each(self, ask: Callable[[int], None]) -> Steps[None]:
        """Call `ask` with the index of each result, as `each` does, with few of them on their way at a time.

        So nobody fills a queue, and who goes leaves little in it. The results must not come out of works in slices of
        the same owner, since those wait for this one.
        """
        for index in range(len(self._results)):
            ask(index)
            if index % PACE == PACE - 1:
                yield self.pause(index + 1)

    def pause(self, requested: int) -> Until | None:
        """What to wait for before the next: with `IN_FLIGHT_MAX` of the `requested` on their way, for half of them."""
        on_their_way = requested - (len(self._results) - self._missing)
        if on_their_way < IN_FLIGHT_MAX:
            return None
        self._resume_at = self._missing - on_their_way // 2
        return Until(self._when)

    def _when(self, resume: Callable[[], None]) -> None:
        self._resume = resume


def one_by_one(
    broker: Broker,
    context: RequestContext,
    requested: Sequence[T],
    answer: Callable[[T], Result],
    response: Callable[[list[Result]], Response],
    *,
    once: Callable[[T], Hashable] | None = None,
) -> Response | Deferred:
    """The response to a request whose entries are each answered by themselves, in slices.

    With `once`, a request in which what that gives of an entry repeats too often closes the connection.
    """

    def steps() -> Steps[Response]:
        if once is not None:
            yield from refuse_repetition(map(once, requested), len(requested))
        results = []
        for entry in requested:
            results.append(answer(entry))
            if not len(results) % PACE:
                yield None
        return response(results)

    return sliced(broker, context, steps())


def gathered(
    broker: Broker,
    context: RequestContext,
    gathering: Gathering[T],
    count: int,
    ask: Callable[[int], None],
    *,
    once: Iterable[Hashable] | None = None,
) -> Deferred:
    """The answer that `gathering` leads to: `ask` is called with each index, in slices, and sees to the result.

    With `once`, what the entries ask, a request that repeats itself too often closes the connection.
    """

    def steps() -> Steps[None]:
        if once is not None:
            yield from refuse_repetition(once, count)
        yield from each(count, ask)

    return deferring(broker, context, gathering.deferred, steps())


def each(count: int, ask: Callable[[int], None]) -> Steps[None]:
    """Call `ask` with each index."""
    for index in range(count):
        ask(index)
        if index % PACE == PACE - 1:
            yield None


def deferring(broker: Broker, context: RequestContext, deferred: Deferred, steps: Steps[None]) -> Deferred:
    """`deferred`, which `steps` see to, in slices."""
    broker.runtime.in_slices(steps, _nothing, deferred.fail, owner=context.session, wanted=deferred.is_wanted)
    deferred.raise_failure()
    return deferred


def _nothing(_: None) -> None:
    """Results come by themselves."""
