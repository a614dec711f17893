"""`kohort topics list` and `kohort topics describe`. Source: Kafka's TopicCommand for the lines of describe."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cli.cluster import INTERNAL_TOPICS, Cluster, said, unknown
from cli.configs import read_configs
from cli.errors import Failed, UsageError
from cli.options import print_json
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from confluent_kafka.admin import TopicDescription

    from cli.configs import Config

_LITERAL = re.compile(r"[a-zA-Z0-9._-]+")


def list_topics(options: argparse.Namespace) -> int:
    """The names, one a line. Raises: Failed."""
    names = _listed(Cluster(options), options)
    if options.json:
        print_json(names)
    else:
        for name in names:
            print(name)
    return 0


def describe(options: argparse.Namespace) -> int:
    """Topics with their partitions. Raises: Failed for one that does not exist; UsageError."""
    cluster = Cluster(options)
    wanted = named_topics(options)
    names = matching(cluster, wanted) if wanted else _listed(cluster, options)
    found, errors = cluster.describe_topics(names)
    for name, error in errors.items():
        if error.code() != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Failed(f"topic {name!r}: {said(error)}")
        if not options.if_exists and wanted:
            raise unknown("topic", name, cluster.topics)
    configs = read_configs(cluster, "topics", found)
    topics = [_as_json(found[name], configs[name]) for name in names if name in found]
    for topic in topics:
        topic["partitions"] = [one for one in topic["partitions"] if _is_wanted(one, options)]
    if options.topics_with_overrides:
        topics = [topic for topic in topics if topic["configs"]]
    if options.json:
        print_json(topics)
    else:
        for topic in topics:
            _print_topic(topic, options)
    return 0


def named_topics(options: argparse.Namespace) -> list[str]:
    """The topics that the options name, each once."""
    return list(dict.fromkeys([*options.topics, *options.topic]))


def matching(cluster: Cluster, words: Iterable[str]) -> list[str]:
    """Names as they are; what cannot be a name is a regular expression over those there are. Raises: UsageError."""
    found: dict[str, None] = {}
    for word in words:
        if _LITERAL.fullmatch(word):
            found[word] = None
            continue
        try:
            pattern = re.compile(word.replace(",", "|"))
        except re.error as error:
            raise UsageError(f"--topic {word}: no regular expression: {error}") from None
        found.update(dict.fromkeys(name for name in sorted(cluster.topics) if pattern.fullmatch(name)))
    return list(found)


def _listed(cluster: Cluster, options: argparse.Namespace) -> list[str]:
    return sorted(name for name in cluster.topics if not (options.exclude_internal and name in INTERNAL_TOPICS))


def _is_wanted(partition: dict[str, Any], options: argparse.Namespace) -> bool:
    if options.under_replicated_partitions and len(partition["isr"]) >= len(partition["replicas"]):
        return False
    return not options.unavailable_partitions or partition["leader"] is None


def _as_json(topic: TopicDescription, configs: list[Config]) -> dict[str, Any]:
    return {
        "topic": topic.name,
        # The library prints a plain base64, Kafka one for addresses.
        "topic_id": str(topic.topic_id).replace("+", "-").replace("/", "_"),
        "partition_count": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replicas) if topic.partitions else 0,
        "configs": {one.name: one.value for one in configs if not one.is_default},
        "partitions": [
            {
                "partition": one.id,
                "leader": one.leader.id if one.leader is not None and one.leader.id >= 0 else None,
                "replicas": [node.id for node in one.replicas],
                "isr": [node.id for node in one.isr],
            }
            for one in topic.partitions
        ],
    }


def _print_topic(topic: dict[str, Any], options: argparse.Namespace) -> None:
    if not (options.under_replicated_partitions or options.unavailable_partitions):
        configs = ",".join(f"{key}={value}" for key, value in topic["configs"].items())
        print(
            f"Topic: {topic['topic']}\tTopicId: {topic['topic_id']}\tPartitionCount: {topic['partition_count']}\t"
            f"ReplicationFactor: {topic['replication_factor']}\tConfigs: {configs}"
        )
    if options.topics_with_overrides:
        return
    for one in topic["partitions"]:
        leader = "none" if one["leader"] is None else one["leader"]
        replicas, isr = (",".join(map(str, one[key])) for key in ("replicas", "isr"))
        print(
            f"\tTopic: {topic['topic']}\tPartition: {one['partition']}\tLeader: {leader}\t"
            f"Replicas: {replicas}\tIsr: {isr}"
        )
