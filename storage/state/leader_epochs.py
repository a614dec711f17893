"""Which leader epoch began at which offset: the partition's `leader-epoch-checkpoint`.

Changed in memory at once and written by the next flush, roll or close: a crash before that loses nothing, since
recovery takes the epochs from the batches above the recovery point.

Always true: epochs and start offsets both rise strictly.

Source: KIP-101, KIP-279; Kafka's LeaderEpochFileCache.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from pathlib import Path

from storage.errors import CorruptFile
from storage.files import Disk, replace_file
from storage.reading.checkpoints import LEADER_EPOCHS, format_checkpoint, parse_checkpoint

UNDEFINED = -1


class LeaderEpochs:
    """The epochs of one log. All calls but `write` belong to the log's own thread."""

    __slots__ = ("_disk", "_lock", "_path", "_written", "epochs", "start_offsets", "version")

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._path = directory / LEADER_EPOCHS
        self._disk = disk
        self._lock = threading.Lock()
        self._written = 0
        self.version = 0  # grows with every change
        self.epochs: list[int] = []
        self.start_offsets: list[int] = []

    def load(self) -> None:
        """Read the file; a missing one has no entries. Raises: CorruptFile."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        for entry in parse_checkpoint(self._path, data):
            try:
                epoch, start_offset = map(int, entry)
            except ValueError as error:
                raise CorruptFile(self._path, f"{' '.join(entry)!r} is not `epoch startOffset`") from error
            self._put(epoch, start_offset)
        self._written = self.version = 0

    @property
    def latest(self) -> int:
        """The newest epoch, -1 when none is known."""
        return self.epochs[-1] if self.epochs else UNDEFINED

    @property
    def is_dirty(self) -> bool:
        """Does the file lack a change?"""
        return self.version != self._written

    def assign(self, epoch: int, start_offset: int) -> None:
        """Batches from `start_offset` on are of `epoch`. Entries that contradict this go."""
        if self.epochs and self.epochs[-1] == epoch and self.start_offsets[-1] <= start_offset:
            return
        self._put(epoch, start_offset)
        self.version += 1

    def _put(self, epoch: int, start_offset: int) -> None:
        while self.epochs and (self.epochs[-1] >= epoch or self.start_offsets[-1] >= start_offset):
            self.epochs.pop()
            self.start_offsets.pop()
        self.epochs.append(epoch)
        self.start_offsets.append(start_offset)

    def replace(self, other: LeaderEpochs) -> None:
        """Have the entries of another log."""
        self.epochs, self.start_offsets = list(other.epochs), list(other.start_offsets)
        self.version += 1

    def relocate(self, directory: Path) -> None:
        """The folder has another name now."""
        self._path = directory / LEADER_EPOCHS

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) for OffsetForLeaderEpoch: the largest known epoch not above, and where it ended.

        (-1, -1) when the epoch is above all known ones or none is known.
        """
        if epoch == UNDEFINED or not self.epochs or epoch > self.epochs[-1]:
            return UNDEFINED, UNDEFINED
        if epoch == self.epochs[-1]:
            return epoch, log_end_offset
        after = bisect_right(self.epochs, epoch)
        return (self.epochs[after - 1] if after else epoch), self.start_offsets[after]

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch of the batch that holds `offset`, -1 when unknown."""
        at = bisect_right(self.start_offsets, offset)
        return self.epochs[at - 1] if at else UNDEFINED

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that began at or after `end_offset`."""
        before = len(self.epochs)
        while self.start_offsets and self.start_offsets[-1] >= end_offset:
            self.epochs.pop()
            self.start_offsets.pop()
        self.version += before != len(self.epochs)

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies below the log start; the epoch in force there now begins there."""
        at = bisect_right(self.start_offsets, start_offset)
        if at == 0 or (at == 1 and self.start_offsets[0] == start_offset):
            return
        self.epochs = self.epochs[at - 1 :]
        self.start_offsets = [start_offset, *self.start_offsets[at:]]
        self.version += 1

    def content(self) -> tuple[int, bytes]:
        """The version, and the bytes the file should have at it."""
        lines = [f"{epoch} {start}" for epoch, start in zip(self.epochs, self.start_offsets, strict=True)]
        return self.version, format_checkpoint(lines)

    def write(self, content: tuple[int, bytes], *, sync: bool = True) -> None:
        """Replace the file, unless a newer version is in it already; durably, if `sync`. Any thread.

        Raises: StorageError.
        """
        version, data = content
        with self._lock:
            if version > self._written:
                replace_file(self._path, data, self._disk, sync=sync)
                self._written = version
