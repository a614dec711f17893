"""What an open log is, what is known of it, and how it becomes durable.

`PartitionLog` has one; recovery, retention, truncation and compaction work on it.

A flush is begun on the owner's thread, fsynced in any, and finished on the owner's again, while the log goes on.

Always true: the recovery point never passes the log end, and everything below it was fsynced.

Source: Kafka's LocalLog, UnifiedLog.flush.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING

from storage.errors import StorageError
from storage.state.flush import FlushTicket
from storage.state.leader_epochs import LeaderEpochs
from storage.state.producer_state import ProducerState
from storage.state.recovery_report import RecoveryReport
from storage.state.tail import NoTail, Tail, TailBudget

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from storage.files import Disk, LogFile
    from storage.state.log_config import LogConfig
    from storage.state.segment import Segment


class LogState:
    """The state of one partition's log, for the room's own modules; `bases` are the base offsets of `segments`."""

    __slots__ = (
        "_names",
        "_names_synced",
        "_unsynced",
        "_unsynced_paths",
        "active",
        "bases",
        "closed",
        "config",
        "deleted_files",
        "directory",
        "disk",
        "epochs",
        "failure",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery",
        "recovery_point",
        "segments",
        "swapping",
        "tail",
        "torn_tail",
        "truncations",
    )

    def __init__(self, directory: Path, config: LogConfig, disk: Disk, tail: TailBudget | None) -> None:
        self.directory = directory
        self.disk = disk
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.epochs = LeaderEpochs(directory, disk)
        self.producers = ProducerState()
        self.tail = NoTail(TailBudget()) if tail is None else Tail(tail)
        self.recovery = RecoveryReport()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.deleted_files: list[Path] = []  # renamed to `.deleted`; the owner unlinks them: `take_deleted_files`
        self.config = config
        self.active: Segment  # the last of `segments`
        self.failure: StorageError | None = None  # why the log is of no use any more
        self.closed = False
        self.torn_tail = False  # a refused append has left something behind the last batch
        self.swapping = False  # from the beginning of a swap to its end no segment is given away
        self.truncations = 0  # a flush begun before a truncation must not move the recovery point above it
        self._unsynced: list[LogFile] = []  # of rolled segments
        self._unsynced_paths: list[Path] = []  # of their indexes, and of snapshots
        self._names = 0  # grows with every file made or renamed: the directory needs an fsync
        self._names_synced = 0

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        """Bytes in the batches of all segments."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None when none is open."""
        first = self.producers.first_open_offset(-1)
        return first if first >= 0 else None

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where read_committed ends: no transaction below it is undecided. Never below the log start."""
        return max(self.producers.last_stable_offset(high_watermark), self.log_start_offset)

    def segment_index(self, offset: int) -> int:
        """Which of `segments` holds `offset`; 0 for one below the first."""
        return max(0, bisect_right(self.bases, offset) - 1)

    def check_usable(self) -> None:
        """Raise what stops this log for good: it was closed, or an fsync has failed. Raises: StorageError."""
        if self.failure is not None:
            raise self.failure.afresh()

    def give_up(self, error: StorageError) -> StorageError:
        """From here on `check_usable` raises this; return one like it, to be raised at once.

        What is kept is never raised: by way of the frames of who met it a log would hold itself, and its files.
        """
        self.failure = error.afresh()
        return error.afresh()

    def cut_torn_tail(self) -> None:
        """Take off what a refused append has left behind the last batch. May raise `OSError`."""
        if self.torn_tail:
            self.active.file.truncate(self.active.size_bytes)
            self.torn_tail = False

    # -- making it durable ---------------------------------------------------------------------------------

    def begin_flush(self) -> FlushTicket:
        """Everything up to the log end, to be fsynced by `ticket.sync()` in any thread and then `finish_flush`."""
        self.check_usable()
        return FlushTicket(
            offset=self.log_end_offset,
            truncations=self.truncations,
            closed=list(self._unsynced),
            active=self.active.file if self.log_end_offset > self.recovery_point else None,
            paths=list(self._unsynced_paths),
            directory=self.directory if self._names != self._names_synced else None,
            names_version=self._names,
            epochs=(self.epochs, self.epochs.content()) if self.epochs.is_dirty else None,
            what=self.directory,
            disk=self.disk,
        )

    def finish_flush(self, ticket: FlushTicket) -> int:
        """Take over what `ticket.sync()` achieved; return the recovery point.

        Raises: StorageError when the sync failed or never ran; the log then refuses everything until opened anew.
        """
        if not ticket.synced:
            raise self.give_up(ticket.error or StorageError("was not flushed:", self.directory))
        if ticket.paths:
            # The same file may have been written again since: by identity, not by name.
            written = set(map(id, ticket.paths))
            self._unsynced_paths = [path for path in self._unsynced_paths if id(path) not in written]
        self._names_synced = max(self._names_synced, ticket.names_version)
        if ticket.truncations == self.truncations:
            # Not the active segment's: it may have grown since, and been rolled, and then the rest is still to come.
            done = set(map(id, ticket.closed))
            self._unsynced = [file for file in self._unsynced if id(file) not in done]
            self.recovery_point = max(self.recovery_point, ticket.offset)
        return self.recovery_point

    def flush(self, *, sync: bool = True) -> int:
        """The three calls at once, in this thread; return the recovery point. Raises: StorageError.

        Without `sync` nothing is fsynced: see `close`.
        """
        ticket = self.begin_flush()
        with suppress(StorageError):  # which the ticket keeps, and `finish_flush` raises
            ticket.sync() if sync else ticket.skip()
        return self.finish_flush(ticket)

    def add_segment(self, segment: Segment) -> None:
        """Append a segment that was just made. The caller activates it."""
        self.segments.append(segment)
        self.bases.append(segment.base_offset)
        self._names += 1

    def add_unsynced(self, paths: Sequence[Path], *, files: Sequence[LogFile] = ()) -> None:
        """The next flush fsyncs these too, and the folder with their names."""
        self._unsynced += files
        self._unsynced_paths += paths
        self._names += 1

    def let_go_unsynced(self, path: Path) -> None:
        """The log file of a rolled segment is about to go: no flush that begins from now on fsyncs it."""
        self._unsynced = [file for file in self._unsynced if file.path != path]

    def relocate(self, directory: Path) -> None:
        """The folder was renamed to `directory`, in the same file system. No flush may be on its way."""
        self.directory = directory
        for segment in self.segments:
            segment.relocate(directory)
        self.epochs.relocate(directory)
        for file in self._unsynced:
            file.path = directory / file.path.name
        self._unsynced_paths = [directory / path.name for path in self._unsynced_paths]
        self.deleted_files = [directory / path.name for path in self.deleted_files]

    def unsynced_paths(self) -> set[Path]:
        """The log files of closed segments that the next flush needs."""
        return {file.path for file in self._unsynced}
