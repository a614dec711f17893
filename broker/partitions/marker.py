"""One marker, as a value and as the control batch that stands for it.

Source: KIP-98; Kafka's MemoryRecords.withEndTransactionMarker.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.records.batch import Record, encode_batch
from protocol.records.control_records import end_transaction


class Marker(NamedTuple):
    """The end of one producer's transaction. `transaction_version` says by which rule its epoch is looked at."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0


def marker_batch(marker: Marker, now_ms: int) -> bytearray:
    """The control batch, as Kafka writes it: one record, no sequence."""
    key, value = end_transaction(commit=marker.commit, coordinator_epoch=marker.coordinator_epoch)
    return encode_batch(
        [Record(0, now_ms, key, value)],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
    )
