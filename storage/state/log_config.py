"""The settings of one partition's log, in Kafka's words and units; the broker fills them from topic and broker."""

from __future__ import annotations

from dataclasses import dataclass

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Defaults are Kafka's; -1 means no limit for `retention_ms` and `retention_bytes`. Source: Kafka's LogConfig."""

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    compact: bool = False  # cleanup.policy contains compact
    delete: bool = True  # cleanup.policy contains delete
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    producer_id_expiration_ms: int = 86_400_000

    @property
    def longest_segment_ms(self) -> int:
        """How long a segment may take batches: a compacted one must be closed to be cleaned in time."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms
