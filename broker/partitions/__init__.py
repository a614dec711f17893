"""Partitions: the open logs, what is committed in them, and who waits for that."""

from broker.partitions.errors import PartitionFailed, PartitionGone, PartitionLoading, RecordsRefused
from broker.partitions.partition import AppendInfo, Partition, Waiter
from broker.partitions.settings import PartitionSettings, partition_settings
from broker.partitions.table import Partitions

__all__ = [
    "AppendInfo",
    "Partition",
    "PartitionFailed",
    "PartitionGone",
    "PartitionLoading",
    "PartitionSettings",
    "Partitions",
    "RecordsRefused",
    "Waiter",
    "partition_settings",
]
