"""Producer ids in hand: blocks of a thousand from the catalogue, given out one by one and never twice.

A block counts as used up the moment it is taken: after every restart the next id starts a new one. The next block is
fetched when nine tenths of this one are gone, so that hardly anybody waits for the fsync behind it.

Source: Kafka's RPCProducerIdManager.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

_REFILL_BELOW = 100


class ProducerIds:
    """`allocate(answer)` takes a block: `answer(result)` with `result.error` and, as `result.value`, a range."""

    __slots__ = ("_allocate", "_ids", "_requested", "_waiting")

    def __init__(self, allocate: Callable[[Callable[[Any], None]], None]) -> None:
        self._allocate = allocate
        self._ids: deque[range] = deque()
        self._waiting: deque[Callable[[int, ErrorCode], None]] = deque()
        self._requested = False

    def next(self, answer: Callable[[int, ErrorCode], None]) -> None:
        """`answer(id, NONE)`, at once or when the next block is durable; `answer(-1, error)` if it cannot be had."""
        self._waiting.append(answer)
        self._give()

    def _give(self) -> None:
        ids, waiting = self._ids, self._waiting
        while waiting and ids:
            block = ids.popleft()
            if len(block) > 1:
                ids.appendleft(block[1:])
            waiting.popleft()(block[0], ErrorCode.NONE)
        if not self._requested and (waiting or sum(map(len, ids)) < _REFILL_BELOW):
            self._requested = True
            self._allocate(self._allocated)

    def _allocated(self, result: Any) -> None:
        self._requested = False
        if result.error:
            waiting, self._waiting = self._waiting, deque()
            for answer in waiting:
                answer(-1, result.error)
            return
        self._ids.append(result.value)
        self._give()
