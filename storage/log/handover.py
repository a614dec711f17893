"""A log that lies in another directory from now on: a copy is filled beside it, takes its place, and then its name.

The copy is filled by `append_assigned`, batch by batch. What no batch tells comes over when it takes the place: what is
remembered of producers whose batches are gone, epochs without batches, the log start, a gap at the very end.

Source: Kafka's Partition.maybeReplaceCurrentWithFutureReplica, LogManager.replaceCurrentWithFutureLog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.errors import StorageError
from storage.state.producer_snapshot import write_snapshot
from storage.state.tail import Tail

if TYPE_CHECKING:
    from storage.files import LogFile
    from storage.log.partition_log import PartitionLog
    from storage.state.flush import FlushTicket
    from storage.state.tail import TailBudget


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole batches in a file: bytes [`start`, `end`), to be read in any thread. `next_offset` is where to go on."""

    file: LogFile
    start: int
    end: int
    next_offset: int

    def read(self) -> bytes:
        """The bytes; fewer if the file was cut meanwhile. May raise `OSError`."""
        return self.file.pread(self.end - self.start, self.start)


def next_piece(source: PartitionLog, offset: int, max_bytes: int, upper_bound_offset: int) -> Piece | None:
    """Where the batches from `offset` on lie, at most so many bytes but at least one batch, and below the bound.

    None when there are none. On the source's own thread. Raises: StorageError.
    """
    state = source.state
    state.check_usable()
    try:
        at = state.segment_index(offset)
        while at < len(state.segments) and offset < upper_bound_offset:
            segment = state.segments[at]
            following = state.bases[at + 1] if at + 1 < len(state.segments) else state.log_end_offset
            start = segment.find(offset)
            limit = (
                segment.find_end(upper_bound_offset, start) if upper_bound_offset < following else segment.size_bytes
            )
            if start < limit:
                end, next_offset = segment.boundary(start, min(limit, start + max_bytes))
                if end == start:
                    end, next_offset = segment.batch_end(start)
                return Piece(segment.file, start, end, following if next_offset < 0 else next_offset)
            offset, at = max(offset, following), at + 1
    except OSError as error:
        raise StorageError("cannot read", source.directory, error) from error
    return None


def first_offset(source: PartitionLog) -> int:
    """Where the batch that holds the log start begins; the log start where there is none. Raises: StorageError."""
    start = source.log_start_offset
    piece = next_piece(source, start, 0, source.log_end_offset)
    if piece is None:
        return start
    try:
        return min(start, int.from_bytes(piece.file.pread(8, piece.start), "big"))
    except OSError as error:
        raise StorageError("cannot read", source.directory, error) from error


def bytes_left(source: PartitionLog, offset: int) -> int:
    """About how many bytes lie from `offset` on. Raises: StorageError."""
    state = source.state
    at = state.segment_index(offset)
    try:
        here = state.segments[at].size_bytes - state.segments[at].find(offset)
    except OSError as error:
        raise StorageError("cannot read", source.directory, error) from error
    return here + sum(segment.size_bytes for segment in state.segments[at + 1 :])


def agree(copy: PartitionLog, source: PartitionLog) -> bool:
    """Cut from the copy what an earlier life put there and the source does not have; False when nothing can be kept.

    The source's epochs tell where theirs part: a broker that was killed leads in a new one. Raises: StorageError.
    """
    epoch, end = source.epochs.end_offset_for(copy.leader_epoch, source.log_end_offset)
    if copy.leader_epoch < 0 or epoch != copy.leader_epoch or copy.log_start_offset > source.log_start_offset:
        return copy.size_bytes == 0 and copy.log_end_offset <= source.log_start_offset
    if end < copy.log_end_offset:
        copy.truncate_to(end)
    return True


def take_over(copy: PartitionLog, source: PartitionLog, tail: TailBudget | None) -> FlushTicket:
    """`copy` holds every batch that `source` does: make it the same log. What is to be fsynced then is returned.

    They share what is remembered of producers: whoever goes on with `source` after all opens it anew.
    Raises: StorageError, and then the source may be gone on with as it is.
    """
    new, old = copy.state, source.state
    source.check_usable()
    copy.check_usable()
    if old.log_end_offset > 0:
        try:
            new.add_unsynced([write_snapshot(new.directory, old.log_end_offset, old.producers, new.disk)])
        except OSError as error:
            raise StorageError("cannot write to", new.directory, error) from error
    new.log_end_offset = old.log_end_offset
    new.log_start_offset = old.log_start_offset
    new.epochs.replace(old.epochs)
    new.producers = old.producers
    if tail is not None:
        new.tail = Tail(tail)
    copy.config = source.config
    return copy.begin_flush()
