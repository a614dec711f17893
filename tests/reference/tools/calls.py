"""The calls of Kafka's tools that are compared: an id, the class, its words, what it reads on standard input.

Before the first call there are topics `living`, `open` and `copied`,
          a classic group and one of KIP-848 with a member each
that stays, and a producer with a transaction in `open` (`Background` in test_tools.py).
"""

from __future__ import annotations

from typing import NamedTuple

_TOOLS = "org.apache.kafka.tools."
SERVER, FILES = "<server>", "<files>"  # replaced by the broker's address, and by a folder of small files
REASSIGNMENT = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1]}]}'
RECORDS = '{"version":1,"partitions":[{"topic":"orders","partition":0,"offset":1}]}'
ELECTION = '{"partitions":[{"topic":"orders","partition":0}]}'
ELECTIONS_OF_NOBODY = '{"partitions":[{"topic":"nobody","partition":0}]}'
ELSEWHERE = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[7]}]}'
OFFSETS = "orders,0,2\n"
CONTROLLER = """process.roles=controller
node.id=2
log.dirs={folder}/controller
controller.listener.names=CONTROLLER
listeners=CONTROLLER://localhost:1
controller.quorum.bootstrap.servers=localhost:1
"""
META = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=2\ndirectory.id=BBBBBBBBBBBBBBBBBBBBBA\n"
METRICS = "interval.ms=2000\n"
TOPICS_TO_MOVE = '{"version":1,"topics":[{"topic":"orders"}]}'


class Call(NamedTuple):
    """One call."""

    id: str
    tool: str
    words: tuple[str, ...]
    stdin: str = ""
    patience_s: float = 30
    """After which the tool is left alone; some go on for ever."""
    until: str = ""
    """What it prints at last, though its main has come back."""


def _call(
    id_: str, tool: str, *words: str, stdin: str = "", last: bool = False, option: str = "--bootstrap-server"
) -> Call:
    """`last`: the broker is named behind the words."""
    name = tool if tool.startswith("kafka.") else _TOOLS + tool
    server = (option, SERVER)
    return Call(id_, name, (*words, *server) if last else (*server, *words), stdin)


_CONFIGS = "kafka.admin.ConfigCommand"
_GROUPS = "consumer.group.ConsumerGroupCommand"

_TOPICS = "TopicCommand"
_MOVES = "reassign.ReassignPartitionsCommand"
_TOKENS = "DelegationTokenCommand"
_QUORUM = "MetadataQuorumCommand"
_FEATURES = "FeatureCommand"
_TRANSACTIONS = "TransactionsCommand"
_METRICS = "ClientMetricsCommand"
_ELECTION = "LeaderElectionCommand"
_SHARE = "consumer.group.ShareGroupCommand"
_STREAMS = "streams.StreamsGroupCommand"
_ACLS = "AclCommand"
_NO_FILE = ("--command-config", f"{FILES}/empty.properties")


def _configs(id_: str, kind: str, name: str, *words: str) -> Call:
    """Of one entity; an empty name is the default one's."""
    entity = ("--entity-name", name) if name else ("--entity-default",)
    return _call(f"configs-{id_}", _CONFIGS, "--entity-type", kind, *entity, *words)


