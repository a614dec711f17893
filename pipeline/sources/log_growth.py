"""How logs at rest grew, by their time indexes: of a log those bytes are read that lie around the asked moments.

An entry of a time index says how late the records up to an offset were; behind the last one that is not later than a
moment, a short walk over headers finds where the log ended then.

Source: Kafka's LogSegment.findOffsetByTimestamp.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from pipeline.errors import DataError
from pipeline.sources.log_dir import Partition, Segment
from pipeline.sources.log_ends import SKEW_MS, Grown
from pipeline.sources.plan import position_of
from pipeline.sources.segments import time_index
from storage.reading.walk import WINDOW_BYTES, Walk

MARKS = 64
"""So many entries of a segment's time index are told besides, for the times of records that wait."""
_LEAST_BYTES = 4 * 1024 * 1024
"""A smaller topic is sooner read whole."""


_LONGEST_TAIL_BYTES = 1024 * 1024
"""Behind the last entry of the active segment; more is there where a broker runs that keeps its indexes in memory."""


class _Stop(NamedTuple):
    """All records before `end` are of `max_ms` or earlier."""

    end: int
    max_ms: int


def growth(partitions: Iterable[Partition], moments_ms: Sequence[int]) -> tuple[list[Grown], set[str]]:
    """How these logs grew from moment to moment, as batches, and the topics of which this way cannot tell.

    `moments_ms` ascend. Ends at these moments are those that the headers tell; in between, some entries of the time
    indexes. Not told of: topics that are read sooner whole, that have a segment without a time index, or a record that
    is stamped in the future, behind which nothing earlier would be found. Raises: DataError.
    """
    future_ms = time.time() * 1000 + SKEW_MS
    topics: dict[str, list[Partition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    told: list[Grown] = []
    untold: set[str] = set()
    for topic, parts in topics.items():
        looked_at = (len(moments_ms) + 1) * WINDOW_BYTES * len(parts)
        if sum(part.size_bytes for part in parts) < max(_LEAST_BYTES, 2 * looked_at):
            untold.add(topic)
            continue
        rows = [_grown(part, moments_ms, future_ms) for part in parts]
        if any(row is None for row in rows):
            untold.add(topic)
        else:
            told += [one for row in rows for one in row or ()]
    return told, untold


def newest_ms(partitions: Iterable[Partition]) -> int:
    """No record of these logs is later, as far as the files' own times and the time indexes tell."""
    found = 0
    for segment in (partition.segments[-1] for partition in partitions if partition.segments):
        entries = time_index(segment)
        found = max(found, segment.modified_ms, entries[-1][0] if entries else 0)
    return found


def _grown(partition: Partition, moments_ms: Sequence[int], future_ms: float) -> list[Grown] | None:
    """None where its time indexes cannot tell."""
    try:
        stops = sorted(set(_stops(partition.segments, moments_ms, future_ms)))
    except OSError as error:
        raise DataError(f"{partition.directory} cannot be read: {error.strerror}") from error
    except LookupError:
        return None
    rows: list[Grown] = []
    before, since = partition.log_start_offset, stops[0].max_ms if stops else 0
    for end, max_ms in stops:
        if end > before:
            rows.append(Grown(partition.topic, partition.number, before, end - 1, since, max(since, max_ms)))
            before = end
        since = max(since, max_ms)
    return rows


def _stops(segments: Sequence[Segment], moments_ms: Sequence[int], future_ms: float) -> Iterator[_Stop]:
    """Raises: LookupError where the time indexes cannot tell."""
    at = 0
    for segment in segments:
        if not segment.size_bytes:
            continue
        entries = time_index(segment)
        if not segment.is_last and not entries:
            raise LookupError(segment.path)
        if entries and entries[-1][0] > future_ms:
            raise LookupError(segment.path)
        if segment.is_last and segment.size_bytes - _last_position(segment, entries) > _LONGEST_TAIL_BYTES:
            raise LookupError(segment.path)
        yield from _first(segment)
        for mark in range(0, len(entries), max(1, len(entries) // MARKS)):
            yield _Stop(entries[mark][1] + 1, entries[mark][0])
        while at < len(moments_ms) and (segment.is_last or entries[-1][0] > moments_ms[at]):
            found = list(_around(segment, entries, moments_ms[at]))
            yield from found
            at += 1
            if segment.is_last and (not found or found[-1].max_ms < moments_ms[at - 1]):
                at = len(moments_ms)  # nothing was written later
        if segment.next_offset is not None:
            yield _Stop(segment.next_offset, entries[-1][0])
        else:
            for stop in _walk(segment, entries[-1][1] if entries else segment.base_offset):
                if stop.max_ms > future_ms:
                    raise LookupError(segment.path)
                yield stop


def _last_position(segment: Segment, entries: Sequence[tuple[int, int]]) -> int:
    return position_of(segment, entries[-1][1]) if entries else 0


def _first(segment: Segment) -> Iterator[_Stop]:
    """The first batch of a segment: the earliest of its times."""
    for stop in _walk(segment, segment.base_offset):
        yield stop
        return


def _around(segment: Segment, entries: Sequence[tuple[int, int]], moment_ms: int) -> Iterator[_Stop]:
    """Where a segment ended at a moment, and the batch behind it."""
    before = bisect_right(entries, moment_ms, key=itemgetter(0))
    newest = None
    for stop in _walk(segment, entries[before - 1][1] if before else segment.base_offset):
        if stop.max_ms > moment_ms:
            yield from (newest, stop) if newest is not None else (stop,)
            return
        newest = stop
    if newest is not None:
        yield newest


def _walk(segment: Segment, offset: int) -> Iterator[_Stop]:
    """Batch by batch from the one that holds an offset, or one before it."""
    with segment.files.open(segment.path) as file:
        for _, header in Walk(file.pread, file.size_bytes, position_of(segment, offset)).headers():
            if header[6] < 0:
                return
            yield _Stop(header[0] + header[6] + 1, header[8])
