"""The segment that follows the active one: its files are made in any thread, and the owner's takes it into the log.

A file that is made while the disk does not keep up waits for its journal, a fifth of a second and more. Until the owner
has taken it the log goes on in the segment that is active, and a crash leaves an empty segment at its end at most.

Source: Kafka's LocalLog.roll, ProducerStateManager.takeSnapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import StorageError
from storage.state.producer_snapshot import pack_snapshot, write_packed_snapshot
from storage.state.segment import Segment

if TYPE_CHECKING:
    from pathlib import Path

    from storage.state.log_state import LogState


class NextSegment:
    """Begun at the log end; nothing is appended before it is taken, or `make` has raised. `segment`: the new one.

    Made on the owner's thread. May raise `OSError`.
    """

    __slots__ = ("_old", "_producers", "_unsynced", "is_made", "segment")

    def __init__(self, state: LogState, now_ms: int) -> None:
        self._old = state.active
        self._old.finish_time_index()
        self._producers = pack_snapshot(state.producers.entries.values())
        self._unsynced: list[Path] = []
        self.segment = Segment(
            state.directory, state.log_end_offset, 0, now_ms, state.config.index_interval_bytes, state.disk
        )
        self.is_made = False

    def make(self) -> None:
        """Make its files, and write the indexes of the segment before it and the producers' snapshot. In any thread.

        Raises: StorageError, and then the segment's own files are removed, as far as the disk lets us.
        """
        new = self.segment
        try:
            new.create()
            written = self._old.write_indexes()
            snapshot = write_packed_snapshot(new.directory, new.base_offset, self._producers, new.disk)
        except Exception as error:
            new.discard_files()
            if isinstance(error, OSError):
                raise StorageError("cannot start segment", new.path(".log"), error) from error
            raise
        self._unsynced = [*written, snapshot]
        self.is_made = True

    def take(self, state: LogState) -> None:
        """It was made: it is the log's last segment, and what was written before it is part of the next flush."""
        state.producers.snapshot_offset = self.segment.base_offset
        state.add_unsynced(self._unsynced, files=[self._old.file])
        state.add_segment(self.segment)
