"""A batch's part in the producer table: what it says of its producer, and the transaction that it ends.

Source: Kafka's ProducerAppendInfo, UnifiedLog.updateProducers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.records.batch import CONTROL, TRANSACTIONAL
from storage.reading.batches import read_marker
from storage.reading.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from storage.files import Buffer
    from storage.state.producer_state import ProducerState


def note_producer(
    producers: ProducerState, header: tuple[int, ...], base_offset: int, control: Buffer
) -> AbortedTransaction | None:
    """Take a batch into `producers`; return the transaction that it aborted, for the index of its segment.

    `control` is the whole batch when it is a control batch.
    """
    attributes, delta, timestamp = header[5], header[6], header[8]
    producer_id, epoch = header[9], header[10]
    if not attributes & CONTROL:
        producers.data_appended(
            producer_id,
            epoch,
            header[11],
            base_offset,
            delta,
            timestamp,
            transactional=attributes & TRANSACTIONAL != 0,
        )
        return None
    marker = read_marker(control)
    if marker is None:
        return None
    aborted, coordinator_epoch = marker
    completed = producers.marker_appended(
        producer_id, epoch, coordinator_epoch, base_offset + delta, timestamp, aborted=aborted
    )
    if completed is None or not aborted:
        return None
    stable = producers.first_open_offset(completed.last_offset + 1)
    return AbortedTransaction(producer_id, completed.first_offset, completed.last_offset, stable)
