"""The ledger read back from the log of its partition, the newest first: nothing is kept in memory for readers."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

from broker.loop.logs import get_logger
from coordinator.why.window import of_last_rebalances
from protocol.errors import ProtocolError
from protocol.records.batch_reader import iterate_records
from protocol.records.errors import UnparsableRecord
from protocol.records.group_records import OffsetCommitKey, decode_key
from protocol.records.ledger import decode_whole
from storage.reading.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.partitions import Partition
    from protocol.records.batch_reader import Record

log = get_logger(__name__)

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work of some length, in short steps; what it leads to is its return value."""

_CHUNK_BYTES = 1_048_576
_FIRST_WINDOW = 256
_RECORDS_A_STEP = 32
_RATE_RECORDS = 2_000
_RATE_MIN_MS = 1_000
SCAN_MAX_RECORDS = 20_000
"""How far back a look for one group goes: a question over HTTP must not hold up the loop."""


def newest(
    partition: Partition, group_id: str, rebalances: int, *, max_records: int = SCAN_MAX_RECORDS
) -> list[dict[str, Any]]:
    """The group's records, the oldest first, from behind its last but `rebalances`th rebalance on."""
    return finished(newest_in_steps(partition, group_id, rebalances, max_records=max_records))


def newest_in_steps(
    partition: Partition,
    group_id: str,
    rebalances: int,
    cluster_id: str | None = None,
    *,
    max_records: int = SCAN_MAX_RECORDS,
) -> Steps[list[dict[str, Any]]]:
    """As `newest`, in steps of less than a millisecond: 20,000 records take two hundred."""
    key = group_id.encode()
    start_offset, end_offset = partition.log_start_offset, partition.log_end_offset
    lowest = max(start_offset, end_offset - max_records)
    found: list[dict[str, Any]] = []
    window, end = _FIRST_WINDOW, end_offset
    while end > lowest:
        begin = max(lowest, end - window)
        older = []
        for number, record in enumerate(between(partition, begin, end)):
            if record.key == key and (decoded := _of(record, cluster_id)):
                older.append(decoded)
            if number % _RECORDS_A_STEP == 0:
                yield
        found = older + found
        if sum(record["kind"] == "rebalance_ended" for record in found) > rebalances:
            break
        end, window = begin, window * 4
    return list(of_last_rebalances(found, rebalances)) if rebalances > 0 else []


def commits_per_second(partition: Partition, group_id: str, now_ms: int) -> Steps[float | None]:
    """Committed offsets a second, by the newest records of the group's partition; None when they tell too little."""
    end = partition.log_end_offset
    count, oldest_ms = 0, now_ms
    records = between(partition, max(partition.log_start_offset, end - _RATE_RECORDS), end)
    for number, record in enumerate(records):
        if number % _RECORDS_A_STEP == 0:
            yield
        oldest_ms = min(oldest_ms, record.timestamp)
        try:
            key = decode_key(record.key)
        except UnparsableRecord:
            continue
        count += type(key) is OffsetCommitKey and key.group == group_id and record.value is not None
    return count * 1_000 / (now_ms - oldest_ms) if now_ms - oldest_ms >= _RATE_MIN_MS else None


def finished(steps: Steps[T]) -> T:
    """What all the steps lead to, taken in one go."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


def between(partition: Partition, begin: int, end: int) -> Iterator[Record]:
    """The records from offset `begin` to before `end`; a batch that cannot be read ends them with a log line."""
    offset = begin
    while offset < end:
        result = partition.log.read(offset, _CHUNK_BYTES, copied=True)
        if not result.size_bytes and result.next_offset <= offset:
            return
        walk, why = Walk.of_bytes(b"".join(result.buffers)), ""
        try:
            for _, _, batch in walk.batches():
                for record in iterate_records(batch):
                    if begin <= record.offset < end:
                        yield record
            why = walk.why
        except ProtocolError as error:
            why = str(error)
        if why:
            log.warning("ledger_batch_unreadable", partition=partition.name, error=why)
            return
        offset = result.next_offset


def _of(record: Record, cluster_id: str | None) -> dict[str, Any] | None:
    """A client may write into the topic as well, and another cluster's may be mirrored: both are passed over."""
    try:
        return decode_whole(record.value, cluster_id)
    except UnparsableRecord:
        return None
