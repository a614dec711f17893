"""Which open transactions somebody will end: those that a transactional id in `__transaction_state` has.

Kafka goes on with them where the log stands: what is decided gets its markers, what is not waits for its producer or
its timeout. An open transaction that no id knows of is ended by nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import KafkaError
from protocol.records.batch import CONTROL, iterate_records
from protocol.records.errors import UnparsableRecord
from protocol.records.transaction_records import TransactionLogKey, TransactionLogValue, decode_key, decode_value
from storage.reading.folder import logs_in
from storage.reading.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from protocol.records.batch import Record

_ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT = 1, 2, 3
UNFINISHED = frozenset({_ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT})


def known_transactions(folders: Iterable[Path]) -> set[tuple[int, str, int]]:
    """(producer id, topic, partition) of everything that a transactional id has open. `folders`: of its log.

    Damage is for the check of the folders to tell: what cannot be read is known to nobody. May raise `OSError`.
    """
    states: dict[str, TransactionLogValue | None] = {}
    for folder in folders:
        for path in logs_in(folder):
            for record in _records(path):
                try:
                    key = decode_key(record.key)
                    if isinstance(key, TransactionLogKey):
                        found = decode_value(record.value)
                        states[key.transactional_id] = None if found is None else found.value
                except UnparsableRecord:
                    continue
    return {
        (state.producer_id, topic.topic, partition)
        for state in states.values()
        if state is not None and state.transaction_status in UNFINISHED
        for topic in state.transaction_partitions or ()
        for partition in topic.partition_ids
    }


def _records(path: Path) -> Iterable[Record]:
    try:
        for _, header, batch in Walk.of_file(path).batches():
            if not header[5] & CONTROL:
                yield from iterate_records(batch)
    except KafkaError:
        return  # what cannot be read
