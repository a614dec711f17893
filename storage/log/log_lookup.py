"""Finding records by time, and the aborted transactions of a range.

The indexes lead to the first batch that can hold the answer; the answer itself is looked for inside batches,
compressed ones included.

Source: Kafka's UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp, FileRecords.searchForTimestamp.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

from protocol.records.batch import DECOMPRESSED_LIMIT_BYTES, HEADER_BYTES, open_records
from protocol.records.errors import DecompressedTooLarge
from storage.errors import OffsetOutOfRange, StorageError
from storage.reading.batches import HEADER, OVERHEAD, head_of
from storage.reading.transaction_index import AbortedTransaction, overlapping

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from protocol.records.batch import Record
    from storage.reading.batch_file import BatchFile
    from storage.state.log_state import LogState
    from storage.state.segment import Segment

SHORT_BYTES = 8_192
"""Uncompressed batches up to here are gone through in a fraction of a millisecond."""
RECORDS_AT_ONCE = 5_000
HEADERS_A_STEP = 16

COMPRESSED = 0x07  # attribute bits: which codec, 0 for none
LOG_APPEND_TIME = 0x08  # attribute bit: all records have the batch's largest timestamp


class Unfinished(Enum):
    """There are more records to look at, or others hold the room that it takes: look again."""

    UNFINISHED = 1
    CROWDED = 2


UNFINISHED: Final[Literal[Unfinished.UNFINISHED]] = Unfinished.UNFINISHED
CROWDED: Final[Literal[Unfinished.CROWDED]] = Unfinished.CROWDED


class TimestampedOffset(NamedTuple):
    """One record: its timestamp (ms), offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


