"""`latestOnly`: of each key only the newest record of a task, for questions about state and never about history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

_KEY = ("log_partition", "group_id", "topic", "partition")
_HELD_ROWS = 1_000_000


class LatestOnly:
    """Holds the newest offset commit of each key so far, at most about a million; everything else passes through."""

    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []
        self._rows = self._limit = 0

    def fold(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that no later one of the task supersedes."""
        for batch in batches:
            self._held.append(batch)
            self._rows += batch.num_rows
            if self._rows < max(2 * self._limit, 200_000):
                continue
            self._held = _newest(self._held)
            self._rows = self._limit = sum(held.num_rows for held in self._held)
            if self._rows > _HELD_ROWS:
                yield from self._held
                self._held, self._rows, self._limit = [], 0, 0
        if self._held:
            yield from _newest(self._held)


def _newest(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    table = pa.Table.from_batches(batches)
    codes = np.zeros(table.num_rows, np.int64)
    for name in _KEY:
        column = table.column(name).combine_chunks()
        numbers = _codes(column)
        codes = np.unique(codes * (int(numbers.max()) + 1) + numbers, return_inverse=True)[1]
    # Only well-formed offset commits and their tombstones supersede each other.
    is_commit = _commits(table)
    last = np.full(int(codes.max()) + 1, -1, np.int64)
    rows = np.flatnonzero(is_commit)
    last[codes[rows]] = rows  # the last assignment wins, and rows of a partition come in order
    kept = ~is_commit
    kept[last[last >= 0]] = True
    return list(table.filter(pa.array(kept)).to_batches())


def _codes(column: Any) -> Any:
    encoded = column.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64)


def _commits(table: pa.Table) -> Any:
    usual = table.column("key").is_null()  # only well-formed commits have no bytes of their own
    return np.asarray(usual.combine_chunks())
