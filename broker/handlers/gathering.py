"""One answer made of results that arrive one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.context import CloseConnection, Deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from broker.runtime import Runtime

SLICE = 256  # items of one request that are worked on before others have a turn: a few milliseconds
MAX_REPETITIONS = 100


def refuse_repetition(asked: Iterable[Hashable], count: int) -> None:
    """Close the connection over a request whose `count` entries mostly say the same.

    Kafka answers each entry, and so do we; but a megabyte of requests for one topic's configs is a hundred megabytes of
    answer. Nobody needs an answer a hundred times.
    Raises: CloseConnection.
    """
    if count > MAX_REPETITIONS:
        repetitions = count - len(set(asked))
        if repetitions > MAX_REPETITIONS:
            raise CloseConnection(f"{repetitions} of {count} entries of one request ask what others in it ask")


def in_slices(runtime: Runtime, deferred: Deferred, count: int, work: Callable[[int], None]) -> None:
    """Call `work` for each index below `count`: the first `SLICE` at once, the others in later turns of the loop.

    What is left is given up when the client is gone.
    """
    for index in range(min(count, SLICE)):
        work(index)
    if count > SLICE:
        runtime.next_turn(_Slices(runtime, deferred, count, work).go_on)


class _Slices:
    """The rest of a long request."""

    __slots__ = ("_count", "_deferred", "_next", "_runtime", "_work")

    def __init__(self, runtime: Runtime, deferred: Deferred, count: int, work: Callable[[int], None]) -> None:
        self._runtime = runtime
        self._deferred = deferred
        self._count = count
        self._work = work
        self._next = SLICE

    def go_on(self) -> None:
        deferred = self._deferred
        if deferred.gone:
            return
        first, self._next = self._next, min(self._next + SLICE, self._count)
        try:
            for index in range(first, self._next):
                self._work(index)
        except Exception as error:
            if deferred.connection is None:
                raise
            deferred.connection.failed(deferred.route, error)
            return
        if self._next < self._count:
            self._runtime.next_turn(self.go_on)


class Gathering:
    """Results that arrive one by one, answered together in the order of the request."""

    def __init__(self, count: int, respond: Callable[[list[Any]], Any]) -> None:
        self.deferred = Deferred()
        self._results: list[Any] = [None] * count
        self._missing = count
        self._respond = respond
        if count == 0:
            self.deferred.complete(respond([]))

    def put(self, index: int, result: Any) -> None:
        """The result of item `index` has come."""
        self._results[index] = result
        self._missing -= 1
        if self._missing == 0:
            self.deferred.complete(self._respond(self._results))


def one_by_one(
    runtime: Runtime, asked: Sequence[Any], answer: Callable[[Any], Any], response: Callable[[list[Any]], Any]
) -> Any:
    """The response to a request whose entries are each answered by themselves: at once, or, if many, in slices."""
    if len(asked) <= SLICE:
        return response([answer(entry) for entry in asked])
    gathering = Gathering(len(asked), response)
    in_slices(runtime, gathering.deferred, len(asked), lambda index: gathering.put(index, answer(asked[index])))
    return gathering.deferred