class LookRoom:
    """How many bytes looks may hold together, of batches that they have read and decompressed; one alone as many.

    On the loop where it is not said otherwise.
    """

    __slots__ = ("_waiting", "holders", "limit_bytes")

    def __init__(self, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.holders: dict[object, int] = {}  # how much each holds
        self._waiting: list[Callable[[], None]] = []

    def left_bytes(self) -> int:
        """What nobody holds. In any thread."""
        return self.limit_bytes - sum(tuple(self.holders.values()))

    def enter(self, count: int) -> Callable[[], None]:
        """Hold so many bytes; the result lets go of them, and is to be called on the loop. In any thread."""
        holder = object()
        self.holders[holder] = count
        return partial(self._leave, holder)

    def wait(self, again: Callable[[], None]) -> None:
        """Call `again` once a holder has left."""
        self._waiting.append(again)

    def _leave(self, holder: object) -> None:
        if self.holders.pop(holder, None) is not None:
            waiting, self._waiting = self._waiting, []
            for again in waiting:
                again()


class Look:
    """One batch whose records must be looked at: is one of them as late as `timestamp`, and which is the first?

    With `latest`: the first of the latest ones, if they are as late as that.

    `run` reads and decompresses it and goes through at most `RECORDS_AT_ONCE` records; it may be called in any thread,
    by one at a time of those whose looks share a room, and again for as long as it returns `Unfinished`. Then `close`.
    """

    __slots__ = (
        "_best",
        "_file",
        "_header",
        "_latest",
        "_leave",
        "_position",
        "_records",
        "_start_offset",
        "_timestamp",
        "is_short",
    )

    def __init__(
        self,
        file: BatchFile,
        position: int,
        header: tuple[Any, ...],
        timestamp: int,
        start_offset: int,
        *,
        latest: bool = False,
    ) -> None:
        self._file = file
        self._position = position
        self._header = header
        self._timestamp = timestamp
        self._start_offset = start_offset
        self._latest = latest
        self._best: TimestampedOffset | None = None
        self._records: Iterator[Record] | None = None
        self._leave: Callable[[], None] | None = None
        self.is_short = header[1] <= SHORT_BYTES and not header[5] & COMPRESSED
        """Whether it takes no longer than other steps of a request."""

    def run(self, room: LookRoom | None = None) -> TimestampedOffset | Unfinished | None:
        """The record, or None. `CROWDED` when `room` is held by others.

        Of a batch that is too large for the whole room the header is believed, and its beginning is the answer: who
        reads from there misses nothing. Raises: StorageError, CorruptBatch.
        """
        records = self._records
        if records is None:
            opened = self._open(room or LookRoom())
            if opened is CROWDED or isinstance(opened, TimestampedOffset):
                return opened
            records = self._records = opened
        seen = 0
        for record in islice(records, RECORDS_AT_ONCE):
            seen += 1
            if record.timestamp >= self._timestamp and record.offset >= self._start_offset:
                self._best = TimestampedOffset(record.timestamp, record.offset, self._header[2])
                if not self._latest:
                    return self._best
                self._timestamp = record.timestamp + 1
        return UNFINISHED if seen == RECORDS_AT_ONCE else self._best

    def _open(self, room: LookRoom) -> Iterator[Record] | TimestampedOffset | Literal[Unfinished.CROWDED]:
        base, length, epoch, _, _, _, _, _, latest, *_ = self._header
        alone, left_bytes = not room.holders, room.left_bytes()
        if left_bytes < length and not alone:
            return CROWDED
        end = self._position + length + OVERHEAD
        try:
            records, held_bytes = open_records(self._file.read(self._position, end), limit_bytes=max(left_bytes, 0))
        except DecompressedTooLarge:
            if not alone:  # perhaps it is by now: the loop goes on meanwhile
                return CROWDED
            return TimestampedOffset(latest, max(base, self._start_offset), epoch)
        except OSError as error:
            raise StorageError("cannot read", self._file.path(".log"), error) from error
        self._leave = room.enter(held_bytes)
        return records

    def close(self) -> None:
        """Let go of the batch. On the loop."""
        self._records = None
        if self._leave is not None:
            self._leave()


Search: TypeAlias = "Generator[Look | None, Any, TimestampedOffset | None]"
"""A search in steps: it yields `None` where others may have their turn, and each `Look`, whose result it is sent."""


def found(search: Search) -> TimestampedOffset | None:
    """What a search finds, in one go."""
    result: Any = None
    while True:
        try:
            look = search.send(result)
        except StopIteration as end:
            return cast("TimestampedOffset | None", end.value)
        result = None if look is None else look.run()


def timestamp_search(log: LogState, timestamp: int) -> Search:
    """What `PartitionLog.timestamp_search` promises."""
    for segment in log.segments[log.segment_index(log.log_start_offset) :]:
        if segment.size_bytes and segment.latest_timestamp() >= timestamp:
            hit = yield from _search(segment, timestamp, log.log_start_offset)
            if hit is not None:
                return hit
        yield None
    return None


def max_timestamp_search(log: LogState) -> Search:
    """What `PartitionLog.max_timestamp_search` promises."""
    first, *later = log.segments[log.segment_index(log.log_start_offset) :]
    best = yield from _latest(first, log.log_start_offset)
    newest: Segment | None = None
    for segment in later:
        yield None
        if segment.latest_of_records() < 0:
            continue
        if newest is None or segment.max_timestamp > newest.max_timestamp:
            newest = segment
    if newest is not None and (best is None or newest.max_timestamp > best.timestamp):
        best = yield from _search(newest, newest.max_timestamp, log.log_start_offset)
    return best


def _latest(segment: Segment, start_offset: int) -> Search:
    """The first of the latest records of a segment, at or above `start_offset`."""
    if segment.latest_of_records() < 0:
        return None
    best: TimestampedOffset | None = yield from _search(segment, segment.max_timestamp, start_offset)
    if best is not None:
        return best
    # The latest record lies below the log start: only the records themselves know the next latest.
    file = segment.as_it_is()
    for count, (position, header) in enumerate(file.headers(segment.find(start_offset))):
        if best is None or header[8] > best.timestamp:
            above = best.timestamp + 1 if best else 0
            best = (yield from _looked(Look(file, position, header, above, start_offset, latest=True))) or best
        if count % HEADERS_A_STEP == 0:
            yield None
    return best


def _search(segment: Segment, timestamp: int, start_offset: int) -> Search:
    """The first record of the segment at or above `start_offset` that is as late as `timestamp`."""
    from_offset = max(segment.base_offset + segment.time_index.lookup(timestamp), start_offset)
    start = segment.find(from_offset)
    file = segment.as_it_is()  # which the log may give away, or write on in, between two steps
    for count, (position, header) in enumerate(file.headers(start)):
        if header[8] >= timestamp:
            hit = yield from _looked(Look(file, position, header, timestamp, start_offset))
            if hit is not None:
                return hit
        if count % HEADERS_A_STEP == 0:
            yield None
    return None


def _looked(look: Look) -> Search:
    try:
        while True:
            result = yield look
            if not isinstance(result, Unfinished):
                return cast("TimestampedOffset | None", result)
    finally:
        look.close()


def timestamp_at(log: LogState, offset: int) -> int:
    """What `PartitionLog.timestamp_at` promises."""
    if offset < log.log_start_offset:
        raise OffsetOutOfRange(offset, log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset)
    in_memory = log.tail.batches.get(offset)
    if in_memory is not None:
        return _reckoned(HEADER.unpack_from(head_of(in_memory[0])), offset)
    for segment in log.segments[log.segment_index(offset) :]:
        position = segment.find(offset)
        if position < segment.size_bytes:
            return _reckoned(HEADER.unpack(segment.file.pread(HEADER_BYTES, position)), offset)
    return -1


def _reckoned(header: tuple[Any, ...], offset: int) -> int:
    """The time of the record at `offset`, from the header of its batch: between the first one's and the latest."""
    base_offset, attributes, last_delta, base_ms, max_ms = header[0], header[5], header[6], header[7], header[8]
    if attributes & LOG_APPEND_TIME or base_ms < 0:
        return int(max_ms)
    if offset <= base_offset or last_delta <= 0 or max_ms <= base_ms:
        return int(base_ms)
    return int(base_ms + (max_ms - base_ms) * min(offset - base_offset, last_delta) // last_delta)


def aborted_transactions(log: LogState, offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """What `PartitionLog.aborted_transactions` promises."""
    found: list[AbortedTransaction] = []
    for segment in log.segments[log.segment_index(offset) :]:
        more, complete = overlapping(segment.aborted, offset, upper_offset)
        found += more
        if complete:
            break
    return found
