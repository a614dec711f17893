"""How the transactions of a partition ended, from its files: which were aborted, and where the first open one begins.

Closed segments say it in their `.txnindex`; a `.snapshot` says which transactions were open where it was taken. What
neither covers, always the active segment, is walked header by header.

Source: Kafka's TransactionIndex, ProducerStateManager.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from pipeline.decode.batches import PAD_BYTES, find_batch
from pipeline.sources.log_dir import Partition, Segment
from pipeline.sources.segments import Step, steps
from protocol.records.batch_header import CONTROL, TRANSACTIONAL
from storage.batches import read_marker
from storage.errors import CorruptFile
from storage.producer_snapshot import parse_snapshot
from storage.transaction_index import parse_transaction_index


class Aborted(NamedTuple):
    """An aborted transaction: its batches lie between these offsets, both inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int


class Outcomes(NamedTuple):
    """What a read_committed reader must know. `first_open_offset` is None when every transaction has ended."""

    aborted: tuple[Aborted, ...]
    first_open_offset: int | None


def outcomes(partition: Partition) -> Outcomes:
    """The transactions of a whole partition. OSError."""
    segments = partition.segments
    first, open_since = _where_to_walk_from(segments)
    aborted = []
    for segment in segments[:first]:
        entries = _read(segment.beside(".txnindex"))
        aborted += [Aborted(*entry[:3]) for entry in parse_transaction_index(entries or b"")]
    for segment in segments[first:]:
        _walk(segment, open_since, aborted)
    return Outcomes(tuple(aborted), min(open_since.values(), default=None))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _where_to_walk_from(segments: tuple[Segment, ...]) -> tuple[int, dict[int, int]]:
    """The first segment to walk, and the transactions that are open at its base offset."""
    for index in range(len(segments) - 1, 0, -1):
        snapshot = segments[index].beside(".snapshot")
        data = _read(snapshot)
        if data is None:
            continue
        # Indexes are there for closed segments, unless somebody copied only the logs: then nothing says what aborted.
        if not all(segment.beside(".index").exists() for segment in segments[:index]):
            break
        try:
            entries = parse_snapshot(snapshot, data)
        except CorruptFile:
            continue
        opened = {entry.producer_id: entry.transaction_first_offset for entry in entries}
        return index, {producer: first for producer, first in opened.items() if first >= 0}
    return 0, {}


def _walk(segment: Segment, open_since: dict[int, int], aborted: list[Aborted]) -> None:
    with open(segment.path, "rb") as file:  # noqa: PTH123
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        position, above = 0, segment.base_offset - 1
        while position < size:
            for step in steps(segment.path, position, size):
                if step.attributes & TRANSACTIONAL:
                    _note(descriptor, step, open_since, aborted)
                position, above = step.position + step.size_bytes, step.last_offset
            if position >= size:
                return
            # Something is broken here: what readers skip must not hide how later transactions ended.
            rest = os.pread(descriptor, size - position, position) + bytes(PAD_BYTES)
            found = find_batch(rest, 1, size - position, above) if any(rest) else None
            if found is None:
                return
            position += found


def _note(descriptor: int, step: Step, open_since: dict[int, int], aborted: list[Aborted]) -> None:
    producer_id = int.from_bytes(os.pread(descriptor, 8, step.position + 43), "big", signed=True)
    if not step.attributes & CONTROL:
        open_since.setdefault(producer_id, step.base_offset)
        return
    marker = read_marker(os.pread(descriptor, step.size_bytes, step.position))
    if marker is None:
        return
    first = open_since.pop(producer_id, None)
    if marker[0] and first is not None:
        aborted.append(Aborted(producer_id, first, step.base_offset))
