"""The configs of a topic: all that Kafka 4.4.0 knows, and what Kohort does with each.

`Effective` is what the rest of the broker asks: the topic's override, else the broker's key that stands behind it, else
the default. Configs that Kohort cannot honour are refused with a sentence, never taken and ignored.

Source: Kafka's TopicConfig, LogConfig, ServerTopicConfigSynonyms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.config.config_def import LONG_MAX, ConfigError, ConfigKey, ConfigType, between, by_name, one_of, some_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_DOUBLE, _LIST = ConfigType.DOUBLE, ConfigType.LIST
_CODECS = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_GZIP_LEVEL: dict[str, Any] = {
    "allowed": lambda level: level == -1 or 1 <= level <= 9,
    "allowed_text": "a number from 1 to 9, or -1",
}
_ONLY_LONG_MAX = str(LONG_MAX)


def _throttled(values: tuple[str, ...]) -> bool:
    pairs = [value.split(":") for value in values]
    return values == ("*",) or all(len(pair) == 2 and pair[0].isdigit() and pair[1].isdigit() for pair in pairs)


_THROTTLED: dict[str, Any] = {
    "allowed": _throttled,
    "allowed_text": "* or a list of partition:broker",
}

TOPIC_CONFIGS: Mapping[str, ConfigKey] = by_name(
    (
        ConfigKey("cleanup.policy", _LIST, "delete", "Whether old segments are deleted, or compacted to the last record of each key, or both.", **some_of("compact", "delete"), synonyms=("log.cleanup.policy",)),
        ConfigKey("compression.gzip.level", _INT, "-1", "The level for gzip when the broker compresses.", **_GZIP_LEVEL, synonyms=("compression.gzip.level",)),
        ConfigKey("compression.lz4.level", _INT, "9", "The level for lz4 when the broker compresses.", **between(1, 17), synonyms=("compression.lz4.level",)),
        ConfigKey("compression.type", _STRING, "producer", "The codec of stored batches; `producer` keeps what was sent.", **_CODECS, synonyms=("compression.type",)),
        ConfigKey("compression.zstd.level", _INT, "3", "The level for zstd when the broker compresses.", **between(-131072, 22), synonyms=("compression.zstd.level",)),
        ConfigKey("delete.retention.ms", _LONG, "86400000", "How long the cleaner keeps a tombstone.", **between(0), synonyms=("log.cleaner.delete.retention.ms",)),
        ConfigKey("errors.deadletterqueue.group.enable", _BOOLEAN, "false", "For share groups, which Kohort does not have. Stored, without effect."),
        ConfigKey("file.delete.delay.ms", _LONG, "60000", "How long a removed segment stays on disk under another name.", **between(0), synonyms=("log.segment.delete.delay.ms",)),
        ConfigKey("flush.messages", _LONG, _ONLY_LONG_MAX, "Records after which the log is fsynced; 1 is fsync before every answer.", **between(1), synonyms=("log.flush.interval.messages",)),
        ConfigKey("flush.ms", _LONG, _ONLY_LONG_MAX, "The longest time between two fsyncs of the log.", **between(0), synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms")),
        ConfigKey("follower.replication.throttled.replicas", _LIST, "", "For clusters: which replicas a throttle holds. Stored, without effect on one node.", **_THROTTLED),
        ConfigKey("index.interval.bytes", _INT, "4096", "Bytes of log between two entries of the offset index.", **between(0), synonyms=("log.index.interval.bytes",)),
        ConfigKey("leader.replication.throttled.replicas", _LIST, "", "For clusters: which replicas a throttle holds. Stored, without effect on one node.", **_THROTTLED),
        ConfigKey("local.retention.bytes", _LONG, "-2", "For tiered storage, which Kohort does not have.", **between(-2), synonyms=("log.local.retention.bytes",)),
        ConfigKey("local.retention.ms", _LONG, "-2", "For tiered storage, which Kohort does not have.", **between(-2), synonyms=("log.local.retention.ms",)),
        ConfigKey("max.compaction.lag.ms", _LONG, _ONLY_LONG_MAX, "The longest that a record may stay uncompacted.", **between(1), synonyms=("log.cleaner.max.compaction.lag.ms",)),
        ConfigKey("max.decompressed.message.bytes", _INT, "2147483639", "The largest record that is taken in a compressed batch, in bytes after decompression.", **between(1, 2147483639), synonyms=("max.decompressed.message.bytes",)),
        ConfigKey("max.message.bytes", _INT, "1048588", "The largest record batch that is taken, in bytes.", **between(0), synonyms=("message.max.bytes",)),
        ConfigKey("message.timestamp.after.max.ms", _LONG, "3600000", "How far ahead of the broker's clock a timestamp may lie.", **between(0), synonyms=("log.message.timestamp.after.max.ms",)),
        ConfigKey("message.timestamp.before.max.ms", _LONG, _ONLY_LONG_MAX, "How far behind the broker's clock a timestamp may lie.", **between(0), synonyms=("log.message.timestamp.before.max.ms",)),
        ConfigKey("message.timestamp.type", _STRING, "CreateTime", "Whether timestamps are the producer's or the time of the append.", **one_of("CreateTime", "LogAppendTime"), synonyms=("log.message.timestamp.type",)),
        ConfigKey("min.cleanable.dirty.ratio", _DOUBLE, "0.5", "The share of dirty bytes above which a log is cleaned.", **between(0, 1), synonyms=("log.cleaner.min.cleanable.ratio",)),
        ConfigKey("min.compaction.lag.ms", _LONG, "0", "How long a record stays uncompacted at least.", **between(0), synonyms=("log.cleaner.min.compaction.lag.ms",)),
        ConfigKey("min.insync.replicas", _INT, "1", "Replicas that must have a record; never more than the one there is.", **between(1), synonyms=("min.insync.replicas",)),
        ConfigKey("preallocate", _BOOLEAN, "false", "Whether a new segment gets its full size at once.", synonyms=("log.preallocate",)),
        ConfigKey("remote.copy.lag.bytes", _LONG, "-1", "For tiered storage, which Kohort does not have.", **between(-1)),
        ConfigKey("remote.copy.lag.ms", _LONG, "0", "For tiered storage, which Kohort does not have.", **between(-1)),
        ConfigKey("remote.log.copy.disable", _BOOLEAN, "false", "For tiered storage, which Kohort does not have."),
        ConfigKey("remote.log.delete.on.disable", _BOOLEAN, "false", "For tiered storage, which Kohort does not have."),
        ConfigKey("remote.storage.enable", _BOOLEAN, "false", "For tiered storage, which Kohort does not have."),
        ConfigKey("retention.bytes", _LONG, "-1", "Bytes of a partition beyond which old segments go; -1 for no limit.", synonyms=("log.retention.bytes",)),
        ConfigKey("retention.ms", _LONG, "604800000", "Age beyond which segments go; -1 for no limit.", **between(-1), synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours")),
        ConfigKey("segment.bytes", _INT, "1073741824", "The size at which a new segment begins.", **between(1_048_576), synonyms=("log.segment.bytes",)),
        ConfigKey("segment.index.bytes", _INT, "10485760", "The largest size of an index file.", **between(4), synonyms=("log.index.size.max.bytes",)),
        ConfigKey("segment.jitter.ms", _LONG, "0", "At most so much is taken off `segment.ms`, at random.", **between(0), synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours")),
        ConfigKey("segment.ms", _LONG, "604800000", "The age at which a new segment begins.", **between(1), synonyms=("log.roll.ms", "log.roll.hours")),
        ConfigKey("unclean.leader.election.enable", _BOOLEAN, "false", "For clusters. Stored, without effect on one node.", synonyms=("unclean.leader.election.enable",)),
    )
)  # fmt: skip

_SCALE_MS = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000, "log.roll.hours": 3_600_000, "log.roll.jitter.hours": 3_600_000}  # fmt: skip
# What only tiered storage could honour, with the one value that asks for nothing.
_TIERED = {"remote.storage.enable": "false", "remote.log.copy.disable": "false"}


def validate(overrides: Mapping[str, str | None], changed: Collection[str] | None = None) -> None:
    """Check the overrides of one topic, each alone and together. `changed`: those that are set now; None: all are.

    What Kafka has set and Kohort cannot honour may stay, so that other configs can be changed beside it.

    Raises: ConfigError with a sentence for the client. Source: LogConfig.validate.
    """
    for name, text in overrides.items():
        key = TOPIC_CONFIGS.get(name)
        if key is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        if text is None:
            raise ConfigError(f"Null value not supported for topic configs: {name}")
        value = key.parse(text)
        if name in _TIERED and key.parse(_TIERED[name]) != value:
            raise ConfigError(f"Invalid value {text} for configuration {name}: Kohort has no tiered storage")
        if name == "preallocate" and value and (changed is None or name in changed):
            raise ConfigError(f"Invalid value {text} for configuration {name}: segments grow as they are written")
    minimum = _parsed(overrides, "min.compaction.lag.ms")
    maximum = _parsed(overrides, "max.compaction.lag.ms")
    if minimum > maximum:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({minimum}) > max.compaction.lag.ms ({maximum})"
        )


def _parsed(overrides: Mapping[str, str | None], name: str) -> Any:
    key = TOPIC_CONFIGS[name]
    return key.parse(overrides.get(name, key.default))


def broker_value(key: ConfigKey, broker: Mapping[str, str | None]) -> tuple[str, str] | None:
    """(broker key, value in the topic key's unit) of the first synonym that `broker` sets, or None.

    `broker` holds what was set explicitly, not defaults.
    """
    for synonym in key.synonyms:
        text = broker.get(synonym)
        if text is not None:
            scale = _SCALE_MS.get(synonym, 1)
            return synonym, text if scale == 1 or int(text) < 0 else str(int(text) * scale)
    return None


@dataclass(frozen=True, slots=True)
class Effective:
    """The configs of one topic as the log and the handlers use them. Sizes are bytes, times milliseconds."""

    compact: bool
    delete: bool
    compression_type: str
    gzip_level: int
    lz4_level: int
    zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    max_compaction_lag_ms: int
    max_decompressed_message_bytes: int
    max_message_bytes: int
    timestamp_after_max_ms: int
    timestamp_before_max_ms: int
    log_append_time: bool
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int


def effective(overrides: Mapping[str, str], broker: Mapping[str, str | None]) -> Effective:
    """What holds for a topic with these overrides, on a broker that sets `broker` explicitly.

    An override that came from somebody else's log and no longer parses counts as not there.
    """

    def value(name: str) -> Any:
        key = TOPIC_CONFIGS[name]
        if name in overrides:
            try:
                return key.parse(overrides[name])
            except ConfigError:
                pass
        behind = broker_value(key, broker)
        return key.parse(behind[1] if behind is not None else key.default)

    policy = value("cleanup.policy")
    return Effective(
        compact="compact" in policy,
        delete="delete" in policy,
        compression_type=value("compression.type"),
        gzip_level=value("compression.gzip.level"),
        lz4_level=value("compression.lz4.level"),
        zstd_level=value("compression.zstd.level"),
        delete_retention_ms=value("delete.retention.ms"),
        file_delete_delay_ms=value("file.delete.delay.ms"),
        flush_messages=value("flush.messages"),
        flush_ms=value("flush.ms"),
        index_interval_bytes=value("index.interval.bytes"),
        max_compaction_lag_ms=value("max.compaction.lag.ms"),
        max_decompressed_message_bytes=value("max.decompressed.message.bytes"),
        max_message_bytes=value("max.message.bytes"),
        timestamp_after_max_ms=value("message.timestamp.after.max.ms"),
        timestamp_before_max_ms=value("message.timestamp.before.max.ms"),
        log_append_time=value("message.timestamp.type") == "LogAppendTime",
        min_cleanable_dirty_ratio=value("min.cleanable.dirty.ratio"),
        min_compaction_lag_ms=value("min.compaction.lag.ms"),
        retention_bytes=value("retention.bytes"),
        retention_ms=value("retention.ms"),
        segment_bytes=value("segment.bytes"),
        segment_index_bytes=value("segment.index.bytes"),
        segment_jitter_ms=value("segment.jitter.ms"),
        segment_ms=value("segment.ms"),
    )
