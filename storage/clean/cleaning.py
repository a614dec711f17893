"""Which part of a compacted log is worth cleaning, and the plan for it: all that the cleaner must know, as values.

The active segment, undecided transactions and records younger than `min.compaction.lag.ms` are never cleaned.

Source: Kafka's LogCleanerManager.cleanableOffsets, LogToClean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from storage.reading.transaction_index import AbortedTransaction
from storage.state.segment import UNREAD

if TYPE_CHECKING:
    from pathlib import Path

    from storage.state.log_state import LogState

BYTES_PER_KEY = 150  # of the map: a dict entry, the key's object and the offset's, without the key itself


def max_keys(dedupe_buffer_bytes: int = 134_217_728, load_factor: float = 0.9) -> int:
    """How many keys one pass may map within `log.cleaner.dedupe.buffer.size`. Kafka needs 24 bytes a key."""
    return max(1, int(dedupe_buffer_bytes * load_factor) // BYTES_PER_KEY)


DEFAULT_MAX_KEYS = max_keys()


class DirtyRange(NamedTuple):
    """What could be cleaned: records in [`first_dirty`, `first_uncleanable`), of `dirty_bytes`."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool  # its oldest record is past max.compaction.lag.ms
    checkpoint_reset: bool  # the checkpoint lay outside of the log, and must be corrected to `first_dirty`

    @property
    def ratio(self) -> float:
        """The dirty share of all bytes that a cleaning would read, 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_eligible(self, min_dirty_ratio: float) -> bool:
        """Is a cleaning due? The ratio must be exceeded, not reached."""
        return self.dirty_bytes > 0 and (self.overdue or self.ratio > min_dirty_ratio)


class LastRecord(NamedTuple):
    """A living producer's last data record (-1 when none is remembered) and its epoch."""

    data_offset: int
    epoch: int


class Source(NamedTuple):
    """A closed segment to read. `next_base_offset` is where the following segment begins."""

    base_offset: int
    size_bytes: int
    next_base_offset: int


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """One cleaning, picklable. Pass it to `cleaner.clean` in any process and the result to `PartitionLog.swap_in`."""

    directory: Path
    sources: tuple[Source, ...]  # every closed segment below `first_uncleanable`, from the log start on
    first_dirty: int
    first_uncleanable: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_keys: int
    producers: dict[int, LastRecord]
    aborted: tuple[AbortedTransaction, ...]


def dirty_range(log: LogState, checkpoint: int | None, now_ms: int, high_watermark: int) -> DirtyRange:
    """What `PartitionLog.dirty_range` promises. May raise `OSError`."""
    config = log.config
    first_dirty = log.log_start_offset if checkpoint is None else checkpoint
    reset = not log.log_start_offset <= first_dirty <= log.log_end_offset
    if reset:
        first_dirty = log.log_start_offset
    closed = log.segments[:-1]
    limit = min(log.last_stable_offset(high_watermark), log.bases[-1])
    if config.min_compaction_lag_ms > 0:
        for segment in closed[log.segment_index(first_dirty) :]:
            if segment.latest_timestamp() > now_ms - config.min_compaction_lag_ms:
                limit = min(limit, segment.base_offset)
                break
    # A segment is cleaned whole or not at all.
    limit = max(log.bases[log.segment_index(limit)], log.bases[0])
    clean_bytes = dirty_bytes = 0
    overdue = False
    for at, segment in enumerate(closed):
        end = log.bases[at + 1]
        if end <= first_dirty:
            clean_bytes += segment.size_bytes
        elif segment.base_offset < limit:
            dirty_bytes += segment.size_bytes
            if segment.first_timestamp == UNREAD:
                segment.read_first_timestamp()
            overdue = overdue or 0 <= segment.first_timestamp < now_ms - config.max_compaction_lag_ms
    return DirtyRange(first_dirty, limit, clean_bytes, dirty_bytes, overdue, reset)


def make_plan(log: LogState, dirty: DirtyRange, now_ms: int, key_limit: int) -> CleanPlan:
    """What `PartitionLog.plan_cleaning` promises."""
    config = log.config
    sources = [
        Source(segment.base_offset, segment.size_bytes, log.bases[at + 1])
        for at, segment in enumerate(log.segments[:-1])
        if segment.base_offset < dirty.first_uncleanable
    ]
    # Of all segments: what is cleaned may have been aborted by a marker that lies beyond it.
    aborted = [
        entry for segment in log.segments for entry in segment.aborted if entry.first_offset < dirty.first_uncleanable
    ]
    return CleanPlan(
        directory=log.directory,
        sources=tuple(sources),
        first_dirty=dirty.first_dirty,
        first_uncleanable=dirty.first_uncleanable,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        max_keys=key_limit,
        producers={
            producer_id: LastRecord(entry.last_data_offset, entry.epoch)
            for producer_id, entry in log.producers.entries.items()
        },
        aborted=tuple(aborted),
    )
