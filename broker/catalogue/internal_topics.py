"""The topics that the broker makes for itself, and with which configs.

Source: Kafka's AutoTopicCreationManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.topic_changes import NewTopic
from protocol.records import ledger

if TYPE_CHECKING:
    from broker.config.settings import Settings

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
LEDGER_TOPIC = ledger.LEDGER_TOPIC
LEDGER_RETENTION_MS = 14 * 24 * 60 * 60 * 1_000


def new_topic(name: str, settings: Settings) -> NewTopic:
    """The topic of this name as it is made when somebody first needs it."""
    if name == OFFSETS_TOPIC:
        return NewTopic(
            name,
            settings.offsets_topic_num_partitions,
            1,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return NewTopic(
            name,
            settings.transaction_state_log_num_partitions,
            1,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",  # of one replica; a broker's default of 2 would keep a single Kafka out
                "segment.bytes": str(settings.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == LEDGER_TOPIC:
        return ledger_topic(settings.offsets_topic_num_partitions)
    return NewTopic(name)


def ledger_topic(partition_count: int) -> NewTopic:
    """The rebalance ledger: as many partitions as `__consumer_offsets` has, so that a group's records are in one."""
    return NewTopic(
        LEDGER_TOPIC,
        partition_count,
        1,
        configs={
            "cleanup.policy": "delete",
            "retention.ms": str(LEDGER_RETENTION_MS),
            "segment.bytes": str(104_857_600),
        },
    )
