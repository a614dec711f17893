"""A change's records at the end of the metadata log: as one batch, or inside a metadata transaction.

Source: KIP-868; Kafka's QuorumController.appendRecords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.records import batch as record_batch
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.catalogue.cluster_state import ClusterState
    from broker.catalogue.metadata_log import MetadataLog

METADATA_VERSION = 21  # 3.9-IV0: what Kafka 3.9 to 4.4 all start on
BATCH_RECORDS = 10_000
_BATCH_BYTES = 7 * 1024 * 1024  # Kafka refuses a metadata batch above 8 MiB


def metadata_version(state: ClusterState) -> int:
    """The metadata.version that records are written for."""
    return state.features.get("metadata.version", METADATA_VERSION)


def append_change(log: MetadataLog, state: ClusterState, made: Sequence[Any], now_ms: int) -> None:
    """Append records, not yet durable. Raises: StorageError, after which a part of them may be there."""
    level = metadata_version(state)
    frames = [records.encode_frame(record, metadata_version=level) for record in made]
    batches = list(cut_into_batches(frames, BATCH_RECORDS))
    if len(batches) > 1:
        begin = records.encode_frame(records.BeginTransactionRecord(name="Kohort"), metadata_version=level)
        end = records.encode_frame(records.EndTransactionRecord(), metadata_version=level)
        batches = [[begin], *batches, [end]]
    for number, batch in enumerate(batches):
        if number:
            log.flush()
        log.append([(None, frame) for frame in batch], now_ms=now_ms)


def cut_into_batches(frames: Iterable[bytes], batch_records: int) -> Iterator[list[bytes]]:
    """The frames in groups that a batch can hold, of at most `batch_records`."""
    group: list[bytes] = []
    size_bytes = 0
    for frame in frames:
        size_bytes += record_batch.encoded_pair_bytes(None, frame)
        if group and (len(group) == batch_records or size_bytes > _BATCH_BYTES):
            yield group
            group, size_bytes = [], record_batch.encoded_pair_bytes(None, frame)
        group.append(frame)
    if group:
        yield group
