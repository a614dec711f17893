"""One answer made of results that arrive one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.context import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable


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
