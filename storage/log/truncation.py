"""Cutting a log so that a given offset is the next to be written.

A segment file that has ever been mapped is not shortened in place, since a view of it may be on its way to a socket:
its head is copied to a new file that takes its name. Source: Kafka's UnifiedLog.truncateTo, LocalLog.truncateTo.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from storage.files import LogFile, sync_directory, sync_file
from storage.reading.folder import CLEANED, SEGMENT_SUFFIXES
from storage.recovery.producers import reload_producers
from storage.state.producer_snapshot import write_snapshot
from storage.state.segment import Segment
from storage.state.set_aside import set_aside

if TYPE_CHECKING:
    from pathlib import Path

    from storage.state.log_state import LogState

COPY_BYTES = 4 * 1024 * 1024


def truncate_to(log: LogState, offset: int) -> None:
    """What `PartitionLog.truncate_to` promises. May raise `OSError`."""
    if offset >= log.log_end_offset:
        log.epochs.truncate_from_end(offset)
        _write_epochs(log)
        return
    log.tail.clear()
    keep = 0 if offset < log.bases[0] else log.segment_index(offset) + 1
    # From the end on, so that a crash in between leaves a log without a hole.
    while len(log.segments) > keep:
        set_aside(log, log.segments[-1], (*SEGMENT_SUFFIXES,))
        del log.segments[-1], log.bases[-1]
    if keep == 0:
        segment = Segment(log.directory, offset, 0, -1, log.config.index_interval_bytes, log.disk)
        segment.create()
        log.add_segment(segment)
        log.log_start_offset = offset
    else:
        for path in _cut(log.segments[-1], offset):
            sync_file(path, log.disk)
    log.log_end_offset = offset
    log.log_start_offset = min(log.log_start_offset, offset)
    log.epochs.truncate_from_end(offset)
    _write_epochs(log)
    reload_producers(log)
    sync_file(write_snapshot(log.directory, offset, log.producers, log.disk), log.disk)
    sync_directory(log.directory, log.disk)


def _write_epochs(log: LogState) -> None:
    if log.epochs.is_dirty:
        log.epochs.write(log.epochs.content())


def _cut(segment: Segment, offset: int) -> list[Path]:
    """Cut a segment before the batch that holds `offset`, and what is derived from it alike; return the index files."""
    position = segment.find(offset)
    segment.load_for_change()
    if segment.was_mapped and position < segment.size_bytes:
        _replace_by_head(segment, position)
    elif position < segment.size_bytes:
        segment.file.truncate(position)
        segment.file.sync()
    segment.cut(position, offset)
    return segment.write_indexes()


def _replace_by_head(segment: Segment, end: int) -> None:
    """Give the segment a new file with its first `end` bytes. Views of the old one stay whole."""
    path = segment.path(".log")
    # A start throws a `.cleaned` file away: until the rename the log is as it was.
    temporary = path.with_name(path.name + CLEANED)
    new = LogFile(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, segment.disk)
    for start in range(0, end, COPY_BYTES):
        new.write_fully(segment.file.pread(min(COPY_BYTES, end - start), start), start)
    new.sync()
    segment.disk.rename(temporary, path)
    new.path = path
    segment.file = new
