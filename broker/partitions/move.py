"""One partition on its way into another log directory: which step it is at, and what has been copied.

Source: Kafka's ReplicaAlterLogDirsThread, Partition.futureLog.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from broker.partitions.move_folders import Key, flushed_offset, note_flushed
from storage.errors import StorageError
from storage.log import handover
from storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from broker.partitions.partition import Partition
    from protocol.errors import ErrorCode
    from storage.directory.log_directory import LogDirectory
    from storage.log.handover import Piece
    from storage.state.log_config import LogConfig

PIECE_BYTES = 1024 * 1024
"""Copied by a thread at a time."""
LAST_BYTES = 256 * 1024
"""What may be left to be copied in the turn of the hand-over."""
MOST_LAST_BYTES = 4 * 1024 * 1024
"""And the most that it may become, where producers are as fast as the copying."""
PATIENT_PIECES = 32
FLUSHED_EVERY = 64 * 1024 * 1024
"""Bytes of a copy: what a crash may have copied again."""


class Step(Enum):
    """How far a move is."""

    CREATING = "creating"  # the folder is not durable yet
    COPYING = "copying"
    HANDING_OVER = "handing over"  # appends go to the copy
    OVER = "over"


class Move:
    """The copy in `folder`, a `-future` one in `to`. Steps on the loop but where it is said."""

    __slots__ = (
        "answers",
        "copy",
        "folder",
        "key",
        "last_bytes",
        "offset",
        "pieces",
        "source",
        "step",
        "to",
        "topic_id",
        "unflushed",
    )

    def __init__(self, key: Key, topic_id: bytes, to: LogDirectory, folder: Path | None) -> None:
        self.key = key
        self.topic_id = topic_id
        self.to = to
        self.folder = folder
        self.step = Step.CREATING if folder is None else Step.COPYING
        self.answers: list[Callable[[ErrorCode], None]] = []
        """Who is to hear that the folder is made."""
        self.copy: PartitionLog | None = None
        self.source: PartitionLog | None = None  # the log that is copied
        self.offset = 0  # to be copied next
        self.pieces = 0
        self.last_bytes = LAST_BYTES
        self.unflushed = 0

    def say(self, error: ErrorCode) -> None:
        """Answer all that have asked for it so far."""
        answers, self.answers = self.answers, []
        for answer in answers:
            answer(error)

    def open(self, source: PartitionLog, first_offset: int, config: LogConfig, now_ms: int) -> bool:
        """Open the copy, with what an earlier life of the broker has flushed there; False when that is of no use.

        In a thread. Raises: StorageError, CorruptFile, OSError.
        """
        assert self.folder is not None
        flushed = flushed_offset(self.folder)
        copy = PartitionLog.open(self.folder, config, log_start_offset=first_offset, now_ms=now_ms, tail=None)
        if flushed is None and copy.size_bytes > 0:
            return False
        if flushed is not None and flushed < copy.log_end_offset:
            copy.truncate_to(flushed)
        if not handover.agree(copy, source):
            return False
        self.copy, self.source, self.offset = copy, source, copy.log_end_offset
        return True

    def is_near(self, most_bytes: Callable[[int], int]) -> bool:
        """Whether the rest is for the hand-over, of which no more than that may be left. Raises: StorageError."""
        assert self.source is not None
        return handover.bytes_left(self.source, self.offset) <= most_bytes(self.last_bytes)

    def next_piece(self, partition: Partition, max_bytes: int) -> Piece | None:
        """What is to be copied next, up to the high watermark; None when it is there. Raises: StorageError."""
        assert self.source is not None
        self.pieces += 1
        if self.pieces % PATIENT_PIECES == 0:
            self.last_bytes = min(self.last_bytes * 2, MOST_LAST_BYTES)
        return handover.next_piece(self.source, self.offset, max_bytes, partition.high_watermark)

    def copy_piece(self, piece: Piece, now_ms: int) -> None:
        """Append it to the copy. In a thread. Raises: StorageError, ValueError, OSError."""
        assert self.copy is not None
        data = piece.read()
        if len(data) < piece.end - piece.start:
            raise StorageError("was cut while it was copied:", piece.file.path)
        self.copy.append_assigned(data, now_ms=now_ms)
        self.offset = piece.next_offset
        self.unflushed += len(data)
        if self.unflushed >= FLUSHED_EVERY:
            note_flushed(self.copy.directory, self.copy.flush(), self.copy.state.disk)
            self.unflushed = 0

    def copy_rest(self, now_ms: int) -> int:
        """Append all that is left, committed or not, on the loop; how many bytes it was. Raises: as `copy_piece`."""
        assert self.source is not None
        left = handover.bytes_left(self.source, self.offset)
        end = self.source.log_end_offset
        while (piece := handover.next_piece(self.source, self.offset, PIECE_BYTES, end)) is not None:
            self.copy_piece(piece, now_ms)
        return left
