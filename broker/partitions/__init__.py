"""Partitions: the open logs, what is committed in them, and who waits for that."""

from broker.partitions.errors import PartitionFailed, PartitionGone, PartitionLoading, RecordsRefused
from broker.partitions.marker import Marker
from broker.partitions.markers import Markers
from broker.partitions.partition import AppendInfo, Partition, Unchecked, Waiter
from broker.partitions.settings import PartitionSettings, partition_settings
from broker.partitions.table import Partitions
from broker.partitions.verification import Question, TransactionCoordinator, Verifier

__all__ = [
    "AppendInfo",
    "Marker",
    "Markers",
    "Partition",
    "PartitionFailed",
    "PartitionGone",
    "PartitionLoading",
    "PartitionSettings",
    "Partitions",
    "Question",
    "RecordsRefused",
    "TransactionCoordinator",
    "Unchecked",
    "Verifier",
    "Waiter",
    "partition_settings",
]
