"""Segments become splits, and splits become tasks: what is read, by offsets, and where it probably lies.

Offsets rule; file and position are hints, which the cleaner may make wrong at any moment (`segment_reader` then looks
again). A split never spans two files, and no two splits share an offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from pipeline.decode.batches import Headers
from pipeline.errors import DataError
from pipeline.sources import log_dir
from pipeline.sources.files import LOCAL, Files
from pipeline.sources.log_dir import Partition, Segment
from pipeline.sources.options import Options
from pipeline.sources.segments import (
    INDEX_BATCH_LIMIT_BYTES,
    End,
    find_end,
    header_at,
    index_entries,
    latest_timestamp,
    survey,
)
from pipeline.sources.transactions import Aborted, Outcomes, outcomes

NO_END = 1 << 62
OPENING_COSTS_BYTES = 1024 * 1024
"""What opening a file costs, in bytes that could have been read instead."""


@dataclass(frozen=True, slots=True)
class Split:
    """A byte range of one file. Offsets and positions: start inclusive, end exclusive."""

    topic: str
    partition: int
    directory: str
    file: str
    position: int
    end_position: int
    start_offset: int
    end_offset: int
    base_offset: int = -1  # of the batch at `position`; -1 not known
    is_tail: bool = False  # ends where the log ended when this was planned
    aborted: tuple[Aborted, ...] = ()
    files: Files = LOCAL

    @property
    def size_bytes(self) -> int:
        """How much there is to read."""
        return self.end_position - self.position


@dataclass(frozen=True, slots=True)
class Range:
    """The part of one partition that is to be read."""

    partition: Partition
    start_offset: int
    end_offset: int
    end: End
    outcomes: Outcomes
    seen: Headers | None = None  # of the last segment, if all of them were read


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What filters on top of the read say; rows are filtered again by Spark, so this only spares work."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    min_offset: int = 0
    end_offset: int = NO_END
    min_timestamp: int | None = None


def choose(options: Options, narrowing: Narrowing | None = None) -> list[Partition]:
    """The partitions that were asked for. Raises: UsageError, DataError."""
    narrow = narrowing or Narrowing()

    def wants(topic: str, number: int) -> bool:
        return (
            options.wants(topic, number)
            and (narrow.topics is None or topic in narrow.topics)
            and (narrow.partitions is None or number in narrow.partitions)
        )

    found = log_dir.scan(options.path, options.file_system, wants)
    if not options.dedupe_replicas:
        return found
    furthest: dict[tuple[str, int], tuple[int, Partition]] = {}
    for partition in found:
        reach = end_of(partition).next_offset
        if partition.key not in furthest or reach > furthest[partition.key][0]:
            furthest[partition.key] = reach, partition
    return [partition for _, partition in furthest.values()]


def end_of(partition: Partition, *, check_last_crc: bool = False, seen: Headers | None = None) -> End:
    """Where the log of a partition ends. Raises: DataError."""
    if not partition.segments:
        return End(0, partition.log_start_offset, 0, False)
    try:
        return find_end(partition.segments[-1], check_last_crc=check_last_crc, seen=seen)
    except OSError as error:
        raise DataError(f"{partition.segments[-1].path} cannot be read: {error.strerror}") from error


def agreed(copies: Sequence[Partition]) -> tuple[int, int]:
    """(log start, log end) of a partition of which these are copies; the end is as far as its cluster agrees.

    What every copy has was agreed on, and what lies below a high watermark that one of them noted. Behind that, one
    copy may have records that are taken back when another leads. Raises: DataError.
    """
    start = max(copy.log_start_offset for copy in copies)
    ends = [end_of(copy).next_offset for copy in copies]
    if len(copies) == 1:
        return start, ends[0]
    noted = [copy.high_watermark for copy in copies if copy.high_watermark is not None]
    return start, max(start, min(max([min(ends), *noted]), max(ends)))


def range_of(
    partition: Partition,
    options: Options,
    *,
    start_offset: int | None = None,
    end_offset: int | None = None,
    check_last_crc: bool = False,
) -> Range:
    """From where to where a partition is read: the options' bounds, or the given ones. Raises: DataError."""
    seen = _survey(partition, options)
    end = end_of(partition, check_last_crc=check_last_crc, seen=seen)
    limit = NO_END if end.is_broken else end.next_offset
    start = _bound(options.starting_offsets, partition, limit, -2) if start_offset is None else start_offset
    stop = _bound(options.ending_offsets, partition, limit, -1) if end_offset is None else end_offset
    stop = min(stop, limit)
    if options.up_to_high_watermark and partition.high_watermark is not None:
        stop = min(stop, partition.high_watermark)
    found = Outcomes((), None)
    if options.read_committed:
        try:
            found = outcomes(partition, seen)
        except OSError as error:
            raise DataError(f"{partition.directory} cannot be read: {error.strerror}") from error
        if found.first_open_offset is not None:
            stop = min(stop, found.first_open_offset)
    return Range(partition, max(start, partition.log_start_offset), stop, end, found, seen)


