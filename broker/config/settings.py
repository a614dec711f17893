"""The broker's settings: Kafka's property names, types, defaults and limits, each declared once.

`settings.num_partitions` is the value of `num.partitions`: an attribute is its key with `_` for `.`. Values are text
until `Settings` parses them; one that does not parse, or is out of bounds, refuses the start with the key, the value and
what is allowed. Keys that Kafka knows and that have no effect here stand in `broker.config.settings_ignored`.

Defaults are Kafka's, except where one machine with one node calls for another; those are marked `Ours`.

Source: Kafka's AbstractKafkaConfig, SocketServerConfigs, ServerLogConfigs, GroupCoordinatorConfig, CleanerConfig.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from broker.config import listener_keys
from broker.config.config_def import ConfigError, ConfigKey
from broker.config.cordoned import cordoned_directories
from broker.config.listener_keys import LISTENER_PREFIX
from broker.config.security_settings import SecuritySettings
from broker.config.setting_types import (
    Declaration,
    SettingsError,
    decimal,
    flag,
    int16,
    int32,
    int64,
    many,
    password,
    text,
    to_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.config.secret import Secret

_FOREVER = 2**63 - 1
_MAX_INT = 2**31 - 1


class Settings(SecuritySettings):
    """One value per key, as attributes, and where each came from.

    `given` maps keys to text. Those of single listeners (`listener.name.NAME.KEY`) are kept in `of_listeners`, and read
    by `broker.config.listener_settings`. Raises: SettingsError for a key that is not known, and for a value that is not allowed.
    """

    definitions: ClassVar[dict[str, ConfigKey]]

    # Who and where
    node_id: int = int32(1, "The id of this broker; clients see it in Metadata. Ours: 1.", at_least=0)
    broker_id: int = int32(-1, "The older name of node.id, used when that is not given.")
    broker_rack: str | None = text(None, "The rack of this broker, as Metadata tells it.")
    log_dirs: tuple[str, ...] = many("data", "Where the partitions lie, one directory a disk. Ours: ./data.")
    log_dir: str | None = text(None, "The directory when log.dirs is not given.")
    cordoned_log_dirs: tuple[str, ...] = many(
        "", "Those of log.dirs that get no new partitions; * is all of them.", dynamic=True
    )
    metadata_log_dir: str | None = text(None, "Where the metadata log lies; the first of log.dirs when not given.")
    listeners: tuple[str, ...] = many(
        "PLAINTEXT://127.0.0.1:9092",
        "Where to listen: NAME://host:port, port 0 for any free one. Ours: this machine only.",
    )
    advertised_listeners: tuple[str, ...] = many(
        "", "The addresses that clients are told, by listener name; default: those of listeners."
    )
    listener_security_protocol_map: tuple[str, ...] = many(
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "Which protocol each listener name speaks: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    )
    inter_broker_listener_name: str | None = text(None, "Accepted; there is no other broker to talk to.")
    controller_listener_names: tuple[str, ...] = many(
        "", "Listeners of these names are left out: no controller listens."
    )

    # Connections
    socket_request_max_bytes: int = int32(104_857_600, "A longer request closes its connection.", at_least=1)
    telemetry_max_bytes: int = int32(
        1_048_576, "More metrics at once are not taken from a client (KIP-714).", at_least=1
    )
    socket_listen_backlog_size: int = int32(50, "Connections that may wait to be accepted.", at_least=1)
    socket_send_buffer_bytes: int = int32(-1, "SO_SNDBUF; -1 leaves it to the system. Ours: -1.", at_least=-1)
    socket_receive_buffer_bytes: int = int32(-1, "SO_RCVBUF; -1 leaves it to the system. Ours: -1.", at_least=-1)
    connections_max_idle_ms: int = int64(600_000, "A connection idle for longer is closed; negative: never.")
    max_connections: int = int32(_MAX_INT, "Connections at one time.", at_least=0, dynamic=True)
    max_connections_per_ip: int = int32(_MAX_INT, "Connections of one address.", at_least=0, dynamic=True)
    max_connections_per_ip_overrides: tuple[str, ...] = many(
        "", "Other limits for single addresses: address:count,...", dynamic=True
    )
    max_connection_creation_rate: int = int32(
        _MAX_INT, "New connections a second; those over it wait.", at_least=0, dynamic=True
    )
    kohort_unauthenticated_percentage: int = int32(
        10,
        "Percent of a core that connections may take before they have logged in, on listeners with TLS or SASL; those over "
        "it wait. 100: no bound.",
        at_least=1,
        at_most=100,
    )
    kohort_max_inflight_requests: int = int32(
        200, "Unanswered requests of one connection before it is not read any further.", at_least=1
    )
    kohort_max_inflight_bytes: int = int64(
        16_777_216, "Bytes of answers that a peer may leave unread before it is not read any further.", at_least=1
    )
    kohort_memory_max_bytes: int = int64(
        0,
        "Memory of the process that requests are refused or left waiting to keep within; 0: three quarters of what the "
        "container or the machine has.",
        at_least=0,
    )
    kohort_busy_poll_us: int = int32(
        200,
        "After a request the loop looks for the next one for so many microseconds before it sleeps, where clients are "
        "served faster that way; 0: never. Not done with less than two processors.",
        at_least=0,
        at_most=1_000,
    )
    quota_window_num: int = int32(11, "Windows over which the rates of quotas are measured.", at_least=1)
    quota_window_size_seconds: int = int32(1, "Length of such a window.", at_least=1)
    controller_quota_window_num: int = int32(
        11, "Windows whose tokens together controller_mutation_rate allows at once.", at_least=1
    )
    controller_quota_window_size_seconds: int = int32(1, "Length of such a window.", at_least=1)
    request_timeout_ms: int = int32(30_000, "Accepted; requests say themselves how long they wait.")

    # Rights
    authorizer_class_name: str = text(
        "",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer: ACLs say who may do what. Empty: everybody everything.",
        allowed=["", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"],
    )
    super_users: str = text(
        "", "Principals who may everything, with semicolons between: User:admin;User:CN=ops,O=Acme."
    )
    allow_everyone_if_no_acl_found: bool = flag(False, "Where no ACL at all covers a resource, everybody may.")

    # Topics
    auto_create_topics_enable: bool = flag(True, "Metadata and Produce may create topics.")
    delete_topic_enable: bool = flag(True, "Topics may be deleted.")
    num_partitions: int = int32(1, "Partitions of a topic that does not say.", at_least=1)
    default_replication_factor: int = int32(1, "Replicas of a topic that does not say; 1 here.", at_least=1)
    min_insync_replicas: int = int32(1, "Accepted; one node has one replica in sync.", at_least=1, dynamic=True)
    compression_type: str = text(
        "producer",
        "As the topic's.",
        dynamic=True,
        allowed=["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"],
    )
    compression_gzip_level: int = int32(-1, "Level of gzip; -1: its default.", at_least=-1, at_most=9, dynamic=True)
    compression_lz4_level: int = int32(9, "Level of lz4.", at_least=1, at_most=17, dynamic=True)
    compression_zstd_level: int = int32(3, "Level of zstd.", at_least=-131_072, at_most=22, dynamic=True)
    max_decompressed_message_bytes: int = int32(
        2_147_483_639, "Largest record inside a compressed batch, decompressed.", at_least=1, dynamic=True
    )
    message_max_bytes: int = int32(1_048_588, "Largest record batch.", at_least=0, dynamic=True)
    kohort_trusted_topics: tuple[str, ...] = many(
        "", "Topics (* for all) whose producers are trusted: what is inside their compressed batches is not checked."
    )
    max_request_partition_size_limit: int = int32(
        2_000, "Most partitions in one DescribeTopicPartitions answer.", at_least=1
    )
    fetch_max_bytes: int = int32(57_671_680, "Largest answer to a fetch, the first batch apart.", at_least=1_024)
    max_incremental_fetch_session_cache_slots: int = int32(1_000, "Incremental fetch sessions kept.", at_least=0)

    # Logs
    log_segment_bytes: int = int32(
        1_073_741_824, "A segment that would grow beyond is closed.", at_least=1_048_576, dynamic=True
    )
    log_roll_ms: int | None = int64(None, "Age at which a segment is closed; else log.roll.hours.", dynamic=True)
    log_roll_hours: int = int32(168, "Age at which a segment is closed.", at_least=1)
    log_roll_jitter_ms: int | None = int64(None, "Random part of it; else log.roll.jitter.hours.", dynamic=True)
    log_roll_jitter_hours: int = int32(0, "Random part of log.roll.hours.", at_least=0)
    log_index_interval_bytes: int = int32(4_096, "Log bytes between index entries.", at_least=0, dynamic=True)
    log_index_size_max_bytes: int = int32(10_485_760, "Largest index file.", at_least=4, dynamic=True)
    log_preallocate: bool = flag(False, "Accepted; segments grow as they are written.", dynamic=True)
    log_cleanup_policy: tuple[str, ...] = many(
        "delete", "delete, compact, or both.", allowed=["compact", "delete"], dynamic=True
    )
    metadata_log_max_record_bytes_between_snapshots: int = int64(
        20_971_520, "The metadata log gets a snapshot after so many bytes of changes.", at_least=1
    )
    metadata_log_max_snapshot_interval_ms: int = int64(
        3_600_000, "Or after so long, if anything changed; 0: never.", at_least=0
    )
    metadata_max_retention_bytes: int = int64(
        104_857_600, "Of the metadata log and its snapshots; -1: any.", at_least=-1
    )
    metadata_max_retention_ms: int = int64(604_800_000, "Of metadata snapshots but the newest; -1: any.", at_least=-1)
    log_retention_bytes: int = int64(-1, "Largest size of a partition; -1: any.", dynamic=True)
    log_retention_ms: int | None = int64(
        None, "Age at which records go; -1: never; else log.retention.minutes.", at_least=-1, dynamic=True
    )
    log_retention_minutes: int | None = int32(None, "Age at which records go; else log.retention.hours.")
    log_retention_hours: int = int32(168, "Age at which records go.")
    log_retention_check_interval_ms: int = int64(300_000, "How often retention looks.", at_least=1)
    log_segment_delete_delay_ms: int = int64(
        60_000, "How long the files of a deleted segment stay.", at_least=0, dynamic=True
    )
    log_message_timestamp_type: str = text(
        "CreateTime", "Whose time records carry.", dynamic=True, allowed=["CreateTime", "LogAppendTime"]
    )
    log_message_timestamp_before_max_ms: int = int64(
        _FOREVER, "How far in the past a record's time may lie.", at_least=0, dynamic=True
    )
    log_message_timestamp_after_max_ms: int = int64(
        3_600_000, "How far in the future a record's time may lie.", at_least=0, dynamic=True
    )
    num_recovery_threads_per_data_dir: int = int32(2, "Logs recovered side by side.", at_least=1, dynamic=True)
    log_initial_task_delay_ms: int = int64(
        30_000, "How long after the start the first retention, flush and cleaning come.", at_least=0, internal=True
    )

    # Durability
    kohort_durability: str = text(
        "os",
        "os: an answer means written to the page cache, fsynced every log.flush.interval.ms. "
        "always: an answer means fsynced; short for log.flush.interval.messages=1.",
        allowed=["os", "always"],
    )
    log_flush_interval_messages: int = int64(
        _FOREVER, "Records after which a log is fsynced before they count.", at_least=1, dynamic=True
    )
    log_flush_interval_ms: int | None = int64(
        1_000, "Longest time that records stay unsynced. Ours: 1000.", dynamic=True
    )
    log_flush_scheduler_interval_ms: int = int64(_FOREVER, "How often logs due for fsync are looked for.")
    log_flush_offset_checkpoint_interval_ms: int = int32(
        60_000, "How often recovery points are written down.", at_least=0
    )
    log_flush_start_offset_checkpoint_interval_ms: int = int32(
        60_000, "How often log start offsets are written down.", at_least=0
    )
    replica_high_watermark_checkpoint_interval_ms: int = int64(5_000, "How often high watermarks are written down.")

    # Cleaner
    log_cleaner_enable: bool = flag(True, "Compacted logs are compacted.")
    log_cleaner_threads: int = int32(1, "Accepted; one process cleans.", at_least=0, dynamic=True)
    log_cleaner_dedupe_buffer_size: int = int64(134_217_728, "Memory for the keys of one pass.", dynamic=True)
    log_cleaner_io_buffer_size: int = int32(524_288, "Accepted, without effect so far.", at_least=0, dynamic=True)
    log_cleaner_io_buffer_load_factor: float = decimal(0.9, "How full the key table may get.", dynamic=True)
    log_cleaner_io_max_bytes_per_second: float = decimal(
        1.7976931348623157e308, "Accepted, without effect so far.", dynamic=True
    )
    log_cleaner_backoff_ms: int = int64(15_000, "Pause when nothing needs cleaning.", at_least=0, dynamic=True)
    log_cleaner_min_cleanable_ratio: float = decimal(
        0.5, "Share of uncleaned bytes from which a log is cleaned.", at_least=0, at_most=1, dynamic=True
    )
    log_cleaner_min_compaction_lag_ms: int = int64(0, "Age below which nothing is compacted.", at_least=0, dynamic=True)
    log_cleaner_max_compaction_lag_ms: int = int64(
        _FOREVER, "Age at which a log is compacted whatever its ratio.", at_least=1, dynamic=True
    )
    log_cleaner_delete_retention_ms: int = int64(
        86_400_000, "How long tombstones stay readable.", at_least=0, dynamic=True
    )

    # Groups
    group_min_session_timeout_ms: int = int32(6_000, "Shortest session timeout that a member may ask for.")
    group_max_session_timeout_ms: int = int32(1_800_000, "Longest session timeout that a member may ask for.")
    group_initial_rebalance_delay_ms: int = int32(
        3_000, "How long the first rebalance of an empty group waits for more members."
    )
    group_max_size: int = int32(_MAX_INT, "Most members of a group.", at_least=1)
    group_coordinator_rebalance_protocols: tuple[str, ...] = many(
        "classic,consumer,streams",
        "Which protocols members may speak: classic and, if it is named, consumer (KIP-848).",
        allowed=["consumer", "classic", "share", "streams"],
    )
    group_coordinator_append_linger_ms: int = int32(
        -1, "Accepted; a batch holds what one turn of the event loop brought, as -1 says.", at_least=-1
    )
    group_consumer_session_timeout_ms: int = int32(
        45_000, "How long a member of the consumer protocol may be silent.", at_least=1
    )
    group_consumer_min_session_timeout_ms: int = int32(45_000, "Least of it for one group.", at_least=1)
    group_consumer_max_session_timeout_ms: int = int32(60_000, "Most of it for one group.", at_least=1)
    group_consumer_heartbeat_interval_ms: int = int32(
        5_000, "How often such a member is told to say that it is alive.", at_least=1
    )
    group_consumer_min_heartbeat_interval_ms: int = int32(5_000, "Least of it for one group.", at_least=1)
    group_consumer_max_heartbeat_interval_ms: int = int32(15_000, "Most of it for one group.", at_least=1)
    group_consumer_assignment_interval_ms: int = int32(
        1_000, "How long a target assignment of such a group stays at least.", at_least=0
    )
    group_consumer_min_assignment_interval_ms: int = int32(0, "Least of it for one group.", at_least=0)
    group_consumer_max_assignment_interval_ms: int = int32(15_000, "Most of it for one group.", at_least=0)
    group_consumer_max_size: int = int32(_MAX_INT, "Most members of such a group.", at_least=1)
    group_consumer_assignors: tuple[str, ...] = many(
        "uniform,range", "Assignors of such groups; the first for who names none.", allowed=["uniform", "range"]
    )
    group_consumer_regex_refresh_interval_ms: int = int32(
        600_000, "How long the topics of a regular expression stay at most.", at_least=10_000
    )
    group_consumer_migration_policy: str = text(
        "bidirectional",
        "Whether groups with members change between the classic and the consumer protocol.",
        allowed=["bidirectional", "upgrade", "downgrade", "disabled"],
    )
    offset_metadata_max_bytes: int = int32(4_096, "Longest metadata of a committed offset, in UTF-16 units.")
    offsets_commit_timeout_ms: int = int32(
        5_000,
        "How long a request of a group waits for its records to be on disk, if durability wants that.",
        at_least=1,
    )
    offsets_load_buffer_size: int = int32(5_242_880, "Bytes read at a time when groups are loaded.", at_least=1)
    offsets_retention_minutes: int = int32(10_080, "How long the offsets of a group without members stay.", at_least=1)
    offsets_retention_check_interval_ms: int = int64(600_000, "How often expired offsets are looked for.", at_least=1)
    offsets_topic_num_partitions: int = int32(50, "Partitions of __consumer_offsets when it is created.", at_least=1)
    offsets_topic_replication_factor: int = int16(1, "Accepted; there is one replica. Ours: 1.", at_least=1)
    offsets_topic_segment_bytes: int = int32(104_857_600, "Segment size of __consumer_offsets.", at_least=1)
    offsets_topic_compression_codec: int = int32(0, "Codec of the offset records: 0 none, 1 gzip, 2 snappy, ...")

    # Producers
    producer_id_expiration_ms: int = int32(86_400_000, "How long a silent producer is known.", at_least=1, dynamic=True)
    producer_id_expiration_check_interval_ms: int = int32(
        600_000, "How often silent producers are looked for.", at_least=1, internal=True
    )
    transaction_partition_verification_enable: bool = flag(
        True, "A partition opens a transaction only when the transaction coordinator knows of it.", dynamic=True
    )
    add_partitions_to_txn_retry_backoff_ms: int = int32(
        20, "Wait before a partition asks again to join a transaction whose predecessor is being ended.", at_least=1
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = int32(
        100, "How long a partition asks again before the producer is told to come later.", at_least=0
    )
    transaction_max_timeout_ms: int = int32(
        900_000, "Longest timeout of a transaction that a producer may ask for.", at_least=1
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = int32(
        10_000, "Accepted; a transaction is aborted when its time is out, not when somebody looks.", at_least=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = int32(
        3_600_000, "How often transactional ids are looked for that nobody uses any more.", at_least=1
    )
    transactional_id_expiration_ms: int = int32(
        604_800_000, "How long a transactional id is known that nobody uses.", at_least=1
    )
    transaction_state_log_num_partitions: int = int32(
        50, "Partitions of __transaction_state when it is created.", at_least=1
    )
    transaction_state_log_replication_factor: int = int16(1, "Accepted; there is one replica. Ours: 1.", at_least=1)
    transaction_state_log_min_isr: int = int32(1, "Accepted; there is one replica. Ours: 1.", at_least=1)
    transaction_state_log_segment_bytes: int = int32(104_857_600, "Segment size of __transaction_state.", at_least=1)
    transaction_state_log_load_buffer_size: int = int32(
        5_242_880, "Bytes read at a time when transactional ids are loaded.", at_least=1
    )
    transaction_two_phase_commit_enable: bool = flag(
        False, "A transaction may be left to somebody else to decide, and then has no timeout (KIP-939)."
    )

    # Ourselves
    kohort_ledger_enable: bool = flag(
        True, "Every rebalance is written to the topic __kohort_rebalances (docs/rebalance-ledger.md)."
    )
    kohort_http_listener: str = text(
        "127.0.0.1:9644",
        "Where /metrics, /healthz, /readyz and /groups are served over HTTP: host:port, port 0 for any free one; "
        "empty: nowhere.",
    )
    kohort_http_protocol: str = text(
        "HTTP",
        "HTTPS: over TLS, with the keys of ssl.*, or of listener.name.http.ssl.* where those are there.",
        allowed=["HTTP", "HTTPS"],
    )
    kohort_http_token: Secret | None = password("Who asks over HTTP shows it: Authorization: Bearer TOKEN.")
    kohort_http_basic_auth: Secret | None = password("As user:password: who asks over HTTP shows both.")
    kohort_http_metrics_partitions: bool = flag(
        True, "Metrics have a series for each partition; without: sums by topic and group.", dynamic=True
    )
    kohort_http_metrics_groups: bool = flag(
        True, "Metrics have a series for each group; without: sums over all groups.", dynamic=True
    )
    kohort_http_metrics_kminion: bool = flag(
        False, "What KMinion measures stands in the metrics under its names too.", dynamic=True
    )
    kohort_log_level: str = text(
        "info", "Least level that is logged.", allowed=["debug", "info", "warn", "error", "off"]
    )
    kohort_log_format: str = text("text", "Kafka-like lines, or one JSON object per line.", allowed=["text", "json"])

    def __init__(self, given: Mapping[str, str] | None = None, *, cluster_id: str | None = None) -> None:
        self.given: dict[str, str] = {}
        self.of_listeners: dict[str, str] = {}
        for key, value in (given or {}).items():
            (self.of_listeners if key.lower().startswith(LISTENER_PREFIX) else self.given)[key] = value
        self._of_listeners_at_start = self.of_listeners
        self.cluster_id = cluster_id  # what a fresh directory is to be given; None: a random one
        self.cluster_overrides: dict[str, str] = {}
        self.broker_overrides: dict[str, str] = {}
        self._observers: list[Callable[[], None]] = []
        for key in self.given:
            if key not in self.definitions:
                raise SettingsError(f"{key}: there is no such setting")
        self._expand_durability()
        for definition in self.definitions.values():
            setattr(self, _attribute(definition), self._value(definition))
        self._check()

    # --- derived values

    @property
    def retention_ms(self) -> int:
        """The broker's default of `retention.ms`; -1: for ever."""
        for value, unit_ms in (
            (self.log_retention_ms, 1),
            (self.log_retention_minutes, 60_000),
            (self.log_retention_hours, 3_600_000),
        ):
            if value is not None:
                return value * unit_ms if value >= 0 else -1
        raise AssertionError

    @property
    def cordoned(self) -> frozenset[Path]:
        """The log directories that get no new partitions. Entries that are none of log.dirs any more are left out."""
        known = {Path(one).absolute() for one in self.log_dirs}
        named = self.cordoned_log_dirs
        return frozenset(known if "*" in named else known & {Path(one).absolute() for one in named})

    @property
    def static(self) -> dict[str, str | None]:
        """What was set at start, and those of our own defaults that are not Kafka's and stand behind topic configs."""
        flush_ms = to_text(self.log_flush_interval_ms)
        return {"log.flush.interval.ms": flush_ms, **self.given, **self._of_listeners_at_start}

    @property
    def explicit(self) -> dict[str, str | None]:
        """What stands behind the topics' configs: the values that were set, and those of our own defaults."""
        explicit = self.static
        explicit.update(self.cluster_overrides)
        explicit.update(self.broker_overrides)
        return explicit

    # --- what DescribeConfigs and AlterConfigs ask

    def text_of(self, key: str) -> str | None:
        """The value as Kafka prints it; None for one that is absent. Raises: KeyError."""
        return to_text(getattr(self, _attribute(self.definitions[key])))

    def check_dynamic(self, key: str, value: str) -> None:
        """Raises: SettingsError when the key cannot be changed while running, or not to this value."""
        definition = self.definitions.get(key)
        if definition is None:
            raise SettingsError(f"{key}: there is no such setting")
        if definition.read_only:
            raise SettingsError(f"{key} cannot be changed while the broker runs")
        _parsed(definition, value)

    def apply_dynamic(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Take over all dynamic overrides, of the cluster default and of this broker, and tell who asked to know.

        An override that is not (or no longer) allowed is passed over: it was checked when it was made, perhaps by
        another version.
        """
        self._take(cluster, broker)
        for listener in self._observers:
            listener()

    def with_overrides(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> Settings:
        """What all settings would be under these dynamic overrides; nobody is told."""
        made = copy(self)
        made._observers = []
        made._take(cluster, broker)
        return made

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever dynamic overrides have been applied."""
        self._observers.append(listener)

    def _take(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        self.cluster_overrides = self._allowed(
            {key: value for key, value in cluster.items() if key not in listener_keys.FOR_ALL}
        )
        self.broker_overrides = self._allowed(broker)
        self.of_listeners = {**self._of_listeners_at_start, **listener_keys.overrides(cluster, broker)}
        for definition in self.definitions.values():
            if not definition.read_only:
                setattr(self, _attribute(definition), self._value(definition))

    def _allowed(self, overrides: Mapping[str, str]) -> dict[str, str]:
        allowed = {}
        for key, value in overrides.items():
            try:
                self.check_dynamic(key, value)
            except SettingsError:
                continue
            allowed[key] = value
        return allowed

    def _value(self, definition: ConfigKey) -> Any:
        for layer in (self.broker_overrides, self.cluster_overrides, self.given):
            if definition.name in layer:
                return _parsed(definition, layer[definition.name])
        return _defaults()[definition.name]

    # --- what no single value shows

    def _expand_durability(self) -> None:
        if self.given.get("kohort.durability", "os").strip() != "always":
            return
        messages = self.given.get("log.flush.interval.messages", "1")
        if messages.strip() != "1":
            raise SettingsError(
                "kohort.durability=always is short for log.flush.interval.messages=1, "
                f"but that is set to {messages}: leave one of them out"
            )
        self.given["log.flush.interval.messages"] = "1"

    def _check(self) -> None:
        if "broker.id" in self.given:
            if "node.id" not in self.given:
                self.node_id = self.broker_id
            if self.broker_id < 0 or self.broker_id != self.node_id:
                allowed = f"{self.node_id}, which is node.id" if self.node_id >= 0 else "a number of at least 0"
                raise SettingsError(f"broker.id={self.broker_id}: it takes {allowed}")
        if "log.dirs" not in self.given and self.log_dir is not None:
            self.log_dirs = (self.log_dir,)
        if not all(self.log_dirs) or len(set(self.log_dirs)) != len(self.log_dirs) or not self.log_dirs:
            raise SettingsError(f"log.dirs={','.join(self.log_dirs)}: it takes directories, each once")
        try:
            cordoned_directories(self.cordoned_log_dirs, self.log_dirs)
        except ConfigError as error:
            raise SettingsError(f"cordoned.log.dirs={','.join(self.cordoned_log_dirs)}: {error}") from None
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise SettingsError(
                f"group.min.session.timeout.ms={self.group_min_session_timeout_ms}: it takes a number of at most "
                f"group.max.session.timeout.ms, which is {self.group_max_session_timeout_ms}"
            )
        for one in filter(None, map(str.strip, self.super_users.split(";"))):
            if ":" not in one:
                raise SettingsError(
                    f"super.users={self.super_users}: it takes Type:name;Type:name, and {one} has no type"
                )
        self._check_consumer_groups()
        if "classic" not in self.group_coordinator_rebalance_protocols:
            protocols = ",".join(self.group_coordinator_rebalance_protocols)
            raise SettingsError(
                f"group.coordinator.rebalance.protocols={protocols}: it takes a list with classic in it"
            )

    def _check_consumer_groups(self) -> None:
        for what in ("session_timeout", "heartbeat_interval", "assignment_interval"):
            value = getattr(self, f"group_consumer_{what}_ms")
            least, most = getattr(self, f"group_consumer_min_{what}_ms"), getattr(self, f"group_consumer_max_{what}_ms")
            if not least <= value <= most:
                name = f"group.consumer.{what.replace('_', '.')}.ms"
                raise SettingsError(f"{name}={value}: it takes a number from {least} to {most}, as min and max say")
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise SettingsError(
                f"group.consumer.heartbeat.interval.ms={self.group_consumer_heartbeat_interval_ms}: it takes a number "
                f"below group.consumer.session.timeout.ms, which is {self.group_consumer_session_timeout_ms}"
            )
        if not self.group_consumer_assignors:
            raise SettingsError("group.consumer.assignors: it takes at least one assignor")


def _attribute(definition: ConfigKey) -> str:
    return definition.name.replace(".", "_")


@cache
def _defaults() -> dict[str, Any]:
    """What nobody has set, parsed once: a process may serve one broker after the other."""
    return {name: definition.parse(definition.default) for name, definition in Settings.definitions.items()}


def _parsed(definition: ConfigKey, value: str) -> Any:
    try:
        return definition.parse(value)
    except ConfigError as error:
        raise SettingsError(str(error)) from None


def _definitions() -> dict[str, ConfigKey]:
    found = {}
    for declared_in in (SecuritySettings, Settings):
        for attribute, declaration in list(vars(declared_in).items()):
            if isinstance(declaration, Declaration):
                key = declaration.key(attribute.replace("_", "."))
                found[key.name] = key
                if declaration.internal:
                    INTERNAL.add(key.name)
                delattr(declared_in, attribute)
    return found


INTERNAL: set[str] = set()
"""Keys that can be set, and that DescribeConfigs does not list."""
Settings.definitions = _definitions()
