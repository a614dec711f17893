"""Opening a log: what is in the folder, what of it can be believed, and where it ends.

After a clean shutdown no batch is read but the headers after the last index entry of the last segment. Otherwise
every batch from the recovery point's segment on is checked, and at the first bad one the file is cut and later
segments are removed: readers take a gap in offsets for compaction, so a batch skipped in the middle would be lost
without anyone noticing.

Source: Kafka's LogLoader, LogSegment.recover, UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import TYPE_CHECKING

from protocol.records.batch import CONTROL
from storage.errors import CorruptFile, CorruptSegment
from storage.files import LogFile, sync_directory
from storage.reading.batches import OVERHEAD
from storage.reading.folder import Found
from storage.reading.indexes import OFFSET_ENTRY_BYTES
from storage.reading.transaction_index import sound_transaction_index
from storage.reading.walk import Verdict, Walk
from storage.recovery.producers import aborted_in, drop_snapshots, load_producers
from storage.recovery.tidy import tidy
from storage.state.log_config import INT32_MAX
from storage.state.producer_snapshot import write_snapshot
from storage.state.producer_tracking import note_producer
from storage.state.recovery_report import Cut
from storage.state.segment import Segment

if TYPE_CHECKING:
    from storage.reading.walk import Header
    from storage.state.log_state import LogState


def load(log: LogState, *, clean: bool, recovery_point: int, log_start_offset: int, now_ms: int) -> None:
    """Fill `log` from its folder. May raise `OSError`. Raises: CorruptFile, CorruptSegment."""
    report = log.recovery
    found = tidy(log.directory, log.disk, report)
    interval = log.config.index_interval_bytes
    for base_offset in sorted(found.sizes[".log"]):
        size = found.sizes[".log"][base_offset]
        log.segments.append(Segment(log.directory, base_offset, size, now_ms, interval, log.disk))
    log.bases = [segment.base_offset for segment in log.segments]
    _forget_presized(log, found)
    log.epochs.load()
    if not log.segments:
        _start_empty(log, log_start_offset, now_ms)
        return
    log.log_start_offset = max(log_start_offset, log.bases[0])
    if clean and not _believe(log):
        clean, recovery_point = False, log.bases[-1]
    if clean:
        log.recovery_point = log.log_end_offset
        load_producers(log, found, clean=True)
    else:
        _recover(log, found, recovery_point)
        log.add_unsynced([], files=[segment.file for segment in log.segments[log.segment_index(recovery_point) : -1]])
        log.recovery_point = min(recovery_point, log.log_end_offset)
        _write_again(log)
    _note_what_is_missing(log, found, recovery_point if not clean else log.log_end_offset)
    _repair_indexes(log, found)
    if log.log_end_offset < log_start_offset:
        _restart(log, log_start_offset, now_ms)
    log.epochs.truncate_from_end(log.log_end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    drop_snapshots(log, found)
    if now_ms >= 0:
        log.producers.expire(now_ms, log.config.producer_id_expiration_ms)


def _forget_presized(log: LogState, found: Found) -> None:
    """The index of an empty segment that a killed Kafka had sized, and never wrote to, tells of nothing."""
    for segment in log.segments:
        if segment.size_bytes == 0 and found.sizes[".index"].get(segment.base_offset):
            index = LogFile(segment.path(".index"), os.O_RDONLY, log.disk)
            if not any(index.pread(OFFSET_ENTRY_BYTES, 0)):
                found.sizes[".index"][segment.base_offset] = 0


def _write_again(log: LogState) -> None:
    """Write what is not known to be on disk over itself.

    After a failed fsync the cache may show pages as clean that never reached the disk, to the process that it failed in
    and to the next one; writing them makes the next fsync mean what it says. The bytes are the same, so a crash in
    between changes nothing.
    """
    for segment in log.segments[log.segment_index(log.recovery_point) :]:
        segment.file.write_again(segment.find(log.recovery_point), segment.size_bytes)


def _start_empty(log: LogState, offset: int, now_ms: int) -> None:
    segment = Segment(log.directory, offset, 0, now_ms, log.config.index_interval_bytes, log.disk)
    segment.create()
    log.add_segment(segment)
    log.epochs.truncate_from_end(offset)
    log.producers.clear()
    log.log_start_offset = log.log_end_offset = log.recovery_point = offset


def _restart(log: LogState, offset: int, now_ms: int) -> None:
    """Records up to the log start were deleted, and the log does not even reach it: nothing in it may be seen."""
    for segment in log.segments:
        segment.release()
        for suffix in (".log", ".index", ".timeindex", ".txnindex"):
            path = segment.path(suffix)
            if path.exists():
                log.disk.unlink(path)
    log.segments, log.bases = [], []
    log.recovery.restarted_at = offset
    _start_empty(log, offset, now_ms)
    sync_directory(log.directory, log.disk)


def _believe(log: LogState) -> bool:
    """Find the log end after a clean shutdown, by the last index entry; False when it does not add up."""
    segment = log.segments[-1]
    end = segment.base_offset
    try:
        for _, header in segment.headers(segment.last_indexed_position()):
            end = header[0] + header[6] + 1
    except CorruptSegment:
        return False
    if segment.size_bytes and end == segment.base_offset:
        return False
    log.log_end_offset = end
    return True


def _recover(log: LogState, found: Found, recovery_point: int) -> None:
    """Check every batch from the segment of `recovery_point` on; cut at the first bad one."""
    first = _first_to_check(log, found, recovery_point)
    log.log_end_offset = log.bases[first]
    load_producers(log, found, clean=False)
    for at in range(first, len(log.segments)):
        segment = log.segments[at]
        path = segment.path(".log")
        why = _check_segment(log, segment)
        log.recovery.checked_segments.append(path)
        if why:
            size = found.sizes[".log"][segment.base_offset]
            segment.file.truncate(segment.size_bytes)
            log.recovery.cuts.append(Cut(path, segment.size_bytes, size - segment.size_bytes, why))
            _drop_segments_after(log, at, found)
        log.add_unsynced(segment.write_indexes())
        if at + 1 >= len(log.segments):
            break
    if log.log_end_offset > 0:
        log.add_unsynced([write_snapshot(log.directory, log.log_end_offset, log.producers, log.disk)])
        found.sizes[".snapshot"][log.log_end_offset] = 0


def _first_to_check(log: LogState, found: Found, recovery_point: int) -> int:
    """The segment of the recovery point. One that ends there gets its indexes anew.

    Its records were fsynced while it was open, but what closing it writes into the indexes perhaps not, or not at all:
    then there is no transaction index, and what was aborted would be read as committed.
    """
    first = log.segment_index(recovery_point)
    if first == 0 or log.bases[first] != recovery_point:
        return first
    try:
        _rebuild_indexes(log, first - 1, found)
    except CorruptSegment:
        return first - 1
    return first


def _rebuild_indexes(log: LogState, at: int, found: Found) -> None:
    """Make all indexes of a segment from its batches, and write them. Raises: CorruptSegment."""
    segment = log.segments[at]
    segment.start_aborted()
    if segment.rebuild_indexes():
        segment.set_aborted(aborted_in(log, at, found))
    log.add_unsynced(segment.write_indexes())


def _drop_segments_after(log: LogState, at: int, found: Found) -> None:
    for segment in log.segments[at + 1 :]:
        segment.release()
        path = segment.path(".log")
        log.recovery.removed_segments.append(Cut(path, 0, segment.size_bytes, "follows a segment that was cut"))
        for suffix in (".log", ".index", ".timeindex", ".txnindex"):
            if segment.base_offset in found.sizes[suffix]:
                log.disk.unlink(segment.path(suffix))
                found.drop(suffix, segment.base_offset)
    del log.segments[at + 1 :]
    del log.bases[at + 1 :]
    sync_directory(log.directory, log.disk)


def _check_segment(log: LogState, segment: Segment) -> str:
    """Walk all batches of a segment, rebuilding what is derived from them; set its size to that of the good ones.

    Return why it ends before the file does, "" when it does not. Sets the log end to after the last good batch.
    """
    walk = Walk(segment.file.pread, segment.size_bytes)
    why = _rebuild_from(log, segment, walk)
    if not why and walk.verdict is not Verdict.WHOLE:
        why = walk.why
    if why:
        _refuse_old_format(segment, walk.position)
    segment.size_bytes = walk.position
    segment.finish_time_index()
    return why


def _rebuild_from(log: LogState, segment: Segment, walk: Walk) -> str:
    """Take each batch into what is derived from batches; stop at one that its segment cannot hold, and say why.

    The CRC does not cover the base offset: of a batch across two pages the first may be lost and the rest kept, and its
    records are sound then, at offset 0. Kafka takes it, and answers the producer's retry as a duplicate there. What is
    there twice in a closed segment is something else: a cleaning merged it with what an earlier one had made of it.
    """
    segment.start_indexes()
    segment.start_aborted()
    base, note = segment.base_offset, segment.note_batch
    epoch = log.epochs.latest
    log.log_end_offset = base
    earlier: set[tuple[int, ...]] = set()
    for position, header, batch in walk.batches():
        last_offset = header[0] + header[6]
        if header[0] < base or not 0 <= last_offset - base <= INT32_MAX:
            return f"a batch has offset {header[0]}, outside of what its segment may hold"
        if header[0] < log.log_end_offset:
            if segment is not log.segments[-1]:
                earlier = earlier or {_identity(before) for _, before in Walk(segment.file.pread, position).headers()}
                if _identity(header) in earlier:
                    continue
            return f"a batch has offset {header[0]}, and the one before ends at {log.log_end_offset - 1}"
        note(position, len(batch), last_offset, header[8])
        if header[2] > epoch:
            epoch = header[2]
            log.epochs.assign(epoch, header[0])
        if header[9] >= 0:
            aborted = note_producer(log.producers, header, header[0], bytes(batch) if header[5] & CONTROL else b"")
            if aborted is not None:
                segment.aborted.append(aborted)
        log.log_end_offset = last_offset + 1
    return ""


def _identity(header: Header) -> tuple[int, ...]:
    """What a cleaning leaves as it is: base offset, leader epoch, span of offsets, producer, its epoch and sequence."""
    return header[0], header[2], header[6], header[9], header[10], header[11]


def _note_what_is_missing(log: LogState, found: Found, checked_from: int) -> None:
    """Say what was there and is gone: the beginning of the log, or the end of a segment that nobody has checked."""
    first = log.epochs.start_offsets[:1]
    if first and first[0] < log.log_start_offset == log.bases[0]:
        why = f"the log began at offset {first[0]}, and the first segment begins at {log.bases[0]}"
        log.recovery.damaged.append((log.segments[0].path(".log"), why))
    for segment, end in zip(log.segments, [*log.bases[1:], log.log_end_offset], strict=True):
        entries = found.sizes[".index"].get(segment.base_offset, 0)
        if end > checked_from or entries < OFFSET_ENTRY_BYTES:
            continue
        beyond = entries > OFFSET_ENTRY_BYTES and not segment.indexes_loaded and segment.last_indexed_position() == 0
        if segment.size_bytes == 0 or beyond:
            why = f"it has {segment.size_bytes} bytes, and its index tells of more"
            log.recovery.damaged.append((segment.path(".log"), why))


_OLD_HEAD = struct.Struct(">qiIb")


def _refuse_old_format(segment: Segment, position: int) -> None:
    """Raise CorruptFile when an intact message of Kafka's formats 0 or 1 begins here: cutting it would lose data."""
    head = segment.file.pread(_OLD_HEAD.size, position)
    if len(head) < _OLD_HEAD.size:
        return
    _, length, crc, magic = _OLD_HEAD.unpack(head)
    if magic in {0, 1} and 14 <= length <= segment.size_bytes - position - OVERHEAD:
        message = segment.file.pread(length - 4, position + 16)
        if zlib.crc32(message) == crc:
            raise CorruptFile(
                segment.path(".log"),
                f"holds messages of format {magic}, written by Kafka before 0.11, which are not read; "
                "let Kafka 3.x rewrite the topic first",
            )


def _repair_indexes(log: LogState, found: Found) -> None:
    """Rebuild index files that are missing or have a broken entry."""
    offsets, times, transactions = (found.sizes[suffix] for suffix in (".index", ".timeindex", ".txnindex"))
    ends = [*log.bases[1:], log.log_end_offset]
    for at, (segment, end) in enumerate(zip(log.segments, ends, strict=True)):
        base = segment.base_offset
        if segment.indexes_loaded:
            continue  # just rebuilt
        broken = offsets.get(base, -1) % 8 or times.get(base, -1) % 12
        if not broken and transactions.get(base):  # else readers would be given what was aborted
            broken = sound_transaction_index(segment.path(".txnindex").read_bytes(), base, end) is None
        if broken:
            _rebuild_indexes(log, at, found)
            log.recovery.rebuilt_indexes.append(segment.path(".index"))
