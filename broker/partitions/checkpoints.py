"""The four checkpoint files of the log directory, written from several threads, and what must never stand in them.

A topic that is deleted must be out of all four before its name can be taken again: a log start offset that is left
behind would make the next start throw the new topic's log away, because it ends below that.

Source: Kafka's LogManager.asyncDelete, OffsetCheckpointFile.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from broker.loop.primitives import Lock
from storage.reading.checkpoints import OFFSET_CHECKPOINTS, read_offsets, write_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

Key = tuple[str, int]


class Checkpoints:
    """The offset checkpoints in `directory`. Every method may be called in any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = Lock()
        self._content: dict[str, dict[Key, int]] = {}
        self._moments = count(1)  # its `next` is atomic: the event loop need not wait for a lock
        self._written: dict[str, int] = {}  # file -> when what is in it was collected
        self._forgotten: dict[Key, int] = {}  # deleted partition -> when it went

    def moment(self) -> int:
        """Now, for `write`: take it together with the offsets that are to be written."""
        return next(self._moments)

    def read(self, name: str) -> dict[Key, int]:
        """What is in a file. Raises: CorruptFile."""
        with self._lock:
            return dict(self._read(name))

    def write(self, name: str, offsets: Mapping[Key, int], moment: int) -> None:
        """Replace a file, unless that is what is in it. Raises: StorageError, CorruptFile.

        Partitions that were deleted after `moment`, when `offsets` were collected, are left out; nothing is done when
        later ones are in the file already.
        """
        with self._lock:
            if moment < self._written.get(name, 0):
                return
            self._written[name] = moment
            forgotten = self._forgotten
            kept = {key: offset for key, offset in offsets.items() if forgotten.get(key, 0) < moment}
            if kept != self._read(name):
                write_offsets(self._directory / name, kept)
                self._content[name] = kept

    def forget(self, partitions: Iterable[Key]) -> None:
        """Take deleted partitions out of every file, durably. Raises: StorageError, CorruptFile."""
        gone = set(partitions)
        with self._lock:
            self._forgotten.update(dict.fromkeys(gone, next(self._moments)))
            for name in OFFSET_CHECKPOINTS:
                content = self._read(name)
                if not gone.isdisjoint(content):
                    kept = {key: offset for key, offset in content.items() if key not in gone}
                    write_offsets(self._directory / name, kept)
                    self._content[name] = kept

    def _read(self, name: str) -> dict[Key, int]:
        content = self._content.get(name)
        if content is None:
            content = self._content[name] = read_offsets(self._directory / name)
        return content
