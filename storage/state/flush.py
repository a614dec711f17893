"""A flush in three calls: begun on the event loop, fsynced in any thread, finished on the event loop."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from storage.errors import StorageError
from storage.files import Disk, LogFile, sync_directory, sync_file
from storage.state.leader_epochs import LeaderEpochs


class FlushTicket:
    """Everything below `offset` is on the disk once `sync` has returned.

    `closed` are the files of rolled segments, to which nothing is written any more; `active` may grow while it is
    fsynced. The ticket holds its log files open, so the log may roll, truncate or delete while another thread is in
    `sync`. Index files and snapshots are named by path, since after a crash there are many: one that is gone needs no
    fsync.
    """

    __slots__ = (
        "active",
        "closed",
        "directory",
        "disk",
        "epochs",
        "error",
        "names_version",
        "offset",
        "paths",
        "synced",
        "truncations",
        "what",
    )

    def __init__(
        self,
        *,
        offset: int,
        truncations: int,
        closed: list[LogFile],
        active: LogFile | None,
        paths: list[Path],
        directory: Path | None,
        names_version: int,
        epochs: tuple[LeaderEpochs, tuple[int, bytes]] | None,
        what: Path,
        disk: Disk,
    ) -> None:
        self.offset = offset
        self.truncations = truncations
        self.closed = closed
        self.active = active
        self.paths = paths
        self.directory = directory
        self.names_version = names_version
        self.epochs = epochs
        self.what = what
        self.disk = disk
        self.synced = False
        self.error: StorageError | None = None

    def skip(self) -> None:
        """In the place of `sync`, by a caller who makes the whole file system durable. Raises: StorageError."""
        try:
            if self.epochs is not None:
                self.epochs[0].write(self.epochs[1], sync=False)
        except StorageError as error:
            self.error = error.afresh()
            raise
        self.synced = True

    def sync(self) -> None:
        """fsync; blocks. Call it once, in any thread.

        Raises: StorageError. What an fsync refused once must be taken as lost (the kernel reports it only once), so
        the log accepts nothing more until it is opened anew.
        """
        try:
            for file in self.closed:
                file.datasync()
            if self.active is not None:
                self.active.datasync()
            for path in self.paths:
                with suppress(FileNotFoundError):
                    sync_file(path, self.disk)
            if self.directory is not None:
                sync_directory(self.directory, self.disk)
            if self.epochs is not None:
                self.epochs[0].write(self.epochs[1])
        except StorageError as error:
            self.error = error.afresh()
            raise
        except OSError as error:
            self.error = StorageError("cannot flush", self.what, error)
            raise self.error.afresh() from error
        self.synced = True