def _survey(partition: Partition, options: Options) -> Headers | None:
    """The headers of the active segment, if more than one question needs them all: then it is read once."""
    if not partition.segments:
        return None
    last = partition.segments[-1]
    if not options.read_committed and (last.size_bytes >= INDEX_BATCH_LIMIT_BYTES or index_entries(last)):
        return None
    try:
        return survey(last.path, files=last.files)
    except OSError as error:
        raise DataError(f"{last.path} cannot be read: {error.strerror}") from error


def _bound(bound: str | Mapping[str, Mapping[int, int]], partition: Partition, log_end: int, absent: int) -> int:
    """The offset that an option gives; `absent` for a partition that it does not name."""
    if isinstance(bound, str):
        return partition.log_start_offset if bound == "earliest" else log_end
    offset = bound.get(partition.topic, {}).get(partition.number, absent)
    return {-2: partition.log_start_offset, -1: log_end}.get(offset, offset)


def plan(options: Options, narrowing: Narrowing | None = None) -> list[list[Split]]:
    """The splits of a whole read, packed into tasks. Raises: UsageError, DataError."""
    narrow = narrowing or Narrowing()
    splits: list[Split] = []
    for partition in choose(options, narrow):
        found = range_of(partition, options)
        found = replace(
            found,
            start_offset=max(found.start_offset, narrow.min_offset),
            end_offset=min(found.end_offset, narrow.end_offset),
        )
        splits += split(found, options, narrow.min_timestamp)
    return pack(splits, options.split_bytes)


def split(found: Range, options: Options, min_timestamp: int | None = None) -> list[Split]:
    """The splits of one partition's range, in order."""
    since = max((time for time in (options.starting_timestamp, min_timestamp) if time is not None), default=None)
    splits: list[Split] = []
    for segment in found.partition.segments:
        next_offset = NO_END if segment.next_offset is None else segment.next_offset
        start, end = max(found.start_offset, segment.base_offset), min(found.end_offset, next_offset)
        if start >= end:
            continue
        if since is not None and not segment.is_last:
            latest = latest_timestamp(segment)
            if latest is not None and latest < since:
                continue
        limit = found.end.position if segment.is_last else segment.size_bytes
        if limit == 0:
            continue
        try:
            splits += _cut(found, segment, start, end, limit, options.split_bytes)
        except OSError as error:
            raise DataError(f"{segment.path} cannot be read: {error.strerror}") from error
    return splits


def _cut(found: Range, segment: Segment, start: int, end: int, limit: int, split_bytes: int) -> list[Split]:
    entries = index_entries(segment)
    first, base_offset = _position_of(segment, entries, start)
    pieces = [(first, base_offset)]
    seen = found.seen if segment.is_last else None
    for position, offset in _boundaries(segment, entries, first, limit, split_bytes, seen):
        if offset > max(pieces[-1][1], start) and offset < end:
            pieces.append((position, offset))
    ends = [*pieces[1:], (limit, end)]
    return [
        Split(
            *(found.partition.topic, found.partition.number, found.partition.directory, segment.path),
            position=position,
            end_position=end_position,
            start_offset=max(start, offset),
            end_offset=end_offset,
            base_offset=offset if position else -1,
            is_tail=segment.is_last and end_position == limit,
            aborted=found.outcomes.aborted,
            files=segment.files,
        )
        for (position, offset), (end_position, end_offset) in zip(pieces, ends, strict=True)
        if end_position > position
    ]


