"""The throttles of replication: rates that `kafka-reassign-partitions` sets and takes away, at run time only.

Source: Kafka's QuotaConfig.brokerQuotaConfigs, BrokerConfigHandler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.config_def import ConfigKey, ConfigType, between

if TYPE_CHECKING:
    from collections.abc import Mapping

MOVES = "replica.alter.log.dirs.io.max.bytes.per.second"
_BROKER = 4  # the type of the resource

THROTTLES = {
    name: ConfigKey(name, ConfigType.LONG, None, doc, **between(0))
    for name, doc in (
        ("follower.replication.throttled.rate", "For clusters. Kept, without effect on one node."),
        ("leader.replication.throttled.rate", "For clusters. Kept, without effect on one node."),
        (MOVES, "What partitions that move between log directories copy in a second, all together, in bytes."),
    )
}


def move_rate(configs: Mapping[tuple[int, str], Mapping[str, str]], node_id: int) -> int | None:
    """What holds for this node, else for the cluster; None if nobody has set it."""
    for resource in (str(node_id), ""):
        value = configs.get((_BROKER, resource), {}).get(MOVES)
        if value is not None and value.isdecimal():
            return int(value)
    return None
