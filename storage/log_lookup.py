"""Finding records by time, and the aborted transactions of a range.

The indexes lead to the first batch that can hold the answer; the answer itself is looked for inside batches,
compressed ones included.

Source: Kafka's UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp, FileRecords.searchForTimestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.records.batch import HEADER_BYTES, iterate_records
from storage.batches import HEADER, OVERHEAD
from storage.errors import OffsetOutOfRange
from storage.transaction_index import AbortedTransaction, overlapping

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog
    from storage.segment import Segment


LOG_APPEND_TIME = 0x08  # attribute bit: all records have the batch's largest timestamp


class TimestampedOffset(NamedTuple):
    """One record: its timestamp (ms), offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> TimestampedOffset | None:
    """What `PartitionLog.offset_for_timestamp` promises."""
    for segment in log.segments[log.segment_index(log.log_start_offset) :]:
        if segment.size_bytes and segment.latest_timestamp() >= timestamp:
            found = _search(segment, timestamp, log.log_start_offset)
            if found is not None:
                return found
    return None


def offset_of_max_timestamp(log: PartitionLog) -> TimestampedOffset | None:
    """What `PartitionLog.offset_of_max_timestamp` promises."""
    first, *later = log.segments[log.segment_index(log.log_start_offset) :]
    best = _latest(first, log.log_start_offset)
    newest: Segment | None = None
    for segment in later:
        if not segment.size_bytes or segment.latest_timestamp() < 0 or segment.max_timestamp < 0:
            continue
        if newest is None or segment.max_timestamp > newest.max_timestamp:
            newest = segment
    if newest is not None and (best is None or newest.max_timestamp > best.timestamp):
        best = _search(newest, newest.max_timestamp, log.log_start_offset)
    return best


def _latest(segment: Segment, start_offset: int) -> TimestampedOffset | None:
    """The first of the latest records of a segment, at or above `start_offset`."""
    if not segment.size_bytes or segment.latest_timestamp() < 0 or segment.max_timestamp < 0:
        return None
    best = _search(segment, segment.max_timestamp, start_offset)
    if best is not None:
        return best
    # The latest record lies below the log start: only the records themselves know the next latest.
    for position, header in segment.headers(segment.find(start_offset)):
        if best is None or header[8] > best.timestamp:
            for record in iterate_records(segment.read(position, position + header[1] + OVERHEAD)):
                if record.offset >= start_offset and record.timestamp > (best.timestamp if best else -1):
                    best = TimestampedOffset(record.timestamp, record.offset, header[2])
    return best


def _search(segment: Segment, timestamp: int, start_offset: int) -> TimestampedOffset | None:
    """The first record of the segment at or above `start_offset` that is as late as `timestamp`."""
    from_offset = max(segment.base_offset + segment.time_index.lookup(timestamp), start_offset)
    for position, header in segment.headers(segment.find(from_offset)):
        if header[8] >= timestamp:
            for record in iterate_records(segment.read(position, position + header[1] + OVERHEAD)):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampedOffset(record.timestamp, record.offset, header[2])
    return None


def timestamp_at(log: PartitionLog, offset: int) -> int:
    """What `PartitionLog.timestamp_at` promises."""
    if offset < log.log_start_offset:
        raise OffsetOutOfRange(offset, log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset)
    in_memory = log.tail.batches.get(offset)
    if in_memory is not None:
        return _reckoned(HEADER.unpack_from(in_memory[0]), offset)
    for segment in log.segments[log.segment_index(offset) :]:
        position = segment.find(offset)
        if position < segment.size_bytes:
            return _reckoned(HEADER.unpack(segment.file.pread(HEADER_BYTES, position)), offset)
    return -1


def _reckoned(header: tuple[Any, ...], offset: int) -> int:
    """The time of the record at `offset`, from the header of its batch: between the first one's and the latest."""
    base_offset, attributes, last_delta, base_ms, max_ms = header[0], header[5], header[6], header[7], header[8]
    if attributes & LOG_APPEND_TIME or base_ms < 0:
        return int(max_ms)
    if offset <= base_offset or last_delta <= 0 or max_ms <= base_ms:
        return int(base_ms)
    return int(base_ms + (max_ms - base_ms) * min(offset - base_offset, last_delta) // last_delta)


def aborted_transactions(log: PartitionLog, offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """What `PartitionLog.aborted_transactions` promises."""
    found: list[AbortedTransaction] = []
    for segment in log.segments[log.segment_index(offset) :]:
        more, complete = overlapping(segment.aborted, offset, upper_offset)
        found += more
        if complete:
            break
    return found