def _position_of(segment: Segment, entries: Sequence[tuple[int, int]], offset: int) -> tuple[int, int]:
    """Position and base offset of a batch at or before the one that holds an offset."""
    at = bisect_right(entries, (offset, -1))
    while at:
        last_offset, position = entries[at - 1]
        header = header_at(segment.path, position, segment.files)
        if header is not None and segment.base_offset <= header.base_offset <= last_offset <= offset:
            return position, header.base_offset
        at -= 1
    return 0, segment.base_offset


def position_of(segment: Segment, offset: int) -> int:
    """A position at or before the batch that holds an offset; the file's start without a usable index. OSError."""
    return _position_of(segment, index_entries(segment), offset)[0]


def _boundaries(
    segment: Segment,
    entries: Sequence[tuple[int, int]],
    first: int,
    limit: int,
    split_bytes: int,
    seen: Headers | None,
) -> list[tuple[int, int]]:
    """(position, base offset) of a batch near each multiple of the split size."""
    if limit - first <= split_bytes * 1.25:
        return []
    cuts: list[tuple[int, int]] = []
    target = first + split_bytes
    if entries:
        # What would be left is not worth a task of its own.
        while target < limit - split_bytes // 4:
            at = bisect_left(entries, target, key=itemgetter(1))
            if at == len(entries) or entries[at][1] >= limit:
                break
            header = header_at(segment.path, entries[at][1], segment.files)
            if header is not None and segment.base_offset <= header.base_offset <= entries[at][0]:
                cuts.append((header.position, header.base_offset))
            target = entries[at][1] + split_bytes
        return cuts
    if segment.size_bytes >= INDEX_BATCH_LIMIT_BYTES:
        return []
    headers = survey(segment.path, first, limit, segment.files) if seen is None else seen
    starts, offsets = headers.position, headers.base_offset
    while target < limit - split_bytes // 4:
        at = int(np.searchsorted(starts, target))
        if at == len(starts) or starts[at] >= limit:
            break
        cuts.append((int(starts[at]), int(offsets[at])))
        target = cuts[-1][0] + split_bytes
    return cuts


def pack(splits: Sequence[Split], split_bytes: int) -> list[list[Split]]:
    """Small splits share a task, in the order in which they come."""
    tasks: list[list[Split]] = []
    room = 0
    for split in splits:
        cost = split.size_bytes + OPENING_COSTS_BYTES
        if not tasks or cost > room:
            tasks.append([])
            room = split_bytes + OPENING_COSTS_BYTES
        tasks[-1].append(split)
        room -= cost
    return tasks


def locate(split: Split) -> list[Split]:
    """The same offsets, looked for in a fresh listing of the folder. Raises: DataError when it is gone."""
    partition = log_dir.again(split.directory, split.topic, split.partition, split.files)
    found = Range(partition, split.start_offset, split.end_offset, end_of(partition), Outcomes(split.aborted, None))
    return _no_cuts(found)


def _no_cuts(found: Range) -> list[Split]:
    splits: list[Split] = []
    for segment in found.partition.segments:
        next_offset = NO_END if segment.next_offset is None else segment.next_offset
        start, end = max(found.start_offset, segment.base_offset), min(found.end_offset, next_offset)
        limit = found.end.position if segment.is_last else segment.size_bytes
        if start < end and limit:
            splits += _cut(found, segment, start, end, limit, 1 << 60)
    return splits


def overlapping(partitions: Iterable[Partition]) -> list[tuple[str, int]]:
    """The partitions that several of the given directories hold: their rows must go through `decode.dedupe`."""
    seen: set[tuple[str, int]] = set()
    twice: list[tuple[str, int]] = []
    for partition in partitions:
        if partition.key in seen and partition.key not in twice:
            twice.append(partition.key)
        seen.add(partition.key)
    return twice