CALLS = (
    _call("topics-create", "TopicCommand", "--create", "--topic", "orders", "--partitions", "1"),
    _call("topics-create-again", "TopicCommand", "--create", "--topic", "orders"),
    _call("topics-create-compacted", "TopicCommand", "--create", "--topic", "t", "--config", "cleanup.policy=compact"),
    _call("topics-create-perf", "TopicCommand", "--create", "--topic", "perf", "--partitions", "1"),
    _call("topics-create-wrong", "TopicCommand", "--create", "--topic", "w", "--config", "cleanup.policy=sometimes"),
    _call("topics-list", "TopicCommand", "--list", "--exclude-internal"),
    _call("topics-describe", "TopicCommand", "--describe", "--topic", "orders"),
    _call("topics-describe-none", "TopicCommand", "--describe", "--topic", "nobody"),
    _call("topics-alter", "TopicCommand", "--alter", "--topic", "t", "--partitions", "3"),
    _call("topics-under-replicated", "TopicCommand", "--describe", "--under-replicated-partitions"),
    _call("console-producer", "ConsoleProducer", "--topic", "orders", stdin="a\nb\nc\n"),
    _call("console-consumer", "consumer.ConsoleConsumer", "--topic", "orders", "--from-beginning", "--max-messages",
          "3", "--group", "readers"),
    _call("producer-perf", "ProducerPerformance", "--topic", "perf", "--num-records", "100", "--record-size", "10",
          "--throughput", "-1"),
    _call("consumer-perf", "ConsumerPerformance", "--topic", "perf", "--messages", "10", "--hide-header", "--group",
          "measured"),
    _call("verifiable-producer", "VerifiableProducer", "--topic", "orders", "--max-messages", "10"),
    _call("verifiable-consumer", "VerifiableConsumer", "--topic", "orders", "--group-id", "verified", "--max-messages",
          "5", "--reset-policy", "earliest"),
    _call("end-to-end", "EndToEndLatency", "--topic", "perf", "--num-records", "10", "--producer-acks", "all",
          "--record-size", "10"),
    _call("get-offsets", "GetOffsetShell", "--topic", "orders"),
    _call("get-offsets-earliest", "GetOffsetShell", "--topic-partitions", "orders:0", "--time", "earliest"),
    _call("get-offsets-latest-tiered", "GetOffsetShell", "--topic", "orders", "--time", "latest-tiered"),
    _call("delete-records", "DeleteRecordsCommand", "--offset-json-file", f"{FILES}/records.json"),
    _call("groups-list", _GROUPS, "--list"),
    _call("groups-state", _GROUPS, "--list", "--state"),
    _call("groups-describe", _GROUPS, "--describe", "--group", "readers"),
    _call("groups-describe-state", _GROUPS, "--describe", "--group", "readers", "--state"),
    _call("groups-describe-none", _GROUPS, "--describe", "--group", "nobody"),
    _call("groups-reset", _GROUPS, "--reset-offsets", "--group", "readers", "--topic", "orders", "--to-earliest",
          "--dry-run"),
    _call("groups-delete-offsets", _GROUPS, "--delete-offsets", "--group", "readers", "--topic", "orders"),
    _call("groups-delete", _GROUPS, "--delete", "--group", "readers"),
    _call("groups-delete-none", _GROUPS, "--delete", "--group", "nobody"),
    _call("all-groups", "GroupsCommand", "--list"),
    _call("configs-topic-alter", _CONFIGS, "--entity-type", "topics", "--entity-name", "orders", "--alter",
          "--add-config", "retention.ms=100000"),
    _call("configs-topic", _CONFIGS, "--entity-type", "topics", "--entity-name", "orders", "--describe"),
    _call("configs-broker-alter", _CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--alter",
          "--add-config", "log.cleaner.threads=2"),
    _call("configs-broker", _CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe"),
    _call("configs-brokers", _CONFIGS, "--entity-type", "brokers", "--describe"),
    _call("configs-brokers-alter", _CONFIGS, "--entity-type", "brokers", "--entity-default", "--alter", "--add-config",
          "background.threads=12"),
    _call("configs-brokers-default", _CONFIGS, "--entity-type", "brokers", "--entity-default", "--describe"),
    _call("configs-broker-static", _CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--alter",
          "--add-config", "node.id=2"),
    _call("configs-group", _CONFIGS, "--entity-type", "groups", "--entity-name", "readers", "--alter", "--add-config",
          "consumer.session.timeout.ms=50000"),
    _call("configs-groups", _CONFIGS, "--entity-type", "groups", "--entity-name", "readers", "--describe"),
    _call("configs-client-metrics", _CONFIGS, "--entity-type", "client-metrics", "--entity-name", "s", "--alter",
          "--add-config", "interval.ms=1000"),
    _call("configs-loggers", _CONFIGS, "--entity-type", "broker-loggers", "--entity-name", "1", "--alter",
          "--add-config", "org.apache.kafka.nobody=DEBUG"),
    _call("configs-loggers-root", _CONFIGS, "--entity-type", "broker-loggers", "--entity-name", "1", "--alter",
          "--add-config", "root=WARN"),
    _call("configs-loggers-describe", _CONFIGS, "--entity-type", "broker-loggers", "--entity-name", "1", "--describe"),
    _call("configs-loggers-delete-root", _CONFIGS, "--entity-type", "broker-loggers", "--entity-name", "1", "--alter",
          "--delete-config", "root"),
    _call("client-metrics-list", "ClientMetricsCommand", "--list"),
    _call("client-metrics-describe", "ClientMetricsCommand", "--describe"),
    _call("client-metrics-delete", "ClientMetricsCommand", "--delete", "--name", "s"),
    _call("features", "FeatureCommand", "describe"),
    _call("features-unknown", "FeatureCommand", "upgrade", "--feature", "nobody=1"),
    _call("features-mapping", "FeatureCommand", "version-mapping"),
    _call("quorum-status", "MetadataQuorumCommand", "describe", "--status"),
    _call("quorum-replication", "MetadataQuorumCommand", "describe", "--replication"),
    _call("cluster-id", "ClusterTool", "cluster-id", last=True),
    _call("cluster-endpoints", "ClusterTool", "list-endpoints", last=True),
    _call("cluster-unregister", "ClusterTool", "unregister", "--id", "7", last=True),
    _call("log-dirs", "LogDirsCommand", "--describe", "--topic-list", "orders"),
    _call("api-versions", "BrokerApiVersionsCommand"),
    _call("transactions-list", "TransactionsCommand", "list"),
    _call("transactions-producers", "TransactionsCommand", "describe-producers", "--topic", "orders", "--partition",
          "0"),
    _call("transactions-hanging", "TransactionsCommand", "find-hanging", "--broker-id", "1"),
    _call("leader-election", "LeaderElectionCommand", "--election-type", "preferred", "--path-to-json-file",
          f"{FILES}/election.json"),
    _call("reassign-generate", "reassign.ReassignPartitionsCommand", "--generate", "--broker-list", "1",
          "--topics-to-move-json-file", f"{FILES}/topics.json"),
    _call("reassign-list", "reassign.ReassignPartitionsCommand", "--list"),
    _call("delegation-tokens", "DelegationTokenCommand", "--describe", "--command-config", f"{FILES}/empty.properties"),
    _call("topics-delete", "TopicCommand", "--delete", "--topic", "t"),
    _call("topics-delete-none", "TopicCommand", "--delete", "--topic", "nobody"),
    _call("topics-create-if-not-there", _TOPICS, "--create", "--topic", "orders", "--if-not-exists"),
    _call("topics-create-assigned", _TOPICS, "--create", "--topic", "assigned", "--replica-assignment", "1,1"),
    _call("topics-create-three-replicas", _TOPICS, "--create", "--topic", "three", "--replication-factor", "3"),
    _call("topics-create-elsewhere", _TOPICS, "--create", "--topic", "elsewhere", "--replica-assignment", "7"),
    _call("topics-create-none", _TOPICS, "--create", "--topic", "none", "--partitions", "0"),
    _call("topics-create-bad-name", _TOPICS, "--create", "--topic", "a b"),
    _call("topics-alter-fewer", _TOPICS, "--alter", "--topic", "assigned", "--partitions", "1"),
    _call("topics-alter-none", _TOPICS, "--alter", "--topic", "nobody", "--partitions", "3"),
    _call("topics-alter-if-there", _TOPICS, "--alter", "--topic", "nobody", "--partitions", "3", "--if-exists"),
    _call("topics-alter-assigned", _TOPICS, "--alter", "--topic", "assigned", "--partitions", "3",
          "--replica-assignment", "1,1,1"),
    _call("topics-describe-unavailable", _TOPICS, "--describe", "--unavailable-partitions"),
    _call("topics-describe-under-min", _TOPICS, "--describe", "--under-min-isr-partitions"),
    _call("topics-describe-overrides", _TOPICS, "--describe", "--topics-with-overrides"),
    _call("topics-describe-size-one", _TOPICS, "--describe", "--topic", "assigned",
          "--partition-size-limit-per-response",
          "1"),
    _call("console-producer-keys", "ConsoleProducer", "--topic", "assigned", "--reader-property", "parse.key=true",
          "--reader-property", "key.separator=:", "--compression-codec", "zstd", stdin="a:1\nb:2\nc:3\n"),
    _call("console-producer-no-topic", "ConsoleProducer", "--topic", "a b", "--command-property", "max.block.ms=500",
          stdin="a\n"),
    _call("console-consumer-committed", "consumer.ConsoleConsumer", "--topic", "assigned", "--from-beginning",
          "--max-messages", "3", "--isolation-level", "read_committed", "--formatter-property", "print.key=true",
          "--formatter-property", "print.offset=true"),
    _call("console-consumer-offset", "consumer.ConsoleConsumer", "--topic", "orders", "--partition", "0", "--offset",
          "1",
          "--max-messages", "2"),
    _call("console-consumer-new-protocol", "consumer.ConsoleConsumer", "--topic", "orders", "--from-beginning",
          "--max-messages", "3", "--group", "new", "--command-property", "group.protocol=consumer"),
    _call("console-consumer-open", "consumer.ConsoleConsumer", "--topic", "open", "--from-beginning", "--timeout-ms",
          "1000", "--isolation-level", "read_committed"),
    _call("producer-perf-transactions", "ProducerPerformance", "--topic", "perf", "--num-records", "50",
          "--record-size",
          "10", "--throughput", "-1", "--transactional-id", "measured", "--transaction-duration-ms", "100"),
    _call("verifiable-producer-acks", "VerifiableProducer", "--topic", "orders", "--max-messages", "3", "--acks", "0",
          "--throughput", "100"),
    _call("verifiable-consumer-new", "VerifiableConsumer", "--topic", "orders", "--group-id", "verified-new",
          "--max-messages", "5", "--reset-policy", "earliest", "--group-protocol", "consumer"),
    _call("verifiable-consumer-static", "VerifiableConsumer", "--topic", "orders", "--group-id", "verified-static",
          "--group-instance-id", "one", "--max-messages", "5", "--reset-policy", "earliest", "--enable-autocommit"),
    _call("copier", "TransactionalMessageCopier", "--input-topic", "orders", "--input-partition", "0", "--output-topic",
          "copied", "--consumer-group", "copiers", "--transactional-id", "copier", "--max-messages", "4",
          "--transaction-size", "2", "--use-group-metadata", option="--broker-list"),
    _call("compatibility", "ClientCompatibilityTest", "--topic", "living", "--offsets-for-times-supported", "true",
          "--cluster-id-supported", "true", "--expect-record-too-large-exception", "false", "--num-cluster-nodes", "1",
          "--create-topics-supported", "true", "--describe-acls-supported", "true", "--describe-configs-supported",
          "true", "--idempotent-producer-supported", "true"),
    _call("get-offsets-all", "GetOffsetShell", "--exclude-internal-topics"),
    _call("get-offsets-partitions", "GetOffsetShell", "--topic", "assigned", "--partitions", "0,2", "--time", "-1"),
    _call("get-offsets-local", "GetOffsetShell", "--topic", "orders", "--time", "earliest-local"),
    _call("get-offsets-greatest", "GetOffsetShell", "--topic", "copied", "--time", "max-timestamp"),
    _call("get-offsets-pending-upload", "GetOffsetShell", "--topic", "orders", "--time", "earliest-pending-upload"),
    _call("get-offsets-time", "GetOffsetShell", "--topic", "orders", "--time", "1000"),
    _call("get-offsets-future", "GetOffsetShell", "--topic", "orders", "--time", "9999999999999"),
    _call("get-offsets-none", "GetOffsetShell", "--topic", "nobody"),
    _call("delete-records-beyond", "DeleteRecordsCommand", "--offset-json-file", f"{FILES}/records-beyond.json"),
    _call("groups-members", _GROUPS, "--describe", "--group", "living", "--members"),
    _call("groups-members-verbose", _GROUPS, "--describe", "--group", "living", "--members", "--verbose"),
    _call("groups-living", _GROUPS, "--describe", "--group", "living"),
    _call("groups-living-verbose", _GROUPS, "--describe", "--group", "living", "--verbose"),
    _call("groups-living-state", _GROUPS, "--describe", "--group", "living", "--state"),
    _call("groups-living-state-verbose", _GROUPS, "--describe", "--group", "living", "--state", "--verbose"),
    _call("groups-new-members", _GROUPS, "--describe", "--group", "living-new", "--members"),
    _call("groups-new-members-verbose", _GROUPS, "--describe", "--group", "living-new", "--members", "--verbose"),
    _call("groups-new", _GROUPS, "--describe", "--group", "living-new"),
    _call("groups-new-verbose", _GROUPS, "--describe", "--group", "living-new", "--verbose"),
    _call("groups-new-state", _GROUPS, "--describe", "--group", "living-new", "--state"),
    _call("groups-new-state-verbose", _GROUPS, "--describe", "--group", "living-new", "--state", "--verbose"),
    _call("groups-members-none", _GROUPS, "--describe", "--group", "nobody", "--members"),
    _call("groups-state-none", _GROUPS, "--describe", "--group", "nobody", "--state"),
    _call("groups-all", _GROUPS, "--describe", "--all-groups", "--state"),
    _call("groups-list-stable", _GROUPS, "--list", "--state", "stable"),
    _call("groups-list-classic", _GROUPS, "--list", "--type", "classic"),
    _call("groups-list-consumer", _GROUPS, "--list", "--type", "consumer"),
    _call("groups-validate", _GROUPS, "--validate-regex", "a(b"),
    _call("groups-reset-living", _GROUPS, "--reset-offsets", "--group", "living", "--topic", "living", "--to-earliest",
          "--execute"),
    _call("groups-reset-living-new", _GROUPS, "--reset-offsets", "--group", "living-new", "--topic", "living",
          "--to-earliest", "--execute"),
    _call("groups-reset-new-group", _GROUPS, "--reset-offsets", "--group", "made", "--topic", "orders", "--to-latest",
          "--execute"),
    *(
        _call("groups-reset" + "".join(words).replace("--", "-"), _GROUPS, "--reset-offsets", "--group", "made",
              "--topic", "orders:0", *words, "--execute")
        for words in (("--to-earliest",), ("--to-offset", "3"), ("--shift-by", "-1"), ("--shift-by", "100"),
                      ("--to-current",), ("--to-datetime", "2020-01-01T00:00:00.000"), ("--by-duration", "PT0S"))
    ),
    _call("groups-reset-file", _GROUPS, "--reset-offsets", "--group", "made", "--from-file", f"{FILES}/offsets.csv",
          "--execute"),
    _call("groups-reset-all-topics", _GROUPS, "--reset-offsets", "--group", "made", "--all-topics", "--to-earliest",
          "--execute"),
    _call("groups-reset-export", _GROUPS, "--reset-offsets", "--group", "made", "--all-topics", "--to-current",
          "--export", "--dry-run"),
    _call("groups-reset-no-topic", _GROUPS, "--reset-offsets", "--group", "made", "--topic", "nobody", "--to-earliest",
          "--execute"),
    _call("groups-delete-offsets-made", _GROUPS, "--delete-offsets", "--group", "made", "--topic", "orders:0"),
    _call("groups-delete-offsets-living", _GROUPS, "--delete-offsets", "--group", "living", "--topic", "living"),
    _call("groups-delete-offsets-none", _GROUPS, "--delete-offsets", "--group", "nobody", "--topic", "orders"),
    _call("groups-delete-living", _GROUPS, "--delete", "--group", "living"),
    _call("groups-delete-living-new", _GROUPS, "--delete", "--group", "living-new"),
    _call("groups-delete-made", _GROUPS, "--delete", "--group", "made", "--group", "new"),
    _call("all-groups-classic", "GroupsCommand", "--list", "--group-type", "classic"),
    _call("all-groups-consumer", "GroupsCommand", "--list", "--consumer"),
    _call("all-groups-share", "GroupsCommand", "--list", "--share"),
    _call("all-groups-streams", "GroupsCommand", "--list", "--streams"),
    _call("all-groups-protocol", "GroupsCommand", "--list", "--protocol", "consumer"),
    *(
        call
        for kind, name, config, value in (
            ("users", "alice", "producer_byte_rate", "1024"),
            ("users", "", "consumer_byte_rate", "2048"),
            ("clients", "app", "request_percentage", "50"),
            ("clients", "", "controller_mutation_rate", "5"),
            ("ips", "127.0.0.9", "connection_creation_rate", "10"),
            ("ips", "", "connection_creation_rate", "1000"),
        )
        for id_ in (f"{kind}{'' if name else '-default'}",)
        for call in (
            _configs(f"{id_}-add", kind, name, "--alter", "--add-config", f"{config}={value}"),
            _configs(f"{id_}-describe", kind, name, "--describe"),
            _configs(f"{id_}-unknown", kind, name, "--alter", "--add-config", "nobody=1"),
        )
    ),
    _call("configs-users-all", _CONFIGS, "--entity-type", "users", "--describe"),
    _call("configs-clients-all", _CONFIGS, "--entity-type", "clients", "--describe"),
    _call("configs-ips-all", _CONFIGS, "--entity-type", "ips", "--describe"),
    _call("configs-user-shortcut", _CONFIGS, "--user", "alice", "--describe"),
    _call("configs-user-client-add", _CONFIGS, "--entity-type", "users", "--entity-name", "alice", "--entity-type",
          "clients", "--entity-name", "app", "--alter", "--add-config", "consumer_byte_rate=10"),
    _call("configs-user-client-describe", _CONFIGS, "--entity-type", "users", "--entity-name", "alice", "--entity-type",
          "clients", "--describe"),
    _call("configs-user-client-delete", _CONFIGS, "--entity-type", "users", "--entity-name", "alice", "--entity-type",
          "clients", "--entity-name", "app", "--alter", "--delete-config", "consumer_byte_rate"),
    _configs("users-scram-add", "users", "bob", "--alter", "--add-config",
             "SCRAM-SHA-256=[iterations=8192,password=secret],SCRAM-SHA-512=[password=secret]"),
    _configs("users-scram-256", "users", "bob", "--alter", "--add-config",
             "SCRAM-SHA-256=[iterations=8192,password=secret]"),
    _configs("users-scram-512", "users", "bob", "--alter", "--add-config", "SCRAM-SHA-512=[password=secret]"),
    _configs("users-scram-few", "users", "bob", "--alter", "--add-config",
             "SCRAM-SHA-256=[iterations=10,password=secret]"),
    _configs("users-scram-describe", "users", "bob", "--describe"),
    _call("configs-users-scram-all", _CONFIGS, "--entity-type", "users", "--describe"),
    _configs("users-scram-delete", "users", "bob", "--alter", "--delete-config", "SCRAM-SHA-512"),
    _configs("users-scram-delete-again", "users", "bob", "--alter", "--delete-config", "SCRAM-SHA-512"),
    _configs("users-scram-left", "users", "bob", "--describe"),
    _configs("users-delete", "users", "alice", "--alter", "--delete-config", "producer_byte_rate"),
    _configs("users-delete-default", "users", "", "--alter", "--delete-config", "consumer_byte_rate"),
    _configs("ips-bad", "ips", "not an address", "--alter", "--add-config", "connection_creation_rate=10"),
    _configs("users-negative", "users", "alice", "--alter", "--add-config", "producer_byte_rate=-1"),
    _configs("topic-all", "topics", "orders", "--describe", "--all"),
    _configs("topic-delete", "topics", "orders", "--alter", "--delete-config", "retention.ms"),
    _configs("topic-delete-again", "topics", "orders", "--alter", "--delete-config", "retention.ms"),
    _configs("topic-unknown", "topics", "orders", "--alter", "--add-config", "nobody=1"),
    _configs("topic-wrong", "topics", "orders", "--alter", "--add-config", "retention.ms=never"),
    _configs("topic-list", "topics", "orders", "--alter", "--add-config", "cleanup.policy=[compact,delete]"),
    _configs("topic-none", "topics", "nobody", "--describe"),
    _configs("topic-none-alter", "topics", "nobody", "--alter", "--add-config", "retention.ms=1"),
    _call("configs-topics", _CONFIGS, "--entity-type", "topics", "--describe"),
    _configs("broker-all", "brokers", "1", "--describe", "--all"),
    _configs("broker-wrong", "brokers", "1", "--alter", "--add-config", "log.cleaner.threads=many"),
    _configs("broker-delete", "brokers", "1", "--alter", "--delete-config", "log.cleaner.threads"),
    _configs("broker-none", "brokers", "7", "--describe"),
    _configs("brokers-delete", "brokers", "", "--alter", "--delete-config", "background.threads"),
    _configs("group-describe-all", "groups", "readers", "--describe", "--all"),
    _configs("group-unknown", "groups", "readers", "--alter", "--add-config", "nobody=1"),
    _configs("group-out-of-range", "groups", "readers", "--alter", "--add-config", "consumer.session.timeout.ms=1"),
    _configs("group-delete", "groups", "readers", "--alter", "--delete-config", "consumer.session.timeout.ms"),
    _call("configs-groups-all", _CONFIGS, "--entity-type", "groups", "--describe"),
    _configs("client-metrics-file", "client-metrics", "f", "--alter", "--add-config-file",
          f"{FILES}/metrics.properties"),
    _configs("client-metrics-unknown", "client-metrics", "f", "--alter", "--add-config", "nobody=1"),
    _configs("client-metrics-low", "client-metrics", "f", "--alter", "--add-config", "interval.ms=1"),
    _configs("client-metrics-match", "client-metrics", "f", "--alter", "--add-config", "match=[nobody=1]"),
    _configs("client-metrics-describe", "client-metrics", "f", "--describe"),
    _configs("client-metrics-delete", "client-metrics", "f", "--alter", "--delete-config", "interval.ms"),
    _configs("loggers-wrong", "broker-loggers", "1", "--alter", "--add-config", "root=LOUD"),
    _configs("loggers-none", "broker-loggers", "7", "--describe"),
    _call("client-metrics-alter", _METRICS, "--alter", "--name", "m", "--metrics", "org.apache.kafka.producer.",
          "--interval", "1000", "--match", "client_id=app"),
    _call("client-metrics-alter-wrong", _METRICS, "--alter", "--name", "m", "--interval", "1"),
    _call("client-metrics-describe-one", _METRICS, "--describe", "--name", "m"),
    _call("client-metrics-describe-none", _METRICS, "--describe", "--name", "nobody"),
    _call("client-metrics-alter-defaults", _METRICS, "--alter", "--name", "m", "--metrics", "", "--interval", ""),
    _call("client-metrics-describe-defaults", _METRICS, "--describe", "--name", "m"),
    _call("client-metrics-delete-one", _METRICS, "--delete", "--name", "m"),
    _call("client-metrics-delete-none", _METRICS, "--delete", "--name", "nobody"),
    _call("features-upgrade-again", _FEATURES, "upgrade", "--feature", "group.version=1"),
    _call("features-upgrade-beyond", _FEATURES, "upgrade", "--feature", "group.version=9"),
    _call("features-upgrade-dry", _FEATURES, "upgrade", "--feature", "transaction.version=2", "--dry-run"),
    _call("features-downgrade", _FEATURES, "downgrade", "--feature", "transaction.version=1"),
    _call("features-downgrade-metadata", _FEATURES, "downgrade", "--metadata", "3.3-IV0"),
    _call("features-disable", _FEATURES, "disable", "--feature", "metadata.version"),
    _call("features-disable-unknown", _FEATURES, "disable", "--feature", "nobody"),
    _call("features-dependencies", _FEATURES, "feature-dependencies", "--feature", "transaction.version=2"),
    _call("quorum-replication-readable", _QUORUM, "describe", "--replication", "--human-readable"),
    _call("quorum-add", _QUORUM, "--command-config", f"{FILES}/controller.properties", "add-controller"),
    _call("quorum-add-dry", _QUORUM, "--command-config", f"{FILES}/controller.properties", "add-controller",
          "--dry-run"),
    _call("quorum-remove", _QUORUM, "remove-controller", "--controller-id", "7", "--controller-directory-id",
          "BBBBBBBBBBBBBBBBBBBBBA"),
    _call("quorum-remove-dry", _QUORUM, "remove-controller", "--controller-id", "7", "--controller-directory-id",
          "BBBBBBBBBBBBBBBBBBBBBA", "--dry-run"),
    _call("cluster-endpoints-fenced", "ClusterTool", "list-endpoints", "--include-fenced-brokers", last=True),
    _call("log-dirs-broker", "LogDirsCommand", "--describe", "--broker-list", "1", "--topic-list", "assigned"),
    _call("log-dirs-none", "LogDirsCommand", "--describe", "--broker-list", "7"),
    _call("log-dirs-no-topic", "LogDirsCommand", "--describe", "--topic-list", "nobody"),
    _call("transactions-describe", _TRANSACTIONS, "describe", "--transactional-id", "copier"),
    _call("transactions-describe-open", _TRANSACTIONS, "describe", "--transactional-id", "open"),
    _call("transactions-describe-none", _TRANSACTIONS, "describe", "--transactional-id", "nobody"),
    _call("transactions-list-old", _TRANSACTIONS, "list", "--duration-filter", "3600000"),
    _call("transactions-list-pattern", _TRANSACTIONS, "list", "--transactional-id-pattern", "cop.*"),
    _call("transactions-list-wrong-pattern", _TRANSACTIONS, "list", "--transactional-id-pattern", "(cop"),
    _call("transactions-producers-open", _TRANSACTIONS, "describe-producers", "--topic", "open", "--partition", "0"),
    _call("transactions-hanging-topic", _TRANSACTIONS, "find-hanging", "--topic", "open", "--max-transaction-timeout",
          "0"),
    _call("transactions-abort-none", _TRANSACTIONS, "abort", "--topic", "orders", "--partition", "0", "--start-offset",
          "0"),
    _call("transactions-abort-wrong", _TRANSACTIONS, "abort", "--topic", "open", "--partition", "0", "--producer-id",
          "999", "--producer-epoch", "0", "--coordinator-epoch", "0"),
    _call("transactions-abort", _TRANSACTIONS, "abort", "--topic", "open", "--partition", "0", "--start-offset", "0"),
    _call("transactions-aborted", _TRANSACTIONS, "describe-producers", "--topic", "open", "--partition", "0"),
    _call("transactions-terminate", _TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", "open"),
    _call("transactions-terminated", _TRANSACTIONS, "describe", "--transactional-id", "open"),
    _call("transactions-terminate-none", _TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", "nobody"),
    _call("leader-election-unclean", _ELECTION, "--election-type", "unclean", "--topic", "orders", "--partition", "0"),
    _call("leader-election-topic", _ELECTION, "--election-type", "preferred", "--topic", "orders", "--partition", "0"),
    _call("leader-election-none", _ELECTION, "--election-type", "unclean", "--path-to-json-file",
          f"{FILES}/election-of-nobody.json"),
    _call("leader-election-all", _ELECTION, "--election-type", "preferred", "--all-topic-partitions"),
    _call("leader-election-all-unclean", _ELECTION, "--election-type", "unclean", "--all-topic-partitions"),
    _call("reassign-execute", _MOVES, "--execute", "--reassignment-json-file", f"{FILES}/reassignment.json"),
    _call("reassign-execute-throttled", _MOVES, "--execute", "--reassignment-json-file", f"{FILES}/reassignment.json",
          "--throttle", "1000000", "--additional"),
    _call("reassign-verify", _MOVES, "--verify", "--reassignment-json-file", f"{FILES}/reassignment.json"),
    _call("reassign-cancel", _MOVES, "--cancel", "--reassignment-json-file", f"{FILES}/reassignment.json"),
    _call("reassign-elsewhere", _MOVES, "--execute", "--reassignment-json-file", f"{FILES}/elsewhere.json"),
    _call("reassign-generate-elsewhere", _MOVES, "--generate", "--broker-list", "7", "--topics-to-move-json-file",
          f"{FILES}/topics.json"),
    _call("tokens-create", _TOKENS, "--create", "--max-life-time-period", "-1", *_NO_FILE),
    _call("tokens-create-for", _TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:a",
          "--owner-principal", "User:b", *_NO_FILE),
    _call("tokens-renew", _TOKENS, "--renew", "--renew-time-period", "-1", "--hmac", "AAAA", *_NO_FILE),
    _call("tokens-expire", _TOKENS, "--expire", "--expiry-time-period", "-1", "--hmac", "AAAA", *_NO_FILE),
    _call("tokens-describe-owner", _TOKENS, "--describe", "--owner-principal", "User:a", *_NO_FILE),
    _call("acls-disabled-list", _ACLS, "--list"),
    _call("acls-disabled-add", _ACLS, "--add", "--allow-principal", "User:a", "--operation", "Read", "--topic",
          "orders"),
    _call("acls-disabled-remove", _ACLS, "--remove", "--force", "--topic", "orders"),
    _call("streams-reset", "StreamsResetter", "--application-id", "readers-of-streams", "--input-topics", "orders",
          "--force"),
    _call("streams-reset-dry", "StreamsResetter", "--application-id", "verified", "--input-topics", "orders",
          "--to-latest", "--dry-run"),
    _call("streams-reset-living", "StreamsResetter", "--application-id", "living", "--input-topics", "living"),
    _call("streams-reset-none", "StreamsResetter", "--application-id", "nobody", "--input-topics", "nobody"),
    _call("streams-list", _STREAMS, "--list"),
    _call("streams-list-state", _STREAMS, "--list", "--state"),
    _call("streams-describe", _STREAMS, "--describe", "--group", "nobody"),
    _call("streams-describe-members", _STREAMS, "--describe", "--group", "nobody", "--members"),
    _call("streams-delete", _STREAMS, "--delete", "--group", "nobody"),
    _call("streams-reset-offsets", _STREAMS, "--reset-offsets", "--group", "nobody", "--input-topic", "orders",
          "--to-earliest", "--dry-run"),
    _call("streams-delete-offsets", _STREAMS, "--delete-offsets", "--group", "nobody", "--input-topic", "orders"),
    _call("share-list", _SHARE, "--list"),
    _call("share-describe", _SHARE, "--describe", "--group", "nobody"),
    _call("share-describe-members", _SHARE, "--describe", "--group", "nobody", "--members"),
    _call("share-describe-state", _SHARE, "--describe", "--group", "nobody", "--state"),
    _call("share-reset", _SHARE, "--reset-offsets", "--group", "nobody", "--topic", "orders", "--to-earliest",
          "--dry-run"),
    _call("share-delete", _SHARE, "--delete", "--group", "nobody"),
    _call("share-delete-offsets", _SHARE, "--delete-offsets", "--group", "nobody", "--topic", "orders"),
    _call("share-consumer", "consumer.ConsoleShareConsumer", "--topic", "orders", "--group", "shared", "--timeout-ms",
          "1500"),
    _call("share-consumer-perf", "ShareConsumerPerformance", "--topic", "orders", "--group", "shared", "--num-records",
          "1", "--timeout", "1500", "--hide-header"),
    _call("topics-delete-if-there", _TOPICS, "--delete", "--topic", "nobody", "--if-exists"),
    _call("topics-delete-some", _TOPICS, "--delete", "--topic", "ass.*,w"),
    # These go on for ever, so that they come last: one by threads behind its main. The other ends where there are no
    # share groups, some four seconds later.
    _call("replica-verification", "ReplicaVerificationTool", "--topics-include", "orders", "--report-interval-ms",
          "500",
          option="--broker-list")._replace(until="max lag is"),
    _call("share-verifiable", "VerifiableShareConsumer", "--topic", "orders", "--group-id", "shared", "--max-messages",
          "1")._replace(patience_s=15),
)  # fmt: skip

SECURED = (
    _call("acls-list", _ACLS, "--list"),
    _call("acls-add", _ACLS, "--add", "--allow-principal", "User:a", "--allow-host", "127.0.0.9", "--operation", "Read",
          "--topic", "orders"),
    _call("acls-add-again", _ACLS, "--add", "--allow-principal", "User:a", "--allow-host", "127.0.0.9", "--operation",
          "Read", "--topic", "orders"),
    _call("acls-add-deny", _ACLS, "--add", "--deny-principal", "User:b", "--operation", "All", "--cluster"),
    _call("acls-add-prefixed", _ACLS, "--add", "--allow-principal", "User:a", "--operation", "Write", "--topic", "or",
          "--resource-pattern-type", "prefixed"),
    _call("acls-add-producer", _ACLS, "--add", "--allow-principal", "User:p", "--producer", "--topic", "orders",
          "--transactional-id", "t", "--idempotent"),
    _call("acls-add-consumer", _ACLS, "--add", "--allow-principal", "User:c", "--consumer", "--topic", "orders",
          "--group", "*"),
    _call("acls-add-user", _ACLS, "--add", "--allow-principal", "User:a", "--operation", "DescribeTokens",
          "--user-principal", "User:b"),
    _call("acls-add-token", _ACLS, "--add", "--allow-principal", "User:a", "--operation", "Describe",
          "--delegation-token", "token"),
    _call("acls-add-wrong", _ACLS, "--add", "--allow-principal", "a", "--operation", "Read", "--topic", "orders"),
    _call("acls-add-wrong-operation", _ACLS, "--add", "--allow-principal", "User:a", "--operation", "Create", "--group",
          "g"),
    _call("acls-list-all", _ACLS, "--list"),
    _call("acls-list-topic", _ACLS, "--list", "--topic", "orders"),
    _call("acls-list-match", _ACLS, "--list", "--topic", "orders", "--resource-pattern-type", "match"),
    _call("acls-list-principal", _ACLS, "--list", "--principal", "User:a"),
    _call("acls-list-none", _ACLS, "--list", "--topic", "nobody"),
    _call("acls-remove", _ACLS, "--remove", "--force", "--allow-principal", "User:a", "--allow-host", "127.0.0.9",
          "--operation", "Read", "--topic", "orders"),
    _call("acls-remove-again", _ACLS, "--remove", "--force", "--allow-principal", "User:a", "--allow-host", "127.0.0.9",
          "--operation", "Read", "--topic", "orders"),
    _call("acls-remove-all", _ACLS, "--remove", "--force", "--cluster", "--topic", "*"),
    _call("acls-left", _ACLS, "--list"),
)  # fmt: skip

_NO_BROKER = "does not ask a broker"
NOT_CALLED = {
    "org.apache.kafka.tools.DumpLogSegments": "reads files: tests/reference/test_dump_log_segments.py",
    "org.apache.kafka.tools.ConnectPluginPath": _NO_BROKER,
    "org.apache.kafka.tools.OAuthCompatibilityTool": _NO_BROKER,
    "org.apache.kafka.tools.JmxTool": "asks a JVM over RMI: JMX is a row of docs/unsupported.md",
    "org.apache.kafka.tools.LogCompactionTester": "a test of some minutes of Kafka's own",
    "kafka.tools.StorageTool": "formats folders: tests/reference/test_graduate.py",
    "kafka.tools.TestRaftServer": "is a server",
    "kafka.docker.KafkaDockerWrapper": "is the image's entry point: tests/compose",
    "kafka.Kafka": "is the broker",
    "kafka.server.KafkaConfig": "prints a table of settings for Kafka's documentation",
}
"""Classes with a `main` that are no tool that runs against a broker."""
PACKAGES_OF_NO_TOOLS = (
    "org.apache.kafka.clients.",
    "org.apache.kafka.common.",
    "org.apache.kafka.coordinator.",
    "org.apache.kafka.server.",
    "org.apache.kafka.storage.",
)
"""Their mains print tables for Kafka's documentation."""
