"""Opening a log again after the disk has refused a write or an fsync (docs/decisions/failed-fsync.md).

Source: ours; Kafka takes the whole log directory offline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.partitions.settings import tail_of
from storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from pathlib import Path

    from broker.partitions.partition import Partition


def open_again(partition: Partition, folder: Path, now_ms: int) -> PartitionLog:
    """The log of a failed partition: recovered, made dirty again, and cut where its durability says so. Blocks.

    Raises: StorageError, CorruptFile, OSError.
    """
    old, settings = partition.log, partition.settings
    old.abandon()
    fresh = PartitionLog.open(
        folder,
        settings.log,
        recovery_point=old.recovery_point,
        log_start_offset=old.log_start_offset,
        now_ms=now_ms,
        tail=tail_of(partition.topic),
    )
    # Under `always` what lies beyond the high watermark was refused: it is cut, so that nobody ever reads it.
    if settings.log.flush_messages == 1 and fresh.log_end_offset > partition.high_watermark:
        fresh.truncate_to(partition.high_watermark)
    return fresh
