"""Compaction: a pure pass over closed segments that writes new ones beside them.

First the map: the last offset of every key in the dirty part. Then every segment below is rewritten without the
records that a later one has replaced. Runs in a process of its own; nothing of the log changes until the owner calls
`PartitionLog.swap_in`.

Always true: offsets do not change; the newest record of each key below the clean end survives, a tombstone at least
until its delete horizon, and until a pass finds nothing older of its key; a batch that loses nothing is copied byte for
byte.

Source: Kafka's Cleaner, MemoryRecords.filterTo.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from protocol.records.batch import BatchHeader, encode_batch, iterate_records, read_keys_values
from storage.clean.cleaner_map import OffsetMap, batches, build_map, is_over
from storage.clean.cleaner_transactions import CleanedTransactions
from storage.files import DISK, LogFile, sync_directory, sync_file
from storage.reading.folder import CLEANED, segment_path
from storage.state.log_config import INT32_MAX
from storage.state.segment import Segment

if TYPE_CHECKING:
    from storage.clean.cleaning import CleanPlan, Source

CHUNK_BYTES = 1_048_576
MOST_SOURCES = 16
"""Segments that are merged into one. Each costs its owner some renames, in one go."""


class CleanedGroup(NamedTuple):
    """One output segment, lying as `.cleaned` files, and the (base offset, size in bytes) of what it replaces."""

    base_offset: int
    size_bytes: int
    sources: tuple[tuple[int, int], ...]


class CleanResult(NamedTuple):
    """What a cleaning wrote. After `swap_in`, `clean_end_offset` is the log's cleaner checkpoint."""

    groups: tuple[CleanedGroup, ...]
    clean_end_offset: int
    bytes_read: int
    bytes_written: int
    map_full: bool  # a further pass has more to do


def clean(plan: CleanPlan) -> CleanResult:
    """Do what `plan` says; on return all output is fsynced.

    Raises: OSError; CorruptBatch for a batch that does not pass its CRC. Both leave `.cleaned` files, which the next
    try overwrites and a start removes.
    """
    found = build_map(plan)
    end_offset = max(found.latest_offset + 1, plan.first_dirty)
    sources = [source for source in plan.sources if source.base_offset < end_offset]
    transactions = CleanedTransactions(plan.aborted)
    groups = []
    written = _Written()
    for group in group_sources(plan, sources):
        cleaned = _clean_group(plan, group, found, transactions, written)
        if cleaned is not None:
            groups.append(cleaned)
    if groups:
        sync_directory(plan.directory, DISK)
    return CleanResult(
        tuple(groups),
        end_offset,
        sum(source.size_bytes for source in sources),
        sum(group.size_bytes for group in groups),
        found.is_full,
    )


def group_sources(plan: CleanPlan, sources: list[Source]) -> list[list[Source]]:
    """Neighbours that fit into one segment together: by bytes, by index bytes, by span of offsets and by number."""
    groups: list[list[Source]] = []
    log_bytes = index_bytes = 0
    for source in sources:
        source_index_bytes = max(_file_size(plan, source, suffix) for suffix in (".index", ".timeindex"))
        if (
            groups
            and log_bytes + source.size_bytes <= plan.segment_bytes
            and len(groups[-1]) < MOST_SOURCES
            and index_bytes + source_index_bytes <= plan.segment_index_bytes
            and (source.size_bytes == 0 or source.next_base_offset - 1 - groups[-1][0].base_offset <= INT32_MAX)
        ):
            groups[-1].append(source)
            log_bytes += source.size_bytes
            index_bytes += source_index_bytes
        else:
            groups.append([source])
            log_bytes, index_bytes = source.size_bytes, source_index_bytes
    return groups


def _file_size(plan: CleanPlan, source: Source, suffix: str) -> int:
    try:
        return segment_path(plan.directory, source.base_offset, suffix).stat().st_size
    except FileNotFoundError:
        return 0


class _Output:
    """An output segment being written."""

    def __init__(self, plan: CleanPlan, base_offset: int) -> None:
        self.segment = Segment(plan.directory, base_offset, 0, -1, plan.index_interval_bytes, DISK)
        self.segment.start_indexes()
        self.segment.start_aborted()
        path = segment_path(plan.directory, base_offset, ".log" + CLEANED)
        self.segment.file = LogFile(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, DISK)
        self._pending: list[bytes | bytearray] = []
        self._pending_bytes = 0

    def add(self, header: BatchHeader, batch: bytes | bytearray, max_timestamp: int) -> None:
        segment = self.segment
        segment.note_batch(segment.size_bytes, len(batch), header.last_offset, max_timestamp)
        self._pending.append(batch)
        self._pending_bytes += len(batch)
        if self._pending_bytes >= CHUNK_BYTES:
            self.write()

    def write(self) -> None:
        if self._pending:
            self.segment.file.write_fully(b"".join(self._pending), self.segment.size_bytes - self._pending_bytes)
            self._pending, self._pending_bytes = [], 0

    def finish(self, modified_ns: int) -> None:
        """Everything on the disk, with the age of what it replaces."""
        self.write()
        self.segment.finish_time_index()
        for path in [self.segment.file.path, *self.segment.write_indexes(CLEANED)]:
            DISK.utime(path, ns=(modified_ns, modified_ns))
            sync_file(path, DISK)


