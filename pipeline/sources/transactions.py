"""How the transactions of a partition ended, from its files: which were aborted, and where the first open one begins.

Closed segments say it in their `.txnindex`; a `.snapshot` says which transactions were open where it was taken. What
neither covers, always the active segment, is walked header by header; so is everything where one of them is damaged.

Source: Kafka's TransactionIndex, ProducerStateManager.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.decode.batches import PAD_BYTES, Headers, find_batch
from pipeline.sources.files import File, read_whole
from pipeline.sources.log_dir import Partition, Segment, is_there
from pipeline.sources.segments import only_zeros, survey
from storage.errors import CorruptFile
from storage.reading.batches import read_marker
from storage.reading.transaction_index import sound_transaction_index
from storage.state.producer_snapshot import parse_snapshot


class Aborted(NamedTuple):
    """An aborted transaction: its batches lie between these offsets, both inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int


class Outcomes(NamedTuple):
    """What a read_committed reader must know. `first_open_offset` is None when every transaction has ended."""

    aborted: tuple[Aborted, ...]
    first_open_offset: int | None


def outcomes(partition: Partition, seen: Headers | None = None) -> Outcomes:
    """The transactions of a whole partition; `seen` are the headers of its last segment, if they were read. OSError."""
    segments = partition.segments
    first, open_since = _where_to_walk_from(segments)
    aborted: list[Aborted] = []
    for segment, following in pairwise(segments[: first + 1]):
        data = read_whole(segment.files, segment.beside(".txnindex")) or b""
        entries = sound_transaction_index(data, segment.base_offset, following.base_offset)
        if entries is None:
            first, open_since, aborted = 0, {}, []
            break
        aborted += [Aborted(*entry[:3]) for entry in entries]
    for segment in segments[first:]:
        _walk(segment, open_since, aborted, seen if segment is segments[-1] else None)
    return Outcomes(tuple(aborted), min(open_since.values(), default=None))


def _where_to_walk_from(segments: tuple[Segment, ...]) -> tuple[int, dict[int, int]]:
    """The first segment to walk, and the transactions that are open at its base offset."""
    for index in range(len(segments) - 1, 0, -1):
        snapshot = segments[index].beside(".snapshot")
        data = read_whole(segments[index].files, snapshot)
        if data is None:
            continue
        # Indexes are there for closed segments, unless somebody copied only the logs: then nothing says what aborted.
        if not all(is_there(segment.files, segment.beside(".index")) for segment in segments[:index]):
            break
        try:
            entries = parse_snapshot(Path(snapshot), data)
        except CorruptFile:
            continue
        opened = {entry.producer_id: entry.transaction_first_offset for entry in entries}
        return index, {producer: first for producer, first in opened.items() if first >= 0}
    return 0, {}


def _walk(segment: Segment, open_since: dict[int, int], aborted: list[Aborted], seen: Headers | None) -> None:
    with segment.files.open(segment.path) as file:
        size = file.size_bytes
        position, above = 0, segment.base_offset - 1
        while position < size:
            headers = survey(segment.path, position, size, segment.files) if seen is None or position else seen
            for index in np.flatnonzero(headers.is_transactional).tolist():
                _note(file, headers[index : index + 1], open_since, aborted)
            if len(headers):
                position, above = int(headers.position[-1] + headers.size_bytes[-1]), int(headers.last_offset[-1])
            if position >= size:
                return
            # Something is broken here: what readers skip must not hide how later transactions ended.
            if only_zeros(segment, position, size):
                return
            rest = file.pread(size - position, position) + bytes(PAD_BYTES)
            found = find_batch(rest, 1, size - position, above)
            if found is None:
                return
            position += found


def _note(file: File, header: Headers, open_since: dict[int, int], aborted: list[Aborted]) -> None:
    producer_id, base_offset = int(header.column("producer_id")[0]), int(header.base_offset[0])
    if not header.is_control[0]:
        open_since.setdefault(producer_id, base_offset)
        return
    marker = read_marker(file.pread(int(header.size_bytes[0]), int(header.position[0])))
    if marker is None:
        return
    first = open_since.pop(producer_id, None)
    if marker[0] and first is not None:
        aborted.append(Aborted(producer_id, first, base_offset))
