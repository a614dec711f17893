"""Which old segments a log gives away: those past their time, beyond its size, or below its start.

Source: Kafka's UnifiedLog.deleteOldSegments and LocalLog.deleteSegmentFiles.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from storage.reading.folder import SEGMENT_SUFFIXES
from storage.state.set_aside import set_aside

if TYPE_CHECKING:
    from storage.state.log_state import LogState
    from storage.state.segment import Segment


class Reason(Enum):
    """Why a segment went."""

    TIME = "retention.ms"
    SIZE = "retention.bytes"
    LOG_START = "log start offset"


class DeletedSegment(NamedTuple):
    """A segment that is no longer part of the log."""

    base_offset: int
    size_bytes: int
    reason: Reason


def apply(log: LogState, now_ms: int, high_watermark: int, roll: Callable[[], bool]) -> list[DeletedSegment]:
    """What `PartitionLog.apply_retention` promises. `roll` begins a new segment, where all are to go."""
    config = log.config
    deleted = _delete_while(log, high_watermark, roll, Reason.LOG_START, lambda _, end: end <= log.log_start_offset)
    if not config.delete:
        return deleted
    if config.retention_ms >= 0:
        deadline = now_ms - config.retention_ms
        deleted += _delete_while(
            log, high_watermark, roll, Reason.TIME, lambda segment, _: segment.latest_timestamp() < deadline
        )
    if config.retention_bytes >= 0:
        excess = log.size_bytes - config.retention_bytes

        def too_many(segment: Segment, _: int) -> bool:
            nonlocal excess
            if excess < segment.size_bytes:
                return False
            excess -= segment.size_bytes
            return True

        deleted += _delete_while(log, high_watermark, roll, Reason.SIZE, too_many)
    return deleted


def _delete_while(
    log: LogState, high_watermark: int, roll: Callable[[], bool], reason: Reason, is_due: Callable[[Segment, int], bool]
) -> list[DeletedSegment]:
    """Give away segments from the oldest on as long as they are due and committed; end offsets are exclusive."""
    count = 0
    for at, segment in enumerate(log.segments):
        is_last = at + 1 == len(log.segments)
        end = log.log_end_offset if is_last else log.bases[at + 1]
        # An empty active segment stays, and is what a log consists of when all else is gone.
        if end > high_watermark or (is_last and segment.size_bytes == 0) or not is_due(segment, end):
            break
        count += 1
    if count == len(log.segments):
        roll()
    deleted = []
    for segment in log.segments[:count]:
        deleted.append(DeletedSegment(segment.base_offset, segment.size_bytes, reason))
        forget_first(log)
    if deleted:
        log.log_start_offset = max(log.log_start_offset, log.bases[0])
        log.epochs.truncate_from_start(log.log_start_offset)
    return deleted


def forget_first(log: LogState) -> None:
    """Take the oldest segment out of the log, its files out of the way."""
    segment = log.segments[0]
    set_aside(log, segment, (*SEGMENT_SUFFIXES,))
    del log.segments[0]
    del log.bases[0]
