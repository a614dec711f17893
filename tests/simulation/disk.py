"""The simulated broker's disk: it knows what was fsynced through all of the broker's lives, and refuses now and then.

A power loss takes what was not fsynced: all of it, or a random part, later things without earlier ones. An fsync of a
file that was refused is not made good by the next one. One of a folder is: a file system that cannot write its journal
stops altogether, and forgets no name while it goes on (docs/decisions/failed-fsync.md).
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage.files import DISK, Disk
from tests.support.recording_disk import RecordingDisk
from tests.support.recording_disk import World as RecordedWorld

_CALLS = ("open", "close", "pwrite", "pread", "fsync", "fdatasync", "rename", "unlink", "mkdir", "ftruncate")


class SimulatedDisk(RecordingDisk):
    """What every file operation of the broker goes through, until `uninstall`."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        super().__init__(root)
        self.random = chance
        self.doubt = 0.0  # how probably an operation fails
        self.only = ""  # in this folder below the root; everywhere
        self._recorded = RecordedWorld()
        for name in ("open", "pwrite", "pread", "rename", "unlink", "mkdir", "ftruncate"):
            setattr(self, name, self._doubtful(self.__dict__.get(name) or getattr(Disk, name)))
        self.refuse_sync = self._refuses  # type: ignore[method-assign]

    def _refuses(self, name: str) -> bool:
        if self.doubt <= 0 or not (name == self.only or name.startswith(self.only and f"{self.only}/")):
            return False
        return self.random.random() < self.doubt

    def _name_of(self, what: int | Path | str) -> str:
        if isinstance(what, int):
            return self._folders.get(what) or self._openers.get(what, "")
        return self._name(what)

    def _fsync(self, descriptor: int) -> None:
        if descriptor in self._folders:
            if self._refuses(self._folders[descriptor]):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._note("sync_folder", name=self._folders[descriptor])
        else:
            super()._fsync(descriptor)

    def _doubtful(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(what: Any, *arguments: Any, **options: Any) -> Any:
            if self.doubt > 0 and self._refuses(self._name_of(what)):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(what, *arguments, **options)

        return call

    def install(self) -> None:
        """From here on the broker's disk is this one."""
        for name in _CALLS:
            setattr(DISK, name, getattr(self, name))

    @staticmethod
    def uninstall() -> None:
        """The real one again."""
        for name in _CALLS:
            DISK.__dict__.pop(name, None)

    def moved(self, root: Path) -> None:
        """The files are the same, and lie there now: the page cache outlives a process."""
        self.root = root
        self._catch_up()

    def lose_power(self, root: Path) -> None:
        """Put below `root` what a power loss leaves, and go on there."""
        self._catch_up()
        self._recorded.lose_power(root, self.random if self.random.random() < 0.7 else None)
        self.root = root
        self._recorded = RecordedWorld()
        self._names = {}
        for path in sorted(root.rglob("*")):
            if path.is_file():
                number, name = self.found(path)
                self._recorded.found(name, number, path.read_bytes())

    def _catch_up(self) -> None:
        for op in self.journal:
            self._recorded.apply(op)
        self.journal.clear()
