"""Following transactions while cleaning: whose data is aborted, and which markers end nothing any more.

Source: Kafka's CleanedTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from protocol.records.batch import TRANSACTIONAL
from storage.reading.batches import read_marker

if TYPE_CHECKING:
    from protocol.records.batch import BatchHeader
    from storage.files import Buffer
    from storage.reading.transaction_index import AbortedTransaction


class CleanedTransactions:
    """Fed with every batch in the order of offsets."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_data: set[int] = set()  # producers of `_aborted` of which a batch was seen
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """Entries of the output's transaction index so far; the caller empties it with each output."""

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            entry = self._waiting.pop()
            self._aborted.setdefault(entry.producer_id, entry)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Does this data batch belong to an aborted transaction?"""
        self._begin_up_to(header.last_offset)
        if not header.attributes & TRANSACTIONAL:
            return False
        if header.producer_id in self._aborted:
            self._with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def ends_nothing(self, header: BatchHeader, batch: Buffer) -> bool:
        """Is no data of the transaction that this control batch ends left in the log?"""
        self._begin_up_to(header.last_offset)
        if header.record_count == 0:
            return True
        marker = read_marker(batch)
        if marker is None:
            return False  # another kind of control record
        producer_id = header.producer_id
        if not marker[0]:
            seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not seen
        entry = self._aborted.pop(producer_id, None)
        if entry is None or producer_id not in self._with_data:
            return True
        self._with_data.discard(producer_id)
        self.kept.append(entry)
        return False
