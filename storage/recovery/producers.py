"""The producers of a log that is opened: from the newest good snapshot, and the batches after it.

Source: Kafka's UnifiedLog.rebuildProducerState, ProducerStateManager.truncateAndReload, LogSegment.recover.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from protocol.records.batch import CONTROL
from storage.errors import CorruptFile
from storage.reading.batches import OVERHEAD
from storage.reading.folder import Found, scan_folder, segment_path
from storage.state.log_config import INT64_MAX
from storage.state.producer_snapshot import parse_snapshot, restore
from storage.state.producer_state import ProducerState
from storage.state.producer_tracking import note_producer

if TYPE_CHECKING:
    from storage.reading.transaction_index import AbortedTransaction
    from storage.state.log_state import LogState
    from storage.state.segment import Segment


def load_producers(log: LogState, found: Found, *, clean: bool) -> None:
    """Restore the producers as they were at the log end: the newest good snapshot, then the batches after it."""
    snapshots = found.sizes[".snapshot"]
    start = log.bases[0]
    for offset in sorted((offset for offset in snapshots if offset <= log.log_end_offset), reverse=True):
        path = segment_path(log.directory, offset, ".snapshot")
        try:
            restore(log.producers, parse_snapshot(path, path.read_bytes()))
        except CorruptFile:
            log.disk.unlink(path)
            found.drop(".snapshot", offset)
            log.recovery.discarded_snapshots.append(path)
        else:
            start = log.producers.snapshot_offset = offset
            break
    else:
        if clean and not log.recovery.discarded_snapshots:
            return  # Kafka too takes a clean log without any snapshot for one without producers.
    if start < log.log_end_offset:
        _replay(log, start)


def _replay(log: LogState, start_offset: int) -> None:
    """Feed the batches in [`start_offset`, log end) to the producer table. The transaction indexes stay as they are."""
    for segment in log.segments[log.segment_index(start_offset) :]:
        if segment.base_offset >= log.log_end_offset:
            break
        _feed(log.producers, segment, start_offset, log.log_end_offset)


def _feed(producers: ProducerState, segment: Segment, start: int, end: int) -> list[AbortedTransaction]:
    """Take the batches of a segment in [`start`, `end`) into `producers`; return what their markers abort."""
    aborted = []
    for position, header in segment.headers(segment.find(start)):
        if header[0] >= end:
            break
        if header[9] >= 0 and header[0] >= start:
            control = segment.read(position, position + header[1] + OVERHEAD) if header[5] & CONTROL else b""
            entry = note_producer(producers, header, header[0], control)
            if entry is not None:
                aborted.append(entry)
    return aborted


def reload_producers(log: LogState) -> None:
    """Make the producer table anew for the present log end; snapshots beyond it are removed. May raise `OSError`."""
    found = Found()
    for offset in scan_folder(log.directory).sizes[".snapshot"]:
        if offset > log.log_end_offset:
            log.disk.unlink(segment_path(log.directory, offset, ".snapshot"))
        else:
            found.sizes[".snapshot"][offset] = 0
    log.producers.clear()
    load_producers(log, found, clean=False)


def drop_snapshots(log: LogState, found: Found) -> None:
    """Remove snapshots of no segment, but keep the newest. Those beyond the log end are wrong now."""
    offsets = sorted(found.sizes[".snapshot"])
    bases = set(log.bases)
    newest = max((offset for offset in offsets if offset <= log.log_end_offset), default=-1)
    for offset in offsets:
        if offset not in bases and offset != newest:
            log.disk.unlink(segment_path(log.directory, offset, ".snapshot"))


def aborted_in(log: LogState, at: int, found: Found) -> list[AbortedTransaction]:
    """The transactions that the markers in a segment abort. They may have begun in segments before it."""
    producers = ProducerState()
    start = log.bases[0]
    offsets = [offset for offset in found.sizes[".snapshot"] if offset <= log.bases[at]]
    for offset in sorted(offsets, reverse=True):
        path = segment_path(log.directory, offset, ".snapshot")
        with suppress(CorruptFile):  # its removal is for who loads the producers
            restore(producers, parse_snapshot(path, path.read_bytes()))
            start = offset
            break
    aborted: list[AbortedTransaction] = []
    for segment in log.segments[log.segment_index(start) : at + 1]:
        aborted = _feed(producers, segment, start, INT64_MAX)
    return aborted
