"""What a scrape knows of topics: gathered once, in slices, then written under several names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.http.metrics.labels import escaped
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.broker import Broker
    from broker.catalogue.topics_image import Topic
    from broker.partitions import Partition


class TopicRow(NamedTuple):
    """One topic. `partitions` holds (index, log start, high watermark, bytes); a failed or loading one is missing."""

    topic: Topic
    label: str  # the name as a label has it
    partitions: list[tuple[int, int, int, int]]


class TopicTable:
    """The topics by name, and their open partitions by (topic, index)."""

    def __init__(self) -> None:
        self.rows: list[TopicRow] = []
        self.open: dict[tuple[str, int], Partition] = {}

    def dissolve(self) -> Iterator[str]:
        """Free the table, in slices."""
        while self.rows:
            self.rows.pop()
            yield ""
        self.open.clear()

    def gather(self, broker: Broker) -> Iterator[str]:
        """Look at every partition; empty texts between slices.

        Logs that nobody has asked for since the start are opened, one a slice, as the retention check would do soon
        after. Not while logs are recovered: that is worker threads' business.
        """
        partitions = broker.partitions
        for topic in broker.catalogue.image:
            name = topic.name
            found: list[tuple[int, int, int, int]] = []
            for index in range(topic.partition_count):
                partition = partitions.opened(name, index)
                if partition is None and not partitions.loading:
                    try:
                        partition = partitions.get(name, index)
                    except (KafkaError, OSError):
                        partition = None  # `kohort_partitions` counts it
                    yield ""
                if partition is None or partition.error is not None:
                    continue
                self.open[name, index] = partition
                log = partition.log
                found.append((index, log.log_start_offset, partition.high_watermark, log.size_bytes))
                if index & 63 == 63:
                    yield ""
            self.rows.append(TopicRow(topic, escaped(name), found))
            yield ""
