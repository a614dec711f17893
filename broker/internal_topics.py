"""The topics that the broker makes for itself, and with which configs.

Source: Kafka's AutoTopicCreationManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.topic_changes import NewTopic

if TYPE_CHECKING:
    from broker.settings import Settings

OFFSETS_TOPIC = "__consumer_offsets"
LEDGER_TOPIC = "__kohort_rebalances"


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
    return NewTopic(name)
