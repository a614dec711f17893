"""Taking over what a cleaning wrote, one output segment after the other.

Order, for each: output `.cleaned` (fsynced by the cleaner) to `.swap`, fsync of the folder, sources to `.deleted`,
fsync of the folder, `.swap` to its final name. The log reads the output from the third step on. A crash before the
first rename leaves the sources, one after the last leaves the output, and in between a start finishes the job, with an
fsync in the same place (`storage.recovery.tidy`). A file system may keep later renames and lose earlier ones: without
the second fsync a power loss could leave the output under its final name, and beside it some of the sources, with
nothing that says so.

Always true: only one output has `.swap` names. Of several Apache Kafka, started on what a crash left, would take all
that lies between the first and the last for replaced, and remove segments that a pass had left as they were.

Source: Kafka's LocalLog.replaceSegments, LogLoader.load.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from storage.errors import StorageError
from storage.files import sync_directory
from storage.reading.folder import CLEANED, INDEX_SUFFIXES, SWAP
from storage.state.segment import Segment
from storage.state.set_aside import set_aside

if TYPE_CHECKING:
    from storage.clean.cleaner import CleanedGroup, CleanResult
    from storage.state.log_state import LogState

# The log last: as long as one file is `.cleaned`, a start throws all of the output away.
_TO_SWAP = (*INDEX_SUFFIXES, ".log")


class Swap:
    """A cleaning on its way into its log: `prepare` (any thread) and `take` (the log's owner), twice for each output,
    and `settle` (any thread) at the end.

    What waits for the disk is in the first and the last of the three. From `PartitionLog.begin_swap` to the last `take`
    the log gives no segment away.
    """

    def __init__(self, log: LogState, result: CleanResult) -> None:
        self._log = log
        self._waiting = list(result.groups)[::-1]
        self._count = len(self._waiting)
        self._taken: Segment | None = None  # the next output, in its place in the log, under its `.swap` names
        self.possible = all(_still_there(log, group) for group in result.groups)
        self.prepared = False
        self.error: StorageError | None = None

    def prepare(self) -> None:
        """Make the renames up to now durable, of the next output those to `.swap` too: a start goes forward with it.

        Raises: StorageError.
        """
        log = self._log
        try:
            if self.possible and self._waiting:
                if self._taken is None:
                    if len(self._waiting) < self._count:
                        sync_directory(log.directory, log.disk)  # the name of the output before this one
                    base_offset = self._waiting[-1].base_offset
                    for suffix in _TO_SWAP:
                        path = log.directory / f"{base_offset:020d}{suffix}{CLEANED}"
                        if suffix != ".txnindex" or path.exists():
                            log.disk.rename(path, path.with_suffix(SWAP))
                sync_directory(log.directory, log.disk)
        except OSError as error:
            self.error = StorageError("cannot swap in a cleaned segment in", log.directory, error)
            raise self.error.afresh() from error
        self.prepared = True

    def take(self) -> bool:
        """Put the output that was prepared in the place of its sources, or give it its name; True when all have theirs.

        In between the log is whole, partly cleaned. Output of which sources were not there any more is removed.
        Raises: StorageError.
        """
        log = self._log
        assert self.prepared
        self.prepared = False
        if not self.possible:
            for group in self._waiting:
                discard(log, group)
        elif self._waiting:
            try:
                if self._taken is None:
                    self._taken = _replace(log, self._waiting[-1])
                else:
                    _name(log, self._taken)
                    self._taken = None
                    self._waiting.pop()
            except OSError as error:
                raise StorageError("cannot swap in a cleaned segment in", log.directory, error) from error
        return not self._waiting or not self.possible

    def settle(self) -> None:
        """Make the new names durable; until then no checkpoint may speak of them. Raises: StorageError."""
        try:
            if self.possible:
                sync_directory(self._log.directory, self._log.disk)
        except OSError as error:
            raise StorageError("cannot swap in a cleaned segment in", self._log.directory, error) from error


def _still_there(log: LogState, group: CleanedGroup) -> bool:
    """Are the sources closed segments of this log still, in one row and of the size that was read?"""
    at = log.segment_index(group.base_offset)
    present = log.segments[at : at + len(group.sources)]
    return (
        len(present) == len(group.sources)
        and present[-1] is not log.segments[-1]
        and all(
            (segment.base_offset, segment.size_bytes) == source
            for segment, source in zip(present, group.sources, strict=True)
        )
    )


def _replace(log: LogState, group: CleanedGroup) -> Segment:
    at = log.segment_index(group.base_offset)
    sources = log.segments[at : at + len(group.sources)]
    for segment in sources:
        snapshots = () if segment.base_offset == group.base_offset else (".snapshot",)
        set_aside(log, segment, (".log", *INDEX_SUFFIXES, *snapshots))
    interval = log.config.index_interval_bytes
    cleaned = Segment(log.directory, group.base_offset, group.size_bytes, -1, interval, log.disk)
    cleaned.rename(SWAP)
    log.segments[at : at + len(sources)] = [cleaned]
    log.bases[at : at + len(sources)] = [group.base_offset]
    return cleaned


def _name(log: LogState, segment: Segment) -> None:
    """Give the output its final names."""
    for suffix in (".log", *INDEX_SUFFIXES):
        path = segment.path(suffix)
        if suffix != ".txnindex" or path.exists():
            log.disk.rename(path, path.with_suffix(""))
    segment.rename("")
    log.add_unsynced([])


def discard(log: LogState, group: CleanedGroup) -> None:
    """Remove the output of a group that cannot be used; a start would do the same."""
    for suffix in (".log", *INDEX_SUFFIXES):
        with suppress(OSError):
            log.disk.unlink(log.directory / f"{group.base_offset:020d}{suffix}{CLEANED}")
