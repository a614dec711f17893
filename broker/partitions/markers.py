"""Markers: how a transaction ended, written into every partition that it touched.

Most partitions append them themselves. `__consumer_offsets` belongs to the group coordinator, whose offsets become
visible or vanish with the marker, so it takes them in its own queue: `routes` says which topics do.

Source: KIP-98; Kafka's KafkaApis.handleWriteTxnMarkersRequest, MemoryRecords.withEndTransactionMarker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.loop.runtime import Runtime
    from broker.partitions.marker import Marker
    from broker.partitions.partition import Partition
    from broker.partitions.table import Partitions

    Done = Callable[[ErrorCode], None]


class MarkerRoute(Protocol):
    """Who appends markers to the partitions of one topic in the log's stead."""

    def __call__(self, index: int, marker: Marker, done: Done) -> None:
        """Append it; `done(NONE)` once it is committed, `done(error)` when it was not appended or may be lost."""


class Markers:
    """Writes markers, to whichever partition they belong."""

    def __init__(self, runtime: Runtime, partitions: Partitions) -> None:
        self.routes: dict[str, MarkerRoute] = {}
        self._runtime = runtime
        self._partitions = partitions

    def coordinator_epoch(self, topic: str, index: int, producer_id: int) -> int:
        """Of the producer's last marker in that partition, -1 when there is none."""
        partition = self._partitions.get(topic, index) if self._partitions.has(topic, index) else None
        entry = None if partition is None else partition.log.producers.entries.get(producer_id)
        return -1 if entry is None else entry.coordinator_epoch

    def write(self, topic: str, index: int, marker: Marker, done: Done) -> None:
        """Append `marker` to the partition; `done(NONE)` once it is committed, perhaps before this returns.

        `done` is called exactly once. It gets UNKNOWN_TOPIC_OR_PARTITION only when there is no such partition; one that
        is loading, failed or not flushed gives NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR, and the marker is to be
        written again: a second one does no harm. INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED say that it
        must not be.
        """
        try:
            if not self._partitions.has(topic, index):
                done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return
            route = self.routes.get(topic)
            if route is not None:
                route(index, marker, done)
                return
            partition = self._partitions.get(topic, index)
            assert partition is not None
        except KafkaError as error:
            done(error.code)
            return
        partition.when_written(lambda: self._append(partition, marker, done))

    def _append(self, partition: Partition, marker: Marker, done: Done) -> None:
        try:
            partition.append_marker(marker, self._runtime.now_ms(), lambda error: done(_code(error)))
        except KafkaError as error:
            done(error.code)


def _code(error: KafkaError | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else error.code
