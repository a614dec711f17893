"""Reading a log by offset: from memory when the batches are new, else as views of the segment files.

Source: Kafka's LocalLog.read, LogSegment.read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import OffsetOutOfRange
from storage.reading.batches import add_pieces

if TYPE_CHECKING:
    from storage.files import Buffer
    from storage.state.log_state import LogState
    from storage.state.segment import Segment

MAX_BUFFERS = 64  # of one read from memory: beyond that one slice of the file is cheaper to send


class ReadResult:
    """Whole batches: `buffers` one after the other are `size_bytes` bytes. `next_offset` is where to read on.

    The first batch holds the offset asked for, but may begin before it.
    """

    __slots__ = ("buffers", "next_offset", "size_bytes")

    def __init__(self, buffers: list[Buffer], size_bytes: int, next_offset: int) -> None:
        self.buffers = buffers
        self.size_bytes = size_bytes
        self.next_offset = next_offset


def read(
    log: LogState,
    offset: int,
    max_bytes: int,
    upper_bound_offset: int | None,
    min_one_batch: bool,
    copied: bool,
) -> ReadResult:
    """What `PartitionLog.read` promises. May raise `OSError`."""
    upper = log.log_end_offset
    if offset > upper or offset < log.log_start_offset:
        raise OffsetOutOfRange(offset, log_start_offset=log.log_start_offset, log_end_offset=upper)
    if upper_bound_offset is not None and upper_bound_offset < upper:
        upper = upper_bound_offset
    if offset >= upper:
        return ReadResult([], 0, offset)
    log.check_usable()
    if offset in log.tail.batches:
        found = _read_tail(log, offset, max_bytes, upper, min_one_batch)
        if found is not None:
            return found
    at = log.segment_index(offset)
    segments = log.segments
    while at < len(segments):
        segment = segments[at]
        following = log.bases[at + 1] if at + 1 < len(segments) else log.log_end_offset
        start = segment.find(offset)
        if start < segment.size_bytes:
            return _read_segment(segment, start, following, offset, max_bytes, upper, min_one_batch, copied)
        at += 1  # compaction took the last batches of this segment: read on in the next
        if following >= upper:
            break
    return ReadResult([], 0, upper)


def _read_tail(log: LogState, offset: int, max_bytes: int, upper: int, min_one_batch: bool) -> ReadResult | None:
    """From memory; None when there are too many small batches for that to be the fast way."""
    batches = log.tail.batches
    buffers: list[Buffer] = []
    total = 0
    entry = batches.get(offset)
    while entry is not None:
        buffer, following, _ = entry
        size = len(buffer)
        if following > upper or (total + size > max_bytes and (buffers or not min_one_batch)):
            return ReadResult(buffers, total, offset)
        add_pieces(buffers, buffer)
        if len(buffers) > MAX_BUFFERS:
            return None
        total += size
        offset = following
        if offset >= upper:
            break
        entry = batches.get(offset)
    return ReadResult(buffers, total, offset)


def _read_segment(
    segment: Segment,
    start: int,
    following: int,
    offset: int,
    max_bytes: int,
    upper: int,
    min_one_batch: bool,
    copied: bool,
) -> ReadResult:
    """From a segment's file; `following` is the offset after the segment's last."""
    limit = segment.find_end(upper, start) if upper < following else segment.size_bytes
    end, next_offset = segment.boundary(start, min(limit, start + max_bytes))
    if end == start:
        if not min_one_batch or limit == start:
            return ReadResult([], 0, offset)
        end, next_offset = segment.batch_end(start)
    if next_offset < 0:
        next_offset = following
    segment.remember(next_offset, end)
    if not copied:
        return ReadResult([segment.view(start, end)], end - start, next_offset)
    data = segment.read(start, end)
    if len(data) < end - start:
        raise OSError(f"{segment.path('.log')} is shorter than it was: no more than {start + len(data)} bytes")
    return ReadResult([data], end - start, next_offset)
