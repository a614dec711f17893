"""Batches that have offsets and a place in a log's file and are not in the log yet: another thread writes them.

A disk that does not keep up makes whoever writes wait, for tens of milliseconds at a time: then that is not the thread
that everybody waits for. Until the owner's thread finishes the append nobody sees them, and a crash leaves what it
leaves of any append that was going on.

Source: ours; Kafka's handler threads write, each for its own client.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from protocol.errors import unraised
from storage.reading.batches import OVERHEAD, pieces_of

if TYPE_CHECKING:
    from storage.errors import StorageError
    from storage.files import Buffer
    from storage.log.next_segment import NextSegment
    from storage.reading.batches import Parted
    from storage.state.segment import Segment

MOST_BATCHES = 256
"""Of one call; the system takes 1,024 buffers, and a batch is two at most."""


class Placed:
    """Made by `Appender.place`; then `write` in any thread, and `Appender.finish` in the owner's.

    `batches`: the bytes of each, its header and its base offset, in order.
    """

    __slots__ = (
        "_lock",
        "batches",
        "error",
        "following",
        "is_given_up",
        "is_over",
        "leader_epoch",
        "next_offset",
        "now_ms",
        "position",
        "refused",
        "segment",
        "size_bytes",
    )

    def __init__(
        self, segment: Segment, base_offset: int, leader_epoch: int, now_ms: int, following: NextSegment | None = None
    ) -> None:
        self.batches: list[tuple[Buffer | Parted, tuple[Any, ...], int]] = []
        self.segment = segment
        self.following = following
        """The segment, where it is still to be made."""
        self.position = segment.size_bytes
        self.size_bytes = 0
        self.next_offset = base_offset
        self.leader_epoch = leader_epoch
        self.now_ms = now_ms
        self.is_over = False
        """Nothing will be written any more: all is in the file, or the disk has refused, or the log was given up."""
        self.is_given_up = False
        self.refused: Exception | None = None
        self.error: StorageError | None = None
        """Why the batches are not in the log, once the owner's thread knows."""
        self._lock = Lock()

    def add(self, batch: Buffer | Parted, header: tuple[Any, ...]) -> None:
        """Another batch, behind the others. Before the write."""
        self.batches.append((batch, header, self.next_offset))
        self.next_offset += header[6] + 1
        self.size_bytes += header[1] + OVERHEAD

    def write(self) -> None:
        """Make their segment if need be, and write the batches, unless that is over; blocks while another thread is
        about it. Any thread may call it.
        """
        with self._lock:
            if self.is_over:
                return
            try:
                if self.following is not None:
                    self.following.make()
                self.segment.file.write_all(pieces_of([batch for batch, _, _ in self.batches]), self.position)
            except Exception as error:  # whatever it is: half of it may be in the file
                self.refused = unraised(error)
            self.is_over = True

    def abandon(self) -> None:
        """Nothing is written from the return on: the log is about to be read anew. Blocks, as `write`."""
        with self._lock:
            self.is_over = self.is_given_up = True
