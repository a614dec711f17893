"""Topics and partitions, under kafka_exporter's names, and KMinion's on request.

Source: kafka_exporter (danielqsj), KMinion (redpanda-data): their documentation of metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.http.metrics.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.config.topic_configs import Effective
    from broker.http.metrics.exposition import Scrape


def section(scrape: Scrape) -> Iterator[str]:
    """Everything about topics; leaves `scrape.topics` for those after it."""
    table = scrape.topics = TopicTable()
    yield from table.gather(scrape.app.broker)
    rows = table.rows
    yield from scrape.many(
        "kafka_topic_partitions",
        "gauge",
        "Number of partitions for this Topic",
        (f'{{topic="{row.label}"}} {row.topic.partition_count}' for row in rows),
    )
    if scrape.by_partition:
        yield from _of_partitions(scrape, table)
    yield from scrape.many(
        "kohort_topic_log_bytes",
        "gauge",
        "Bytes in the segments of a topic.",
        (f'{{topic="{row.label}"}} {sum(partition[3] for partition in row.partitions)}' for row in rows),
    )
    if scrape.kminion:
        yield from _kminion(scrape, table)


def _of_partitions(scrape: Scrape, table: TopicTable) -> Iterator[str]:
    node = scrape.app.broker.node_id
    # One node has one replica of each partition: it leads, it is in sync, it is the preferred one.
    for name, meaning, constant in (
        ("kafka_topic_partition_leader", "Leader Broker ID of this Topic/Partition", node),
        ("kafka_topic_partition_replicas", "Number of Replicas for this Topic/Partition", 1),
        ("kafka_topic_partition_in_sync_replica", "Number of In-Sync Replicas for this Topic/Partition", 1),
        ("kafka_topic_partition_leader_is_preferred", "1 if Topic/Partition is using the Preferred Broker", 1),
        ("kafka_topic_partition_under_replicated_partition", "1 if Topic/Partition is under Replicated", 0),
    ):
        yield from scrape.many(
            name,
            "gauge",
            meaning,
            (
                f'{{partition="{index}",topic="{row.label}"}} {constant}'
                for row in table.rows
                for index in range(row.topic.partition_count)
            ),
        )
    for name, meaning, field in (
        ("kafka_topic_partition_oldest_offset", "Oldest Offset of a Broker at Topic/Partition", 1),
        ("kafka_topic_partition_current_offset", "Current Offset of a Broker at Topic/Partition", 2),
        ("kohort_topic_partition_log_bytes", "Bytes in the segments of a partition.", 3),
    ):
        yield from scrape.many(
            name,
            "gauge",
            meaning,
            (
                f'{{partition="{partition[0]}",topic="{row.label}"}} {partition[field]}'
                for row in table.rows
                for partition in row.partitions
            ),
        )


def _kminion(scrape: Scrape, table: TopicTable) -> Iterator[str]:
    effective = scrape.app.broker.catalogue.effective_configs
    yield from scrape.many(
        "kminion_kafka_topic_info",
        "gauge",
        "What a topic is.",
        (
            f'{{cleanup_policy="{_policy(effective(row.topic))}",partition_count="{row.topic.partition_count}",'
            f'replication_factor="1",topic_name="{row.label}"}} 1'
            for row in table.rows
        ),
    )
    for mark, field in (("low", 1), ("high", 2)):
        words = f"{mark.capitalize()} Water Mark"
        if scrape.by_partition:
            yield from scrape.many(
                f"kminion_kafka_topic_partition_{mark}_water_mark",
                "gauge",
                f"{words} of a partition.",
                (
                    f'{{partition_id="{partition[0]}",topic_name="{row.label}"}} {partition[field]}'
                    for row in table.rows
                    for partition in row.partitions
                ),
            )
        yield from scrape.many(
            f"kminion_kafka_topic_{mark}_water_mark_sum",
            "untyped",
            f"Sum of the {mark} water marks of a topic's partitions.",
            (
                f'{{topic_name="{row.label}"}} {sum(partition[field] for partition in row.partitions)}'
                for row in table.rows
            ),
        )
    yield from scrape.many(
        "kminion_kafka_topic_log_dir_size_total_bytes",
        "gauge",
        "Bytes in the segments of a topic.",
        (f'{{topic_name="{row.label}"}} {sum(partition[3] for partition in row.partitions)}' for row in table.rows),
    )


def _policy(effective: Effective) -> str:
    return ",".join(name for name, on in (("compact", effective.compact), ("delete", effective.delete)) if on)
