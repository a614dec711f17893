"""Whether a partition can be moved to a log directory, and why not.

Source: Kafka's ReplicaManager.alterReplicaLogDirs, in its order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.partitions.errors import PartitionLoading
from protocol.errors import ErrorCode, KafkaError
from storage.directory.log_directory import suffixed_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from broker.partitions import Partition, Partitions
    from broker.partitions.move_folders import Key
    from storage.directory.log_directory import LogDirectory

_MOST_NAME_BYTES = 255


class MoveRefused(Exception):
    """It cannot; `code` is what is answered."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def checked(
    key: Key, path: Path, partitions: Partitions, directories: Mapping[Path, LogDirectory], cordoned: Collection[Path]
) -> tuple[LogDirectory, Partition]:
    """Where it goes, and the partition, its log opened if need be. Raises: MoveRefused."""
    topic, index = key
    if len(suffixed_name("", index, bytes(16), "future")) + len(topic) > _MOST_NAME_BYTES:
        raise MoveRefused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if path in partitions.disks.offline:
        raise MoveRefused(ErrorCode.KAFKA_STORAGE_ERROR)
    to = directories.get(path)
    if to is None:
        raise MoveRefused(ErrorCode.LOG_DIR_NOT_FOUND)
    if path in cordoned:
        raise MoveRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    if partitions.has(*key) and partitions.is_offline(*key):
        raise MoveRefused(ErrorCode.KAFKA_STORAGE_ERROR)
    try:
        partition = partitions.get(*key)
    except PartitionLoading as error:
        raise MoveRefused(ErrorCode.REPLICA_NOT_AVAILABLE) from error  # tools come again
    except KafkaError as error:
        raise MoveRefused(error.code) from error
    if partition is None:
        raise MoveRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.error is not None:
        raise MoveRefused(ErrorCode.KAFKA_STORAGE_ERROR)
    return to, partition
