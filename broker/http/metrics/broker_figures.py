"""The broker itself: who it is, whether it is ready, its logs, their flushing and cleaning, the loading of groups."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.http.health import what_is_missing
from broker.http.metrics.labels import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.http.metrics.exposition import Scrape


def section(scrape: Scrape) -> Iterator[str]:
    """Everything about the broker."""
    app = scrape.app
    yield from _who(scrape)
    yield scrape.one("kohort_ready", "gauge", "1 when /readyz says so, else 0.", int(not what_is_missing(app)))
    yield from _partitions(scrape)
    yield from _flushing_and_cleaning(scrape)
    groups = app.broker.groups
    yield scrape.one(
        "kohort_groups_load_seconds", "gauge", "How long the last loading of all groups took.", groups.load_ms / 1_000
    )
    records = sum(leader.effects.records_appended for leader in groups.leaders)
    batches = sum(leader.effects.batches_appended for leader in groups.leaders)
    yield scrape.one(
        "kohort_group_records_total", "counter", "Records of offsets and groups that were appended.", records
    )
    yield scrape.one("kohort_group_batches_total", "counter", "Batches that these records were appended in.", batches)


def _who(scrape: Scrape) -> Iterator[str]:
    broker = scrape.app.broker
    endpoints = list(broker.endpoints.values())
    address = escaped(str(endpoints[0])) if endpoints else ""
    yield scrape.one("kafka_brokers", "gauge", "Number of Brokers in the Kafka Cluster.", 1)
    yield scrape.one(
        "kafka_broker_info",
        "gauge",
        "Information about the Kafka Broker.",
        1,
        f'{{address="{address}",id="{broker.node_id}"}}',
    )
    yield scrape.one(
        "kohort_build_info",
        "gauge",
        "Which Kohort this is.",
        1,
        f'{{cluster_id="{escaped(broker.cluster_id)}",version="{escaped(scrape.app.version)}"}}',
    )
    if scrape.kminion:
        host = escaped(endpoints[0].host) if endpoints else ""
        port = endpoints[0].port if endpoints else 0
        rack = escaped(broker.settings.broker_rack or "")
        yield scrape.one(
            "kminion_kafka_broker_info",
            "gauge",
            "Kafka broker information",
            1,
            f'{{address="{host}",broker_id="{broker.node_id}",is_controller="true",port="{port}",rack_id="{rack}"}}',
        )
        yield scrape.one(
            "kminion_kafka_cluster_info",
            "gauge",
            "Kafka cluster information",
            1,
            f'{{broker_count="1",cluster_id="{escaped(broker.cluster_id)}",cluster_version="v4.3",'
            f'controller_id="{broker.node_id}"}}',
        )


def _partitions(scrape: Scrape) -> Iterator[str]:
    partitions = scrape.app.broker.partitions
    image = scrape.app.broker.catalogue.image
    counts = {"open": len(partitions), "loading": len(partitions.loading), "failed": len(partitions.failures)}
    total = sum(topic.partition_count for topic in image)
    # A failed partition may have a log that is still open.
    counts["closed"] = max(total - counts["open"] - counts["loading"], 0)
    yield from scrape.many(
        "kohort_partitions",
        "gauge",
        "Partitions: with an open log, not asked for yet, being opened; failed ones may be open.",
        (f'{{state="{state}"}} {count}' for state, count in counts.items()),
    )
    yield scrape.one("kohort_topics", "gauge", "Topics.", len(image))
    yield scrape.one(
        "kohort_appends_refused_total",
        "counter",
        "Appends that the disk refused.",
        partitions.refusal_count,
    )
    offline = partitions.disks.offline
    yield from scrape.many(
        "kohort_log_directory_offline",
        "gauge",
        "1 when a directory of log.dirs cannot be used, and its partitions with it, else 0.",
        (
            f'{{directory="{escaped(str(directory))}"}} {int(directory in offline)}'
            for directory in dict.fromkeys((*partitions.directories, *offline))
        ),
    )
    copies = list(partitions.copies())
    yield scrape.one(
        "kohort_partitions_moving", "gauge", "Partitions that are being copied to another log directory.", len(copies)
    )
    yield scrape.one(
        "kohort_partition_move_lag_max",
        "gauge",
        "Offsets that the copy which is furthest behind lacks.",
        max((behind for _, _, _, behind in copies), default=0),
    )
    yield from scrape.many(
        "kohort_partition_moves_total",
        "counter",
        "Moves to another log directory that have ended.",
        (f'{{outcome="{outcome}"}} {count}' for outcome, count in scrape.app.broker.moves.ended.items()),
    )
    volumes: list[tuple[str, os.statvfs_result]] = []
    for directory in partitions.directories:
        with suppress(OSError):
            volumes.append((f'{{directory="{escaped(str(directory))}"}}', os.statvfs(directory)))
    yield from scrape.many(
        "kohort_disk_free_bytes",
        "gauge",
        "Room left where the logs are.",
        (f"{label} {disk.f_bavail * disk.f_frsize}" for label, disk in volumes),
    )
    yield from scrape.many(
        "kohort_disk_size_bytes",
        "gauge",
        "Room in all where the logs are.",
        (f"{label} {disk.f_blocks * disk.f_frsize}" for label, disk in volumes),
    )


def _flushing_and_cleaning(scrape: Scrape) -> Iterator[str]:
    flusher = scrape.app.broker.partitions.flusher
    yield scrape.one("kohort_log_flushes_total", "counter", "Logs that were fsynced.", flusher.flushes)
    yield scrape.one(
        "kohort_log_flush_seconds_total",
        "counter",
        "Time that fsyncs took, in worker threads.",
        flusher.flush_ns / 1_000_000_000,
    )
    cleaning = scrape.app.log_manager.cleaning
    yield scrape.one("kohort_log_cleanings_total", "counter", "Passes of the log cleaner.", cleaning.passes)
    yield scrape.one(
        "kohort_log_cleaning_seconds_total",
        "counter",
        "Time that these passes took, in a process of their own.",
        cleaning.busy_ms / 1_000,
    )
    yield scrape.one(
        "kohort_log_cleaning_read_bytes_total", "counter", "Bytes that the cleaner has read.", cleaning.bytes_read
    )
    yield scrape.one(
        "kohort_log_cleaning_written_bytes_total", "counter", "Bytes that the cleaner kept.", cleaning.bytes_written
    )
    yield scrape.one(
        "kohort_log_uncleanable_partitions",
        "gauge",
        "Compacted logs that the cleaner has given up until the next start.",
        cleaning.uncleanable,
    )
