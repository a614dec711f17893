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
from storage.retention import set_aside
from storage.segment import Segment
from storage.segment_files import CLEANED, INDEX_SUFFIXES, SWAP

if TYPE_CHECKING:
    from storage.cleaner import CleanedGroup, CleanResult
    from storage.partition_log import PartitionLog

# The log last: as long as one file is `.cleaned`, a start throws all of the output away.
_TO_SWAP = (*INDEX_SUFFIXES, ".log")


def swap_in(log: PartitionLog, result: CleanResult) -> bool:
    """What `PartitionLog.swap_in` promises."""
    if any(not _still_there(log, group) for group in result.groups):
        for group in result.groups:
            discard(log, group)
        return False
    for group in result.groups:
        try:
            _swap_group(log, group)
        except OSError as error:
            raise StorageError("cannot swap in a cleaned segment in", log.directory, error) from error
    return True


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


def _swap_group(log: PartitionLog, group: CleanedGroup) -> None:
    at = log.segment_index(group.base_offset)
    sources = log.segments[at : at + len(group.sources)]
    base = log.directory / f"{group.base_offset:020d}"
    for suffix in _TO_SWAP:
        path = Path(f"{base}{suffix}{CLEANED}")
        if suffix != ".txnindex" or path.exists():
            log.disk.rename(path, Path(f"{base}{suffix}{SWAP}"))
    # From here on a start goes forward. The sources must not be gone before this is on the platter: a file system may
    # keep later renames and lose earlier ones.
    sync_directory(log.directory, log.disk)
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
    sync_directory(log.directory, log.disk)


def discard(log: PartitionLog, group: CleanedGroup) -> None:
    """Remove the output of a group that cannot be used; a start would do the same."""
    for suffix in (".log", *INDEX_SUFFIXES):
        with suppress(OSError):
            log.disk.unlink(log.directory / f"{group.base_offset:020d}{suffix}{CLEANED}")
