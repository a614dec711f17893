"""What one topic's configuration means for its partitions, resolved to plain numbers once per change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from storage.log.partition_log import SHARED_TAIL
from storage.state.log_config import INT64_MAX, LogConfig

if TYPE_CHECKING:
    from broker.config.topic_configs import Effective
    from storage.state.tail import TailBudget

ANY_RECORD_BYTES = 2_147_483_639
"""The default of `max.decompressed.message.bytes`, which holds nothing back: Java has no longer arrays."""

COMPRESSION_CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""`compression.type` to the codec of a batch's attributes; `producer` (keep what was sent) is not among them."""


_ONLY_OURS = frozenset({"__consumer_offsets", "__transaction_state"})


def tail_of(topic: str) -> TailBudget | None:
    """Where the logs of a topic keep their newest batches for readers who wait; None where only loading ever reads."""
    return None if topic in _ONLY_OURS else SHARED_TAIL


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """The settings that appending and reading look at. Defaults are Kafka's. Source: Kafka's LogConfig."""

    max_message_bytes: int = 1_048_588
    max_decompressed_message_bytes: int = ANY_RECORD_BYTES
    log_append_time: bool = False
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = 3_600_000
    compression_codec: int = -1  # -1: as the producer sent it
    compression_level: int | None = None
    trusted: bool = False  # what is inside compressed batches is looked at only where the topic's meaning depends on it
    log: LogConfig = field(default_factory=LogConfig)


def partition_settings(
    topic: Effective, *, producer_id_expiration_ms: int = 86_400_000, trusted: bool = False
) -> PartitionSettings:
    """The settings of a topic's partitions in its effective configuration. `trusted`: by `kohort.trusted.topics`."""
    codec = COMPRESSION_CODECS.get(topic.compression_type, -1)
    levels = {1: topic.gzip_level, 3: topic.lz4_level, 4: topic.zstd_level}
    return PartitionSettings(
        max_message_bytes=topic.max_message_bytes,
        max_decompressed_message_bytes=topic.max_decompressed_message_bytes,
        log_append_time=topic.log_append_time,
        timestamp_before_max_ms=topic.timestamp_before_max_ms,
        timestamp_after_max_ms=topic.timestamp_after_max_ms,
        compression_codec=codec,
        compression_level=levels.get(codec),
        # Keys, old timestamps, long records and another codec are only seen by looking inside.
        trusted=trusted
        and not topic.compact
        and topic.timestamp_before_max_ms == INT64_MAX
        and topic.max_decompressed_message_bytes == ANY_RECORD_BYTES
        and codec < 0,
        log=LogConfig(
            segment_bytes=topic.segment_bytes,
            segment_ms=topic.segment_ms,
            segment_jitter_ms=topic.segment_jitter_ms,
            segment_index_bytes=topic.segment_index_bytes,
            index_interval_bytes=topic.index_interval_bytes,
            retention_ms=topic.retention_ms,
            retention_bytes=topic.retention_bytes,
            compact=topic.compact,
            delete=topic.delete,
            min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
            min_compaction_lag_ms=topic.min_compaction_lag_ms,
            max_compaction_lag_ms=topic.max_compaction_lag_ms,
            delete_retention_ms=topic.delete_retention_ms,
            file_delete_delay_ms=topic.file_delete_delay_ms,
            flush_messages=topic.flush_messages,
            flush_ms=topic.flush_ms,
            producer_id_expiration_ms=producer_id_expiration_ms,
        ),
    )
