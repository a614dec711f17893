"""The four checkpoint files of each log directory, written from several threads, and what must never stand in them.

A topic that is deleted must be out of all four before its name can be taken again: a log start offset that is left
behind would make the next start throw the new topic's log away, because it ends below that.

Source: Kafka's LogManager.asyncDelete, OffsetCheckpointFile.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from broker.loop.primitives import Lock
from storage.errors import CorruptFile, StorageError
from storage.reading.checkpoints import OFFSET_CHECKPOINTS, read_offsets, write_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

Key = tuple[str, int]


class Checkpoints:
    """The offset checkpoints in each of `directories`. Every method may be called in any thread.

    `place` says in which of them a partition lies, None when it is not known: then nothing is written of it. With one
    directory it is not asked.
    """

    def __init__(
        self, directories: Sequence[Path], place: Callable[[Key], Path | None], offline: Collection[Path] = ()
    ) -> None:
        self._offline = offline  # left alone
        self._directories = tuple(directories)
        self._place = place
        self._lock = Lock()
        self._content: dict[Path, dict[Key, int]] = {}  # by file
        self._moments = count(1)  # its `next` is atomic: the event loop need not wait for a lock
        self._written: dict[Path, int] = {}  # file -> when what is in it was collected
        self._forgotten: dict[Key, int] = {}  # deleted partition -> when it went
        self._owed: dict[Path, set[Key]] = {}  # directory -> deleted partitions that its files still name

    def moment(self) -> int:
        """Now, for `write`: take it together with the offsets that are to be written."""
        return next(self._moments)

    def read(self, name: str) -> dict[Key, int]:
        """What is in the files of this name. Raises: StorageError, CorruptFile."""
        found: dict[Key, int] = {}
        with self._lock:
            for directory in self._directories:
                found.update(self._read(directory / name))
        return found

    def write(self, name: str, offsets: Mapping[Key, int], moment: int) -> None:
        """Replace the files of this name where that is not what is in them. Raises: StorageError, CorruptFile.

        Partitions that were deleted after `moment`, when `offsets` were collected, are left out; nothing is done when
        later ones are in the file already. A directory that refuses keeps none of the others from being written.
        """
        errors: list[Exception] = []
        for directory in self._directories:
            if directory in self._offline:
                continue
            try:
                self.write_in(directory, name, offsets, moment)
            except (StorageError, CorruptFile, OSError) as error:
                errors.append(error)
        _raise_first(errors)

    def write_in(self, directory: Path, name: str, offsets: Mapping[Key, int], moment: int) -> None:
        """As `write`, the file in one directory."""
        path = directory / name
        only = len(self._directories) == 1
        with self._lock:
            if moment < self._written.get(path, 0):
                return
            self._written[path] = moment
            forgotten = self._forgotten
            kept = {
                key: offset
                for key, offset in offsets.items()
                if forgotten.get(key, 0) < moment and (only or self._place(key) == directory)
            }
            if kept != self._read(path):
                write_offsets(path, kept)
                self._content[path] = kept

    def forget(self, partitions: Iterable[Key]) -> None:
        """Take deleted partitions out of every file, durably. Raises: StorageError, CorruptFile.

        A directory that is offline or refuses keeps none of the others from being written, and is written by `settle`.
        """
        gone = set(partitions)
        errors: list[Exception] = []
        with self._lock:
            self._forgotten.update(dict.fromkeys(gone, next(self._moments)))
            for directory in self._directories:
                self._owed.setdefault(directory, set()).update(gone)
                try:
                    if directory not in self._offline:
                        self._settle(directory)
                except (StorageError, CorruptFile) as error:
                    errors.append(error)
        _raise_first(errors)

    def settle(self, directory: Path) -> None:
        """Take out what `forget` could not: before there are new partitions. Raises: StorageError, CorruptFile."""
        with self._lock:
            self._settle(directory)

    def _settle(self, directory: Path) -> None:
        gone = self._owed.get(directory)
        if not gone:
            return
        for name in OFFSET_CHECKPOINTS:
            content = self._read(directory / name)
            if not gone.isdisjoint(content):
                kept = {key: offset for key, offset in content.items() if key not in gone}
                write_offsets(directory / name, kept)
                self._content[directory / name] = kept
        del self._owed[directory]

    def _read(self, path: Path) -> dict[Key, int]:
        content = self._content.get(path)
        if content is None:
            try:
                content = self._content[path] = read_offsets(path)
            except OSError as error:
                raise StorageError("cannot read", path, error) from error
        return content


def _raise_first(errors: list[Exception]) -> None:
    """Raise the first one, if there is any, and keep none: what is raised here would hold this frame, and that it."""
    if errors:
        del errors[1:]
        raise errors.pop()
