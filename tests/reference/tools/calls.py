"""The calls of Kafka's tools that are compared: an id, the class, its words, what it reads on standard input."""

from __future__ import annotations

from typing import NamedTuple

_TOOLS = "org.apache.kafka.tools."
SERVER, FILES = "<server>", "<files>"  # replaced by the broker's address, and by a folder of small files
REASSIGNMENT = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1]}]}'
RECORDS = '{"version":1,"partitions":[{"topic":"orders","partition":0,"offset":1}]}'
ELECTION = '{"partitions":[{"topic":"orders","partition":0}]}'
TOPICS_TO_MOVE = '{"version":1,"topics":[{"topic":"orders"}]}'


class Call(NamedTuple):
    """One call."""

    id: str
    tool: str
    words: tuple[str, ...]
    stdin: str = ""


def _call(id_: str, tool: str, *words: str, stdin: str = "", last: bool = False) -> Call:
    """`last`: the broker is named behind the words."""
    name = tool if tool.startswith("kafka.") else _TOOLS + tool
    server = ("--bootstrap-server", SERVER)
    return Call(id_, name, (*words, *server) if last else (*server, *words), stdin)


_CONFIGS = "kafka.admin.ConfigCommand"
_GROUPS = "consumer.group.ConsumerGroupCommand"

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
)  # fmt: skip