class _Written:
    """How far a pass has come. What a crash of another broker leaves beside what it was merged into is below that."""

    end_offset = 0


def _clean_group(
    plan: CleanPlan, group: list[Source], found: OffsetMap, transactions: CleanedTransactions, written: _Written
) -> CleanedGroup | None:
    """Rewrite a group; None when it is one segment that stays as it is."""
    output = _Output(plan, group[0].base_offset)
    transactions.kept = []
    changed = len(group) > 1
    for source in group:
        for header, batch in batches(plan, source):
            if header.base_offset < written.end_offset:
                changed = True
                continue
            written.end_offset = header.next_offset
            kept = _clean_batch(plan, header, batch, found, transactions)
            changed = changed or kept != batch
            if kept is not None:
                output.add(header, kept, int.from_bytes(kept[35:43], "big", signed=True))
    if not changed:
        DISK.unlink(output.segment.file.path)
        return None
    output.segment.set_aborted(transactions.kept)
    newest = segment_path(plan.directory, group[-1].base_offset, ".log")
    output.finish(newest.stat().st_mtime_ns)
    replaced = tuple((source.base_offset, source.size_bytes) for source in group)
    return CleanedGroup(group[0].base_offset, output.segment.size_bytes, replaced)


def _clean_batch(
    plan: CleanPlan,
    header: BatchHeader,
    batch: bytes,
    found: OffsetMap,
    transactions: CleanedTransactions,
) -> bytes | bytearray | None:
    """The batch as it must be now: itself, a smaller one, a header without records, or None."""
    horizon = header.delete_horizon_ms
    if header.is_control:
        marks_nothing = transactions.ends_nothing(header, batch)
        if not (marks_nothing and is_over(header, plan)):
            if header.record_count == 0:
                return _emptied(plan, header)
            needs_horizon = marks_nothing and horizon is None
            return _rewritten(plan, header, batch, None, needs_horizon=True) if needs_horizon else batch
        return _emptied(plan, header)
    if transactions.is_aborted(header):
        return _emptied(plan, header)
    keep, has_tombstone = _records_to_keep(plan, header, batch, found)
    if not any(keep):
        return _emptied(plan, header)
    needs_horizon = has_tombstone and horizon is None
    if all(keep) and not needs_horizon:
        return batch
    return _rewritten(plan, header, batch, keep, needs_horizon=needs_horizon)


def _records_to_keep(plan: CleanPlan, header: BatchHeader, batch: bytes, found: OffsetMap) -> tuple[list[bool], bool]:
    """For each record whether it stays, and whether a tombstone is among those that do.

    A tombstone never goes in the pass that takes what it has removed: a crash amid the swap, or a load that the pass
    overtakes, could meet the old value without it.
    """
    tombstones_stay = not is_over(header, plan)
    newest, latest_offset, over = found.offsets.get, found.latest_offset, found.over
    keep = []
    has_tombstone = False
    for offset, key, value in zip(*read_keys_values(batch), strict=True):
        if offset > latest_offset:
            stays = True
        elif key is None or offset < newest(key, -1):
            stays = False
            if key in over:
                over.remove(key)
        else:
            stays = value is not None or tombstones_stay or (offset >= plan.first_dirty and key not in over)
        keep.append(stays)
        has_tombstone = has_tombstone or (stays and value is None)
    return keep, has_tombstone


def _rewritten(
    plan: CleanPlan, header: BatchHeader, batch: bytes, keep: list[bool] | None, *, needs_horizon: bool
) -> bytearray:
    """The batch with only the records of `keep`; all else as it was, but for a delete horizon if it needs one."""
    records = iterate_records(batch)
    if keep is not None:
        records = (record for record, stays in zip(records, keep, strict=True) if stays)
    return encode_batch(
        records,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        compression=header.compression,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
        delete_horizon_ms=plan.now_ms + plan.delete_retention_ms if needs_horizon else header.delete_horizon_ms,
        last_offset=header.last_offset,
    )


def _emptied(plan: CleanPlan, header: BatchHeader) -> bytearray | None:
    """A header without records where it still says something, else None.

    It does when it holds a living producer's last sequence or epoch, or the last offset below the uncleanable part.
    """
    last = plan.producers.get(header.producer_id) if header.producer_id >= 0 else None
    if last is None:
        speaks = False
    elif last.data_offset >= 0:
        speaks = header.last_offset == last.data_offset
    else:
        speaks = header.is_control and header.producer_epoch == last.epoch
    if not speaks and header.next_offset != plan.first_uncleanable:
        return None
    return encode_batch(
        (),
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp,
    )
