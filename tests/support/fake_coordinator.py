"""A transaction coordinator for tests of the partition side: it knows what it was told, and answers when it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Key = tuple[str, int]


class FakeCoordinator:
    """`open` holds (producer id, epoch, partitions) of each open transaction, by transactional id.

    `refusal` is answered for everything while it is set. With `silent` answers wait for `answer_next`.
    """

    def __init__(self) -> None:
        self.open: dict[str, tuple[int, int, set[Key]]] = {}
        self.asked: list[tuple[str, tuple[Key, ...], bool]] = []
        self.refusal = ErrorCode.NONE
        self.silent = False
        self.waiting: list[Callable[[], None]] = []

    def begin(self, transactional_id: str, producer_id: int, epoch: int, *partitions: Key) -> None:
        self.open[transactional_id] = (producer_id, epoch, set(partitions))

    def end(self, transactional_id: str) -> None:
        del self.open[transactional_id]

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[Key],
        add: bool,
        done: Callable[[Mapping[Key, ErrorCode]], None],
    ) -> None:
        self.asked.append((transactional_id, tuple(partitions), add))
        codes = {key: self._code(transactional_id, producer_id, producer_epoch, key, add) for key in partitions}
        if self.silent:
            self.waiting.append(lambda: done(codes))
        else:
            done(codes)

    def answer_next(self) -> None:
        self.waiting.pop(0)()

    def _code(self, transactional_id: str, producer_id: int, epoch: int, key: Key, add: bool) -> ErrorCode:
        if self.refusal:
            return self.refusal
        known = self.open.get(transactional_id)
        if known is None and not add:
            return ErrorCode.TRANSACTION_ABORTABLE
        if known is None:
            known = self.open[transactional_id] = (producer_id, epoch, set())
        if known[0] != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if known[1] != epoch:
            return ErrorCode.PRODUCER_FENCED
        if add:
            known[2].add(key)
        return ErrorCode.NONE if key in known[2] else ErrorCode.TRANSACTION_ABORTABLE
