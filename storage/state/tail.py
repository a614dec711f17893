"""The newest batches of the logs, kept in memory so that a waiting consumer is answered without a system call.

All logs share one budget, first in first out: a busy log may use all of it, an idle one loses its share.
Buffers are the ones that were appended, never changed after that, so views of them may be on their way to a socket.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from storage.files import Buffer
from storage.reading.batches import Parted

# One batch as it was appended: its bytes, the offset after it, its position in its segment's file (bytes).
TailBatch = tuple[Buffer | Parted, int, int]


class TailBudget:
    """How much all tails together may hold."""

    __slots__ = ("limit_batches", "limit_bytes", "order", "used_bytes")

    def __init__(self, limit_bytes: int = 8 * 1024 * 1024, limit_batches: int = 8192) -> None:
        self.limit_bytes = limit_bytes
        self.limit_batches = limit_batches
        self.used_bytes = 0
        self.order: deque[Tail] = deque()  # whose batch is the oldest, and so on

    def make_room(self) -> None:
        """Drop the oldest batches of any log until the limits hold."""
        order = self.order
        while self.used_bytes > self.limit_bytes or len(order) > self.limit_batches:
            self.used_bytes -= order.popleft().drop_oldest()


class Tail:
    """The newest batches of one log, by base offset."""

    __slots__ = ("batches", "budget")

    def __init__(self, budget: TailBudget) -> None:
        self.batches: OrderedDict[int, TailBatch] = OrderedDict()
        self.budget = budget

    def add(self, base_offset: int, buffer: Buffer | Parted, next_offset: int, position: int) -> None:
        """Remember a batch that was just appended."""
        self.batches[base_offset] = (buffer, next_offset, position)
        budget = self.budget
        budget.order.append(self)
        budget.used_bytes += len(buffer)
        if budget.used_bytes > budget.limit_bytes or len(budget.order) > budget.limit_batches:
            budget.make_room()

    def drop_oldest(self) -> int:
        """Forget the oldest batch; return its size in bytes, 0 when there is none."""
        if not self.batches:
            return 0
        return len(self.batches.popitem(last=False)[1][0])

    def drop_below(self, offset: int) -> None:
        """Forget batches that begin below `offset`: the files have another version of them now."""
        batches = self.batches
        while batches and next(iter(batches)) < offset:
            self.budget.used_bytes -= self.drop_oldest()

    def clear(self) -> None:
        """Forget all batches: the log was cut."""
        self.budget.used_bytes -= sum(len(batch[0]) for batch in self.batches.values())
        # The budget still lists this tail once per batch; those turns find it empty, or drop a later batch early.
        self.batches = OrderedDict()


class NoTail(Tail):
    """Of a log whose newest batches nobody waits for: nothing is kept."""

    __slots__ = ()

    def add(self, base_offset: int, buffer: Buffer | Parted, next_offset: int, position: int) -> None:
        """Let it go."""
