"""Kafka's own tools by their names, as thin names of our verbs: what compose files run as health checks and set-up.

A program that is called under such a name (a link `kafka-topics.sh` to `kohort`) takes the arguments of Kafka's tool.
Most are the same as the verb's; what differs is put right here.
"""

from __future__ import annotations

TOOLS = {
    "kafka-topics": "cli.kafka_tools.administration:topics",
    "kafka-consumer-groups": "cli.kafka_tools.administration:consumer_groups",
    "kafka-acls": "cli.kafka_tools.administration:acls",
    "kafka-configs": "cli.kafka_tools.configs:main",
    "kafka-broker-api-versions": "cli.kafka_tools.api_versions:main",
    "kafka-cluster": "cli.kafka_tools.asking:cluster",
    "kafka-get-offsets": "cli.kafka_tools.asking:get_offsets",
    "kafka-console-producer": "cli.kafka_tools.console:producer",
    "kafka-console-consumer": "cli.kafka_tools.console:consumer",
}


def tool_of(program: str) -> str | None:
    """The tool that a program's path or name means: `/opt/kafka/bin/kafka-topics.sh` is `kafka-topics`; else None."""
    name = program.rpartition("/")[2].removesuffix(".sh")
    return name if name in TOOLS else None
