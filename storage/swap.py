"""Taking over what a cleaning wrote.

Order: output `.cleaned` (fsynced by the cleaner) to `.swap`, sources to `.deleted`, `.swap` to its final name, fsync of
the folder. A crash before the first rename leaves the sources, one after the last leaves the output, and in between
a start finishes the job (`segment_files.tidy`).

Source: Kafka's LocalLog.replaceSegments.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from storage.errors import StorageError
from storage.files import sync_directory
from storage.log_config import INT32_MAX
from storage.retention import set_aside
from storage.segment import Segment
from storage.segment_files import CLEANED, INDEX_SUFFIXES, SWAP

if TYPE_CHECKING:
    from storage.cleaner import CleanedGroup, CleanResult
    from storage.partition_log import PartitionLog

# The log last: as long as one file is `.cleaned`, a start throws all of the output away.
_TO_SWAP = (*INDEX_SUFFIXES, ".log")


class Swap:
    """A cleaning on its way into its log: `prepare` (any thread), `take` (the log's owner), `settle` (any thread).

    `take` may be called again and again, for a few of the sources each time. What waits for the disk is in the first
    and the last of the three. From `PartitionLog.begin_swap` to the last `take` the log gives no segment away.
    """

    def __init__(self, log: PartitionLog, result: CleanResult) -> None:
        self._log = log
        self._result = result
        self.possible = all(_still_there(log, group) for group in result.groups)
        self._taken = 0
        self.prepared = False
        self.error: StorageError | None = None

    def prepare(self) -> None:
        """Give the output its `.swap` names, durably: from here on a start goes forward. Raises: StorageError."""
        log = self._log
        try:
            for group in self._result.groups if self.possible else ():
                for suffix in _TO_SWAP:
                    path = log.directory / f"{group.base_offset:020d}{suffix}{CLEANED}"
                    if suffix != ".txnindex" or path.exists():
                        log.disk.rename(path, path.with_suffix(SWAP))
            if self.possible and self._result.groups:
                # The sources must not be gone before this is on the platter: a file system may keep later renames and
                # lose earlier ones.
                sync_directory(log.directory, log.disk)
        except OSError as error:
            self.error = StorageError("cannot swap in a cleaned segment in", log.directory, error)
            raise self.error from error
        self.prepared = True

    def take(self, sources: int = INT32_MAX) -> bool:
        """Put output in the place of about so many sources; True when all of it is done.

        In between the log is whole, partly cleaned. Output of which sources were not there any more is removed.
        Raises: StorageError.
        """
        log, groups = self._log, self._result.groups
        assert self.prepared
        if not self.possible:
            for group in groups:
                discard(log, group)
            return True
        while self._taken < len(groups) and sources > 0:
            group = groups[self._taken]
            try:
                _replace(log, group)
            except OSError as error:
                raise StorageError("cannot swap in a cleaned segment in", log.directory, error) from error
            self._taken += 1
            sources -= len(group.sources)
        return self._taken == len(groups)

    def settle(self) -> None:
        """Make the new names durable. Raises: StorageError."""
        try:
            if self.possible and self._result.groups:
                sync_directory(self._log.directory, self._log.disk)
        except OSError as error:
            raise StorageError("cannot swap in a cleaned segment in", self._log.directory, error) from error


def _still_there(log: PartitionLog, group: CleanedGroup) -> bool:
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


def _replace(log: PartitionLog, group: CleanedGroup) -> None:
    at = log.segment_index(group.base_offset)
    sources = log.segments[at : at + len(group.sources)]
    base = log.directory / f"{group.base_offset:020d}"
    for segment in sources:
        snapshots = () if segment.base_offset == group.base_offset else (".snapshot",)
        set_aside(log, segment, (".log", *INDEX_SUFFIXES, *snapshots))
    for suffix in (".log", *INDEX_SUFFIXES):
        path = Path(f"{base}{suffix}{SWAP}")
        if suffix != ".txnindex" or path.exists():
            log.disk.rename(path, Path(f"{base}{suffix}"))
    interval = log.config.index_interval_bytes
    cleaned = Segment(log.directory, group.base_offset, group.size_bytes, -1, interval, log.disk)
    log.segments[at : at + len(sources)] = [cleaned]
    log.bases[at : at + len(sources)] = [group.base_offset]


def discard(log: PartitionLog, group: CleanedGroup) -> None:
    """Remove the output of a group that cannot be used; a start would do the same."""
    for suffix in (".log", *INDEX_SUFFIXES):
        with suppress(OSError):
            log.disk.unlink(log.directory / f"{group.base_offset:020d}{suffix}{CLEANED}")
