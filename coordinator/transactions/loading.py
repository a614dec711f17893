"""A shard from its log: of each transactional id the last record counts, and a tombstone removes it.

Source: Kafka's TransactionStateManager.loadTransactionMetadata. There a load that meets an exception serves what it got
so far; here such a partition is not served, since a half of a transaction is worse than none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.load_summary import LoadFailed, LoadSummary
from coordinator.log_batches import batches
from coordinator.transactions.transitions import from_record
from protocol.records.batch_reader import read_keys_values
from protocol.records.errors import UnparsableRecord
from protocol.records.transaction_records import (
    TransactionLogKey,
    UnknownValueVersion,
    decode_key,
    decode_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coordinator.transactions.shard import TransactionShard


def load(shard: TransactionShard, chunks: Callable[[], Iterable[bytes]]) -> LoadSummary:
    """Fill an empty shard from its log. `chunks()` reads it from start to end: whole batches, back to back.

    Raises: LoadFailed.
    """
    summary = LoadSummary()
    newest: dict[bytes | None, bytes | None] = {}
    for buffer, position, header in batches(chunks()):
        summary.end_offset = header.next_offset
        summary.record_count += header.record_count
        if not header.is_control:
            _, keys, values = read_keys_values(buffer, position, header=header)
            newest.update(zip(keys, values, strict=True))
    for key, value in newest.items():
        _take(shard, summary, key, value)
    return summary


def _take(shard: TransactionShard, summary: LoadSummary, key_bytes: bytes | None, value_bytes: bytes | None) -> None:
    try:
        key = decode_key(key_bytes)
        if not isinstance(key, TransactionLogKey):
            _skip(summary, key.record_type)
            return
        value = decode_value(value_bytes)
        if value is not None:
            shard.states[key.transactional_id] = from_record(key.transactional_id, value)
    except UnknownValueVersion:
        _skip(summary, 0)  # written by a newer Kafka: skipped with a warning, as there
    except (UnparsableRecord, ValueError) as error:
        raise LoadFailed(str(error)) from error


def _skip(summary: LoadSummary, record_type: int) -> None:
    summary.skipped_types[record_type] = summary.skipped_types.get(record_type, 0) + 1
