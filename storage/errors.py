"""What storage refuses or fails at, each by name and with Kafka's code where clients see one."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from protocol.errors import ErrorCode, KafkaError, unraised


class StorageError(KafkaError):
    """The disk refused: full, failing or gone. The log's content is as it was before the call."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, what: str, path: Path | str, cause: OSError | None = None) -> None:
        super().__init__(f"{what} {path}: {cause}" if cause else f"{what} {path}")
        self.cause = cause

    def afresh(self) -> Self:
        """As any `KafkaError`'s; its cause, which both share, has no frames any more."""
        if self.cause is not None:
            unraised(self.cause)
        return super().afresh()


class OffsetOutOfRange(KafkaError):
    """The offset lies below the log start or beyond the log end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, *, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside [{log_start_offset}, {log_end_offset}]")


class RecordListTooLarge(KafkaError):
    """One batch is larger than a whole segment may be."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE

    def __init__(self, size_bytes: int, *, segment_bytes: int) -> None:
        super().__init__(f"a batch of {size_bytes} bytes does not fit a segment of {segment_bytes}")


class LogClosed(StorageError):
    """The log was closed, deleted or has failed before; open it again."""


class CorruptSegment(KafkaError):
    """Batches of a segment do not follow each other: bytes were changed after they were written."""

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, path: Path | str, position: int) -> None:
        super().__init__(f"{path}: no batch begins at byte {position}, although one should")


class CorruptFile(Exception):
    """A file of the data directory breaks its format; the message says which, where and how.

    Raised only for files that nothing can rebuild: checkpoints, `meta.properties`, names.
    """

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = Path(path)
        self.why = why


class DirectoryRefused(Exception):
    """The data directory cannot be used as it is; the message says why and what to do."""


class DirectoryUnusable(DirectoryRefused):
    """The system lets nobody use it: it may be a disk that failed."""


def is_explained(error: Exception) -> bool:
    """Whether its words say all: a disk, a file or a client's bytes brought it about. Of a fault of ours a log line
    needs the trace."""
    return isinstance(error, (OSError, KafkaError, CorruptFile, DirectoryRefused))
