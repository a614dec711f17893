"""One segment file, looked at from outside: where batches start, where they end, what its indexes say. Headers only.

Positions are bytes in the file. An index is believed only as far as the batches it points to agree with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.decode.batches import PAD_BYTES, Headers, find_batch, is_zero, read_headers, walk
from pipeline.sources.files import LOCAL, Files
from pipeline.sources.log_dir import Segment
from protocol.records.batch_header import HEADER_BYTES
from storage.reading.batches import OVERHEAD
from storage.reading.index_file import offset_entries, time_entries
from storage.reading.walk import Header, Verdict, Walk

WINDOW_BYTES = 4 * 1024 * 1024
INDEX_BATCH_LIMIT_BYTES = 1024 * 1024 * 1024
"""Files up to this size are walked for their cuts when there is no usable index."""


class Step(NamedTuple):
    """A batch as the walk over headers sees it."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    attributes: int


class End(NamedTuple):
    """Where a segment's batches end."""

    position: int
    next_offset: int
    torn_bytes: int  # of a batch that is not whole yet
    is_broken: bool  # something in front of `position` cannot be read: a reader must look for itself


def steps(path: str, position: int = 0, end: int | None = None, files: Files = LOCAL) -> Iterator[Step]:
    """Each batch from `position` on, by its header; stops in front of anything that is no whole batch. OSError."""
    with files.open(path) as file:
        size = file.size_bytes
        walk = Walk(file.pread, size if end is None else min(end, size), position)
        for at, header in walk.headers():
            if header[6] < 0:
                return
            yield _step(at, header)


def _step(position: int, header: Header) -> Step:
    return Step(position, header[1] + OVERHEAD, header[0], header[0] + header[6], header[5])


def survey(path: str, position: int = 0, end: int | None = None, files: Files = LOCAL) -> Headers:
    """The headers of all batches from `position` on, in front of anything that is no whole batch. OSError.

    61 bytes a batch; of a file with large batches everything is read all the same.
    """
    found: list[Headers] = []
    with files.open(path) as file:
        size = file.size_bytes
        limit, window_bytes = size if end is None else min(end, size), WINDOW_BYTES
        while position + HEADER_BYTES <= limit:
            count = min(window_bytes, limit - position)
            data = file.pread(count, position)
            walked = walk(data, 0, len(data), check_crc=False)
            if walked.positions:
                found.append(read_headers(data, walked.positions, position))
                position += walked.stop
                window_bytes = WINDOW_BYTES
            elif walked.is_cut and position + count < limit:
                window_bytes = max(12 + int.from_bytes(data[8:12], "big"), 2 * WINDOW_BYTES)
            else:
                break
    if not found:
        return read_headers(b"", [])
    fields = np.concatenate([headers.fields for headers in found])
    return Headers(fields, np.concatenate([headers.position for headers in found]))


def end_of_batches(path: str, base_offset: int) -> int:
    """The offset behind the last batch of a file; `base_offset` for one without. OSError."""
    headers = survey(path)
    return int(headers.last_offset[-1]) + 1 if len(headers) else base_offset


def index_entries(segment: Segment) -> Sequence[tuple[int, int]]:
    """(last offset, position) of each usable entry: up to the first that is zero or does not rise."""
    try:
        file = segment.files.open(segment.beside(".index"))
        return offset_entries(file.pread, file.size_bytes, segment.base_offset, segment.size_bytes)
    except OSError:
        return []


def time_index(segment: Segment) -> Sequence[tuple[int, int]]:
    """(timestamp in ms, last offset of its batch) of each entry; none where the index is missing or damaged."""
    try:
        file = segment.files.open(segment.beside(".timeindex"))
        return time_entries(file.pread, file.size_bytes, segment.base_offset, segment.next_offset)
    except OSError:
        return []


def latest_timestamp(segment: Segment) -> int | None:
    """The last entry of the time index (ms): no record of the closed segment is later. None when nothing is known."""
    try:
        times = time_index(segment)
        return times[-1][0] if times else None
    except OSError:
        return None


def header_at(path: str, position: int, files: Files = LOCAL) -> Step | None:
    """The batch header at a position, None when there is none that could be one. OSError."""
    found = next(steps(path, position, None, files), None)
    return found if found is not None and found.base_offset >= 0 else None


def find_end(segment: Segment, *, check_last_crc: bool = False, seen: Headers | None = None) -> End:
    """Where the batches of a (last) segment end; starts from its last index entry. OSError.

    A batch that is not whole is torn if nothing readable follows it; otherwise the file is broken, and its end is the
    file's. With `check_last_crc` a last batch whose CRC is wrong counts as not written yet. `seen`: its headers, if a
    survey of the whole was made.
    """
    position, next_offset, before = 0, segment.base_offset, None
    entries = index_entries(segment) if seen is None else []
    if seen is not None and len(seen):
        position = int(seen.position[-1])
    if entries:
        found = header_at(segment.path, entries[-1][1], segment.files)
        if found is not None and segment.base_offset <= found.base_offset <= entries[-1][0]:
            position = found.position
    with segment.files.open(segment.path) as file:
        size = file.size_bytes
    for step in steps(segment.path, position, size, segment.files):
        before, position, next_offset = step, step.position + step.size_bytes, step.last_offset + 1
    if position == size:
        if check_last_crc and before is not None and not _crc_is_right(segment, before):
            return End(before.position, before.base_offset, before.size_bytes, False)
        return End(position, next_offset, 0, False)
    if only_zeros(segment, position, size):
        return End(position, next_offset, 0, False)  # a pre-allocated file
    rest = _rest(segment, position, size)
    torn = size - position
    if find_batch(rest, 1, torn, next_offset - 1) is not None or _is_whole_but_wrong(rest, torn):
        return End(size, next_offset, 0, True)
    if check_last_crc and before is not None and not _crc_is_right(segment, before):
        return End(before.position, before.base_offset, torn + before.size_bytes, False)
    return End(position, next_offset, torn, False)


def only_zeros(segment: Segment, position: int, end: int) -> bool:
    """Whether a file has nothing but zeros between two positions. OSError."""
    with segment.files.open(segment.path) as file:
        while position < end:
            data = file.pread(min(WINDOW_BYTES, end - position), position)
            if not data or not is_zero(data):
                return not data
            position += len(data)
    return True


def _rest(segment: Segment, position: int, end: int) -> bytes:
    with segment.files.open(segment.path) as file:
        return file.pread(end - position, position) + bytes(PAD_BYTES)


def _is_whole_but_wrong(rest: bytes, size: int) -> bool:
    """A complete header that is none of magic 2, or impossible: not a batch being written but damage."""
    walk = Walk.of_bytes(rest[:size])
    return next(walk.headers(), None) is not None or walk.verdict is Verdict.CORRUPT


def _crc_is_right(segment: Segment, step: Step) -> bool:
    with segment.files.open(segment.path) as file:
        walk = Walk(file.pread, step.position + step.size_bytes, step.position)
        return next(walk.batches(), None) is not None
