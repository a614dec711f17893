"""Reading a live broker: which offsets of which partitions, and what a task does with the answers. No Spark in here.

What a broker sends goes through the same decoder as what lies in a file; `file` is the broker's address and the
partition, `position` the byte in the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.decode.batches import PAD_BYTES, Headers, believable_size, read_headers, walk
from pipeline.errors import DataError, UsageError
from pipeline.sources.fetch_client import EARLIEST, LATEST, Fetched, Fetcher, Leader, connect, leaders, list_offsets
from pipeline.sources.options import Options
from pipeline.sources.plan import Narrowing
from pipeline.sources.read import Decoder, finished, problem_batch
from pipeline.sources.segment_reader import Problems, Window
from pipeline.sources.transactions import Aborted


@dataclass(frozen=True, slots=True)
class LiveSplit:
    """Offsets of one partition: start inclusive, end exclusive."""

    leader: Leader
    start_offset: int
    end_offset: int


def wanted(options: Options) -> list[Leader]:
    """The partitions that were asked for. Raises: DataError, UsageError."""
    with connect(options.access) as connection:
        # By name, too, what an all-topics answer leaves out: Kohort's ledger is such a topic.
        requested = list(options.topics) or (["__consumer_offsets"] if options.records == "group" else None)
        if options.topic_pattern:
            requested = None
        found = [one for one in leaders(connection, requested) if options.wants(one.topic, one.partition)]
    if not found and options.topics:
        raise UsageError(
            f"{options.access.bootstrap} has no partition of {', '.join(options.topics)} that was asked for"
        )
    return found


def bounds(options: Options, partitions: Sequence[Leader]) -> dict[tuple[str, int], tuple[int, int]]:
    """(log start, end) of each partition, for read_committed up to the last stable one. Raises: DataError."""
    starts = list_offsets(partitions, EARLIEST, options.access, read_committed=options.read_committed)
    ends = list_offsets(partitions, LATEST, options.access, read_committed=options.read_committed)
    return {key: (starts[key], ends[key]) for key in starts}


def ranges(options: Options, narrowing: Narrowing | None = None) -> list[LiveSplit]:
    """From where to where each partition is read. Raises: DataError, UsageError."""
    narrow = narrowing or Narrowing()
    partitions = [
        one
        for one in wanted(options)
        if (narrow.topics is None or one.topic in narrow.topics)
        and (narrow.partitions is None or one.partition in narrow.partitions)
    ]
    known = bounds(options, partitions)
    since = max((time for time in (options.starting_timestamp, narrow.min_timestamp) if time is not None), default=None)
    by_time: dict[tuple[str, int], int] = {}
    if since is not None and since >= 0:
        by_time = list_offsets(partitions, since, options.access, read_committed=options.read_committed)
    found = []
    for one in partitions:
        key = (one.topic, one.partition)
        low, high = known[key]
        start = max(_bound(options.starting_offsets, key, low, high, low), by_time.get(key, 0), narrow.min_offset, low)
        end = min(_bound(options.ending_offsets, key, low, high, high), high, narrow.end_offset)
        if start < end:
            found.append(LiveSplit(one, start, end))
    return found


def _bound(given: Any, key: tuple[str, int], low: int, high: int, absent: int) -> int:
    if isinstance(given, str):
        return low if given == "earliest" else high
    offset = given.get(key[0], {}).get(key[1], absent)
    return {EARLIEST: low, LATEST: high}.get(offset, int(offset))


def pack(splits: Iterable[LiveSplit], split_offsets: int) -> list[list[LiveSplit]]:
    """Tasks of about so many offsets; a large partition is cut, small ones share."""
    tasks: list[list[LiveSplit]] = []
    room = 0
    for split in splits:
        start = split.start_offset
        while start < split.end_offset:
            if room <= 0:
                tasks.append([])
                room = split_offsets
            end = min(split.end_offset, start + room)
            # What would be left is not worth a task of its own.
            if split.end_offset - end < split_offsets // 4:
                end = split.end_offset
            tasks[-1].append(replace(split, start_offset=start, end_offset=end))
            room -= end - start
            start = end
    return tasks


def read_live(splits: Iterable[LiveSplit], options: Options) -> Iterator[Any]:
    """The rows of some splits, as Arrow record batches. Raises: CorruptBatch, DataError."""
    yield from finished(_rows_of(splits, options), options)


def _rows_of(splits: Iterable[LiveSplit], options: Options) -> Iterator[Any]:
    for split in splits:
        problems = Problems(skip=options.skip_corrupt or options.records == "problems")
        decoder = Decoder(split.leader.topic, split.leader.partition, options, problems)
        fetcher = Fetcher(split.leader, options.access, read_committed=options.read_committed)
        try:
            for window, aborted in _windows(fetcher, split, problems, options):
                if options.records == "problems":
                    for _ in decoder.records(window, split.start_offset, split.end_offset, aborted):
                        pass
                    continue
                yield from decoder.decode(window, split.start_offset, split.end_offset, aborted)
        finally:
            fetcher.close()
        if options.records == "problems" and problems.found:
            yield problem_batch(split.leader.topic, split.leader.partition, problems.found)


def _windows(
    fetcher: Fetcher, split: LiveSplit, problems: Problems, options: Options
) -> Iterator[tuple[Window, tuple[Aborted, ...]]]:
    position, end = split.start_offset, split.end_offset
    while position < end:
        fetched = fetcher.fetch(position)
        if fetched is None:
            return  # compaction took what was left
        file = f"{fetcher.leader.address}/{split.leader.topic}-{split.leader.partition}"
        for window in _whole(fetched, file, position, end, problems, options):
            if window.headers.last_offset[-1] >= position:
                position = int(window.headers.last_offset[-1]) + 1
            yield window, settled(window.headers, fetched.aborted)
        following = _behind(fetched.records)
        if following < 0:
            raise DataError(f"{file} at offset {position}: an answer without a whole batch")
        position = max(position, following)


def _whole(
    fetched: Fetched, file: str, position: int, end: int, problems: Problems, options: Options
) -> Iterator[Window]:
    """The whole batches of an answer, whose last one may be cut off."""
    data = bytearray(fetched.records) + bytes(PAD_BYTES)
    size, at = len(fetched.records), 0
    while at < size:
        found = walk(data, at, size, check_crc=options.check_crc, until_offset=end)
        if found.positions:
            headers = read_headers(data, found.positions)
            position = int(headers.last_offset[-1]) + 1
            yield Window(data, 0, headers, file)
        if not found.reason or found.is_cut:
            return
        step = believable_size(data, found.stop, size)
        last = None
        if step:
            header = read_headers(data, [found.stop])
            position, last = int(header.base_offset[0]), int(header.last_offset[0])
        problems.bad(file, found.stop, position, last, found.reason)
        at = found.stop + step if step else size


def _behind(records: bytes) -> int:
    """The offset behind the last whole batch of an answer, readable or not; -1 without one."""
    found = walk(records, 0, len(records), check_crc=False)
    return int(read_headers(records, found.positions[-1:]).last_offset[-1]) + 1 if found.positions else -1


def settled(headers: Headers, aborted: tuple[Aborted, ...]) -> tuple[Aborted, ...]:
    """The aborted transactions of an answer, which says where they begin, each ended by its producer's next marker."""
    if not aborted:
        return ()
    control, producer, base = headers.is_control, headers.column("producer_id"), headers.base_offset
    ended = []
    for one in aborted:
        markers = base[control & (producer == one.producer_id) & (base >= one.first_offset)]
        ended.append(one._replace(last_offset=int(np.min(markers))) if len(markers) else one)
    return tuple(ended)
