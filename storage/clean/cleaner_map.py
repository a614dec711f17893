"""The first pass of a cleaning: the last offset of every key in the dirty part, as far as there is room.

Source: Kafka's Cleaner.buildOffsetMap, SkimpyOffsetMap.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from protocol.records.batch import BatchHeader, read_keys_values
from protocol.records.errors import CorruptBatch
from storage.clean.cleaner_transactions import CleanedTransactions
from storage.files import DISK, LogFile
from storage.reading.folder import segment_path
from storage.reading.walk import Verdict, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.clean.cleaning import CleanPlan, Source


class OffsetMap:
    """The last offset of each key in the dirty part, up to `latest_offset`."""

    def __init__(self, max_keys: int) -> None:
        self.offsets: dict[bytes, int] = {}
        self.over: set[bytes] = set()  # of them those with a tombstone that is past its delete horizon
        self.max_keys = max_keys
        self.latest_offset = -1
        self.is_full = False


def build_map(plan: CleanPlan) -> OffsetMap:
    """Map the dirty part, as far as there is room. Keys of aborted records do not count."""
    found = OffsetMap(plan.max_keys)
    sources = [
        source
        for source in plan.sources
        if source.next_base_offset > plan.first_dirty and source.base_offset < plan.first_uncleanable
    ]
    # Of a transaction that ended before, nobody would see the marker: its producer would seem to abort for ever.
    first = sources[0].base_offset if sources else 0
    transactions = CleanedTransactions(entry for entry in plan.aborted if entry.last_offset >= first)
    for source in sources:
        for header, batch in batches(plan, source):
            if header.is_control:
                transactions.ends_nothing(header, batch)
            elif not transactions.is_aborted(header) and header.last_offset >= plan.first_dirty:
                _map_batch(found, plan, header, batch)
                if found.is_full:
                    return found
            if header.last_offset >= plan.first_dirty:
                found.latest_offset = max(found.latest_offset, header.last_offset)
        # Gaps after the last batch, too, are known to hold nothing.
        found.latest_offset = max(found.latest_offset, source.next_base_offset - 1)
    return found


def _map_batch(found: OffsetMap, plan: CleanPlan, header: BatchHeader, batch: bytes) -> None:
    offsets, room, first_dirty = found.offsets, found.max_keys, plan.first_dirty
    over = is_over(header, plan)
    for offset, key, value in zip(*read_keys_values(batch), strict=True):
        if key is None or offset < first_dirty:
            continue
        if len(offsets) >= room and key not in offsets:
            found.is_full = True
            return
        if offset < offsets.get(key, -1):
            continue  # of a segment that lies beside what it was merged into
        offsets[key] = found.latest_offset = offset
        if over and value is None:
            found.over.add(key)


def is_over(header: BatchHeader, plan: CleanPlan) -> bool:
    """Is the time past that a tombstone, or a marker that ends nothing, stays for readers?"""
    return header.delete_horizon_ms is not None and header.delete_horizon_ms <= plan.now_ms


def batches(plan: CleanPlan, source: Source) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch of a segment, checked against its CRC. Raises: CorruptBatch; OSError."""
    path = segment_path(plan.directory, source.base_offset, ".log")
    walk = Walk(LogFile(path, os.O_RDONLY, DISK).pread, source.size_bytes)
    for _, header, batch in walk.batches():
        yield BatchHeader._make(header), bytes(batch)
    if walk.verdict is not Verdict.WHOLE:
        raise CorruptBatch(f"{path}, byte {walk.position}: {walk.why}")
