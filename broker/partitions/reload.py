"""Opening a log again after the disk has refused a write or an fsync (docs/decisions/failed-fsync.md).

Source: ours; Kafka takes the whole log directory offline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from pathlib import Path

    from broker.partitions.partition import Partition

_CHUNK_BYTES = 1_048_576


def open_again(partition: Partition, folder: Path, now_ms: int) -> PartitionLog:
    """The log of a failed partition, recovered, cut or made dirty again as its durability says. Blocks.

    Raises: StorageError, CorruptFile, OSError.
    """
    old, settings = partition.log, partition.settings
    fresh = PartitionLog.open(
        folder,
        settings.log,
        recovery_point=old.recovery_point,
        log_start_offset=old.log_start_offset,
        now_ms=now_ms,
    )
    # Under `always` what lies beyond the high watermark was refused: it is cut, so that nobody ever reads it.
    if settings.log.flush_messages == 1 and fresh.log_end_offset > partition.high_watermark:
        fresh.truncate_to(partition.high_watermark)
    _write_again(fresh)
    return fresh


def _write_again(fresh: PartitionLog) -> None:
    """Write what is not known to be on disk over itself.

    After a failed fsync the cache may show pages as clean that never reached the disk; writing them makes the next
    fsync mean what it says. The bytes are the same, so a crash in between changes nothing.
    """
    for segment in fresh.segments[fresh.segment_index(fresh.recovery_point) :]:
        for position in range(0, segment.size_bytes, _CHUNK_BYTES):
            count = min(_CHUNK_BYTES, segment.size_bytes - position)
            segment.file.write_fully(segment.file.pread(count, position), position)
